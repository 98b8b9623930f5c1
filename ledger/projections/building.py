"""Building a generation: the environment first, then every stream by itself, in chunks of whole streams.

Chunks are folded in processes of their own where that pays, and written in order, each in one transaction with the name
of its last stream. So a build that is killed is gone on with where it stood: what is written is never folded again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, Final

from ledger.log.log import Log
from ledger.projections.folding import Folder
from ledger.projections.following import encode_surroundings
from ledger.projections.generations import GenerationRow, Generations
from ledger.projections.rows import FIRST, Chunk, LogHistory, chunks, policy_rows
from ledger.projections.subjects import RUNS
from ledger.projections.timelines import FoldedStream, Timeline, read_timeline
from ledger.projections.workers import Check, ChunkFold, fold_in_processes, is_portable, work
from ledger.rules import RuleSet

CHUNK_EVENTS: Final = 10_000
"""Events a chunk, at least: a chunk ends with a stream."""
SMALL_LOG: Final = 50_000
"""Below so many events, starting processes takes longer than folding."""
MAX_PROCESSES: Final = 8

READING: Final = "reading the policy"
FOLDING: Final = "folding the sources"
FOLDING_RUNS: Final = "folding the runs"
FOLLOWING: Final = "following the log"
COMPARING: Final = "comparing"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a rebuild has come."""

    phase: str
    done: int
    total: int
    """Of the phase."""
    size: int
    """The first so many events are in the new generation."""
    log_size: int


Report = Callable[[Progress], None]
"""Is told of progress; what it raises ends the rebuild, which can be gone on with."""


class Builder:
    """Builds one generation up to its target."""

    def __init__(
        self,
        log: Log,
        rules: RuleSet[Any, Any],
        generations: Generations,
        row: GenerationRow,
        processes: int,
        *,
        check: Check,
    ) -> None:
        self._check = check
        self.row = row
        self.size = row.size if row.target is None else row.target
        self.processes = _processes(processes, self.size, portable=is_portable(rules, log.registry))
        self._log = log
        self._rules = rules
        self._folder = Folder(rules, log.registry, row.identity.subject)
        self._generations = generations

    def build(self, report: Report) -> GenerationRow:
        """The generation, having folded the log up to its target.

        Raises:
            Moved: somebody else builds it.
        """
        if self.row.size < self.size:
            report(self._progress(READING, 0, 1))
            line = self._timeline()
            report(self._progress(READING, 1, 1))
            self._fold_streams(line, report)
            self._finish(line)
        return self.row

    def _timeline(self) -> Timeline:
        folder, store = self._folder, self._log.store
        rows = policy_rows(store, folder, self.size)
        # Other processes make their own: it is cheaper to make than to send.
        return read_timeline(folder, rows, LogHistory(store, folder), versions=self.processes == 1)

    def _fold_streams(self, line: Timeline, report: Report) -> None:
        engine = self._log.store.engine
        left = list(chunks(engine, self.row.built_through or FIRST, self.size, CHUNK_EVENTS, self._folder.projection))
        phase = FOLDING_RUNS if self._folder.projection is RUNS else FOLDING
        done, total = 0, sum(chunk.events for chunk in left)
        with closing(self._folded(left, line)) as folded:
            for chunk, streams in zip(left, folded, strict=True):
                self.row = self._generations.extend(self.row, chunk.last, streams)
                done += chunk.events
                report(self._progress(phase, done, total))

    def _folded(self, left: list[Chunk], line: Timeline) -> Generator[list[FoldedStream]]:
        engine = self._log.store.engine
        if self.processes > 1:
            return fold_in_processes(work(engine, self._folder, self.size), left, self.processes)
        fold = ChunkFold(engine, self._folder, self.size, line)
        return (fold.fold(chunk.first, chunk.last, self._check) for chunk in left)

    def _finish(self, line: Timeline) -> None:
        failed = self.row.failed_events + line.last.failures
        after = replace(self.row, size=self.size, failed_events=failed, **encode_surroundings(self._rules, line.last))
        self.row = self._generations.advance(self.row, after, [], {})

    def _progress(self, phase: str, done: int, total: int) -> Progress:
        return Progress(phase, done, total, self.row.size, self._log.head().size)


def _processes(wanted: int, size: int, *, portable: bool) -> int:
    if not portable:
        return 1
    if wanted:
        return wanted
    return 1 if size < SMALL_LOG else min(os.cpu_count() or 1, MAX_PROCESSES)
