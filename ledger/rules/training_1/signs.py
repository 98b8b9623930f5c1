"""What one measured number is a sign of, beside what was usual before it."""

from __future__ import annotations

from collections.abc import Sequence

from ledger.rules.training_1.episodes import CALM, Sign
from ledger.rules.training_1.thresholds import (
    BASE_STEPS,
    COLLAPSE_FLOOR,
    COLLAPSE_FRACTION,
    COLLAPSE_ONSET_FRACTION,
    REWARD_FLOOR,
    REWARD_FRACTION,
    REWARD_ONSET_FRACTION,
    RUNAWAY_ONSET_RATIO,
    RUNAWAY_RATIO,
)


def usual(base: Sequence[float]) -> tuple[float, float] | None:
    """The lower and the higher of the first entropy and the median of the first ones; None: they say nothing yet, or
    never will, since ratios to nothing, or to less, say nothing."""
    if len(base) < BASE_STEPS:
        return None
    first, middle = base[0], median(base[:BASE_STEPS])
    low, high = (first, middle) if first < middle else (middle, first)
    return (low, high) if low > 0 else None


def runaway(entropy: float, bounds: tuple[float, float] | None) -> Sign:
    """Of an entropy after the first ones, above what is usual."""
    if bounds is None:
        return CALM
    high = bounds[1]
    return Sign(entropy > RUNAWAY_ONSET_RATIO * high, entropy > RUNAWAY_RATIO * high)


def collapse(entropy: float, bounds: tuple[float, float] | None) -> Sign:
    """Of an entropy after the first ones, below what is usual."""
    if bounds is None:
        return CALM
    low = bounds[0]
    return Sign(entropy < COLLAPSE_ONSET_FRACTION * low, entropy < min(COLLAPSE_FRACTION * low, COLLAPSE_FLOOR))


def lost_reward(reward: float, height: float) -> Sign:
    """Of a reward, below the highest EMA so far."""
    if height < REWARD_FLOOR:
        return CALM
    return Sign(reward < REWARD_ONSET_FRACTION * height, reward < REWARD_FRACTION * height)


def median(values: Sequence[float]) -> float:
    """Of an odd number of values."""
    return sorted(values)[len(values) // 2]
