"""The fold itself, without the database: streams that lie in memory become intervals, in one process or several.

Every process reads its share of the streams first, and the environment's timeline; then all begin together. The clock
runs from the first that begins to the last that is done.
"""

from __future__ import annotations

import gc
import multiprocessing
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from threading import Barrier
from typing import Final, NamedTuple

from ledger.events import REGISTRY
from ledger.log.reading import Reader
from ledger.log.sqlite import SqliteStore
from ledger.projections.folding import Folder, Row
from ledger.projections.rows import FIRST, LogHistory, chunks, policy_rows, read_streams
from ledger.projections.timelines import Timeline, fold_streams, read_timeline
from ledger.rules.sets import RULE_SETS
from tests.benchmarks.fold_report import Pace
from tests.benchmarks.written_logs import Home

PATIENCE: Final = 600.0
"""Seconds in which all processes must have read their shares."""

Streams = list[tuple[str, list[Row]]]


class Share(NamedTuple):
    """What one process folds: every so-manieth stream of those that are taken."""

    database: Path
    rules: str
    events: int
    times: int
    number: int
    of: int


class Done(NamedTuple):
    """When a process began and ended, on the clock that all processes share, its CPU time, and what it folded."""

    began: float
    ended: float
    cpu: float
    events: int


def pace_alone(home: Home, events: int, times: int, processes: int) -> Pace:
    """Over whole streams that hold about so many events, folded so many times."""
    database, rules = home.settings.database_file, home.rules
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(processes, timeout=PATIENCE)
    shares = [Share(database, rules, events, times, number, processes) for number in range(processes)]
    with ProcessPoolExecutor(processes, mp_context=context, initializer=_begin, initargs=(barrier,)) as pool:
        done = list(pool.map(_fold, shares))
    seconds = max(d.ended for d in done) - min(d.began for d in done)
    folded = sum(d.events for d in done)
    return Pace(folded / seconds, folded / max(d.cpu for d in done))


_together: Barrier
"""Of this process: where it waits for the others."""


def _begin(barrier: Barrier) -> None:
    global _together  # noqa: PLW0603  # a barrier reaches a process only when the process is made
    _together = barrier


def _fold(share: Share) -> Done:
    with closing(SqliteStore(share.database)) as store:
        line, streams = _timeline(store, share.rules), _streams(store, share)
    rules = RULE_SETS[share.rules]
    gc.collect()
    gc.freeze()  # what was read beforehand is no part of the fold
    _together.wait()
    began, cpu, folded = time.monotonic(), time.process_time(), 0
    for _ in range(share.times):
        folded += sum(1 for _ in fold_streams(rules, REGISTRY, line, streams))
    ended, cpu = time.monotonic(), time.process_time() - cpu
    if folded != share.times * len(streams):
        raise RuntimeError(f"{folded} streams were folded of {share.times} times {len(streams)}")
    return Done(began, ended, cpu, share.times * sum(len(rows) for _, rows in streams))


def _timeline(store: Reader, rules: str) -> Timeline:
    folder, size = Folder(RULE_SETS[rules], REGISTRY), store.head().size
    return read_timeline(folder, policy_rows(store, folder, size), LogHistory(store, folder))


def _streams(store: Reader, share: Share) -> Streams:
    size = store.head().size
    names = list(_taken(store, share.events, size))[share.number :: share.of]
    return [
        (stream, list(rows))
        for name in names
        for stream, rows in groupby(read_streams(store.engine, name, name, size), key=itemgetter(3))
    ]


def _taken(store: Reader, events: int, size: int) -> Iterator[str]:
    """Streams from all over the log, until they hold so many events."""
    every = list(chunks(store.engine, FIRST, size, 1))
    step = max(1, sum(chunk.events for chunk in every) // events)
    return (chunk.first for chunk in every[::step])
