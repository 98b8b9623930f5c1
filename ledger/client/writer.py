"""Writing to a ledger: nothing is lost and nothing is doubled, however often it takes.

- Drafts are frozen to bytes once; every try sends the same bytes, and the ledger knows an id that it has.
- Evidence is stored before the events that cite it, and what closes a publication is sent after its parts.
- An answer is checked against its request before it counts.

    writer = Writer(connection)
    receipts = writer.publish(plan_review(read_review(directory), by=actor("me", "human")))
    source = Reader(connection).source("MarinSkyRL:svamp", min_size=writer.size)

A writer may be used by several threads; `size` then is the largest that any of them saw.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from ledger.client import evidence, pipeline, requests
from ledger.client.connection import Connection
from ledger.client.drafts import Draft, Publication, Upload
from ledger.client.requests import Frozen
from ledger.client.retry import Patience
from ledger.client.status import from_refusal
from ledger.core.errors import InvalidInput, LedgerError, Problem
from ledger.wire import artifacts_pb2, log_pb2

Receipt = log_pb2.Receipt
Result = TypeVar("Result")


class Writer:
    """Appends to one ledger.

    Args:
        batch: Events a request, where a request may be split.
        patience: How long to repeat a call before giving up.
    """

    def __init__(self, connection: Connection, *, batch: int = 500, patience: Patience | None = None) -> None:
        if not 1 <= batch <= requests.MAX_EVENTS:
            raise InvalidInput(
                f"a batch of {batch} events", reason="USAGE", remedy=f"Choose 1 to {requests.MAX_EVENTS}."
            )
        self._connection = connection
        self._batch = batch
        self._patience = patience or Patience()
        self._size = 0
        self._size_lock = threading.Lock()

    @property
    def size(self) -> int:
        """The size of the log after what this writer wrote: pass it as `min_size` to read it. 0 before that."""
        return self._size

    def append(
        self, drafts: Iterable[Draft], conditions: Sequence[log_pb2.Condition] = (), *, atomic: bool = False
    ) -> list[Receipt]:
        """Appends the drafts and returns a receipt for each, in order, once they are durable.

        With `atomic` or conditions they go as one request. Otherwise they are split as need be, and each draft is
        judged alone: a refused one has a receipt with `refusal`, which `raise_refused` turns into an error.

        Raises:
            LedgerError: if a request was refused, or could not be brought to an end in time. Appending the same drafts
                again is safe.
        """
        drafts = list(drafts)
        if not drafts:
            return []
        if atomic or conditions:
            return self._send(requests.freeze_whole(drafts, conditions, atomic=atomic))
        # All are frozen before the first is sent: what happens to a draft meanwhile changes nothing.
        split = list(requests.freeze_split(drafts, self._batch))
        return [receipt for frozen in split for receipt in self._send(frozen)]

    def publish(self, publication: Publication) -> list[Receipt]:
        """Stores the evidence, then appends everything with one effect; a receipt for each of `publication.drafts`.

        What fits one request is one atomic append. Otherwise, or when an earlier try stopped half-way, the parts go
        first and what closes them follows alone.

        Raises:
            LedgerError: as `append`; also if a part is refused. Publishing again is safe.
        """
        self._store(publication.uploads)
        if not publication.drafts:
            return []
        if publication.closing is None and publication.conditions:
            # The conditions guard the parts themselves, so these cannot be sent in turn.
            return self.append(publication.parts, publication.conditions, atomic=True)
        whole = requests.freeze(publication.drafts, publication.conditions, atomic=True)
        if whole.fits:
            try:
                return self._send(whole)
            except LedgerError as error:
                if error.reason != "PARTLY_RECORDED":
                    raise
        return self._publish_in_parts(publication)

    def stream(self, drafts: Iterable[Draft], *, in_flight: int = 16) -> Iterator[Receipt]:
        """Appends drafts as they come and yields their receipts in order, without waiting for one before the next.

        At most `in_flight` requests of a batch are unanswered at a time. After a broken call they are sent again as
        they were. The drafts are taken only as the receipts are: iterate to the end.
        """
        frozen = requests.freeze_split(drafts, self._batch)
        for answer in pipeline.run(self._connection, frozen, in_flight=in_flight, patience=self._patience):
            self._saw(answer.size)
            yield from answer.receipts

    def put_artifact(self, content: Path | bytes) -> artifacts_pb2.Artifact:
        """Stores a file, or bytes, unless they are stored already; returns their name and size."""
        upload = evidence.upload_of(content)
        self._store([upload])
        return artifacts_pb2.Artifact(sha256=upload.sha256, size=upload.size)

    def _store(self, uploads: Iterable[Upload]) -> None:
        by_hash = {u.sha256: u for u in uploads}
        if not by_hash:
            return
        absent = self._repeat(lambda _: evidence.missing(self._connection, by_hash))
        for sha256 in sorted(absent):
            self._put(by_hash[sha256])

    def _put(self, upload: Upload) -> None:
        self._repeat(lambda _: evidence.put(self._connection, upload))

    def _publish_in_parts(self, publication: Publication) -> list[Receipt]:
        receipts = self.append(publication.parts)
        raise_refused(publication.parts, receipts)
        if publication.closing is None:
            return receipts
        closing = requests.freeze_whole([publication.closing], publication.conditions, atomic=True)
        return [*receipts, *self._send(closing)]

    def _send(self, frozen: Frozen) -> list[Receipt]:
        answer = self._repeat(
            lambda timeout: self._connection.call(self._connection.append, frozen.data, timeout=timeout)
        )
        requests.check(frozen, answer)
        self._saw(answer.size)
        return list(answer.receipts)

    def _repeat(self, call: Callable[[float], Result]) -> Result:
        """Makes a call until it succeeds or patience ends; it is given the seconds that it may take."""
        attempts = self._patience.start()
        while True:
            try:
                return call(max(min(self._connection.timeout, attempts.left), 0.1))
            except LedgerError as error:
                attempts.failed(error)

    def _saw(self, size: int) -> None:
        with self._size_lock:
            self._size = max(self._size, size)


def raise_refused(drafts: Sequence[Draft], receipts: Sequence[Receipt]) -> None:
    """Raises one error for all drafts that were refused, if any were.

    Raises:
        LedgerError: with the first one's reason, and a problem for each.
    """
    bad = [(d, from_refusal(r.refusal)) for d, r in zip(drafts, receipts, strict=True) if r.HasField("refusal")]
    if not bad:
        return
    first = bad[0][1]
    raise type(first)(
        f"{len(bad)} of {len(drafts)} events were refused; the first: {first.message}",
        reason=first.reason,
        remedy=first.remedy,
        details=first.details,
        problems=[Problem(f"{d.type} {d.id}{_at(p.place)}", p.message) for d, e in bad for p in _problems(e)],
    )


def _problems(error: LedgerError) -> Sequence[Problem]:
    return error.problems or (Problem("", error.message),)


def _at(place: str) -> str:
    return f" {place}" if place else ""
