"""What every kept value is, and how a measured number is read and written.

A kept value is frozen, compared by content, written as MessagePack and read back equal; a number that is not finite
stays what it is. In JSON such a number stands as a string, so there it is written by name.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec

NOT_FINITE: Final = frozenset({"NaN", "Infinity", "-Infinity"})


class Value(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Frozen, compared by content, written without what equals its default."""


def measured(value: object) -> float | None:
    """A recorded number, which may be named; anything else is not known."""
    if value is None or isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return float(value)
    return float(value) if isinstance(value, str) and value in NOT_FINITE else None


def written(value: float) -> float | str:
    """The number as JSON can hold it."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")


def shown(value: float) -> str:
    """The number in words: six digits are what a reader compares."""
    return f"{value:.6g}"


def plural(count: int, one: str, many: str = "") -> str:
    """A count with its noun."""
    return f"{count} {one if count == 1 else many or one + 's'}"
