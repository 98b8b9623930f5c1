"""What a series comes to so far, kept up point by point: nothing that it says needs the points before.

It tells of a series what `anomalies` tells of it whole, as far as a summary asks: which kinds, in which order, and
where the failure began that the run did not recover from.
"""

from __future__ import annotations

from math import isfinite
from typing import Final

from ledger.rules.training_1.ema import averaged
from ledger.rules.training_1.episodes import QUIET, Sign, Watch
from ledger.rules.training_1.series import Point
from ledger.rules.training_1.signs import collapse, lost_reward, runaway, usual
from ledger.rules.training_1.thresholds import BASE_STEPS
from ledger.rules.training_1.values import Value

_KINDS: Final = ("entropy_runaway", "entropy_collapse", "reward_collapse")


class Watched(Value, frozen=True):
    """A sign, watched from the first step on."""

    watch: Watch = QUIET
    first: tuple[int, int] | None = None
    """Of the first episode: the step of its onset, and the one at which it was seen."""

    def after(self, step: int, sign: Sign) -> Watched:
        watch = self.watch.after(step, sign)
        if watch is self.watch:
            return self
        onset = watch.onset
        return Watched(watch, (onset, step) if self.first is None and onset is not None else self.first)


class Progress(Value, frozen=True):
    """Up to some point."""

    reward: float | None = None
    """The last one."""
    ema: float | None = None
    height: float | None = None
    """The highest EMA."""
    base: tuple[float, ...] = ()
    """The first entropies."""
    bounds: tuple[float, float] | None = None
    """What is usual of entropy, once it is known."""
    runaway: Watched = Watched()
    collapse: Watched = Watched()
    lost: Watched = Watched()
    """The reward collapsed."""
    odd_from: int | None = None
    """The first step at which something was not finite."""
    broken_from: int | None = None
    """From this step on everything that trains was logged as no number."""

    def after(self, point: Point) -> Progress:
        """With one point more, of a step after all others."""
        reward, average, height, lost = self._rewarded(point)
        base, bounds, up, down = self._spread(point)
        broken, measured = _broken(point)
        odd = self.odd_from
        if odd is None and (broken or point.not_finite):
            odd = point.step
        broken_from = self.broken_from
        if measured:
            broken_from = (point.step if broken_from is None else broken_from) if broken else None
        return Progress(reward, average, height, base, bounds, up, down, lost, odd, broken_from)

    def _rewarded(self, point: Point) -> tuple[float | None, float | None, float | None, Watched]:
        reward = point.reward
        if reward is None:
            return self.reward, self.ema, self.height, self.lost
        if not isfinite(reward):
            return reward, self.ema, self.height, self.lost
        average = averaged(self.ema, reward)
        height = average if self.height is None or average > self.height else self.height
        return reward, average, height, self.lost.after(point.step, lost_reward(reward, height))

    def _spread(self, point: Point) -> tuple[tuple[float, ...], tuple[float, float] | None, Watched, Watched]:
        entropy, base, bounds = point.entropy, self.base, self.bounds
        if entropy is None or not isfinite(entropy):
            return base, bounds, self.runaway, self.collapse
        if len(base) < BASE_STEPS:
            # The base is what is usual; it cannot itself be unusual.
            base = (*base, entropy)
            return base, usual(base), self.runaway, self.collapse
        up = self.runaway.after(point.step, runaway(entropy, bounds))
        return base, bounds, up, self.collapse.after(point.step, collapse(entropy, bounds))

    def kinds(self) -> tuple[str, ...]:
        """The anomalies, by their first onset."""
        first = [
            (*watched.first, kind)
            for watched, kind in zip((self.runaway, self.collapse, self.lost), _KINDS, strict=True)
            if watched.first is not None
        ]
        if self.odd_from is not None:
            first.append((self.odd_from, self.odd_from, "non_finite"))
        return tuple(kind for _, _, kind in sorted(first))

    def onset(self) -> int | None:
        """Where the failure began that the run did not recover from."""
        lasting = (self.runaway.watch.onset, self.collapse.watch.onset, self.lost.watch.onset, self.broken_from)
        return min((step for step in lasting if step is not None), default=None)


def _broken(point: Point) -> tuple[bool, bool]:
    """Whether something that trains was no number, and whether any of it was logged."""
    broken = measured = False
    for value in (point.reward, point.entropy, point.grad_norm):
        if value is not None:
            measured = True
            broken = broken or not isfinite(value)
    return broken, measured
