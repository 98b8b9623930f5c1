"""The 95 % Wilson score interval of a share, from saved counts."""

from __future__ import annotations

from math import sqrt
from typing import Final

Z_95: Final = 1.959963984540054
"""The 97.5 % point of the normal distribution."""


def wilson_95(solved: int, verified: int) -> tuple[float, float] | None:
    """Low and high end; None when nothing was verified, or when the counts contradict each other."""
    if not 0 <= solved <= verified or verified == 0:
        return None
    share, z2 = solved / verified, Z_95 * Z_95
    scale = 1 + z2 / verified
    centre = (share + z2 / (2 * verified)) / scale
    half = Z_95 * sqrt(share * (1 - share) / verified + z2 / (4 * verified * verified)) / scale
    # At the ends the interval touches them exactly; the arithmetic misses by a rounding.
    low = 0.0 if solved == 0 else centre - half
    high = 1.0 if solved == verified else centre + half
    return low, high
