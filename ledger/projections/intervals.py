"""The rows of one generation: what is shown of each source from where to where, and the facts to go on from.

A state is visible at size N iff from_pos < N and (to_pos is null or to_pos >= N). An empty state is nothing shown.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import orjson
from sqlalchemy import BigInteger, Connection, LargeBinary, Table, Text, delete, func, select, text, true

from ledger.projections.folding import Interval
from ledger.projections.tables import source_facts, source_interval
from ledger.projections.timelines import FoldedStream

KEYS_A_QUERY: Final = 500
_UPSERT_FACTS: Final = text(
    "INSERT INTO source_facts (generation, key, facts) VALUES (:generation, :key, :facts)"
    " ON CONFLICT (generation, key) DO UPDATE SET facts = excluded.facts"
)
_END_SHOWN: Final = text(
    "UPDATE source_interval SET to_pos = :p WHERE generation = :g AND key = :k AND from_pos ="
    " (SELECT max(from_pos) FROM source_interval WHERE generation = :g AND key = :k)"
)
"""The last interval of a key is the one that is not ended. It is sought by its place: a run has one a step."""
_TYPES: Final = {Text: "text", BigInteger: "int8", LargeBinary: "bytea"}
"""What Postgres calls the columns' types."""
Written = dict[str, tuple[bytes, bytes]]
"""Facts and present state by key."""


def write_changes(
    connection: Connection, generation: str, intervals: Sequence[Interval], facts: Mapping[str, bytes]
) -> None:
    """Ends what was shown and writes what is shown instead; several changes of one source end one another."""
    by_key: dict[str, list[Interval]] = {}
    for interval in intervals:
        by_key.setdefault(interval.key, []).append(interval)
    if by_key:
        ends = [{"g": generation, "k": key, "p": changes[0].from_pos} for key, changes in by_key.items()]
        connection.execute(_END_SHOWN, ends)
        rows = [row for changes in by_key.values() for row in _rows(generation, changes)]
        _insert(connection, source_interval, rows)
    if facts:
        written = [{"generation": generation, "key": key, "facts": data} for key, data in facts.items()]
        connection.execute(_UPSERT_FACTS, written)


def write_streams(connection: Connection, generation: str, streams: Sequence[FoldedStream]) -> None:
    """Writes whole histories of sources that have no rows yet."""
    _insert(connection, source_interval, [row for folded in streams for row in _rows(generation, folded.intervals)])
    _insert(connection, source_facts, [(generation, folded.key, folded.kept) for folded in streams])


def _rows(generation: str, changes: Sequence[Interval]) -> Iterator[tuple[Any, ...]]:
    """The rows of one source, as `source_interval` has its columns."""
    for number, (key, from_pos, origin, state) in enumerate(changes, 1):
        to_pos = changes[number].from_pos if number < len(changes) else None
        yield generation, key, from_pos, to_pos, origin, state


def _insert(connection: Connection, table: Table, rows: Sequence[tuple[Any, ...]]) -> None:
    """New rows, by the driver's own quickest way."""
    if not rows:
        return
    columns = ", ".join(table.columns.keys())
    if connection.dialect.name == "sqlite":
        marks = ", ".join("?" * len(table.columns))
        sql = f"INSERT INTO {table.name} ({columns}) VALUES ({marks})"  # noqa: S608  # our own names
        connection.exec_driver_sql(sql, list(rows))
        return
    driver = connection.connection.driver_connection
    assert driver is not None
    with driver.cursor() as cursor, cursor.copy(f"COPY {table.name} ({columns}) FROM STDIN (FORMAT BINARY)") as copy:
        copy.set_types([_TYPES[type(column.type)] for column in table.columns])
        for row in rows:
            copy.write_row(row)


def load(connection: Connection, generation: str, keys: Iterable[str]) -> Written:
    """What is written of these sources; new ones are left out."""
    wanted = sorted(keys)
    found: Written = {}
    for start in range(0, len(wanted), KEYS_A_QUERY):
        found.update(_load(connection, generation, source_facts.c.key.in_(wanted[start : start + KEYS_A_QUERY])))
    return found


def load_after(connection: Connection, generation: str, after: str) -> Written:
    """What is written of the sources after one, some at a time; empty after the last."""
    return _load(connection, generation, source_facts.c.key > after)


def _load(connection: Connection, generation: str, which: Any) -> Written:
    facts, now, i = source_facts, source_interval, source_interval.alias("i")
    last = select(func.max(i.c.from_pos)).where(i.c.generation == facts.c.generation, i.c.key == facts.c.key)
    same = (now.c.generation == facts.c.generation) & (now.c.key == facts.c.key)
    join = same & (now.c.from_pos == last.scalar_subquery())
    statement = (
        select(facts.c.key, facts.c.facts, now.c.state)
        .select_from(facts.outerjoin(now, join))
        .where(facts.c.generation == generation, which)
        .order_by(facts.c.key)
        .limit(KEYS_A_QUERY)
    )
    return {key: (bytes(data), bytes(state or b"")) for key, data, state in connection.execute(statement)}


def digests(connection: Connection, generation: str, size: int) -> dict[str, str]:
    """A digest a source over its intervals as they stood at a size: equal generations have equal digests."""
    found: dict[str, Any] = {}
    i = source_interval
    statement = (
        select(i.c.key, i.c.from_pos, i.c.to_pos, i.c.origin, i.c.state)
        .where(i.c.generation == generation, i.c.from_pos < size)
        .order_by(i.c.key, i.c.from_pos)
    )
    for key, from_pos, to_pos, origin, state in connection.execution_options(yield_per=2_000).execute(statement):
        end = None if to_pos is None or to_pos >= size else to_pos
        line = orjson.dumps([from_pos, end, origin, hashlib.sha256(state).hexdigest()])
        found.setdefault(key, hashlib.sha256()).update(line)
    return {key: digest.hexdigest() for key, digest in found.items()}


def count(connection: Connection, generation: str) -> tuple[int, int]:
    """Sources and intervals."""
    i = source_interval
    keys, intervals = connection.execute(
        select(func.count(func.distinct(i.c.key)), func.count()).where(i.c.generation == generation)
    ).one()
    return keys, intervals


def states_at(connection: Connection, generation: str, size: int, key: str | None = None) -> list[tuple[str, bytes]]:
    """Key and state of everything that is shown at a size, by origin, then key."""
    i = source_interval
    statement = select(i.c.key, i.c.state).where(
        i.c.generation == generation, i.c.from_pos < size, i.c.to_pos.is_(None) | (i.c.to_pos >= size)
    )
    if key is not None:
        statement = statement.where(i.c.key == key)
    rows = connection.execute(statement.order_by(i.c.origin, i.c.key))
    return [(found, bytes(state)) for found, state in rows if state]


def present_at(
    connection: Connection, generation: str, size: int, keys: Collection[str] | None = None, kind: str | None = None
) -> Iterator[tuple[str, bytes]]:
    """The same for keys with many intervals each, by key: of each the last one before the size is sought, no other.

    Args:
        connection: To the database.
        generation: Whose rows.
        size: The first so many events are known.
        keys: That are asked for; None: all.
        kind: With which a key begins, up to its slash; None: any.
    """
    if keys is not None:
        wanted = sorted(set(keys))
        parts = [wanted[start : start + KEYS_A_QUERY] for start in range(0, len(wanted), KEYS_A_QUERY)]
        for part in parts:
            yield from _present(connection, generation, size, source_facts.c.key.in_(part))
    elif kind is not None:
        within = (source_facts.c.key > f"{kind}/") & (source_facts.c.key < f"{kind}0")
        yield from _present(connection, generation, size, within)
    else:
        yield from _present(connection, generation, size, true())


def _present(connection: Connection, generation: str, size: int, which: Any) -> Iterator[tuple[str, bytes]]:
    known, shown, i = source_facts, source_interval, source_interval.alias("i")
    last = select(func.max(i.c.from_pos)).where(
        i.c.generation == generation, i.c.key == known.c.key, i.c.from_pos < size
    )
    same = (shown.c.key == known.c.key) & (shown.c.from_pos == last.scalar_subquery())
    statement = (
        select(shown.c.key, shown.c.state)
        .select_from(known.join(shown, same))
        .where(known.c.generation == generation, shown.c.generation == generation, which)
        .order_by(known.c.key)
    )
    for key, state in connection.execution_options(yield_per=2_000).execute(statement):
        if state:
            yield key, bytes(state)


def drop(connection: Connection, generation: str) -> None:
    for table in (source_interval, source_facts):
        connection.execute(delete(table).where(table.c.generation == generation))
