"""The series of a run: which of its logged steps lie on a lineage, and what the EMA was after each.

Rules derive all of it; here it is only laid out for a curve or a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeVar

from ledger.rules.training_1 import ema, growing, history, series
from ledger.rules.training_1.model import Facts
from ledger.rules.training_1.series import Lineages, Part, Point

Item = TypeVar("Item")

MAX_POINTS: Final = 400
"""Of a curve: more than a screen shows."""


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """One step of a curve."""

    step: int
    reward: float | None
    ema: float | None
    entropy: float | None


class RunSeries:
    """The steps of one run, of its facts."""

    def __init__(self, facts: Facts) -> None:
        life = facts.run.life
        self.points: tuple[Point, ...] = tuple(growing.items(facts.run.series.points))
        self._resumes = history.resumes(life)
        committed = [save for save in history.saves(life) if save.committed_pos is not None]
        self._updates = {(save.attempt, save.step): save.last_update for save in committed}
        self._saved = {(save.attempt, save.step) for save in committed if save.attempt is not None}
        self._lineages = Lineages(self._resumes, self.points, self._saved)

    def behind(self, step: int, attempt: int | None) -> tuple[Part, ...]:
        """The parts behind the weights of a checkpoint; none where nothing shows that an attempt came as far."""
        maker = attempt if attempt is not None else self._lineages.maker(step)
        if maker is None or step > self._reached.get(maker, -1):
            return ()
        return self._lineages.of(maker, self._updates.get((maker, step), step))

    @cached_property
    def _reached(self) -> dict[int, int]:
        """By attempt the highest step that it logged or saved."""
        reached: dict[int, int] = {}
        for attempt, step in (*((p.attempt, p.step) for p in self.points), *self._saved):
            reached[attempt] = max(step, reached.get(attempt, step))
        return reached

    @cached_property
    def final(self) -> tuple[Part, ...]:
        """The lineage of the last weights that are known."""
        return self._lineages.final()

    @cached_property
    def abandoned(self) -> set[tuple[int, int]]:
        """Attempt and step of what a later attempt made again or left behind."""
        return series.abandoned(self.points, self._resumes, committed=self._saved)

    def on(self, parts: Sequence[Part]) -> list[tuple[Point, float | None]]:
        """The points on a lineage by step, each with the EMA after it."""
        points = series.on_lineage(self.points, parts)
        return list(zip(points, ema.trailing_ema([p.reward for p in points]), strict=True))

    def curve(self) -> tuple[CurvePoint, ...]:
        """The final lineage, thinned out evenly to as many points as a reader can see; its ends stay."""
        points = self.on(self.final)
        return tuple(CurvePoint(p.step, p.reward, average, p.entropy) for p, average in thinned(points))

    def best_ema(self) -> float | None:
        """The highest EMA on the final lineage."""
        return max((average for _, average in self.on(self.final) if average is not None), default=None)


def thinned(items: Sequence[Item], most: int = MAX_POINTS) -> list[Item]:
    """At most so many of the items, evenly, the first and the last among them."""
    if len(items) <= most:
        return list(items)
    last = len(items) - 1
    return [items[place * last // (most - 1)] for place in range(most)]
