"""A rebuild from its start to the moment when the new generation has a status: built, brought to the head, compared."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import structlog

from ledger.core.errors import Unavailable
from ledger.log.log import Log
from ledger.projections.building import COMPARING, FOLLOWING, Builder, Progress, Report
from ledger.projections.differences import Difference, difference
from ledger.projections.following import Follower, Followers
from ledger.projections.generations import BUILDING, GenerationRow, Generations, Identity, Moved
from ledger.projections.subjects import SOURCES
from ledger.rules import RuleSet

log = structlog.get_logger(__name__)

MAX_NAMED_KEYS: Final = 100


@dataclass(frozen=True)
class Rebuilt:
    """A rebuild's outcome."""

    generation: GenerationRow
    keys: int
    intervals: int
    equal: bool
    """To the generation of its identity, as far as both had come; true where there was none."""
    differing_keys: list[str] = field(default_factory=list)
    """At most `MAX_NAMED_KEYS`."""
    resumed: bool = False
    compared_with: str = ""
    """The id of that generation; empty where there was none."""
    processes: int = 1


@dataclass(frozen=True)
class Rebuild:
    """One rebuild of one rule set.

    Args:
        lock: Held while the new generation takes a place; nobody else then moves the one that had it.
        check: Raises when the rebuild must end.
    """

    log: Log
    rules: RuleSet[object, object]
    identity: Identity
    generations: Generations
    followers: Followers
    lock: threading.Lock
    check: Callable[[], None]

    def run(self, report: Report, processes: int) -> Rebuilt:
        """Builds, follows, compares, and takes the place of the generation of its identity, or gets one of its own.

        Raises:
            Unavailable: the build was dropped, or taken over.
        """

        def checked(told: Progress) -> None:
            self.check()
            report(told)

        start = self.rules.encode_environment(self.rules.initial_environment())
        with self.generations.build(self.identity, start, self.log.head().size) as (row, resumed):
            try:
                builder = Builder(self.log, self.rules, self.generations, row, processes, check=self.check)
                follower = self.followers.follower(builder.build(checked))
                self._follow(follower, checked)
                old, found = self._compared(follower, checked)
                new, old, found = self._placed(follower, old, found)
            except Moved as error:
                raise Unavailable(
                    f"the build {row.id} was dropped or taken over by another server", remedy="Rebuild again."
                ) from error
        if found.moved:
            log.warning("the new generation differs from the one before it", keys=found.moved[:MAX_NAMED_KEYS])
        keys, intervals = self.generations.count(new.id)
        return Rebuilt(
            new, keys, intervals, not found.moved, list(found.moved[:MAX_NAMED_KEYS]),
            resumed, old.id if old else "", builder.processes,
        )  # fmt: skip

    def _follow(self, follower: Follower, report: Report) -> None:
        """Folds up to the head, and tells of every page."""
        start = follower.row.size
        while True:
            row, head = follower.row, self.log.head().size
            report(Progress(FOLLOWING, row.size - start, head - start, row.size, head))
            if row.size >= head:
                return
            follower.advance(head)

    def _compared(self, follower: Follower, report: Report) -> tuple[GenerationRow | None, Difference]:
        """The generation of the same identity, and what the new one says otherwise, as far as both have come."""
        row = follower.row
        report(Progress(COMPARING, 0, 1, row.size, self.log.head().size))
        while True:
            old = self.generations.same_as(self.identity)
            if old is None:
                return None, difference(row.size, {}, {})
            size = min(row.size, old.size)
            try:
                before = self.generations.digests(old.id, size)
            except Moved:
                continue
            return old, difference(size, before, self.generations.digests(row.id, size))

    def _placed(
        self, follower: Follower, old: GenerationRow | None, found: Difference
    ) -> tuple[GenerationRow, GenerationRow | None, Difference]:
        """Gives the new generation its status, no less far than the one that had it has come."""
        while True:
            with self.lock:
                now = self.generations.same_as(self.identity)
                if (now and now.id) == (old and old.id):
                    self._catch_up(follower)
                    try:
                        if now is None:
                            return self._first(follower.row), None, found
                        return self.generations.take_place(follower.row, now, keep=bool(found.moved)), now, found
                    except Moved:
                        self._check_mine(follower.row)
                        continue
            # Another rebuild was faster: it is that one that must be compared with.
            old, found = self._compared(follower, lambda _progress: None)

    def _first(self, row: GenerationRow) -> GenerationRow:
        """The first generation of its identity: a shadow of the sources, for a promotion to choose; of runs the one
        that answers, since their rules are the release's."""
        if self.identity.projection == SOURCES.name:
            return self.generations.become_shadow(row)
        return self.generations.succeed(row)

    def _check_mine(self, row: GenerationRow) -> None:
        """Raises Moved if it is this build that is gone, and not the other one that has changed."""
        now = self.generations.get(row.id)
        if now is None or now.status != BUILDING:
            raise Moved

    def _catch_up(self, follower: Follower) -> None:
        while follower.row.size < (head := self.log.head().size):
            follower.advance(head)
