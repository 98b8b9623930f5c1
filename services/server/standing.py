"""Where decisions stand: the rules that judge them, which sets were adopted, and the events that no longer count.

All of it comes from two streams, `ledger` and `policy/rules`, which are read once and then followed. What held at a
size holds there for ever, so answers are given for any size.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Final

from ledger.core.errors import LedgerError
from ledger.events.policy import RulesAdopted
from ledger.log.log import Log
from ledger.log.model import Filter, StoredEvent
from ledger.projections.disregards import DISREGARDED, Disregards
from ledger.projections.folding import plain, rule_event
from ledger.projections.promotions import PROMOTED, Promotion, promotion_of

ADOPTED: Final = "rules.adopted"
MOVERS: Final = (DISREGARDED, PROMOTED)
"""The events that change where decisions stand."""
_MATCH: Final = Filter(streams=("ledger", "policy/rules"), types=(ADOPTED, DISREGARDED, PROMOTED))


@dataclass(frozen=True, slots=True)
class Adoption:
    """A rule set may be promoted, as it was then."""

    pos: int
    rules: str
    digest: str


@dataclass(frozen=True, slots=True)
class Disregard:
    """From after `pos` on the event at `target` counts for nothing."""

    pos: int
    target: int


@dataclass(frozen=True, slots=True)
class Standing:
    """Where decisions stand at a size. Each field is in log order."""

    size: int
    promotions: tuple[Promotion, ...]
    disregards: tuple[Disregard, ...]
    """Those that count."""
    adoptions: tuple[Adoption, ...]
    """Those that were not disregarded."""

    @property
    def in_force(self) -> Promotion | None:
        """The last promotion; None before the first."""
        return self.promotions[-1] if self.promotions else None

    @property
    def disregarded(self) -> frozenset[int]:
        """The positions of the events that count for nothing."""
        return frozenset(d.target for d in self.disregards)

    def promoted(self, rules_digest: str) -> list[int]:
        """Where a set was put in force."""
        return [p.pos for p in self.promotions if p.identity.rules_digest == rules_digest]

    def is_adopted(self, rules: str, rules_digest: str) -> bool:
        return any((a.rules, a.digest) == (rules, rules_digest) for a in self.adoptions)


class Standings:
    """One log's standings. Safe to use from many threads."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._reading = threading.Lock()
        self._promotions: list[Promotion] = []  # this and the next four are guarded by _reading
        self._gone = Disregards(log.store.event, log.registry)
        self._disregards: list[Disregard] = []
        self._adoptions: list[Adoption] = []
        self._read_to = 0

    def now(self) -> Standing:
        return self.at(self._log.head().size)

    def at(self, size: int) -> Standing:
        with self._reading:
            self._read(size)
            promotions = tuple(p for p in self._promotions if p.pos < size)
            disregards = tuple(d for d in self._disregards if d.pos < size)
            adoptions = [a for a in self._adoptions if a.pos < size]
        gone = {d.target for d in disregards}
        return Standing(size, promotions, disregards, tuple(a for a in adoptions if a.pos not in gone))

    def _read(self, size: int) -> None:
        for event in self._log.store.read_all(self._read_to, size, match=_MATCH):
            self._take(event)
        self._read_to = max(self._read_to, size)

    def _take(self, event: StoredEvent) -> None:
        if event.type == PROMOTED:
            if promotion := promotion_of(event, self._log):
                self._promotions.append(promotion)
        elif event.type == ADOPTED:
            self._adoptions.extend(_adoptions(event, self._log))
        elif target := self._gone.take(plain(event)):
            self._disregards.append(Disregard(event.pos, target.pos))


def _adoptions(event: StoredEvent, log: Log) -> list[Adoption]:
    """What an event adopts; nothing when its payload is gone."""
    try:
        said = rule_event(event, log.registry).payload
    except LedgerError:
        return []
    assert isinstance(said, RulesAdopted)
    return [Adoption(event.pos, said.rules, said.digest)]
