"""A generation's rows: interval rows, the facts to resume from, and its cursor, always moved together.

- A state is visible at size N iff from_pos < N and (to_pos is null or to_pos >= N).
- The cursor moves by compare-and-set in the transaction that writes the rows, so two projectors cannot both apply the
  same event.
- A generation's rows vanish when another takes its place: whoever was reading is told (`Moved`), and asks again.
- A generation that is being built is claimed for as long as its builder lives; unclaimed ones are what is left of
  builders that died.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

import orjson
from sqlalchemy import Connection, Row, delete, func, insert, select, text, update
from sqlalchemy.exc import DBAPIError

from ledger.core.ids import new_id
from ledger.log.ports import Store
from ledger.projections.folding import Interval, Kept
from ledger.projections.tables import generation, source_facts, source_interval

LIVE: Final = "live"
BUILDING: Final = "building"
SOURCES: Final = "sources"
_KEYS_A_QUERY: Final = 500

_UPSERT_FACTS: Final = text(
    "INSERT INTO source_facts (generation, key, facts) VALUES (:generation, :key, :facts)"
    " ON CONFLICT (generation, key) DO UPDATE SET facts = excluded.facts"
)


@dataclass(frozen=True, slots=True)
class Identity:
    """What makes two generations the same: equal identities give equal rows."""

    rules: str
    rules_digest: str
    fold_digest: str
    upcaster_digest: str


@dataclass(frozen=True, slots=True)
class GenerationRow:
    """A generation and how far it has come."""

    id: str
    identity: Identity
    status: str
    size: int
    environment: bytes
    failed_events: int


class Moved(Exception):  # noqa: N818  # a signal, not a fault
    """Another projector moved the cursor, or replaced the generation."""


class Generations:
    """The rows of all generations, over a store's database."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._engine = store.engine

    @contextmanager
    def _write(self) -> Iterator[Connection]:
        with self._store.write_gate, self._engine.begin() as connection:
            yield connection

    def all(self) -> list[GenerationRow]:
        with self._engine.connect() as connection:
            rows = connection.execute(select(generation).order_by(generation.c.status.desc(), generation.c.id))
            return [_generation(row) for row in rows]

    def live(self) -> GenerationRow | None:
        return next((g for g in self.all() if g.status == LIVE), None)

    def get(self, generation_id: str) -> GenerationRow | None:
        return next((g for g in self.all() if g.id == generation_id), None)

    def create_live(self, identity: Identity, environment: bytes) -> GenerationRow:
        """The live generation; made, having folded nothing, if there is none."""
        with self._write() as connection:
            if self._store.dialect == "postgresql":
                connection.execute(text("LOCK TABLE generation IN SHARE ROW EXCLUSIVE MODE"))
            found = connection.execute(select(generation).where(generation.c.status == LIVE)).first()
            return _generation(found) if found else _create(connection, identity, environment, LIVE)

    @contextmanager
    def building(self, identity: Identity, environment: bytes) -> Iterator[GenerationRow]:
        """A new generation that has folded nothing; dropped when the block fails."""
        made = GenerationRow(new_id(), identity, BUILDING, 0, environment, 0)
        with self._claimed(made.id):
            with self._write() as connection:
                _insert(connection, made)
            try:
                yield made
            except BaseException:
                self.drop(made.id)
                raise

    def drop_leftovers(self) -> int:
        """Drops what is left of builders that died; returns how many."""
        dropped = 0
        for row in self.all():
            if row.status == BUILDING:
                with self._claimed(row.id) as free:
                    if free:
                        self.drop(row.id)
                        dropped += 1
        return dropped

    @contextmanager
    def _claimed(self, generation_id: str) -> Iterator[bool]:
        """Whether nobody else builds the generation. On SQLite one process has the home, and starts by looking."""
        if self._store.dialect != "postgresql":
            yield True
            return
        number = int.from_bytes(hashlib.sha256(generation_id.encode()).digest()[:8], "big", signed=True)
        with self._engine.connect() as connection:
            connection.execution_options(isolation_level="AUTOCOMMIT")
            free = bool(connection.scalar(select(func.pg_try_advisory_lock(number))))
            try:
                yield free
            finally:
                if free:
                    # A connection that broke gave the claim up by itself.
                    with suppress(DBAPIError):
                        connection.execute(select(func.pg_advisory_unlock(number)))

    def advance(
        self,
        row: GenerationRow,
        *,
        size: int,
        environment: bytes,
        failed_events: int,
        intervals: Sequence[Interval],
        facts: dict[str, bytes],
    ) -> GenerationRow:
        """Moves the cursor and writes what the events up to it changed, in one transaction.

        Raises:
            Moved: the cursor is not where it was; nothing was written.
        """
        with self._write() as connection:
            moved = connection.execute(
                update(generation)
                .where(generation.c.id == row.id, generation.c.size == row.size)
                .values(size=size, environment=environment, failed_events=failed_events)
            )
            if moved.rowcount != 1:
                raise Moved
            _write_intervals(connection, row.id, intervals)
            if facts:
                rows = [{"generation": row.id, "key": key, "facts": data} for key, data in facts.items()]
                connection.execute(_UPSERT_FACTS, rows)
        return GenerationRow(row.id, row.identity, row.status, size, environment, failed_events)

    def load(self, generation_id: str, keys: Iterable[str]) -> dict[str, tuple[bytes, bytes]]:
        """Facts and present state of these keys; new keys are left out."""
        wanted = sorted(keys)
        found: dict[str, tuple[bytes, bytes]] = {}
        for start in range(0, len(wanted), _KEYS_A_QUERY):
            found.update(self._load(generation_id, wanted[start : start + _KEYS_A_QUERY]))
        return found

    def load_all(self, generation_id: str) -> dict[str, tuple[bytes, bytes]]:
        return self._load(generation_id, None)

    def _load(self, generation_id: str, keys: list[str] | None) -> dict[str, tuple[bytes, bytes]]:
        facts, now = source_facts, source_interval
        join = (now.c.generation == facts.c.generation) & (now.c.key == facts.c.key) & now.c.to_pos.is_(None)
        statement = (
            select(facts.c.key, facts.c.facts, now.c.state)
            .select_from(facts.outerjoin(now, join))
            .where(facts.c.generation == generation_id)
        )
        if keys is not None:
            statement = statement.where(facts.c.key.in_(keys))
        with self._engine.connect() as connection:
            return {key: (bytes(data), bytes(state or b"")) for key, data, state in connection.execute(statement)}

    def replace(self, new: GenerationRow, old: GenerationRow) -> None:
        """Lets one generation take the place of another, whose rows are dropped.

        Raises:
            Moved: the old one is not live any more, or has come further than the new one; nothing was changed.
        """
        with self._write() as connection:
            gone = connection.execute(
                delete(generation).where(
                    generation.c.id == old.id, generation.c.size <= new.size, generation.c.status == LIVE
                )
            )
            if gone.rowcount != 1:
                raise Moved
            connection.execute(update(generation).where(generation.c.id == new.id).values(status=LIVE))
            _drop(connection, old.id)

    def drop(self, generation_id: str) -> None:
        with self._write() as connection:
            _drop(connection, generation_id)

    def digests(self, generation_id: str, size: int) -> dict[str, str]:
        """A digest a key over its intervals as they stood at a size: two equal generations have equal digests.

        Raises:
            Moved: the generation was replaced.
        """
        found: dict[str, Any] = {}
        i = source_interval
        statement = (
            select(i.c.key, i.c.from_pos, i.c.to_pos, i.c.origin, i.c.state)
            .where(i.c.generation == generation_id, i.c.from_pos < size)
            .order_by(i.c.key, i.c.from_pos)
        )
        with self._engine.connect() as connection:
            for key, from_pos, to_pos, origin, state in connection.execute(statement):
                end = None if to_pos is None or to_pos >= size else to_pos
                line = orjson.dumps([from_pos, end, origin, hashlib.sha256(state).hexdigest()])
                found.setdefault(key, hashlib.sha256()).update(line)
            _check_there(connection, generation_id)
        return {key: digest.hexdigest() for key, digest in found.items()}

    def count(self, generation_id: str) -> tuple[int, int]:
        """Keys and intervals of a generation."""
        i = source_interval
        with self._engine.connect() as connection:
            keys, intervals = connection.execute(
                select(func.count(func.distinct(i.c.key)), func.count()).where(i.c.generation == generation_id)
            ).one()
        return keys, intervals

    def states_at(self, generation_id: str, size: int, key: str | None = None) -> list[tuple[str, bytes]]:
        """Key and state of everything that is shown at a size, by origin, then key.

        Raises:
            Moved: the generation was replaced.
        """
        i = source_interval
        statement = select(i.c.key, i.c.state).where(
            i.c.generation == generation_id,
            i.c.from_pos < size,
            i.c.to_pos.is_(None) | (i.c.to_pos >= size),
        )
        if key is not None:
            statement = statement.where(i.c.key == key)
        with self._engine.connect() as connection:
            rows = connection.execute(statement.order_by(i.c.origin, i.c.key)).all()
            _check_there(connection, generation_id)
        return [(found, bytes(state)) for found, state in rows if state]


def encode_kept(kept: Kept, facts: bytes) -> bytes:
    """Facts with the positions that failed before them, on a line of their own."""
    return orjson.dumps(list(kept.failed)) + b"\n" + facts


def decode_kept(data: bytes) -> tuple[tuple[int, ...], bytes]:
    failed, _, facts = data.partition(b"\n")
    return tuple(orjson.loads(failed)), facts


def _create(connection: Connection, identity: Identity, environment: bytes, status: str) -> GenerationRow:
    made = GenerationRow(new_id(), identity, status, 0, environment, 0)
    _insert(connection, made)
    return made


def _insert(connection: Connection, row: GenerationRow) -> None:
    values = {
        "id": row.id,
        "projection": SOURCES,
        "rules": row.identity.rules,
        "rules_digest": row.identity.rules_digest,
        "fold_digest": row.identity.fold_digest,
        "upcaster_digest": row.identity.upcaster_digest,
        "status": row.status,
        "size": row.size,
        "environment": row.environment,
        "failed_events": row.failed_events,
    }
    connection.execute(insert(generation).values(values))


def _check_there(connection: Connection, generation_id: str) -> None:
    """Asked after reading: rows go in one transaction with their generation, so they were all there before."""
    if connection.scalar(select(func.count()).where(generation.c.id == generation_id)) == 0:
        raise Moved


def _write_intervals(connection: Connection, generation_id: str, intervals: Sequence[Interval]) -> None:
    """Ends what was shown and writes what is shown instead; several changes of one key end one another."""
    if not intervals:
        return
    by_key: dict[str, list[Interval]] = {}
    for interval in intervals:
        by_key.setdefault(interval.key, []).append(interval)
    ends, rows = [], []
    for key, changes in by_key.items():
        ends.append({"g": generation_id, "k": key, "p": changes[0].from_pos})
        for change, following in zip(changes, [*changes[1:], None], strict=True):
            rows.append(
                {
                    "generation": generation_id,
                    "key": key,
                    "from_pos": change.from_pos,
                    "to_pos": None if following is None else following.from_pos,
                    "origin": change.origin,
                    "state": change.state,
                }
            )
    connection.execute(
        text("UPDATE source_interval SET to_pos = :p WHERE generation = :g AND key = :k AND to_pos IS NULL"), ends
    )
    connection.execute(insert(source_interval), rows)


def _drop(connection: Connection, generation_id: str) -> None:
    for table in (source_interval, source_facts):
        connection.execute(delete(table).where(table.c.generation == generation_id))
    connection.execute(delete(generation).where(generation.c.id == generation_id))


def _generation(row: Row[Any]) -> GenerationRow:
    identity = Identity(row.rules, row.rules_digest, row.fold_digest, row.upcaster_digest)
    return GenerationRow(row.id, identity, row.status, row.size, bytes(row.environment), row.failed_events)
