"""Many requests on one call, sent without waiting for the answers of those before.

What was sent and not yet answered is kept. When the call breaks, a new one begins with exactly that, byte for byte:
ids that were recorded already are answered with their first receipts. The requests are taken from their source by the
caller's own thread; only bytes cross to the thread of the channel.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator
from queue import SimpleQueue

from ledger.client import requests
from ledger.client.connection import Connection
from ledger.client.requests import Frozen
from ledger.client.retry import Patience
from ledger.client.status import from_refusal
from ledger.core.errors import Broken, LedgerError, Unavailable
from ledger.wire import log_pb2


def run(
    connection: Connection, source: Iterator[Frozen], *, in_flight: int, patience: Patience
) -> Generator[log_pb2.AppendResponse]:
    """Sends the requests in order, at most `in_flight` of them unanswered, and yields a checked answer for each.

    Raises:
        LedgerError: if a request is refused as a whole, or no call gets through in time.
    """
    unanswered: deque[Frozen] = deque()
    attempts = patience.start()
    while True:
        call = _Call(connection, unanswered)
        try:
            while call.fill(source, in_flight):
                answer = call.next_answer()
                attempts.succeeded()
                yield answer
        except LedgerError as error:
            attempts.failed(error)
        else:
            return
        finally:
            call.close()


class _Call:
    """One AppendStream call. `unanswered` outlives it and belongs to the caller's thread."""

    def __init__(self, connection: Connection, unanswered: deque[Frozen]) -> None:
        self._unanswered = unanswered
        self._outgoing: SimpleQueue[bytes | None] = SimpleQueue()
        for request in unanswered:
            self._outgoing.put(request.data)
        # The queue gives None once, at the end of what is sent.
        self._answers = connection.stream(connection.append_stream, iter(self._outgoing.get, None))
        self._answered = 0

    def fill(self, source: Iterator[Frozen], in_flight: int) -> bool:
        """Sends on while there is room; False when everything is sent and answered."""
        while len(self._unanswered) < in_flight:
            request = next(source, None)
            if request is None:
                break
            self._unanswered.append(request)
            self._outgoing.put(request.data)
        return bool(self._unanswered)

    def next_answer(self) -> log_pb2.AppendResponse:
        """Waits for the answer to the oldest request."""
        answer = next(self._answers, None)
        if answer is None:
            raise Unavailable("the server ended the call before it had answered", remedy="Appending again is safe.")
        if answer.request != self._answered:
            raise Broken(
                f"the ledger answered request {answer.request} of the call, not {self._answered}",
                remedy="Do not count the events as recorded: look for their ids.",
            )
        if answer.HasField("error"):
            raise from_refusal(answer.error)
        requests.check(self._unanswered[0], answer.response)
        self._unanswered.popleft()
        self._answered += 1
        return answer.response

    def close(self) -> None:
        self._outgoing.put(None)
        self._answers.close()  # type: ignore[attr-defined]  # a generator, typed as what it yields
