"""Which checkpoint is chosen when a run ends: the highest trailing EMA of the reward among its saves.

    E(1) = r(1),  E(t) = r(t) / 3 + E(t-1) * 2 / 3

- Each save is judged by the rewards on its own lineage: those of an attempt that was left behind say nothing of weights
  that others made. A reward that is missing or not finite is left out of the EMA.
- Only multiples of the interval of saves can be chosen, and not the first one, whose EMA is mostly the first reward.
  Of equal EMAs the lowest step is taken; of one step the latest attempt.
- Where nothing is eligible the rule does not apply: the last save that is there stands in, under another rule's name.

The ledger computes the same from what it was told, and refuses a choice that differs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Final

from services.trainer.histories import History, Saved

RULE: Final = "trailing-ema"
STAND_IN: Final = "last-save"
METRIC: Final = "reward/avg_raw_reward"
ALPHA: Final = 1 / 3
FIRST_MULTIPLE: Final = 2


@dataclass(frozen=True)
class Choice:
    """A save, and why."""

    saved: Saved
    rule: dict[str, Any]
    """As `checkpoint.selected` has it."""
    ema: float | None = None
    reward: float | None = None
    eligible_steps: list[int] = field(default_factory=list)
    """Those of the rule; empty where it did not apply."""

    @property
    def by_rule(self) -> bool:
        return bool(self.rule["id"] == RULE)

    def to_dict(self) -> dict[str, Any]:
        """What people are told of it."""
        saved = self.saved
        return {
            "step": saved.step,
            "attempt": saved.attempt,
            "folder": saved.folder,
            "rule": self.rule["id"],
            "ema": self.ema,
            "reward": self.reward,
        }


def choose(history: History, interval: int) -> Choice | None:
    """Of the saves that are there; None: there is none."""
    scored = [(save, *_score(history, save)) for save in history.saves if _can_be(save, interval)]
    eligible = [(save, ema, reward) for save, ema, reward in scored if ema is not None and reward is not None]
    if eligible:
        save, ema, reward = max(eligible, key=lambda one: (one[1], -one[0].step, one[0].attempt))
        rule = {
            "id": RULE,
            "version": "1",
            "metric": METRIC,
            "alpha": ALPHA,
            "interval": interval,
            "first_eligible": FIRST_MULTIPLE * interval,
        }
        return Choice(save, rule, ema, reward, sorted({one.step for one, _, _ in eligible}))
    last = max(history.saves, key=lambda save: (save.attempt, save.step), default=None)
    return None if last is None else Choice(last, {"id": STAND_IN, "version": "1"})


def _can_be(save: Saved, interval: int) -> bool:
    return save.step % interval == 0 and save.step >= FIRST_MULTIPLE * interval


def _score(history: History, save: Saved) -> tuple[float | None, float | None]:
    """The EMA up to a save's step, and the reward at it; null where that one is missing or not finite."""
    average: float | None = None
    reward: float | None = None
    for place in history.lineage(save.attempt, save.step):
        reward = history.rewards.get(place)
        if reward is not None and math.isfinite(reward):
            average = reward if average is None else average + (reward * ALPHA - average * ALPHA)
        else:
            reward = None
    return average, reward
