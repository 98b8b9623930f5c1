"""Which generation's answers are in force: what the stream `ledger` says of promotions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ledger.events.administration import ProjectionPromoted
from ledger.log.log import Log
from ledger.log.model import Filter, StoredEvent
from ledger.projections.generations import Identity
from ledger.projections.subjects import SOURCES

PROMOTED = "projection.promoted"


@dataclass(frozen=True, slots=True)
class Promotion:
    """From after this position on readers are answered by a generation of this identity."""

    pos: int
    identity: Identity


def promotion_of(event: StoredEvent, log: Log) -> Promotion | None:
    """What a `projection.promoted` says of the sources; None if it is of another projection."""
    said = log.registry.read(event.type, 1, event.payload or b"")
    assert isinstance(said, ProjectionPromoted)
    if said.projection != SOURCES.name:
        return None
    return Promotion(event.pos, Identity(said.rules, said.rules_digest, said.fold_digest, said.upcaster_digest))


def promotions(log: Log) -> Iterator[Promotion]:
    """Every promotion, in log order."""
    match = Filter(streams=("ledger",), types=(PROMOTED,))
    for event in log.store.read_all(0, log.head().size, match=match):
        promotion = promotion_of(event, log)
        if promotion is not None:
            yield promotion


def in_force(log: Log) -> Promotion | None:
    """The last promotion; None before the first."""
    return max(promotions(log), key=lambda p: p.pos, default=None)
