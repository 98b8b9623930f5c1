"""The store port: what the sequencer asks of a database, and what it may assume.

    with store.transaction() as tx:      # the head row is locked from here to the end of the block
        tx.head, tx.known(ids), ...      # each a statement of its own: it sees all that was committed before the lock
        tx.write(entries, head)
    # committed and durable, or an exception and nothing written

One writer thread uses `transaction`. Several processes may do so at once: the head lock orders them, so commit order is
position order and any snapshot is a prefix of the log, without a gap.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from sqlalchemy import Engine

from ledger.core.errors import Unavailable
from ledger.log.model import EVERYTHING, Entry, Filter, Head, Known, StoredEvent


class CommitUnknown(Unavailable):
    """The connection was lost after COMMIT was sent: the transaction may have happened or not."""


class WriteTransaction(Protocol):
    """The log under its head lock."""

    head: Head
    now_us: int
    """The clock that dates this transaction, read after the lock was taken."""

    def known(self, ids: Sequence[str]) -> dict[str, Known]: ...

    def stream_heads(self, streams: Sequence[str]) -> dict[str, tuple[int, bytes]]:
        """Version and leaf of each stream's newest event; streams without events are left out."""

    def first_match(self, types: Sequence[str], tags: Sequence[str], after: int) -> int | None: ...

    def tagged_ids(self, tag: str) -> list[str]: ...

    def write(self, entries: Sequence[Entry], head: Head) -> None: ...


class Store(Protocol):
    """One log's tables. Reads may come from any thread and see a prefix of the log."""

    dialect: str

    @property
    def engine(self) -> Engine:
        """For those who keep derived rows in the same database."""

    @property
    def write_gate(self) -> AbstractContextManager[Any]:
        """Held by whoever writes to the database outside of `transaction`."""

    def create(self, origin: str) -> None:
        """Makes the head row if there is none. Safe when several starters race."""

    def transaction(self) -> AbstractContextManager[WriteTransaction]:
        """Locks the head row; commits at the end of the block.

        Raises:
            Unavailable: nothing was written; safe to repeat.
            CommitUnknown: it may have been written; `transaction` again, and look.
        """

    def head(self) -> Head: ...

    def read(
        self,
        from_pos: int,
        to_size: int,
        *,
        match: Filter = EVERYTHING,
        limit: int | None = None,
        payloads: bool = True,
    ) -> list[StoredEvent]:
        """Events in log order; at most a page."""

    def read_all(self, from_pos: int, to_size: int, *, match: Filter = EVERYTHING) -> Iterator[StoredEvent]:
        """The same without a limit, page by page."""

    def event(self, pos: int) -> StoredEvent | None: ...

    def event_by_id(self, event_id: str) -> StoredEvent | None: ...

    def first_pos(self, from_pos: int) -> int | None:
        """The position of the first event that is stored at or after a position."""

    def recorded_at(self, pos: int) -> int | None: ...

    def stream_version(self, stream: str) -> int: ...

    def existing_ids(self, ids: Sequence[str]) -> set[str]: ...

    def tags_of(self, from_pos: int, to_size: int) -> dict[int, list[str]]:
        """The tag rows of a range of positions: what fsck compares with the headers."""

    def close(self) -> None: ...
