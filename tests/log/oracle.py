"""The formulas of an event, written out plainly: what the fast ways are compared with."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from typing import Any

import rfc8785

from ledger.wire import log_pb2

KINDS = {0: "unknown", 1: "human", 2: "model", 3: "organization", 4: "unknown"}


def time_text(us: int) -> str:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)
    return moment.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def fields(draft: log_pb2.Draft) -> dict[str, Any]:
    """F of the draft hash, as an object."""
    producer = draft.producer
    return {
        "id": draft.id,
        "type": draft.type,
        "tv": draft.type_version or 1,
        "stream": draft.stream,
        "occurred_at": time_text(draft.occurred_at_us) if draft.HasField("occurred_at_us") else None,
        "actor": {"id": draft.actor.id, "kind": KINDS[draft.actor.kind]}
        if draft.HasField("actor")
        else {"id": "unknown", "kind": "unknown"},
        "causes": list(draft.causes),
        "tags": sorted(set(draft.tags)),
        "producer": {"id": producer.id, "epoch": producer.epoch, "seq": producer.seq}
        if draft.HasField("producer")
        else None,
    }


def commitment(salt: bytes, payload: bytes) -> bytes:
    return hashlib.sha256(b"ledger/payload/v1\0" + salt + payload).digest()


def draft_hash(draft: log_pb2.Draft, salt: bytes) -> bytes:
    f = rfc8785.dumps(fields(draft))
    return hashlib.sha256(b"ledger/draft/v1\0" + salt + len(f).to_bytes(4, "big") + f + draft.payload).digest()


def header(
    draft: log_pb2.Draft,
    *,
    salt: bytes,
    log: str,
    pos: int,
    sv: int,
    prev: str | None,
    recorded_at: str,
    principal: str | None,
) -> dict[str, Any]:
    return {
        **fields(draft),
        "v": 1,
        "log": log,
        "pos": pos,
        "sv": sv,
        "prev": prev,
        "recorded_at": recorded_at,
        "principal": principal,
        "payload": {"len": len(draft.payload), "commitment": commitment(salt, draft.payload).hex()},
    }
