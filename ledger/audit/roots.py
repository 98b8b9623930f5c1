"""The log's root at any size: what a receipt names, so that anyone can prove later what it was about.

The head row has the root of the whole log. An earlier one is made of the leaves before it; the peaks of the last sizes
that were asked for are kept, so that the next answer reads on from there.
"""

from __future__ import annotations

import threading
from typing import Final

from sqlalchemy import select

from ledger.audit.reading import Check, go_on
from ledger.core import merkle
from ledger.log.log import Log
from ledger.log.tables import event

KEPT: Final = 16
LEAVES: Final = 20_000
"""Leaves that are read at once."""

_Peaks = tuple[bytes, ...]


class Roots:
    """Answers about one log. Safe to use from many threads."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._guard = threading.Lock()
        self._kept: dict[int, _Peaks] = {0: ()}  # guarded by _guard; the oldest first

    def at(self, size: int, check: Check = go_on) -> bytes:
        """The RFC 6962 root of the first `size` events. The log must hold them."""
        head = self._log.head()
        if size == head.size:
            self._keep(size, head.peaks)
            return head.root
        start, peaks = self._before(size)
        while start < size:
            check()
            end = min(start + LEAVES, size)
            peaks = tuple(merkle.extend(start, peaks, self._leaves(start, end)))
            start = end
        self._keep(size, peaks)
        return merkle.root(peaks)

    def _before(self, size: int) -> tuple[int, _Peaks]:
        with self._guard:
            start = max(known for known in self._kept if known <= size)
            return start, self._kept[start]

    def _keep(self, size: int, peaks: _Peaks) -> None:
        with self._guard:
            self._kept.pop(size, None)
            self._kept[size] = peaks
            while len(self._kept) > KEPT:
                del self._kept[next(known for known in self._kept if known)]

    def _leaves(self, start: int, end: int) -> list[bytes]:
        statement = select(event.c.leaf).where(event.c.pos >= start, event.c.pos < end).order_by(event.c.pos)
        with self._log.store.engine.connect() as connection:
            return [bytes(leaf) for leaf in connection.scalars(statement)]
