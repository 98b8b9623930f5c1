"""The published reviews of a source: what was recorded of each, and what the rules in force make of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from ledger.client.reader import Reader
from ledger.core.errors import NotFound, Refused
from ledger.events import REGISTRY
from ledger.events.reviews import ReviewPublished, ReviewSuperseded
from ledger.wire import audit_pb2, log_pb2
from services.cli.catalogue_state import header_of
from services.cli.disregarded import Disregarded, disregarded

_TYPES = ("review.published", "review.superseded")
_OPTIONAL = ("rating", "review_date", "applicability")


@dataclass(frozen=True)
class Published:
    """One published collection."""

    review: str
    source_id: str
    event: str
    pos: int
    recorded_at: str
    said: ReviewPublished
    superseded_by: str | None = None
    superseded_because: str | None = None
    """None: it is not superseded."""
    disregarded_at: int | None = None
    """The position of the event that lets it count for nothing."""

    @property
    def stands(self) -> bool:
        """Whether it counts; one that is superseded still does."""
        return self.disregarded_at is None


def published(reader: Reader, *, source_id: str | None = None, to_size: int = 0) -> list[Published]:
    """The collections of a source, or of all, in the order of their publication; what was redacted is passed over.

    One that was disregarded is there until it is published again.
    """
    found: dict[tuple[str, str], Published] = {}
    gone = disregarded(reader, to_size=to_size)
    streams = [f"source/{source_id}"] if source_id is not None else []
    for event in reader.events(streams=streams, types=_TYPES, to_size=to_size):
        if event.HasField("payload"):
            _take(found, event, gone)
    return list(found.values())


def _take(found: dict[tuple[str, str], Published], event: log_pb2.Event, gone: Disregarded) -> None:
    header = header_of(event)
    source = str(header["stream"]).partition("/")[2]
    said = REGISTRY.read(header["type"], header["tv"], event.payload)
    by = gone.get((event.pos, str(header["id"])))
    if isinstance(said, ReviewPublished):
        at = (str(header["id"]), event.pos, str(header["recorded_at"]))
        found.pop((source, said.review), None)
        found[source, said.review] = Published(
            said.review, source, *at, said, disregarded_at=by.pos if by is not None else None
        )
    elif isinstance(said, ReviewSuperseded) and by is None and (source, said.review) in found:
        known = found[source, said.review]
        found[source, said.review] = replace(known, superseded_by=said.superseded_by, superseded_because=said.reason)


def sole_source(reviews: Iterable[Published], review: str) -> Published:
    """The collection of that name, or of that beginning of a name.

    Raises:
        NotFound: if none is published.
        Refused: if several begin so, or one is published of several sources.
    """
    found = [each for each in reviews if each.review.startswith(review)]
    if not found:
        raise NotFound(f"no review {review!r} is published", remedy="`ledger review list SOURCE` names those that are.")
    if len(found) > 1:
        raise Refused(
            f"{review!r} may be several reviews",
            remedy=f"Write more of its name: {', '.join(f'{r.review} of {r.source_id}' for r in found)}.",
        )
    return found[0]


def as_json(each: Published, pool: dict[str, audit_pb2.PooledReview], shown: str | None) -> dict[str, Any]:
    """A collection with what is made of it; what the rules in force do not say of it is null."""
    pooled = pool.get(each.review)
    made = {name: getattr(pooled, name) if pooled is not None and _has(pooled, name) else None for name in _OPTIONAL}
    return {
        "review": each.review,
        "role": pooled.role if pooled is not None and pooled.role else each.said.review_pool_role,
        **made,
        "shown": each.review == shown,
        "dataset_revision": each.said.dataset_revision,
        "verifier_revision": each.said.verifier_revision,
        "verifier_revision_basis": each.said.verifier_revision_basis,
        "superseded": each.superseded_because is not None,
        "superseded_by": each.superseded_by,
        "superseded_because": each.superseded_because,
        "disregarded_at": each.disregarded_at,
        "rests_on": each.said.rests_on,
        "event": each.event,
        "pos": each.pos,
        "recorded_at": each.recorded_at,
    }


def _has(pooled: audit_pb2.PooledReview, name: str) -> bool:
    if pooled.DESCRIPTOR.fields_by_name[name].has_presence:
        return bool(pooled.HasField(name))  # type: ignore[arg-type]  # one of the optional fields
    return bool(getattr(pooled, name))
