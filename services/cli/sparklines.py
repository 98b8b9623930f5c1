"""A curve in one line of text: eight heights, at most so many places wide."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

WIDTH: Final = 24
"""Places of a line: more would push a table off a terminal."""
NOT_FINITE: Final = "!"
ABSENT: Final = " "
_HEIGHTS: Final = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float | None], low: float, high: float, *, width: int = WIDTH) -> str:
    """The values between `low` and `high`; of many, evenly spread ones, the first and the last among them.

    What is not finite has a mark of its own, and what is unknown a blank: neither is drawn as a low value.
    """
    return "".join(_mark(value, low, high) for value in _spread(values, width))


def extent(values: Sequence[float | None]) -> tuple[float, float]:
    """The lowest and the highest value that is finite; (0, 0) without one."""
    known = [value for value in values if value is not None and math.isfinite(value)]
    return (min(known), max(known)) if known else (0.0, 0.0)


def _spread(values: Sequence[float | None], width: int) -> Sequence[float | None]:
    if len(values) <= width:
        return values
    return [values[place * (len(values) - 1) // (width - 1)] for place in range(width)]


def _mark(value: float | None, low: float, high: float) -> str:
    if value is None:
        return ABSENT
    if not math.isfinite(value):
        return NOT_FINITE
    # Halves: the whole extent of two enormous numbers can be more than a number holds.
    value, low, high = value / 2, low / 2, high / 2
    share = (value - low) / (high - low) if high > low else 0.0
    return _HEIGHTS[min(int(min(max(share, 0.0), 1.0) * len(_HEIGHTS)), len(_HEIGHTS) - 1)]
