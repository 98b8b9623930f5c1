"""Reading the log for the fold: plain rows straight from the driver, since a fold takes microseconds an event.

The index over (stream, version) gives a stream's events as they lie; streams come in the order of their names' bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, Final, NamedTuple

from sqlalchemy import Engine

from ledger.log.model import Filter, StoredEvent
from ledger.log.ports import Store
from ledger.log.reading import Reader
from ledger.projections.disregards import DISREGARDED
from ledger.projections.folding import Folder, Row, plain
from ledger.projections.subjects import SOURCES, Projection

FIRST: Final = ""
"""Before the name of every stream."""
_FETCH: Final = 2_000
_MAPPED: Final = 1 << 40
"""Bytes of an SQLite file that are read in place, at most; SQLite itself allows less. A stream's events lie all over
the log, and a page that is mapped is neither copied nor asked of the system each time."""

_EVENTS: Final = (
    "SELECT e.pos, e.id, e.type, e.stream, e.header, p.body FROM event e LEFT JOIN payload p ON p.pos = e.pos"
    " WHERE e.stream >= {0} AND e.stream <= {0} AND e.pos < {0} ORDER BY e.stream, e.sv"
)
_STREAMS: Final = (
    "SELECT stream, count(*) FROM event WHERE stream > {0} AND stream < {0} AND pos < {0} GROUP BY stream"
    " ORDER BY stream"
)
_ANY: Final = "SELECT 1 FROM event WHERE stream > {0} AND stream < {0} LIMIT 1"


class Chunk(NamedTuple):
    """Whole streams that follow one another."""

    first: str
    last: str
    streams: int
    events: int


class LogHistory:
    """What the fold must read of a log beside what comes next: `environments.History`."""

    def __init__(self, store: Store | Reader, folder: Folder) -> None:
        self._store = store
        self._match = Filter(types=tuple(sorted(folder.environment_types)))

    def event(self, pos: int) -> StoredEvent | None:
        return self._store.event(pos)

    def environment(self, size: int) -> Iterable[Row]:
        return map(plain, self._store.read_all(0, size, match=self._match)) if self._match.types else ()

    def stream(self, stream: str, size: int) -> Iterable[Row]:
        return read_streams(self._store.engine, stream, stream, size)


def policy_rows(store: Store | Reader, folder: Folder, size: int) -> Iterator[Row]:
    """What makes the environment's timeline: its events and the disregards among the first `size`, in log order."""
    match = Filter(types=tuple(sorted({*folder.environment_types, DISREGARDED})))
    return map(plain, store.read_all(0, size, match=match))


def read_streams(engine: Engine, first: str, last: str, size: int) -> Iterator[Row]:
    """The events of these streams among the first `size`, stream by stream."""
    return _rows(engine, _EVENTS, (first, last, size))


def streams_of(engine: Engine, projection: Projection, size: int, kinds: Iterable[str] = ()) -> Iterator[Row]:
    """The events of every stream of a projection, or of some of its kinds, among the first `size`, stream by stream."""
    for kind in projection.kinds:
        if not kinds or kind in kinds:
            yield from read_streams(engine, *projection.range_of(kind), size)


def holds_any(engine: Engine, projection: Projection) -> bool:
    """Whether the log has any stream of a projection."""
    return any(True for kind in projection.kinds for _ in _rows(engine, _ANY, projection.range_of(kind)))


def chunks(engine: Engine, after: str, size: int, events: int, projection: Projection = SOURCES) -> Iterator[Chunk]:
    """Every stream of a projection after a name, in chunks of at least so many events and of one kind.

    Between two kinds other streams may lie; nobody should read those.
    """
    for kind in projection.kinds:
        first, end = projection.range_of(kind)
        if after < end:
            yield from _chunks(engine, max(after, first), end, size, events)


def _chunks(engine: Engine, after: str, end: str, size: int, events: int) -> Iterator[Chunk]:
    first, last, streams, count = "", "", 0, 0
    for stream, held in _rows(engine, _STREAMS, (after, end, size)):
        first, last, streams, count = first or stream, stream, streams + 1, count + held
        if count >= events:
            yield Chunk(first, last, streams, count)
            first, streams, count = "", 0, 0
    if streams:
        yield Chunk(first, last, streams, count)


def _rows(engine: Engine, sql: str, arguments: Sequence[Any]) -> Iterator[Any]:
    with _cursor(engine) as (cursor, mark):
        cursor.execute(sql.format(mark), arguments)
        yield from cursor


@contextmanager
def _cursor(engine: Engine) -> Iterator[tuple[Any, str]]:
    """A cursor that fetches as it goes, and the driver's mark for an argument."""
    connection = engine.raw_connection()
    try:
        if engine.dialect.name == "sqlite":
            with closing(connection.cursor()) as cursor:
                cursor.execute(f"PRAGMA mmap_size={_MAPPED}").fetchone()
                yield cursor, "?"
        else:
            assert connection.driver_connection is not None
            # Bytes come as bytes, not as hex text; only a named cursor leaves the rest with the server.
            with connection.driver_connection.cursor("fold", binary=True) as cursor:
                cursor.itersize = _FETCH
                yield cursor, "%s"
    finally:
        connection.close()
