"""An import: what was found, and the drafts that say it, ready to be sent."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from ledger.client.drafts import Draft, Upload
from ledger.events.runs import RecordingReported, RedactionCount
from services.adapters.backfill.accounts import Account
from services.adapters.backfill.books import Book


@dataclass
class Import:
    """Everything that one command would append.

    What is of a run bears a producer of its own, made from the files: from its numbers, and from the report that closes
    them, the ledger can say whether all that was read is there.
    """

    stream: str
    book: Book
    account: Account
    uploads: list[Upload] = field(default_factory=list)
    """Bytes that decisions cite, stored before them."""

    @property
    def producer(self) -> str:
        """The same for the same bytes of the same run, whatever the files are called."""
        digests = sorted(d.sha256 for d in self.account.documents)
        return "import-" + hashlib.sha256("\n".join([self.stream, *digests]).encode()).hexdigest()[:32]

    @property
    def run_id(self) -> str | None:
        """The run, if it is one that the import is of: only a run's producer reports."""
        kind, _, name = self.stream.partition("/")
        return name if kind == "run" else None

    def drafts(self) -> Iterator[Draft]:
        return iter(self.book)

    def report(self, last_seq: int) -> RecordingReported:
        """What closes the import, once its events bear the numbers up to `last_seq`."""
        assert self.run_id is not None
        return RecordingReported(
            run_id=self.run_id,
            producer=self.producer,
            epoch=1,
            last_seq=last_seq,
            closed=True,
            malformed_lines=self.account.malformed,
            redactions=[RedactionCount(shape=s, count=n) for s, n in sorted(self.account.redactions.items())],
        )
