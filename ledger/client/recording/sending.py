"""Sending what a spool holds: in order, the same bytes each time, and past what is refused.

- An answer covers everything before it: the cursor moves on only over what was answered, and is replaced whole. What
  was sent and not answered is sent again, and the ledger knows it by its id.
- A draft that the ledger refuses is kept in `refused/` and does not stop what follows. A failure that says nothing of
  the draft (nobody there, no permission, a fault of the server) refuses nothing: it is tried again.
- A segment is deleted when all of it was answered; the cursor is made durable before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ledger.client import pipeline, requests
from ledger.client.connection import Connection
from ledger.client.recording import folders, refusals, segments
from ledger.client.recording.recovery import cursor_place
from ledger.client.recording.reports import RefusedDraft
from ledger.client.recording.segments import Place, Record, SpoolReader
from ledger.client.requests import Frozen
from ledger.client.retry import Patience, is_repeatable
from ledger.client.status import from_refusal
from ledger.core.errors import LedgerError
from ledger.wire import log_pb2

BATCH: Final = 500
BATCH_BYTES: Final = 4 << 20
IN_FLIGHT: Final = 8
_OF_THE_DRAFT: Final = frozenset(
    {
        "INVALID_ARGUMENT",
        "INVALID_PAYLOAD",
        "UNKNOWN_EVENT_TYPE",
        "TOO_LARGE",
        "ID_CONFLICT",
        "CONDITION_FAILED",
        "REFUSED_BY_RULES",
        "ARTIFACT_MISSING",
    }
)
"""Reasons that blame what was sent: the same bytes will never do better."""


@dataclass
class Sent:
    """Counts of one sender. Read by others as they are."""

    answered: int = 0
    known: int = 0
    """Of the answered: those that the ledger had before."""
    refused: int = 0
    error: str = ""


class Sender:
    """Sends one spool, whose sender's lock this process must hold. For one thread.

    Args:
        until: Up to where may be sent: what is durable. None: all that is there.
        on_refused: Told of each refusal, with the producer that the draft names.
    """

    def __init__(
        self,
        folder: Path,
        connection: Connection,
        patience: Patience,
        *,
        until: Callable[[], Place] | None = None,
        on_refused: Callable[[RefusedDraft, log_pb2.Producer], None] = lambda _refused, _producer: None,
    ) -> None:
        self.sent = Sent()
        self._folder = folder
        self._connection = connection
        self._patience = patience
        self._until = until
        self._on_refused = on_refused
        self._cursor = folders.read(folder / "cursor.json")
        self._reader = SpoolReader(folder, self.place)
        self._unanswered: deque[list[Record]] = deque()

    @property
    def place(self) -> Place:
        """Everything before it is answered."""
        return cursor_place(self._cursor)

    def send(self) -> None:
        """Sends what is there now.

        Raises:
            LedgerError: when patience ends, or what is wrong will not pass and is not a draft's fault.
        """
        while True:
            try:
                self._send_pipelined()
            except LedgerError as error:
                if is_repeatable(error) or not self._unanswered:
                    raise
                self._send_alone(self._unanswered[0])
            else:
                return
            finally:
                self._start_over()

    def delete_answered(self) -> None:
        """Deletes all segments: for when nobody writes here, and everything was answered."""
        folders.write(self._folder / "cursor.json", self._cursor, durable=True)
        for number in segments.numbers(self._folder):
            segments.path(self._folder, number).unlink(missing_ok=True)

    def _send_pipelined(self) -> None:
        source = _Source(self._next)
        answers = pipeline.run(self._connection, source, in_flight=IN_FLIGHT, patience=self._patience)
        try:
            for answer in answers:
                self._take(self._unanswered[0], answer)
                self._unanswered.popleft()
        finally:
            answers.close()

    def _next(self) -> Frozen | None:
        records = self._reader.take(BATCH, BATCH_BYTES, self._until() if self._until is not None else None)
        if not records:
            return None
        self._unanswered.append(records)
        return requests.freeze_bytes([r.body for r in records])

    def _send_alone(self, records: list[Record]) -> None:
        """One request was refused whole. Each of its drafts is sent by itself, to find the one that is meant."""
        for record in records:
            frozen = requests.freeze_bytes([record.body])
            try:
                answer = self._connection.call(self._connection.append, frozen.data)
                requests.check(frozen, answer)
            except LedgerError as error:
                if error.reason not in _OF_THE_DRAFT:
                    raise
                self._refuse(record, error)
                self._answered([record])
            else:
                self._take([record], answer)

    def _take(self, records: list[Record], answer: log_pb2.AppendResponse) -> None:
        for record, receipt in zip(records, answer.receipts, strict=True):
            if receipt.HasField("refusal"):
                error = from_refusal(receipt.refusal)
                if is_repeatable(error):
                    raise error
                self._refuse(record, error)
        self.sent.known += sum(receipt.already_recorded for receipt in answer.receipts)
        self._answered(records)

    def _refuse(self, record: Record, error: LedgerError) -> None:
        draft = log_pb2.Draft.FromString(record.body)
        self._on_refused(refusals.keep(self._folder, error, draft), draft.producer)
        self.sent.refused += 1

    def _answered(self, records: list[Record]) -> None:
        last, before = records[-1], self.place
        cursor = {**self._cursor, **last.end._asdict(), **_last_count(records)}
        leaves = last.end.segment > before.segment
        folders.write(self._folder / "cursor.json", cursor, durable=leaves)
        if leaves:
            for number in (n for n in segments.numbers(self._folder) if n < last.end.segment):
                segments.path(self._folder, number).unlink(missing_ok=True)
        self.sent.answered += len(records)
        self.sent.error = ""
        self._cursor = cursor  # last: who waits for the place then sees the counts

    def _start_over(self) -> None:
        self._unanswered.clear()
        self._reader.go_to(self.place)


def _last_count(records: list[Record]) -> dict[str, int]:
    """The last count that any of them bears; nothing if none does."""
    for record in reversed(records):
        producer = log_pb2.Draft.FromString(record.body).producer
        if producer.epoch:
            return {"epoch": producer.epoch, "seq": producer.seq}
    return {}


class _Source(Iterator[Frozen]):
    """Requests as there are; unlike a generator it may have more after it had none."""

    def __init__(self, following: Callable[[], Frozen | None]) -> None:
        self._following = following

    def __next__(self) -> Frozen:
        found = self._following()
        if found is None:
            raise StopIteration
        return found
