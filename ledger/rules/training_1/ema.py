"""The trailing EMA of rewards, by which a checkpoint is chosen.

The first reward seeds it, without correction; each further one is weighted against all that came before, whether or not
steps lie between them that nobody logged. A reward that is not finite is left out, and whoever shows the EMA says so:
carried on, it would make every later value NaN, and with it every later choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Final

ALPHA: Final = 1 / 3
"""2 / (5 + 1): what is called a trailing-5 EMA. Five steps weigh 87 %, not all: the whole history counts."""


def trailing_ema(rewards: Sequence[float | None], alpha: float = ALPHA) -> list[float | None]:
    """The EMA after each reward; before the first that is finite there is none."""
    average: float | None = None
    averages: list[float | None] = []
    for reward in rewards:
        if reward is not None and isfinite(reward):
            average = averaged(average, reward, alpha)
        averages.append(average)
    return averages


def averaged(average: float | None, reward: float, alpha: float = ALPHA) -> float:
    """The EMA after one more reward that is finite; there is none before the first."""
    if average is None:
        return reward
    # alpha·reward + (1 - alpha)·average, in an order that keeps a constant series to its last bit (so that its steps
    # tie), stays between the two, and cannot overflow while alpha is at most a half.
    return average + (reward * alpha - average * alpha)


def implied_previous(ema: float, reward: float, alpha: float = ALPHA) -> float | None:
    """The EMA one step before, from an EMA and the reward that it took in last; None where none can be concluded."""
    if not (isfinite(ema) and isfinite(reward) and 0 < alpha < 1):
        return None
    previous = (ema - alpha * reward) / (1 - alpha)
    return previous if isfinite(previous) else None
