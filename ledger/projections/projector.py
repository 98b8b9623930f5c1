"""The projector: keeps the live generation at the head, and builds new ones from the first event.

One thread. A step reads a page of events, folds them in memory, and writes rows and cursor in one transaction. When
somebody else moved the cursor the step is thrown away and everything is read again: the log is the only truth.

A projector folds into generations of its own identity only. While another release's generation is live, its servers
keep it; this projector then only watches.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

import structlog

from ledger.core.errors import NotFound, Refused, Unavailable
from ledger.log.log import Log
from ledger.log.model import Filter
from ledger.log.reading import PAGE
from ledger.projections.differences import Difference, difference
from ledger.projections.folding import Fold, Kept
from ledger.projections.generations import (
    LIVE,
    GenerationRow,
    Generations,
    Identity,
    Moved,
    decode_kept,
    encode_kept,
)
from ledger.rules import RuleSet

log = structlog.get_logger(__name__)

MAX_KEPT_KEYS: Final = 20_000
"""Keys held in memory between steps; beyond it they are read again when they are needed."""
MAX_NAMED_KEYS: Final = 100
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

Progress = Callable[[int, int], None]
"""Is told the size that was folded, and the log's."""


@dataclass(frozen=True)
class Rebuilt:
    """A rebuild's outcome."""

    generation: GenerationRow
    keys: int
    intervals: int
    equal: bool
    differing_keys: list[str] = field(default_factory=list)


class Projector:
    """Folds one log into the projection `sources`, under one rule set."""

    def __init__(self, log_: Log, rules: RuleSet[Any, Any], identity: Identity) -> None:
        self._log = log_
        self._rules = rules
        self.identity = identity
        self.generations = Generations(log_.store)
        self._one_at_a_time = threading.Lock()
        self._live: tuple[GenerationRow, Fold] | None = None  # guarded by _one_at_a_time
        self._rival = False  # another projector was faster; guarded by _one_at_a_time
        self._stopping = threading.Event()
        self._no_building = threading.Event()
        self._thread = threading.Thread(target=self._run, name="projector", daemon=True)

    def open(self) -> GenerationRow:
        """The live generation, made if there is none; what died builders left behind is dropped."""
        leftovers = self.generations.drop_leftovers()
        if leftovers:
            log.info("dropped generations that were never finished", count=leftovers)
        return self.generations.create_live(self.identity, self._start_environment())

    def start(self) -> None:
        """Opens, and follows the head from then on."""
        self.open()
        self._thread.start()

    def stop_building(self) -> None:
        """Ends rebuilds that are under way; the live generation is kept at the head until `close`."""
        self._no_building.set()

    def close(self) -> None:
        self.stop_building()
        self._stopping.set()
        self._log.growth.tell()
        self._log.growth.want()
        if self._thread.ident is not None:
            self._thread.join()

    def catch_up(self) -> int:
        """Folds until the head as it is now; returns the live generation's size."""
        target, before = self._log.head().size, -1
        while (size := self.step()) < target:
            if size == before:  # it is another projector's to move
                self._log.growth.wait()
            before = size
        return size

    def step(self) -> int:
        """Folds at most a page; returns the live generation's size."""
        with self._one_at_a_time:
            row, fold = self._open_live()
            if row.identity != self.identity:
                self._live = None  # another server moves it: it must be read again
                return row.size
            if row.size >= self._log.head().size:
                return row.size
            try:
                row = self._advance(row, fold)
            except Moved:
                self._live, self._rival = None, True
                return self._live_row().size
            self._live = (row, fold) if len(fold.kept) <= MAX_KEPT_KEYS else None
            return row.size

    def rebuild(
        self,
        progress: Progress = lambda _size, _log_size: None,
        *,
        promote: Callable[[Difference], None] | None = None,
    ) -> Rebuilt:
        """Folds the log from its first event into a new generation, which then takes the live one's place.

        Readers are served by the old one until then. Left half-way, the new generation is dropped.

        Args:
            progress: Told after each page.
            promote: Told what will change, before it changes; what it raises ends the rebuild.

        Raises:
            Refused: the live generation is of another identity, and nobody promotes this one.
        """
        if promote is None and self._live_row().identity != self.identity:
            raise Refused(
                "the live generation is of another release",
                reason="CONDITION_FAILED",
                remedy="Rebuild through a server of that release, or start this one anew, which promotes its own.",
            )
        with self.generations.building(self.identity, self._start_environment()) as empty:
            fold = self._fold(empty)
            new = self._follow(empty, fold, progress)
            found = self._compare(new)
            if promote is not None:
                promote(found)
            new = self._take_over(new, fold)
        if found.moved:
            log.warning("the new generation differs from the one before it", keys=found.moved[:MAX_NAMED_KEYS])
        keys, intervals = self.generations.count(new.id)
        return Rebuilt(new, keys, intervals, not found.moved, list(found.moved[:MAX_NAMED_KEYS]))

    def _follow(self, row: GenerationRow, fold: Fold, progress: Progress) -> GenerationRow:
        """Folds up to the head, and tells of every page."""
        while row.size < (size := self._log.head().size):
            if self._no_building.is_set():
                raise Unavailable("the server is stopping", remedy="Rebuild again.")
            row = self._advance(row, fold)
            progress(row.size, size)
        return row

    def _compare(self, new: GenerationRow) -> Difference:
        """What the new generation says otherwise than the live one, as far as both have come."""
        while True:
            old = self._live_row()
            both = min(new.size, old.size)
            try:
                before = self.generations.digests(old.id, both)
            except Moved:
                continue
            return difference(both, before, self.generations.digests(new.id, both))

    def _take_over(self, new: GenerationRow, fold: Fold) -> GenerationRow:
        """Puts the new generation in the live one's place, no less far than that one has come."""
        while True:
            with self._one_at_a_time:
                old = self._live_row()
                new = self._follow(new, fold, lambda _size, _log_size: None)
                try:
                    self.generations.replace(new, old)
                except Moved:
                    continue
                self._live = None
                return replace(new, status=LIVE)

    def _advance(self, row: GenerationRow, fold: Fold) -> GenerationRow:
        """One page of events into one generation."""
        head = self._log.head().size
        match = Filter(types=tuple(sorted(fold.types)))
        events = self._log.store.read(row.size, head, match=match)
        intervals = [interval for event in events for interval in fold.apply(event)]
        rules = self._rules
        return self.generations.advance(
            row,
            size=events[-1].pos + 1 if len(events) == PAGE else head,
            environment=rules.encode_environment(fold.environment),
            failed_events=fold.failed_events,
            intervals=intervals,
            facts={k: encode_kept(kept, rules.encode_facts(kept.facts)) for k, kept in fold.take_changed().items()},
        )

    def _open_live(self) -> tuple[GenerationRow, Fold]:
        if self._live is None:
            row = self._live_row()
            self._live = (row, self._fold(row))
        return self._live

    def _live_row(self) -> GenerationRow:
        row = self.generations.live()
        if row is None:
            raise NotFound("there is no live generation", remedy="Start the server once.")
        return row

    def _fold(self, row: GenerationRow) -> Fold:
        """A fold that goes on where the generation stands."""

        def decoded(found: dict[str, tuple[bytes, bytes]]) -> dict[str, Kept]:
            return {key: self._kept(data, state) for key, (data, state) in found.items()}

        return Fold(
            rules=self._rules,
            registry=self._log.registry,
            environment=self._rules.decode_environment(row.environment),
            load=lambda keys: decoded(self.generations.load(row.id, keys)),
            load_all=lambda: decoded(self.generations.load_all(row.id)),
            failed_events=row.failed_events,
        )

    def _kept(self, data: bytes, state: bytes) -> Kept:
        failed, facts = decode_kept(data)
        return Kept(self._rules.decode_facts(facts), state, failed)

    def _start_environment(self) -> bytes:
        return self._rules.encode_environment(self._rules.initial_environment())

    def _run(self) -> None:
        before = -1
        while not self._stopping.is_set():
            try:
                started = time.monotonic()
                size = self.step()
                self._pause(time.monotonic() - started)
                if size in {before, self._log.head().size}:
                    self._log.growth.wait()
                before = size
                if self._rival:
                    self._watch()
            except Exception:  # a fault of the database must not end the projector
                if not self._stopping.is_set():
                    log.exception("projector failed, trying again")
                self._live = None
                self._stopping.wait(RETRY_SECONDS)

    def _pause(self, step_seconds: float) -> None:
        pause = step_seconds * PAUSE
        if self._log.waiting or self._log.growth.is_recent(WRITING_SECONDS):
            pause = max(step_seconds * PAUSE_BEHIND_WRITERS, MIN_PAUSE_SECONDS)
        self._log.growth.pause(min(pause, MAX_PAUSE_SECONDS))

    def _watch(self) -> None:
        """While another projector keeps up, two at work would only undo each other's pages."""
        before = -1
        while not self._stopping.wait(RIVAL_SECONDS):
            size = self._live_row().size
            if size == before and size < self._log.head().size:
                break
            before = size
        self._rival = False
