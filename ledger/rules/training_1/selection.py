"""Which checkpoint the rule `trailing-ema` chooses, and which ones were saved before a collapse.

The rule looks at saves that still exist, at multiples of the interval, from twice the interval on, up to the cap, and
takes the highest trailing EMA; of equal ones the lowest step. Each save is judged on its own lineage: the rewards of
an attempt that was left behind say nothing of weights that others made. Where the rule finds nothing, the largest
multiple that was saved stands in for it, and the choice says so.

A label is not what it seems: the metrics of step N score rollouts of the weights before update N, so a save's own
score is logged one step after its last update; and the last save of a run may bear the number after its last update.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Final

import msgspec

from ledger.rules.training_1.ema import ALPHA, trailing_ema
from ledger.rules.training_1.series import Lineages, Part, Point, Resumes, Saves, on_lineage

FIRST_MULTIPLE: Final = 2
"""The first save is never eligible: its EMA is still mostly the first reward."""


class Saved(msgspec.Struct, frozen=True):
    """A committed checkpoint."""

    attempt: int | None
    """None: nobody said which; the latest that has the step."""
    step: int
    """As it is labelled."""
    digest: str | None = None
    deleted: bool = False
    committed_pos: int = 0
    last_update: int | None = None
    """None: as the label says."""
    replaced: bool = False
    """It was saved again with another digest: these bytes are gone."""


class Candidate(msgspec.Struct, frozen=True):
    """A save with what the rule sees of it."""

    saved: Saved
    reasons: tuple[str, ...]
    """Why it cannot be chosen; empty: it can."""
    parts: tuple[Part, ...]
    """Its lineage."""
    reward: float | None
    """At the label's step: of the weights before that update."""
    ema: float | None
    """Up to the label's step; where that was not logged, up to the last one before it."""

    @property
    def eligible(self) -> bool:
        return not self.reasons


class Choice(msgspec.Struct, frozen=True):
    """What the rule gives."""

    candidate: Candidate | None
    by_rule: bool
    """False: the rule did not apply."""
    reason: str


class Score(msgspec.Struct, frozen=True):
    """A step of a lineage, as the rule reads it."""

    step: int
    reward: float | None
    ema: float | None
    pos: int


def scores(points: Iterable[Point], parts: Sequence[Part], alpha: float = ALPHA) -> list[Score]:
    """The rewards of a lineage and their EMA, by step."""
    series = on_lineage(points, parts)
    averages = trailing_ema([point.reward for point in series], alpha)
    return [
        Score(point.step, point.reward, average, point.pos) for point, average in zip(series, averages, strict=True)
    ]


def eligible(
    saved: Sequence[Saved],
    points: Sequence[Point],
    resumes: Resumes,
    *,
    interval: int | None,
    first: int | None = None,
    cap: int | None = None,
    alpha: float = ALPHA,
) -> list[Candidate]:
    """Every save with its numbers and the reasons against it, in the order given. No interval: it is not known."""
    scored = _ScoredLineages(saved, points, resumes, alpha)
    if first is None and interval:
        first = FIRST_MULTIPLE * interval
    return [_candidate(save, scored, _step_reasons(save.step, interval, first, cap)) for save in saved]


def choose(candidates: Sequence[Candidate], interval: int | None = None) -> Choice:
    """The highest EMA among the eligible; nothing eligible: the largest saved multiple, as a stand-in."""
    scored = [candidate for candidate in candidates if candidate.eligible and candidate.ema is not None]
    if scored:
        best = max(scored, key=_by_ema)
        return Choice(best, by_rule=True, reason=f"the highest trailing EMA of {len(scored)} eligible checkpoints")
    there = [candidate for candidate in candidates if _is_there(candidate.saved)]
    multiples = [candidate for candidate in there if not interval or candidate.saved.step % interval == 0]
    why = "no eligible checkpoint has an EMA" if any(each.eligible for each in candidates) else "no save is eligible"
    if not multiples:
        return Choice(None, by_rule=False, reason=f"{why}, and none can stand in for one")
    largest = max(multiples, key=_by_step)
    reason = f"{why}, so the rule did not apply: step {largest.saved.step} is the largest multiple that was saved"
    return Choice(largest, by_rule=False, reason=reason)


def last_update(saved: Saved) -> int:
    return saved.step if saved.last_update is None else saved.last_update


def scored_by_step(saved: Saved) -> int:
    """The step whose rollouts were made with these weights, and whose metrics therefore score them."""
    return last_update(saved) + 1


def before_collapse(saved: Saved, onset: int | None) -> bool:
    """Whether the weights were scored before the onset: the metrics of the onset's step are of the weights before
    it."""
    return onset is not None and scored_by_step(saved) < onset


def pre_collapse(saved: Iterable[Saved], onset: int | None) -> Saved | None:
    """The last save before the collapse that still exists; None without a collapse, or without such a save."""
    before = (save for save in saved if _is_there(save) and before_collapse(save, onset))
    return max(before, key=_age, default=None)


class _ScoredLineages:
    """The scores behind each save. Those of one attempt's saves are one series, cut at the save's step."""

    def __init__(self, saved: Sequence[Saved], points: Sequence[Point], resumes: Resumes, alpha: float) -> None:
        self._points = points
        self._alpha = alpha
        self._lineages = Lineages(resumes, points, committed_steps(saved))
        self._last: dict[int, int] = {}
        self._makers: dict[int, int | None] = {}
        for save in saved:
            maker = self.maker(save)
            if maker is not None:
                self._last[maker] = max(save.step, self._last.get(maker, 0))
        self._by_attempt: dict[int, dict[int, Score]] = {}

    def maker(self, save: Saved) -> int | None:
        if save.attempt is not None:
            return save.attempt
        if save.step not in self._makers:
            self._makers[save.step] = self._lineages.maker(save.step)
        return self._makers[save.step]

    def parts(self, save: Saved) -> tuple[Part, ...]:
        return self._lineages.of(self.maker(save), save.step)

    def by_step(self, save: Saved) -> Mapping[int, Score]:
        maker = self.maker(save)
        if maker is None:
            return {}
        if maker not in self._by_attempt:
            parts = self._lineages.of(maker, self._last[maker])
            self._by_attempt[maker] = {score.step: score for score in scores(self._points, parts, self._alpha)}
        return self._by_attempt[maker]


def committed_steps(saved: Iterable[Saved]) -> Saves:
    """Attempt and step of the saves whose attempt is known."""
    return {(save.attempt, save.step) for save in saved if save.attempt is not None}


def _candidate(save: Saved, scored: _ScoredLineages, reasons: list[str]) -> Candidate:
    by_step = scored.by_step(save)
    at_label = by_step.get(save.step)
    latest = at_label or max(
        (score for step, score in by_step.items() if step <= save.step), key=_of_step, default=None
    )
    if save.deleted:
        reasons.append("it was deleted")
    if save.replaced:
        reasons.append("it was saved again with another digest")
    if latest is not None and latest.ema is not None:
        reasons += _reward_reasons(save.step, at_label)
    return Candidate(
        saved=save,
        reasons=tuple(reasons),
        parts=scored.parts(save),
        reward=at_label.reward if at_label else None,
        ema=latest.ema if latest else None,
    )


def _step_reasons(step: int, interval: int | None, first: int | None, cap: int | None) -> list[str]:
    reasons = []
    if interval and step % interval:
        reasons.append(f"step {step} is no multiple of the interval {interval}")
    if first is not None and step < first:
        reasons.append(f"step {step} is before step {first}, the first eligible one")
    if cap is not None and step > cap:
        reasons.append(f"step {step} is after the cap at step {cap}")
    return reasons


def _reward_reasons(step: int, at_label: Score | None) -> list[str]:
    """Only where there is a series: without one nobody can say."""
    if at_label is None or at_label.reward is None:
        return [f"no reward was logged at step {step}"]
    return [] if isfinite(at_label.reward) else [f"the reward at step {step} is not finite"]


def _is_there(saved: Saved) -> bool:
    return not (saved.deleted or saved.replaced)


def _by_ema(candidate: Candidate) -> tuple[float, int, int, int]:
    """Of equal EMAs the lowest step; of one step the latest attempt, whose weights survived."""
    assert candidate.ema is not None
    return candidate.ema, -candidate.saved.step, candidate.saved.attempt or 0, candidate.saved.committed_pos


def _by_step(candidate: Candidate) -> tuple[int, int, int]:
    return candidate.saved.step, candidate.saved.attempt or 0, candidate.saved.committed_pos


def _age(saved: Saved) -> tuple[int, int, int]:
    return last_update(saved), saved.attempt or 0, saved.committed_pos


def _of_step(score: Score) -> int:
    return score.step
