"""The projector: keeps every generation that this release computes at the head, builds others, and lets them answer.

One thread. What is live goes first, sources before runs; the others follow when that is at the head, and now and then
while it is not.
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
from ledger.projections.generations import LIVE, GenerationRow, Generations, Identity, Moved
from ledger.projections.identity import run_identities
from ledger.projections.impact import Impact
from ledger.projections.pacing import pause
from ledger.projections.rebuilding import Rebuild, Rebuilt
from ledger.projections.rows import holds_any
from ledger.projections.runs import RunStates
from ledger.projections.subjects import RUNS, SOURCES
from ledger.rules import RuleSet
from ledger.rules.sets import ALL_RULE_SETS

__all__ = ["Progress", "Projector", "Rebuilt", "Record", "Report"]

log = structlog.get_logger(__name__)

RETRY_SECONDS: Final = 1.0
RIVAL_SECONDS: Final = 0.5
"""Another projector that makes no progress for so long is taken to be gone."""
SHARE: Final = 4
"""While the live generation is behind, every so many steps the others are moved too."""

Record = Callable[[GenerationRow, GenerationRow, Impact], None]
"""Records a promotion: from the live generation, to another, with its impact. What it raises ends the promotion."""


class Projector:
    """Folds one log into the projections `sources`, under every rule set of the release, and `runs`."""

    def __init__(
        self,
        log_: Log,
        identities: Mapping[str, Identity],
        rule_sets: Mapping[str, RuleSet[Any, Any]] = ALL_RULE_SETS,
        runs: Mapping[str, Identity] | None = None,
    ) -> None:
        """Made for a log, by what the release computes.

        Args:
            log_: The log.
            identities: Of the sources, by rule set.
            rule_sets: Where the rules of both projections are found.
            runs: The same of runs, of which the first answers; None: as this release computes them.
        """
        of_runs = run_identities(log_.registry) if runs is None else runs
        identities = {**identities, **of_runs}
        self.generations = Generations(log_.store, identities)
        self._run_rules = next(iter(of_runs), None)
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
        """The live generation of the sources, made under these rules if there is none.

        That of runs is made too where there is nothing to build: else `build_runs` does it, when the doors are open.
        Builds that were left half-way are kept for the next rebuild of their rules, unless this release computes them
        otherwise.
        """
        self._known(rules)
        leftovers = self.generations.drop_leftovers()
        if leftovers:
            log.info("dropped builds that another release left half-way", count=leftovers)
        if self._run_rules is not None and not holds_any(self._log.store.engine, RUNS):
            self._create_live(self._run_rules)
        return self._create_live(rules)

    def _create_live(self, rules: str) -> GenerationRow:
        identity, set_ = self._known(rules)
        return self.generations.create_live(identity, set_.encode_environment(set_.initial_environment()))

    def build_runs(self) -> Rebuilt | None:
        """Builds the generation of runs that this release computes, if another answers or none; it then answers.

        Raises:
            Moved: another server was faster.
            Unavailable: as `rebuild`.
        """
        live = self.generations.live(RUNS)
        if self._run_rules is None or (live is not None and self.generations.computes(live)):
            return None
        return self.rebuild(rules=self._run_rules)

    @property
    def runs(self) -> RunStates | None:
        """What is shown of runs; None where this release has no rules for them."""
        if self._run_rules is None:
            return None
        return RunStates(self._log, self.generations, self._rule_sets[self._run_rules])

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
        """Moves what is live by a page at most, others when it is their turn; returns the size of the live sources."""
        with self._one_at_a_time:
            self._move_all()
        return self._choice.live().size

    def catch_up(self, rules: str | None = None) -> int:
        """Folds until the head as it is now; returns the generation's size.

        Args:
            rules: Of the generation to move; None: the live one of the sources.

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
        shadow, or, of runs, the one that answers. One that differs takes the place too, and the old one is kept. Left
        half-way, the build is gone on with by the next rebuild of those rules.

        Args:
            progress: Told now and then; what it raises ends the rebuild.
            rules: The rule set; None: the one that answers for sources.
            processes: That fold; 0: as many as pay.

        Raises:
            NotFound: this release has no such rules.
            Unavailable: the server is stopping.
        """
        identity, set_ = self._known(rules or self.answering_rules(SOURCES.name))
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

    def candidate(self, ref: str) -> GenerationRow:
        """A generation that may be compared with the live one of the sources, and promoted.

        Raises:
            NotFound: there is none.
            Refused: reason NOT_SUPPORTED; it is not of the sources.
        """
        return self._choice.candidate(ref)

    def impact(self, ref: str) -> tuple[GenerationRow, GenerationRow, Impact]:
        """The live generation, the one that is named, and what readers would notice if it took over.

        Raises:
            NotFound: there is no such generation.
            Refused: it is being built, or is not of the sources.
        """
        while True:
            live, candidate = self._choice.live(), self._choice.built(self._choice.candidate(ref).id)
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
            Refused: it is being built, or is not of the sources; reason DIFF_MOVED.
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

    def answering_rules(self, projection: str) -> str:
        """The rule set that answers for a projection.

        Raises:
            NotFound: none does.
        """
        if projection != RUNS.name:
            return self._choice.live().identity.rules
        if self._run_rules is None:
            raise NotFound("this release has no rules for runs", remedy="Ask a server of a release that has them.")
        return self._run_rules

    def identity(self, rules: str) -> Identity:
        """What this release computes under a rule set.

        Raises:
            NotFound: it does not carry the set.
        """
        return self._known(rules)[0]

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
            live, candidate = self._choice.live(), self._choice.built(self._choice.candidate(ref).id)
            behind = [g for g in (live, candidate) if g.size < target and self.generations.computes(g)]
            for row in behind:
                self._move(row.id)
            if not behind:
                try:
                    return live, candidate, self._choice.impact(live, candidate)
                except Moved:
                    continue

    def _move_all(self) -> bool:
        """One page for what is live, and for the others when it is their turn; whether any was behind."""
        head, moved = self._log.head().size, self.generations.moved()
        self._followers.forget(keep=moved)
        self._steps += 1
        behind = {name: status for name, (status, size) in moved.items() if size < head}
        live = [name for name, status in behind.items() if status == LIVE]
        turn = behind if not live or self._steps % SHARE == 0 else live
        for name in turn:
            self._move(name)
        return bool(behind)

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
                pause(self._log, time.monotonic() - started)
                if not moved:
                    self._log.growth.wait()
                if self._rival:
                    self._watch()
            except Exception:  # a fault of the database must not end the projector
                if not self._stopping.is_set():
                    log.exception("projector failed, trying again")
                self._stopping.wait(RETRY_SECONDS)

    def _watch(self) -> None:
        """While another projector keeps up, two at work would only undo each other's pages."""
        before: dict[str, int] = {}
        while not self._stopping.wait(RIVAL_SECONDS):
            now, head = self.generations.sizes(), self._log.head().size
            if any(before.get(name) == size < head for name, size in now.items()):
                break
            before = now
        self._rival = False
