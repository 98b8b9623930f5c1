"""Which events count for nothing at a size, and which event says so of each."""

from __future__ import annotations

import threading

from ledger.audit.reading import Events
from ledger.projections import disregards
from ledger.projections.folding import plain


class Disregards:
    """Kept in memory and read on as the log grows: there are few. Safe to use from many threads."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._reading = threading.Lock()
        self._taken = disregards.Disregards(events.at, events.log.registry)  # this and the next two under _reading
        self._by: dict[int, int] = {}
        self._read_to = 0

    def at(self, size: int) -> dict[int, int]:
        """The positions that are disregarded at a size, each with that of the event that disregards it."""
        with self._reading:
            if size > self._read_to:
                self._read_on()
            return {pos: by for pos, by in self._by.items() if by < size}

    def _read_on(self) -> None:
        size = self._events.log.head().size
        for event in self._events.scan(size, types=(disregards.DISREGARDED,), from_pos=self._read_to):
            target = self._taken.take(plain(event))
            if target is not None:
                self._by[target.pos] = event.pos
            self._read_to = event.pos + 1
        self._read_to = size
