"""What a generation says otherwise than the one before it: which keys, and a digest over it all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ledger.core import strictjson
from ledger.core.ids import sha256_hex

EMPTY_DIFF: Final = sha256_hex(strictjson.dumps([]))
"""The digest of a difference in nothing."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Keys whose intervals differ between two generations, up to a size that both have folded."""

    size: int
    moved: tuple[str, ...]
    digest: str
    """SHA-256 over the JSON array of [key, digest before, digest after], by key; null where a key is not shown."""


def difference(size: int, before: Mapping[str, str], after: Mapping[str, str]) -> Difference:
    """Compares two generations by their keys' digests at a size."""
    moved = sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
    rows = [[key, before.get(key), after.get(key)] for key in moved]
    return Difference(size, tuple(moved), sha256_hex(strictjson.dumps(rows)))
