"""Drafts: what a producer sends. Made once and sent as they are, so that sending again is safe."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import BaseModel

from ledger.core.ids import ids_digest, new_id
from ledger.events import REGISTRY
from ledger.events.fields import COLLECTION_TAG, Parts
from ledger.wire import log_pb2

MAX_NAMED_PARTS: Final = 256

Draft = log_pb2.Draft
Actor = log_pb2.Actor


def actor(actor_id: str, kind: str = "unknown") -> Actor:
    """Who says it: a pseudonymous id, and "human", "model", "organization" or "unknown"."""
    return Actor(id=actor_id, kind=log_pb2.ActorKind.Value(f"ACTOR_KIND_{kind.upper()}"))


def draft(
    type_: str,
    stream: str,
    payload: BaseModel,
    *,
    by: Actor,
    id: str | None = None,  # noqa: A002  # the wire's word
    tags: Iterable[str] = (),
    causes: Iterable[str] = (),
    occurred_at_us: int | None = None,
) -> Draft:
    """A draft of the type's newest version, its payload frozen to bytes.

    A payload's collection is tagged too, so that the log can find its parts. The bytes leave out what equals its
    default: the form that the server's quick check accepts.
    """
    collection = getattr(payload, "collection", None)
    all_tags = {*tags, *([COLLECTION_TAG + collection] if collection else [])}
    return Draft(
        id=id or new_id(),
        type=type_,
        type_version=REGISTRY.latest(type_).version,
        stream=stream,
        occurred_at_us=occurred_at_us,
        actor=by,
        causes=list(causes),
        tags=sorted(all_tags),
        payload=payload.model_dump_json(exclude_defaults=True).encode(),
    )


def parts_of(drafts: Iterable[Draft]) -> Parts:
    """What a closing event says of its parts."""
    ids = [d.id for d in drafts]
    return Parts(count=len(ids), digest=ids_digest(ids), ids=ids if len(ids) <= MAX_NAMED_PARTS else None)


@dataclass(frozen=True)
class Upload:
    """Bytes to store before the events that cite them: a file, or bytes in memory."""

    sha256: str
    size: int
    content: Path | bytes


@dataclass(frozen=True)
class Publication:
    """Many events with one effect: evidence first, then the parts, then the event that closes them.

    `closing` is None when the events take effect one by one. Nothing to append: `parts` is empty and `closing` None.
    """

    parts: tuple[Draft, ...] = ()
    closing: Draft | None = None
    uploads: tuple[Upload, ...] = ()
    conditions: tuple[log_pb2.Condition, ...] = ()
    summary: str = ""

    @property
    def drafts(self) -> tuple[Draft, ...]:
        return (*self.parts, self.closing) if self.closing is not None else self.parts
