"""Folding chunks of streams, here or in processes of their own.

A process is given plain data: the rules' id, the database's URL, the size. It reads the log itself, over a connection
that cannot write, and folds the environment once for all the chunks that it is given. It ends when its parent does.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import cache
from itertools import groupby
from multiprocessing.process import parent_process
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from sqlalchemy import URL, Engine, NullPool, create_engine, make_url

from ledger.core.errors import Unavailable
from ledger.events import REGISTRY, Registry
from ledger.log.reading import Reader
from ledger.projections.folding import Folder, Row
from ledger.projections.rows import Chunk, LogHistory, policy_rows, read_streams
from ledger.projections.subjects import PROJECTIONS
from ledger.projections.timelines import FoldedStream, Timeline, fold_streams, read_timeline
from ledger.rules import RuleSet
from ledger.rules.sets import ALL_RULE_SETS

_AHEAD: Final = 2
"""Chunks a process that are folded and not yet taken, at most."""
CHECK_ROWS: Final = 200
"""Events that are folded between two looks at whether the build must end."""
_SELDOM: Final = 200_000
"""New objects between two searches for cycles, while a chunk is folded."""
_USUALLY: Final = gc.get_threshold()


Check = Callable[[], None]


class Work(NamedTuple):
    """What every chunk of a build has in common."""

    rules: str
    projection: str
    url: str
    size: int


def is_portable(rules: RuleSet[Any, Any], registry: Registry) -> bool:
    """Whether another process has the same rules and vocabulary under the same names."""
    return ALL_RULE_SETS.get(rules.id) is rules and registry is REGISTRY


def work(engine: Engine, folder: Folder, size: int) -> Work:
    return Work(folder.rules.id, folder.projection.name, engine.url.render_as_string(hide_password=False), size)


class ChunkFold:
    """Folds chunks one after another in this process."""

    def __init__(self, engine: Engine, folder: Folder, size: int, line: Timeline) -> None:
        self._engine = engine
        self._folder = folder
        self._size = size
        self._timeline = line

    def fold(self, first: str, last: str, check: Check = lambda: None) -> list[FoldedStream]:
        """The streams from one name to another; what `check` raises, asked now and then, ends it."""
        rows = _checked(read_streams(self._engine, first, last, self._size), check)
        streams = groupby(rows, key=itemgetter(3))
        with _collecting_seldom():
            of = self._folder
            return list(fold_streams(of.rules, of.registry, self._timeline, streams, of.projection))


def _checked(rows: Iterable[Row], check: Check) -> Iterator[Row]:
    """A chunk may be one run of very many steps: nobody who stops a build should wait for its end."""
    for number, row in enumerate(rows):
        if number % CHECK_ROWS == 0:
            check()
        yield row


@contextmanager
def _collecting_seldom() -> Iterator[None]:
    """A fold makes very many objects and no cycles: to look for cycles as often as usual takes a tenth of its time."""
    gc.set_threshold(_SELDOM)
    try:
        yield
    finally:
        gc.set_threshold(*_USUALLY)


def fold_in_processes(common: Work, chunks: Iterable[Chunk], processes: int) -> Generator[list[FoldedStream]]:
    """What `ChunkFold.fold` gives of each chunk, in their order."""
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(processes, mp_context=context, initializer=begin)
    try:
        running: deque[Future[list[FoldedStream]]] = deque()
        for chunk in chunks:
            running.append(pool.submit(_fold_chunk, common, chunk.first, chunk.last))
            if len(running) > processes * _AHEAD:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()
    except BrokenProcessPool as error:
        raise Unavailable(
            "a process that folded has ended by itself",
            remedy="Rebuild again: it goes on where this build stood. With --processes 1 none is started.",
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


def begin() -> None:
    """In a new process: whoever stops the parent stops this one with it, in whatever way."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _fold_chunk(common: Work, first: str, last: str) -> list[FoldedStream]:
    return _opened(common).fold(first, last)


@cache
def _opened(common: Work) -> ChunkFold:
    """The log, and its environment, in this process."""
    reader = Reader(reading_engine(common.url))
    folder = Folder(ALL_RULE_SETS[common.rules], REGISTRY, PROJECTIONS[common.projection])
    rows = policy_rows(reader, folder, common.size)
    line = read_timeline(folder, rows, LogHistory(reader, folder))
    return ChunkFold(reader.engine, folder, common.size, line)


def reading_engine(text: str) -> Engine:
    """An engine that writes nothing."""
    url: URL = make_url(text)
    if url.get_backend_name() != "sqlite":
        options = "-c default_transaction_read_only=on"
        return create_engine(url, poolclass=NullPool, connect_args={"options": options})
    file = f"file:{quote(str(Path(url.database or '').resolve()))}?mode=ro"
    return create_engine("sqlite://", creator=lambda: sqlite3.connect(file, uri=True), poolclass=NullPool)
