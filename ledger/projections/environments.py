"""The environment's fold: events of its types and disregards, in log order, each with the sources that it touches.

A disregard of an environment event folds the environment again from the log, without what is disregarded by then; one
of a source's event says whose facts must be folded again. Both the live fold and a rebuild read the log through this.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from ledger.log.model import StoredEvent
from ledger.projections.disregards import DISREGARDED, Disregards
from ledger.projections.folding import Folder, Row, Surroundings
from ledger.rules import EVERYTHING, Touched

NOTHING: frozenset[str] = frozenset()


class History(Protocol):
    """The log, for those who must read some of it again."""

    def event(self, pos: int) -> StoredEvent | None: ...

    def environment(self, size: int) -> Iterable[Row]:
        """The environment's events among the first `size`, in log order."""

    def stream(self, stream: str, size: int) -> Iterable[Row]:
        """One stream's events among the first `size`, in their order."""


class Effect(NamedTuple):
    """What an event does beside entering its own stream."""

    touched: Touched
    refolded: str | None = None
    """The key whose facts must be folded again."""
    disregarded: int | None = None
    """The position that counts for nothing from here on."""


class EnvironmentFold:
    """An environment in progress."""

    def __init__(self, folder: Folder, history: History, surroundings: Surroundings, disregards: Disregards) -> None:
        self.surroundings = surroundings
        self.disregarded = disregards.positions
        self._folder = folder
        self._history = history
        self._disregards = disregards

    def take(self, row: Row) -> Effect:
        """One more event: of an environment type, or a disregard."""
        if row[2] == DISREGARDED:
            return self._disregard(row)
        self.surroundings, touched = self._folder.surround(self.surroundings, row)
        return Effect(touched)

    def _disregard(self, row: Row) -> Effect:
        target = self._disregards.take(row)
        if target is None:
            return Effect(NOTHING)
        touched: Touched = NOTHING
        if target.type in self._folder.environment_types:
            before = self._written()
            self.surroundings = surroundings_of(self._folder, self._history.environment(row[0]), self.disregarded)
            # What the environment says is compared as it is written: 1 and 1.0 are equal, and not shown alike.
            touched = NOTHING if self._written() == before else EVERYTHING
        # What no facts are made of leaves its key as it is, which may not even be known.
        key = self._folder.projection.key_of(target.stream) if target.type in self._folder.types else None
        return Effect(touched, key, target.pos)

    def _written(self) -> tuple[bytes, dict[str, tuple[int, ...]]]:
        now = self.surroundings
        return self._folder.rules.encode_environment(now.environment), dict(now.failed)


def surroundings_of(folder: Folder, rows: Iterable[Row], disregarded: Iterable[int] = ()) -> Surroundings:
    """The environment after all these events, less those that are disregarded."""
    without, now = frozenset(disregarded), folder.initial()
    for row in rows:
        if row[0] not in without:
            now, _ = folder.surround(now, row)
    return now
