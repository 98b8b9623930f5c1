"""A generation as a value, and as a row of its table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, Row, func, insert, select

from ledger.core.ids import new_id
from ledger.projections.subjects import PROJECTIONS, SOURCES, Projection
from ledger.projections.tables import generation

LIVE: Final = "live"
SHADOW: Final = "shadow"
KEPT: Final = "kept"
BUILDING: Final = "building"
STALE: Final = "stale"
"""Shown instead of a status where this release does not compute the identity."""
ORDER: Final = (LIVE, SHADOW, KEPT, BUILDING)
"""In which they are named: the one that answers first."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What makes two generations the same: equal identities give equal rows."""

    rules: str
    rules_digest: str
    fold_digest: str
    upcaster_digest: str
    projection: str = SOURCES.name

    @property
    def subject(self) -> Projection:
        return PROJECTIONS[self.projection]


@dataclass(frozen=True, slots=True)
class GenerationRow:
    """A generation and how far it has come."""

    id: str
    identity: Identity
    status: str
    size: int
    environment: bytes
    failed_events: int
    failures: str = "{}"
    """Positions of the events that the environment's fold refused, by key, as JSON."""
    target: int | None = None
    """Of a build: the size that it goes for before it follows the head."""
    built_through: str | None = None
    """The last stream that is written."""
    keys_done: int = 0


def insert_row(connection: Connection, row: GenerationRow) -> None:
    identity = row.identity
    values = {
        "id": row.id,
        "projection": identity.projection,
        "rules": identity.rules,
        "rules_digest": identity.rules_digest,
        "fold_digest": identity.fold_digest,
        "upcaster_digest": identity.upcaster_digest,
        "status": row.status,
        **cursor_of(row),
    }
    connection.execute(insert(generation).values(values))


def cursor_of(row: GenerationRow) -> dict[str, Any]:
    """The columns that move."""
    names = ("size", "environment", "failed_events", "failures", "target", "built_through", "keys_done")
    return {name: getattr(row, name) for name in names}


def from_row(row: Row[Any]) -> GenerationRow:
    identity = Identity(row.rules, row.rules_digest, row.fold_digest, row.upcaster_digest, row.projection)
    return GenerationRow(
        row.id, identity, row.status, row.size, bytes(row.environment), row.failed_events,
        row.failures, row.target, row.built_through, row.keys_done,
    )  # fmt: skip


def live_row(connection: Connection, projection: str) -> GenerationRow | None:
    """The generation of a projection that answers."""
    g = generation.c
    row = connection.execute(select(generation).where(g.status == LIVE, g.projection == projection)).first()
    return from_row(row) if row else None


def create_live(connection: Connection, identity: Identity, environment: bytes) -> GenerationRow:
    made = GenerationRow(new_id(), identity, LIVE, 0, environment, 0)
    insert_row(connection, made)
    return made


def has_built(connection: Connection, identity: Identity) -> bool:
    """Whether there is a generation of the identity that was built."""
    g = generation.c
    same = (
        g.status != BUILDING,
        g.projection == identity.projection,
        g.rules == identity.rules,
        g.rules_digest == identity.rules_digest,
        g.fold_digest == identity.fold_digest,
        g.upcaster_digest == identity.upcaster_digest,
    )
    return bool(connection.scalar(select(func.count()).where(*same)))
