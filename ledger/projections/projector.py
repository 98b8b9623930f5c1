"""The projector: keeps every generation that this release computes at the head, builds others, and lets them answer.

One thread. The live generation goes first; the others follow when it is at the head, and now and then while it is not.
Generations of another release's identity are left to its servers: this projector only watches them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import structlog

from ledger.core.errors import NotFound, Unavailable
from ledger.log.log import Log
from ledger.projections.building import Progress, Report
from ledger.projections.choosing import Choice, diff_moved
from ledger.projections.following import Followers
from ledger.projections.generations import GenerationRow, Generations, Identity, Moved
from ledger.projections.impact import Impact
from ledger.projections.rebuilding import Rebuild, Rebuilt
from ledger.rules import RuleSet
from ledger.rules.sets import RULE_SETS

__all__ = ["Progress", "Projector", "Rebuilt", "Record", "Report"]

log = structlog.get_logger(__name__)

RETRY_SECONDS: Final = 1.0
PAUSE: Final = 1.0
PAUSE_BEHIND_WRITERS: Final = 3.0
"""A step is followed by a pause of so many times its length: what is appended goes before what is derived from it."""
WRITING_SECONDS: Final = 0.02
"""Writers are at work when one was answered so lately, or waits."""
MIN_PAUSE_SECONDS: Final = 0.1
"""While writers are at work: many small steps would cost them more than few large ones. A reader ends a pause."""
MAX_PAUSE_SECONDS: Final = 0.25
RIVAL_SECONDS: Final = 0.5
"""Another projector that makes no progress for so long is taken to be gone."""
SHARE: Final = 4
"""While the live generation is behind, every so many steps the others are moved too."""

Record = Callable[[GenerationRow, GenerationRow, Impact], None]
"""Records a promotion: from the live generation, to another, with its impact. What it raises ends the promotion."""


class Projector:
    """Folds one log into the projection `sources`, under every rule set of the release."""

    def __init__(
        self,
        log_: Log,
        identities: Mapping[str, Identity],
        rule_sets: Mapping[str, RuleSet[Any, Any]] = RULE_SETS,
    ) -> None:
        self.generations = Generations(log_.store, identities)
        self._choice = Choice(self.generations)
        self._log = log_
        self._identities = identities
        self._rule_sets = rule_sets
        self._followers = Followers(log_, rule_sets, self.generations)
        self._one_at_a_time = threading.Lock()
        """Held by whoever moves generations, or changes which one answers."""
        self._steps = 0  # guarded by _one_at_a_time
        self._rival = False  # another projector was faster; guarded by _one_at_a_time
        self._stopping = threading.Event()
        self._no_building = threading.Event()
        self._thread = threading.Thread(target=self._run, name="projector", daemon=True)

    def open(self, rules: str) -> GenerationRow:
        """The live generation, made under these rules if there is none.

        Builds that were left half-way are kept for the next rebuild of their rules, unless this release computes them
        otherwise.
        """
        identity, set_ = self._known(rules)
        leftovers = self.generations.drop_leftovers()
        if leftovers:
            log.info("dropped builds that another release left half-way", count=leftovers)
        return self.generations.create_live(identity, set_.encode_environment(set_.initial_environment()))

    def start(self) -> None:
        """Follows the head from now on; the projector must be open."""
        self._thread.start()

    def stop_building(self) -> None:
        """Ends rebuilds that are under way, for the next ones to go on with; generations are moved until `close`."""
        self._no_building.set()

    def close(self) -> None:
        self.stop_building()
        self._stopping.set()
        self._log.growth.tell()
        self._log.growth.want()
        if self._thread.ident is not None:
            self._thread.join()

    def step(self) -> int:
        """Moves the live generation by a page at most, others when it is their turn; returns the live one's size."""
        with self._one_at_a_time:
            self._move_all()
        return self._choice.live().size

    def catch_up(self, rules: str | None = None) -> int:
        """Folds until the head as it is now; returns the generation's size.

        Args:
            rules: Of the generation to move; None: the live one.

        Raises:
            NotFound: no generation has these rules.
        """
        target, before = self._log.head().size, -1
        while True:
            row = self._choice.live() if rules is None else self._choice.built(rules)
            if row.size >= target:
                return row.size
            if row.size == before:  # it is another projector's to move
                self._log.growth.wait()
            before = row.size
            with self._one_at_a_time:
                self._move(row.id)

    def rebuild(
        self, progress: Report = lambda _progress: None, *, rules: str | None = None, processes: int = 0
    ) -> Rebuilt:
        """Folds the log from its first event into a new generation, which then follows the head.

        It takes the place of the one of its identity, once it was compared with it; where there is none, it becomes a
        shadow. One that differs takes the place too, and the old one is kept. Left half-way, the build is gone on with
        by the next rebuild of those rules.

        Args:
            progress: Told now and then; what it raises ends the rebuild.
            rules: The rule set; None: the one that answers.
            processes: That fold; 0: as many as pay.

        Raises:
            NotFound: this release has no such rules.
            Unavailable: the server is stopping.
        """
        identity, set_ = self._known(rules or self._choice.live().identity.rules)
        lock, check = self._one_at_a_time, self._check_building
        return Rebuild(self._log, set_, identity, self.generations, self._followers, lock, check).run(
            progress, processes
        )

    def find(self, ref: str) -> GenerationRow:
        """A generation by its id, or by its rules.

        Raises:
            NotFound: there is none.
        """
        return self._choice.find(ref)

    def impact(self, ref: str) -> tuple[GenerationRow, GenerationRow, Impact]:
        """The live generation, the one that is named, and what readers would notice if it took over.

        Raises:
            NotFound: there is no such generation.
            Refused: it is being built.
        """
        while True:
            live, candidate = self._choice.live(), self._choice.built(ref)
            try:
                return live, candidate, self._choice.impact(live, candidate)
            except Moved:
                continue

    def promote(self, ref: str, expected_digest: str, record: Record) -> Impact:
        """Lets a generation answer in the place of the live one, if what it moves is still what was expected.

        Both are brought to the head first. `record` is called before anything changes. Of the live generation itself
        only the digest is checked.

        Raises:
            NotFound: there is no such generation.
            Refused: it is being built, or reason DIFF_MOVED.
        """
        with self._one_at_a_time:
            live, candidate, found = self._impact_at_head(ref)
            if found.digest != expected_digest:
                raise diff_moved(found)
            if live.id == candidate.id:
                return found
            record(live, candidate, found)
            try:
                self.generations.swap(live, candidate)
            except Moved:  # built again by another server in between: what was recorded holds for its successor
                self._choice.settle(candidate.identity.rules, candidate.identity)
            return found

    def settle(self, in_force_rules: str, identity: Identity | None = None) -> None:
        """Lets the generation answer whose promotion was recorded last, if a crash came in between.

        Args:
            in_force_rules: What the last promotion put in force.
            identity: The whole identity that it named; None: whichever of those rules this release computes.
        """
        with self._one_at_a_time:
            self._choice.settle(in_force_rules, identity)

    def drop(self, ref: str) -> GenerationRow:
        """Deletes a generation's rows; the log can build it again.

        Raises:
            NotFound: there is no such generation.
            Refused: it answers, or is being built.
        """
        with self._one_at_a_time:
            return self._choice.drop(ref)

    def _known(self, rules: str) -> tuple[Identity, RuleSet[Any, Any]]:
        if rules not in self._identities:
            raise NotFound(
                f"this release carries no rule set {rules!r}",
                remedy=f"It carries {', '.join(sorted(self._identities))}.",
                details={"rules": rules},
            )
        return self._identities[rules], self._rule_sets[rules]

    def _check_building(self) -> None:
        if self._no_building.is_set():
            raise Unavailable("the server is stopping", remedy="Rebuild again: it goes on where this build stood.")

    def _impact_at_head(self, ref: str) -> tuple[GenerationRow, GenerationRow, Impact]:
        """The same as `impact`, after moving both as far as the log has come."""
        while True:
            target = self._log.head().size
            live, candidate = self._choice.live(), self._choice.built(ref)
            behind = [g for g in (live, candidate) if g.size < target and self.generations.computes(g)]
            for row in behind:
                self._move(row.id)
            if not behind:
                try:
                    return live, candidate, self._choice.impact(live, candidate)
                except Moved:
                    continue

    def _move_all(self) -> bool:
        """One page for the live generation, and for the others when it is their turn; whether any was behind."""
        head, sizes = self._log.head().size, self.generations.sizes()
        self._followers.forget(keep=sizes)
        self._steps += 1
        live_first = list(sizes)
        for name in live_first:
            if sizes[name] < head:
                self._move(name)
                if name == live_first[0] and self._steps % SHARE:
                    break
        return any(size < head for size in sizes.values())

    def _move(self, generation_id: str) -> None:
        """One page for one generation, if this release moves it."""
        if generation_id not in self.generations.sizes():
            return
        try:
            self._followers.move(generation_id, self._log.head().size)
        except Moved:
            self._rival = True

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                started = time.monotonic()
                with self._one_at_a_time:
                    moved = self._move_all()
                self._pause(time.monotonic() - started)
                if not moved:
                    self._log.growth.wait()
                if self._rival:
                    self._watch()
            except Exception:  # a fault of the database must not end the projector
                if not self._stopping.is_set():
                    log.exception("projector failed, trying again")
                self._stopping.wait(RETRY_SECONDS)

    def _pause(self, step_seconds: float) -> None:
        pause = step_seconds * PAUSE
        if self._log.waiting or self._log.growth.is_recent(WRITING_SECONDS):
            pause = max(step_seconds * PAUSE_BEHIND_WRITERS, MIN_PAUSE_SECONDS)
        self._log.growth.pause(min(pause, MAX_PAUSE_SECONDS))

    def _watch(self) -> None:
        """While another projector keeps up, two at work would only undo each other's pages."""
        before: dict[str, int] = {}
        while not self._stopping.wait(RIVAL_SECONDS):
            now, head = self.generations.sizes(), self._log.head().size
            if any(before.get(name) == size < head for name, size in now.items()):
                break
            before = now
        self._rival = False
