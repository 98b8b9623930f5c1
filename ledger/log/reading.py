"""Reading the log: the same statements on both dialects. Any connection sees a prefix of the log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Engine, Row, Select, and_, func, select, union_all

from ledger.core.errors import LedgerError
from ledger.core.merkle import HASH_SIZE
from ledger.log.model import EVERYTHING, Filter, Head, StoredEvent
from ledger.log.tables import event, event_tag, log, payload

PAGE: Final = 1_000
"""Events a page: larger pages are slower and hold more memory (measured on both stores)."""
FEW_TYPES: Final = 16
"""So many types at most are looked up one by one in their index; more are found sooner by reading along the log."""


def split_peaks(peaks: bytes) -> tuple[bytes, ...]:
    return tuple(peaks[i : i + HASH_SIZE] for i in range(0, len(peaks), HASH_SIZE))


class Reader:
    """The read half of a store."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def head(self) -> Head:
        with self.engine.connect() as connection:
            return read_head(connection)

    def read(
        self,
        from_pos: int,
        to_size: int,
        *,
        match: Filter = EVERYTHING,
        limit: int | None = None,
        payloads: bool = True,
    ) -> list[StoredEvent]:
        most = min(limit or PAGE, PAGE)
        where = [event.c.pos >= from_pos, event.c.pos < to_size, *_matching(match)]
        if 0 < len(match.types) <= FEW_TYPES and not match.streams and not match.tags and to_size - from_pos > PAGE:
            where = [event.c.pos.in_(_first_of_types(match.types, from_pos, to_size, most))]
        statement = (
            _select(payloads=payloads, range_=(from_pos, to_size)).where(*where).order_by(event.c.pos).limit(most)
        )
        with self.engine.connect() as connection:
            return [_stored(row) for row in connection.execute(statement)]

    def read_all(self, from_pos: int, to_size: int, *, match: Filter = EVERYTHING) -> Iterator[StoredEvent]:
        while True:
            page = self.read(from_pos, to_size, match=match)
            yield from page
            if len(page) < PAGE:
                return
            from_pos = page[-1].pos + 1

    def event(self, pos: int) -> StoredEvent | None:
        return self._one(event.c.pos == pos)

    def event_by_id(self, event_id: str) -> StoredEvent | None:
        return self._one(event.c.id == event_id)

    def first_pos(self, from_pos: int) -> int | None:
        with self.engine.connect() as connection:
            found: int | None = connection.scalar(select(func.min(event.c.pos)).where(event.c.pos >= from_pos))
        return found

    def recorded_at(self, pos: int) -> int | None:
        with self.engine.connect() as connection:
            return connection.scalar(select(event.c.recorded_at).where(event.c.pos == pos))

    def stream_version(self, stream: str) -> int:
        with self.engine.connect() as connection:
            return connection.scalar(select(func.max(event.c.sv)).where(event.c.stream == stream)) or 0

    def existing_ids(self, ids: Sequence[str]) -> set[str]:
        """Which of these ids are in the log."""
        found: set[str] = set()
        with self.engine.connect() as connection:
            for start in range(0, len(ids), PAGE):
                some = select(event.c.id).where(event.c.id.in_(ids[start : start + PAGE]))
                found.update(connection.scalars(some))
        return found

    def tags_of(self, from_pos: int, to_size: int) -> dict[int, list[str]]:
        found: dict[int, list[str]] = {}
        statement = select(event_tag.c.pos, event_tag.c.tag).where(
            event_tag.c.pos >= from_pos, event_tag.c.pos < to_size
        )
        with self.engine.connect() as connection:
            for pos, tag in connection.execute(statement):
                found.setdefault(pos, []).append(tag)
        return {pos: sorted(tags) for pos, tags in found.items()}

    def _one(self, which: ColumnElement[bool]) -> StoredEvent | None:
        with self.engine.connect() as connection:
            row = connection.execute(_select(payloads=True).where(which)).first()
        return _stored(row) if row else None


def read_head(connection: Connection) -> Head:
    """The head row. The log must have been created."""
    row = connection.execute(select(log)).one_or_none()
    if row is None:
        raise no_head_row()
    return Head(row.origin, row.size, split_peaks(bytes(row.peaks)), bytes(row.root), row.recorded_at)


def no_head_row() -> LedgerError:
    return LedgerError("the log has no head row", reason="WRONG_HOME", remedy="Start a server on the database first.")


def _select(*, payloads: bool, range_: tuple[int, int] | None = None) -> Select[Any]:
    """The columns of an event; the range is said of both tables, since Postgres does not carry it over a join."""
    columns = [event.c.pos, event.c.id, event.c.type, event.c.stream, event.c.sv, event.c.recorded_at]
    columns += [event.c.header, event.c.leaf]
    if not payloads:
        return select(*columns)
    columns += [payload.c.body, payload.c.salt, payload.c.draft_hash, payload.c.redacted_by]
    joined = payload.c.pos == event.c.pos
    if range_ is not None:
        joined &= (payload.c.pos >= range_[0]) & (payload.c.pos < range_[1])
    return select(*columns).select_from(event.outerjoin(payload, joined))


def _matching(match: Filter) -> Iterator[ColumnElement[bool]]:
    if match.streams:
        yield event.c.stream.in_(match.streams)
    if match.types:
        # Written so that no index serves it: that of types would give all events of many, to be sorted for one page.
        yield event.c.type.concat("").in_(match.types)
    for tag in match.tags:
        tagged = select(event_tag.c.pos).where(and_(event_tag.c.tag == tag, event_tag.c.pos == event.c.pos))
        yield tagged.exists()


def _first_of_types(types: Sequence[str], from_pos: int, to_size: int, most: int) -> Select[Any]:
    """The first positions of these types, from each one's own index: quick where they are rare in a long log."""
    of_each = [
        select(event.c.pos)
        .where(event.c.type == type_, event.c.pos >= from_pos, event.c.pos < to_size)
        .order_by(event.c.pos)
        .limit(most)
        .subquery()
        for type_ in types
    ]
    every = union_all(*(select(one.c.pos) for one in of_each)).subquery()
    return select(every.c.pos).order_by(every.c.pos).limit(most)


def _stored(row: Row[Any]) -> StoredEvent:
    pos, event_id, type_, stream, sv, recorded_at, header, leaf, *rest = tuple(row)
    if not rest or rest[0] is None:
        return StoredEvent(pos, event_id, type_, stream, sv, recorded_at, bytes(header), bytes(leaf))
    body, salt, draft_hash, redacted_by = rest
    return StoredEvent(
        pos, event_id, type_, stream, sv, recorded_at, bytes(header), bytes(leaf),
        payload=bytes(body), salt=bytes(salt), draft_hash=None if draft_hash is None else bytes(draft_hash),
        redacted_by=redacted_by,
    )  # fmt: skip
