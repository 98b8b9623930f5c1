"""Parts of imported audits: observations that are no native run, by the collection that they belong to.

They are few, and found in an index that is read on as the log grows, so that a work queue need not read the log.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Final

import msgspec

from ledger.audit.disregards import Disregards
from ledger.audit.dossiers import PUBLISHED
from ledger.audit.reading import Check, Events, go_on, header_of
from ledger.projections.folding import plain
from ledger.rules import source_of

OBSERVED: Final = "observation.recorded"
MAX_NAMED: Final = 64
"""Positions kept a collection."""


class _Observed(msgspec.Struct, gc=False):
    method: str


_decode = msgspec.json.Decoder(_Observed).decode


@dataclass(slots=True)
class _Collection:
    parts: list[int] = field(default_factory=list)
    published: list[int] = field(default_factory=list)


class Imports:
    """The index. Safe to use from many threads."""

    def __init__(self, events: Events, disregards: Disregards) -> None:
        self._events = events
        self._disregards = disregards
        self._reading = threading.Lock()
        self._found: dict[tuple[str, str], _Collection] = {}  # this and the next are guarded by _reading
        self._read_to = 0

    def unpublished(self, size: int, check: Check = go_on) -> dict[str, list[list[int]]]:
        """By source, the parts of each collection that nothing published among the first `size` events."""
        disregarded = self._disregards.at(size)
        found: dict[str, list[list[int]]] = {}
        with self._reading:
            if size > self._read_to:
                self._read_on(check)
            for (source, _), collection in self._found.items():
                parts = [pos for pos in collection.parts if pos < size and pos not in disregarded]
                closed = any(pos < size and pos not in disregarded for pos in collection.published)
                if parts and not closed:
                    found.setdefault(source, []).append(parts)
        return found

    def _read_on(self, check: Check) -> None:
        """Goes on where the last look ended, also when that was stopped midway."""
        size = self._events.log.head().size
        for event in self._events.scan(size, types=(OBSERVED, PUBLISHED), from_pos=self._read_to, check=check):
            source, collection = source_of(event.stream), header_of(event.header).collection
            if source is not None and collection is not None:
                method = self._events.decoded(plain(event), _method_of)
                self._take(event.type, event.pos, (source, collection), method)
            self._read_to = event.pos + 1
        self._read_to = size

    def _take(self, type_: str, pos: int, key: tuple[str, str], method: str | None) -> None:
        if type_ == PUBLISHED:
            if key in self._found:
                self._found[key].published.append(pos)
        elif method is not None and method != "runtime_execution":
            parts = self._found.setdefault(key, _Collection()).parts
            if len(parts) < MAX_NAMED:
                parts.append(pos)


def _method_of(body: bytes) -> str:
    return _decode(body).method
