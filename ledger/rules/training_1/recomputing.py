"""A recorded selection, computed again from the series and the saves that are known.

`trailing-ema` is computed and compared; any other rule is left as it was named. Without a series the recorded EMA and
reward still imply the EMA one step before, which can show that the choice was not the best of all steps. A choice is
called the best among eligible saves unless no step at all had a higher EMA.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, isqrt
from typing import Final

import msgspec

from ledger.rules.training_1.ema import ALPHA, implied_previous
from ledger.rules.training_1.keys import SKYRL
from ledger.rules.training_1.selection import (
    FIRST_MULTIPLE,
    Candidate,
    Choice,
    Saved,
    Score,
    choose,
    eligible,
    last_update,
    scores,
)
from ledger.rules.training_1.series import Lineages, Point, Resumes

RULE: Final = "trailing-ema"

TOLERANCE: Final = 5e-4
"""Between what was recorded and what is computed: numbers are quoted with three or four decimals."""

IMPLIED_MARGIN: Final = 1.5e-4
"""What the implied EMA can be off by, when both numbers have four decimals: (0.00005 + 0.00005/3)·3/2 = 0.0001, and
half as much again."""

LARGEST_EXPLAINED_STEP: Final = 1_000_000
"""Up to here the intervals by which a step could have been chosen are listed: the divisors of larger ones take long."""


class Selected(msgspec.Struct, frozen=True):
    """A selection as it was recorded."""

    step: int
    rule: str = RULE
    attempt: int | None = None
    digest: str | None = None
    metric: str | None = None
    alpha: float | None = None
    interval: int | None = None
    first_eligible: int | None = None
    cap_step: int | None = None
    ema: float | None = None
    reward: float | None = None
    eligible_steps: tuple[int, ...] | None = None


class Recomputed(msgspec.Struct, frozen=True):
    """What the rule gives: fields of `Selection` in runs.proto, and why the chosen step is not eligible, if it is
    not."""

    recomputed: str
    """agrees, differs, no_series or other_rule."""
    best: str = "unknown"
    """among_all_steps, among_eligible_steps, not_best or unknown."""
    computed_step: int | None = None
    computed_ema: float | None = None
    computed_reward: float | None = None
    eligible_steps: tuple[int, ...] = ()
    best_step_of_all: int | None = None
    best_ema_of_all: float | None = None
    implied_previous_ema: float | None = None
    notes: tuple[str, ...] = ()
    not_eligible_because: tuple[str, ...] = ()


def recompute(
    selected: Selected,
    saved: Sequence[Saved],
    points: Sequence[Point],
    resumes: Resumes,
    *,
    interval: int | None = None,
    metric: str = SKYRL.reward,
) -> Recomputed:
    """The selection against everything that is known; `interval` is the run's own, where the rule names none, and
    `metric` the key of its reward."""
    other_rule = _why_other_rule(selected, metric)
    alpha = ALPHA if other_rule or selected.alpha is None else selected.alpha
    interval = selected.interval or interval
    saves, place = _with_selected(selected, saved)
    candidates = eligible(
        saves, points, resumes, interval=interval, first=selected.first_eligible, cap=selected.cap_step, alpha=alpha
    )
    judged = _Judged(selected, candidates[place], candidates, interval, alpha)
    if other_rule:
        return judged.by_other_rule(other_rule)
    if judged.chosen.ema is None:
        return judged.without_series()
    return judged.with_series(points, resumes)


class _Judged:
    """A selection beside the save that it chose and all saves that there were to choose from."""

    def __init__(
        self,
        selected: Selected,
        chosen: Candidate,
        candidates: Sequence[Candidate],
        interval: int | None,
        alpha: float,
    ) -> None:
        self.selected = selected
        self.chosen = chosen
        self._candidates = candidates
        self._interval = interval
        self._alpha = alpha
        self._eligible = tuple(sorted({each.saved.step for each in candidates if each.eligible}))

    def by_other_rule(self, reason: str) -> Recomputed:
        return Recomputed(
            recomputed="other_rule",
            computed_ema=self.chosen.ema,
            computed_reward=self.chosen.reward,
            notes=(reason, *self._label_notes()),
        )

    def without_series(self) -> Recomputed:
        before = self._implied()
        best, notes = "unknown", []
        if before is not None and self.selected.ema is not None and before > self.selected.ema + IMPLIED_MARGIN:
            step = self.selected.step - 1
            best = "not_best" if step in self._eligible else "among_eligible_steps"
            notes = [self._higher_at(step, before)]
        return Recomputed(
            recomputed="no_series",
            best=best,
            eligible_steps=self._eligible,
            implied_previous_ema=before,
            notes=(*notes, *self._notes()),
            not_eligible_because=self.chosen.reasons,
        )

    def with_series(self, points: Sequence[Point], resumes: Resumes) -> Recomputed:
        choice = choose(self._candidates, self._interval)
        own = scores(points, self.chosen.parts, self._alpha)
        top = _highest([*scores(points, Lineages(resumes, points).final(), self._alpha), *own])
        differences = self._differences(choice)
        best = self._best(top)
        higher = [] if best == "among_all_steps" or top.ema is None else [self._higher_at(top.step, top.ema)]
        return Recomputed(
            recomputed="differs" if differences else "agrees",
            best=best,
            computed_step=choice.candidate.saved.step if choice.candidate else None,
            computed_ema=self.chosen.ema,
            computed_reward=self.chosen.reward,
            eligible_steps=self._eligible,
            best_step_of_all=top.step,
            best_ema_of_all=top.ema,
            implied_previous_ema=self._implied(),
            notes=(*differences, *higher, *_not_finite_notes(self.selected, own), *self._notes()),
            not_eligible_because=self.chosen.reasons,
        )

    def _implied(self) -> float | None:
        # Before the first step there is no EMA: the reward of step 1 seeds it.
        if self.selected.ema is None or self.selected.reward is None or self.selected.step <= 1:
            return None
        return implied_previous(self.selected.ema, self.selected.reward, self._alpha)

    def _best(self, top: Score) -> str:
        ema = self.chosen.ema
        if ema is None or top.ema is None:
            return "unknown"
        if ema >= top.ema:
            return "among_all_steps"
        others = [each.ema for each in self._candidates if each.eligible and each.ema is not None]
        return "among_eligible_steps" if self.chosen.eligible and ema >= max(others) else "not_best"

    def _differences(self, choice: Choice) -> list[str]:
        """What keeps the recorded selection from being what the rule gives."""
        differences = []
        other = choice.candidate
        if other is None:
            differences.append(choice.reason)
        elif other.saved.step != self.selected.step:
            gives = "the rule gives" if choice.by_rule else f"{choice.reason}; it gives"
            differences.append(f"{gives} step {_at(other)}, not step {_at(self.chosen)}")
        elif _attempts_differ(other, self.chosen):
            differences.append(f"the rule gives step {other.saved.step} of attempt {other.saved.attempt}")
        for name, recorded, computed in (
            ("EMA", self.selected.ema, self.chosen.ema),
            ("reward", self.selected.reward, self.chosen.reward),
        ):
            # Written so that NaN, which is near to nothing, differs.
            if recorded is not None and not (computed is not None and abs(recorded - computed) <= TOLERANCE):
                differences.append(f"the recorded {name} is {recorded:.4f}, the computed one {_number(computed)}")
        return differences

    def _higher_at(self, step: int, ema: float) -> str:
        return f"the EMA was higher at step {step} ({ema:.4f}), {self._what_is(step)}"

    def _what_is(self, step: int) -> str:
        there = [each for each in self._candidates if each.saved.step == step]
        if not there:
            return "which is no saved step"
        if any(each.eligible for each in there):
            return "which is an eligible checkpoint"
        return f"where the checkpoint could not be chosen: {'; '.join(there[-1].reasons)}"

    def _notes(self) -> list[str]:
        return [*self._interval_notes(), *self._eligible_notes(), *self._label_notes()]

    def _interval_notes(self) -> list[str]:
        step = self.selected.step
        if not self._interval:
            ways = _intervals(step, self.selected.first_eligible)
            return [f"no interval is recorded; step {step} can be chosen with one of {ways}"] if ways else []
        return [f"step {step} could not be chosen: {reason}" for reason in self.chosen.reasons]

    def _eligible_notes(self) -> list[str]:
        recorded = self.selected.eligible_steps
        if recorded is None:
            return []
        wrong = sorted(set(recorded) - set(self._eligible))
        lists = ", ".join(map(str, wrong[:10])) + (" and others" if len(wrong) > 10 else "")
        missing = self.selected.step not in recorded
        return [
            *([f"recorded as eligible, though not by the rule: {lists}"] if wrong else []),
            *([f"step {self.selected.step} is not among the steps recorded as eligible"] if missing else []),
        ]

    def _label_notes(self) -> list[str]:
        step, update = self.selected.step, last_update(self.chosen.saved)
        label = [f"the checkpoint labelled {step} holds update {update}"] if update != step else []
        scored = self.selected.reward is not None or self.chosen.reward is not None
        return [*([f"the reward at step {step} scores the weights before update {step}"] if scored else []), *label]


def _why_other_rule(selected: Selected, metric: str) -> str | None:
    if selected.rule != RULE:
        return "the rule that was named is not one that is computed here"
    if selected.metric not in {None, metric}:
        return "the rule was applied to a metric other than the run's reward"
    if selected.alpha is not None and not 0 < selected.alpha <= 1:
        return "the smoothing factor that was named is none"
    return None


def _with_selected(selected: Selected, saved: Sequence[Saved]) -> tuple[list[Saved], int]:
    """The saves, and the place of the chosen one, which was there when it was chosen; added where none is recorded."""
    saves = list(saved)
    places = [place for place, save in enumerate(saves) if _is_meant(selected, save)]
    if not places:
        return [*saves, Saved(selected.attempt, selected.step, selected.digest)], len(saves)
    place = max(places, key=lambda each: _likeness(selected, saves[each]))
    saves[place] = msgspec.structs.replace(saves[place], deleted=False, replaced=False)
    return saves, place


def _is_meant(selected: Selected, save: Saved) -> bool:
    attempts = {selected.attempt, save.attempt} - {None}
    digests = {selected.digest, save.digest} - {None}
    return save.step == selected.step and len(attempts) < 2 and len(digests) < 2


def _likeness(selected: Selected, save: Saved) -> tuple[bool, bool, int, int]:
    same_digest = selected.digest is not None and save.digest == selected.digest
    return same_digest, not (save.deleted or save.replaced), save.attempt or 0, save.committed_pos


def _attempts_differ(one: Candidate, other: Candidate) -> bool:
    return one.saved.attempt != other.saved.attempt and None not in {one.saved.attempt, other.saved.attempt}


def _highest(scored: Sequence[Score]) -> Score:
    """Of all steps with an EMA; of equal ones the lowest."""
    known = [(score.ema, -score.step, score) for score in scored if score.ema is not None]
    return max(known, key=lambda each: each[:2])[2]


def _not_finite_notes(selected: Selected, own: Sequence[Score]) -> list[str]:
    odd = [score.step for score in own if score.reward is not None and not isfinite(score.reward)]
    if not odd:
        return []
    left_out = (
        f"rewards up to step {selected.step} that are not finite were left out: {len(odd)}, the first at step {odd[0]}"
    )
    if selected.ema is None or isfinite(selected.ema):
        return [left_out]
    return [left_out, f"the recorded EMA carried on the reward of step {odd[0]}, which is not finite"]


def _intervals(step: int, first_eligible: int | None) -> str:
    """The intervals that a step is an eligible multiple of."""
    if not 0 < step <= LARGEST_EXPLAINED_STEP:
        return ""
    divisors = {part for low in range(1, isqrt(step) + 1) if step % low == 0 for part in (low, step // low)}
    least = 1 if first_eligible is not None else FIRST_MULTIPLE
    fitting = [divisor for divisor in sorted(divisors) if step // divisor >= least]
    return ", ".join(map(str, fitting))


def _at(candidate: Candidate) -> str:
    return f"{candidate.saved.step} ({_number(candidate.ema)})"


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.4f}"
