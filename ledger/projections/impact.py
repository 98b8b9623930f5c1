"""Impact: what readers would notice if one generation answered in the place of another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import orjson

from ledger.projections import outcomes
from ledger.projections.outcomes import Move


@dataclass(frozen=True, slots=True)
class Impact:
    """Every source that two generations show otherwise at one size."""

    size: int
    moves: tuple[Move, ...]
    """By key."""
    digest: str
    """What a promotion is checked against: `outcomes.digest` of the moves."""


def impact(size: int, before: Mapping[str, bytes], after: Mapping[str, bytes]) -> Impact:
    """Compares the states of two generations, by key, as they are shown at a size."""
    found = []
    for key in sorted(before.keys() | after.keys()):
        old, new = before.get(key), after.get(key)
        if old == new:
            continue
        moved = outcomes.move(key, orjson.loads(old) if old else None, orjson.loads(new) if new else None)
        if moved is not None:
            found.append(moved)
    return Impact(size, tuple(found), outcomes.digest(found))
