"""Disregards: which events count for nothing, and from which size on.

An `event.disregarded` at position d takes effect for sizes beyond d. One that names an unknown event, another id than
stands at the position, an event at or after its own position, one that no rule may lose, or one that is disregarded
already was recorded all the same, and changes nothing. Which types may be disregarded depends on the vocabulary alone
and on no rule set, so that every set disregards the same events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from ledger.core.errors import LedgerError, Problem
from ledger.events import REGISTRY, Registry
from ledger.events.administration import EventDisregarded
from ledger.log.model import Filter, StoredEvent
from ledger.log.ports import Store
from ledger.projections.folding import Row, plain, version_of
from ledger.projections.subjects import PROJECTIONS

DISREGARDED: Final = "event.disregarded"
_FAMILIES: Final = frozenset({"policy"}).union(*(p.families for p in PROJECTIONS.values()))
"""What rules read."""

Lookup = Callable[[int], StoredEvent | None]
"""Gives the event at a position."""


def disregardable(type_: str, registry: Registry = REGISTRY) -> bool:
    """Whether an event of the type can be disregarded: the log's own affairs cannot."""
    versions = registry.versions(type_)
    return bool(versions) and registry.get(type_, versions[-1]).family in _FAMILIES


def against_disregard(payload: EventDisregarded, target: StoredEvent | None, already: bool) -> list[Problem]:  # noqa: FBT001  # a fact, not a mode
    """Every reason why the disregard changes nothing.

    Args:
        payload: What is said.
        target: The event at the position that it names, if that is before the disregard itself.
        already: An earlier disregard has named that event.
    """
    if target is None:
        return [Problem("/pos", f"there is no event at position {payload.pos} before this one")]
    problems = []
    if target.id != payload.event:
        problems.append(
            Problem("/event", f"the event at position {target.pos} is {target.id!r}, not {payload.event!r}")
        )
    if not disregardable(target.type):
        problems.append(
            Problem("/pos", f"position {target.pos} holds a {target.type}, which decides nothing that is shown")
        )
    if already:
        problems.append(Problem("/pos", f"the event at position {target.pos} is disregarded already"))
    return problems


class Disregards:
    """The positions that count for nothing, while the log is read in its order."""

    def __init__(self, lookup: Lookup, registry: Registry, positions: Iterable[int] = ()) -> None:
        self.positions = set(positions)
        self._lookup = lookup
        self._registry = registry

    def take(self, row: Row) -> StoredEvent | None:
        """The event that counts for nothing from after this one on; None if it changes nothing."""
        said = self._said(row)
        if said is None:
            return None
        target = self._lookup(said.pos) if said.pos < row[0] else None
        if target is None or against_disregard(said, target, target.pos in self.positions):
            return None
        self.positions.add(target.pos)
        return target

    def _said(self, row: Row) -> EventDisregarded | None:
        _, _, type_, _, header, body = row
        if body is None:
            return None
        try:
            said = self._registry.read(type_, version_of(header), body)
        except LedgerError:
            return None
        return said if isinstance(said, EventDisregarded) else None


def disregarded_at(store: Store, registry: Registry, size: int) -> frozenset[int]:
    """The positions that are disregarded among the first `size` events."""
    found = Disregards(store.event, registry)
    for stored in store.read_all(0, size, match=Filter(types=(DISREGARDED,))):
        found.take(plain(stored))
    return frozenset(found.positions)
