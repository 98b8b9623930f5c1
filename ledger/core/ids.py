"""Ids: made on the producer's side, so that sending again is safe.

`new_id` for what happens once (UUIDv7, ordered by time); `digest_id` for what is published or imported (UUIDv8 made
from what it is), so that publishing twice is one publication.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable

import uuid_utils

from ledger.core import strictjson


def new_id() -> str:
    """A UUIDv7 as text: unique, and ordered by the time it was made."""
    return str(uuid_utils.uuid7())


def digest_id(*parts: object) -> str:
    """A UUIDv8 from the SHA-256 of the parts, written as one JSON array. Equal parts give the equal id."""
    digest = bytearray(hashlib.sha256(strictjson.dumps(list(parts))).digest()[:16])
    digest[6] = (digest[6] & 0x0F) | 0x80
    digest[8] = (digest[8] & 0x3F) | 0x80
    return str(uuid.UUID(bytes=bytes(digest)))


def ids_digest(ids: Iterable[str]) -> str:
    """SHA-256 over the sorted ids, each followed by a line feed: the name of a set of events."""
    return hashlib.sha256("".join(f"{i}\n" for i in sorted(ids)).encode("ascii")).hexdigest()


def sha256_hex(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
