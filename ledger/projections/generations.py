"""Generations: which there are, how far each has come, and which one answers.

- Rows and cursor move in one transaction, the cursor by compare-and-set, so two projectors cannot both apply an event.
- Of each projection one is `live` and answers. `shadow` follows the head and never answered; `kept` was in force once,
  or is kept to be looked at; `building` is read by nobody. All but the last follow the head, where the release
  computes their identity.
- A generation's rows vanish when another takes its place: whoever was reading is told (`Moved`), and asks again.
- A build is claimed for as long as its builder lives; an unclaimed one was left half-way, and can be gone on with.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import MappingProxyType

from sqlalchemy import Connection, delete, func, select, text, update

from ledger.core.ids import new_id
from ledger.log.ports import Store
from ledger.projections import intervals
from ledger.projections.claims import Claims
from ledger.projections.folding import Interval
from ledger.projections.records import (
    BUILDING,
    KEPT,
    LIVE,
    ORDER,
    SHADOW,
    STALE,
    GenerationRow,
    Identity,
    create_live,
    cursor_of,
    from_row,
    has_built,
    insert_row,
    live_row,
)
from ledger.projections.subjects import SOURCES, Projection
from ledger.projections.tables import generation
from ledger.projections.timelines import FoldedStream

__all__ = [
    "BUILDING",
    "KEPT",
    "LIVE",
    "SHADOW",
    "STALE",
    "GenerationRow",
    "Generations",
    "Identity",
    "Moved",
]


class Moved(Exception):  # noqa: N818  # a signal, not a fault
    """Another projector moved the cursor, or replaced the generation."""


class Generations:
    """The rows of all generations, over a store's database."""

    def __init__(self, store: Store, identities: Mapping[str, Identity] = MappingProxyType({})) -> None:
        self._store = store
        self._engine = store.engine
        self._claims = Claims(store)
        self._identities: Collection[Identity] = frozenset(identities.values())

    @contextmanager
    def _write(self) -> Iterator[Connection]:
        with self._store.write_gate, self._engine.begin() as connection:
            yield connection

    def all(self) -> list[GenerationRow]:
        """Those that answer first, builds last; among equals those of sources first, then the newest."""
        with self._engine.connect() as connection:
            rows = [from_row(row) for row in connection.execute(select(generation))]
        rows.sort(key=lambda row: row.id, reverse=True)
        return sorted(rows, key=lambda row: _rank(row.status, row.identity.projection))

    def sizes(self) -> dict[str, int]:
        """How far those have come that this release moves, in the order of `all`."""
        return {name: size for name, (_, size) in self.moved().items()}

    def moved(self) -> dict[str, tuple[str, int]]:
        """Status and size of those that this release moves: the live ones first."""
        g = generation.c
        columns = select(
            g.id, g.status, g.size, g.rules, g.rules_digest, g.fold_digest, g.upcaster_digest, g.projection
        )
        with self._engine.connect() as connection:
            rows = connection.execute(columns.where(g.status != BUILDING).order_by(g.id)).all()
        mine = [row for row in rows if Identity(*row[3:]) in self._identities]
        return {row.id: (row.status, row.size) for row in sorted(mine, key=lambda r: _rank(r.status, r.projection))}

    def live(self, projection: Projection = SOURCES) -> GenerationRow | None:
        with self._engine.connect() as connection:
            return live_row(connection, projection.name)

    def get(self, generation_id: str) -> GenerationRow | None:
        with self._engine.connect() as connection:
            row = connection.execute(select(generation).where(generation.c.id == generation_id)).first()
        return from_row(row) if row else None

    def answering(self, rules_digest: str) -> GenerationRow | None:
        """Whose rows answer for these rules: one that this release moves, or failing that any that is built."""
        found = [g for g in self.all() if g.identity.rules_digest == rules_digest and g.status != BUILDING]
        return next((g for g in found if self.computes(g)), found[0] if found else None)

    def same_as(self, identity: Identity) -> GenerationRow | None:
        """The built generation of this identity."""
        return next((g for g in self.all() if g.identity == identity and g.status != BUILDING), None)

    def computes(self, row: GenerationRow) -> bool:
        """Whether this release moves the generation."""
        return row.identity in self._identities

    def shown_status(self, row: GenerationRow) -> str:
        return row.status if self.computes(row) else STALE

    def create_live(self, identity: Identity, environment: bytes) -> GenerationRow:
        """The live generation of the projection; made, having folded nothing, if there is none."""
        with self._write() as connection:
            self._lock_out_others(connection)
            return live_row(connection, identity.projection) or create_live(connection, identity, environment)

    @contextmanager
    def build(self, identity: Identity, environment: bytes, target: int) -> Iterator[tuple[GenerationRow, bool]]:
        """A claimed build of the identity, and whether it was left half-way; else a new one that goes for the target.

        Left by an error it stays as it is, for the next one to go on with.
        """
        for row in self.all():
            if row.status == BUILDING and row.identity == identity:
                with self._claims.held(row.id) as free:
                    # Its builder may have finished between the look and the claim.
                    again = self.get(row.id) if free else None
                    if again is not None and again.status == BUILDING:
                        yield again, True
                        return
        made = GenerationRow(new_id(), identity, BUILDING, 0, environment, 0, target=target)
        with self._claims.held(made.id):
            with self._write() as connection:
                insert_row(connection, made)
            yield made, False

    def drop_leftovers(self) -> int:
        """Drops builds that nobody will go on with: of identities that this release does not compute."""
        dropped = 0
        for row in self.all():
            if row.status == BUILDING and not self.computes(row):
                with self._claims.held(row.id) as free:
                    if free:
                        self._drop(row)
                        dropped += 1
        return dropped

    def advance(
        self, before: GenerationRow, after: GenerationRow, changes: Sequence[Interval], facts: Mapping[str, bytes]
    ) -> GenerationRow:
        """Moves the cursor and writes what the events up to it changed, in one transaction.

        Raises:
            Moved: the cursor is not where it was; nothing was written.
        """
        with self._write() as connection:
            g = generation.c
            where = (
                g.id == before.id,
                g.size == before.size,
                func.coalesce(g.built_through, "") == (before.built_through or ""),
            )
            moved = connection.execute(update(generation).where(*where).values(**cursor_of(after)))
            if moved.rowcount != 1:
                raise Moved
            intervals.write_changes(connection, before.id, changes, facts)
        return after

    def extend(self, row: GenerationRow, through: str, streams: Sequence[FoldedStream]) -> GenerationRow:
        """Writes the histories of the streams up to one, and that they are written, in one transaction.

        Raises:
            Moved: somebody else builds; nothing was written.
        """
        failed = row.failed_events + sum(folded.failures for folded in streams)
        after = replace(row, built_through=through, keys_done=row.keys_done + len(streams), failed_events=failed)
        with self._write() as connection:
            g = generation.c
            where = (
                g.id == row.id,
                g.status == BUILDING,
                func.coalesce(g.built_through, "") == (row.built_through or ""),
            )
            moved = connection.execute(update(generation).where(*where).values(**cursor_of(after)))
            if moved.rowcount != 1:
                raise Moved
            intervals.write_streams(connection, row.id, streams)
        return after

    def take_place(self, new: GenerationRow, old: GenerationRow, *, keep: bool) -> GenerationRow:
        """Gives a new generation the place and status of one of its identity, which is dropped, or kept on request.

        Raises:
            Moved: the old one has another status by now, or has come further than the new one; nothing was changed.
        """
        g = generation.c
        where = (g.id == old.id, g.size <= new.size, g.status == old.status)
        with self._write() as connection:
            left = update(generation).values(status=KEPT) if keep else delete(generation)
            if connection.execute(left.where(*where)).rowcount != 1:
                raise Moved
            if not keep:
                intervals.drop(connection, old.id)
            return _become(connection, new, old.status)

    def become_shadow(self, new: GenerationRow) -> GenerationRow:
        """Ends the build of a generation whose identity no other has.

        Raises:
            Moved: another has it by now; nothing was changed.
        """
        with self._write() as connection:
            self._lock_out_others(connection)
            if has_built(connection, new.identity):
                raise Moved
            return _become(connection, new, SHADOW)

    def succeed(self, new: GenerationRow) -> GenerationRow:
        """Ends the build of a generation that answers from here on; the one that did, of another identity, is dropped.

        Raises:
            Moved: another has the identity by now; nothing was changed.
        """
        with self._write() as connection:
            self._lock_out_others(connection)
            if has_built(connection, new.identity):
                raise Moved
            old = live_row(connection, new.identity.projection)
            if old is not None:
                connection.execute(delete(generation).where(generation.c.id == old.id))
                intervals.drop(connection, old.id)
            return _become(connection, new, LIVE)

    def _lock_out_others(self, connection: Connection) -> None:
        """Until the end of the transaction no other server changes which generations there are."""
        if self._store.dialect == "postgresql":
            connection.execute(text("LOCK TABLE generation IN SHARE ROW EXCLUSIVE MODE"))

    def swap(self, live: GenerationRow, candidate: GenerationRow) -> None:
        """Lets the candidate answer in the place of the live one, which is kept.

        Raises:
            Moved: either is not what it was; nothing was changed.
        """
        g = generation.c
        with self._write() as connection:
            left = connection.execute(update(generation).where(g.id == live.id, g.status == LIVE).values(status=KEPT))
            taken = connection.execute(
                update(generation).where(g.id == candidate.id, g.status.in_((SHADOW, KEPT))).values(status=LIVE)
            )
            if (left.rowcount, taken.rowcount) != (1, 1):
                raise Moved

    def drop(self, row: GenerationRow) -> None:
        """Deletes a generation, if its status is still the same and nobody builds it.

        Raises:
            Moved: it has another status by now, or is gone, or is being built.
        """
        with self._claims.held(row.id) as free:
            if not free:
                raise Moved
            self._drop(row)

    def _drop(self, row: GenerationRow) -> None:
        with self._write() as connection:
            g = generation.c
            if connection.execute(delete(generation).where(g.id == row.id, g.status == row.status)).rowcount != 1:
                raise Moved
            intervals.drop(connection, row.id)

    def load(self, generation_id: str, keys: Collection[str]) -> intervals.Written:
        """Facts and present state of these sources; new ones are left out."""
        with self._engine.connect() as connection:
            return intervals.load(connection, generation_id, keys)

    def load_all(self, generation_id: str) -> Iterator[intervals.Written]:
        """The same of all sources, some at a time."""
        after = ""
        while True:
            with self._engine.connect() as connection:
                found = intervals.load_after(connection, generation_id, after)
            if not found:
                return
            yield found
            after = max(found)

    def digests(self, generation_id: str, size: int) -> dict[str, str]:
        """A digest a source over its intervals as they stood at a size.

        Raises:
            Moved: the generation was replaced.
        """
        with self._reading(generation_id) as connection:
            return intervals.digests(connection, generation_id, size)

    def count(self, generation_id: str) -> tuple[int, int]:
        """Sources and intervals of a generation."""
        with self._engine.connect() as connection:
            return intervals.count(connection, generation_id)

    def states_at(self, generation_id: str, size: int, key: str | None = None) -> list[tuple[str, bytes]]:
        """Key and state of everything that is shown at a size, by origin, then key.

        Raises:
            Moved: the generation was replaced.
        """
        with self._reading(generation_id) as connection:
            return intervals.states_at(connection, generation_id, size, key)

    def present_at(
        self, generation_id: str, size: int, keys: Collection[str] | None = None, kind: str | None = None
    ) -> list[tuple[str, bytes]]:
        """Key and state of everything that is shown at a size, of these keys or of one kind, by key.

        Raises:
            Moved: the generation was replaced.
        """
        with self._reading(generation_id) as connection:
            return list(intervals.present_at(connection, generation_id, size, keys, kind))

    @contextmanager
    def _reading(self, generation_id: str) -> Iterator[Connection]:
        """Looks after reading: rows go in one transaction with their generation, so they were all there before."""
        with self._engine.connect() as connection:
            yield connection
            if connection.scalar(select(func.count()).where(generation.c.id == generation_id)) == 0:
                raise Moved


def _rank(status: str, projection: str) -> tuple[int, bool]:
    return ORDER.index(status), projection != SOURCES.name


def _become(connection: Connection, new: GenerationRow, status: str) -> GenerationRow:
    moved = connection.execute(
        update(generation).where(generation.c.id == new.id, generation.c.status == BUILDING).values(status=status)
    )
    if moved.rowcount != 1:
        raise Moved
    return replace(new, status=status)
