"""Steps, as they are logged: a point each, and what contradicts an earlier step of the same attempt."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Final

from ledger.rules import RuleEvent
from ledger.rules.training_1 import reading
from ledger.rules.training_1.decoding import decode_all_metrics
from ledger.rules.training_1.growing import grown, newest_first
from ledger.rules.training_1.keys import SKYRL, Keys
from ledger.rules.training_1.model import Odd, Range, Series, Span
from ledger.rules.training_1.oddities import noted
from ledger.rules.training_1.series import Point, adds_nothing
from ledger.rules.training_1.tail import following
from ledger.rules.training_1.values import measured, shown

STEP_WENT_BACK: Final = "STEP_WENT_BACK"
STEP_LOGGED_TWICE: Final = "STEP_LOGGED_TWICE"
WEIGHT_VERSION_WENT_BACK: Final = "WEIGHT_VERSION_WENT_BACK"

_NAN: Final = b'"NaN"'
_INFINITY: Final = b'Infinity"'
"""Without these in its bytes, a payload measured nothing that is not finite."""

_NO_KL: Final = (None, None, None)

_COMPARED: Final[tuple[tuple[str, Callable[[Point], float | None]], ...]] = (
    ("reward", lambda p: p.reward),
    ("entropy", lambda p: p.entropy),
    ("grad norm", lambda p: p.grad_norm),
)


def logged(series: Series, event: RuleEvent, said: reading.StepsLogged, keys: Keys) -> Series:
    """The series with the steps of one event, read by the run's keys."""
    odd = _NAN in event.body or _INFINITY in event.body
    every = decode_all_metrics(event.body).steps if odd or keys != SKYRL else ()
    for place, step in enumerate(said.steps):
        metrics = every[place].metrics if every else {}
        not_finite = sum(isinstance(value, str) for value in metrics.values()) if odd else 0
        core = _core(step.metrics) if keys == SKYRL else _named(metrics, keys)
        point = Point(said.attempt, step.step, *core, not_finite, _tis_skipped(step.metrics), event.pos)
        series = _one(series, point, step, live=said.basis is None)
    return series


Core = tuple[float | None, float | None, float | None]
"""Reward, entropy and gradient norm."""


def _core(metrics: reading.StepMetrics) -> Core:
    return measured(metrics.reward), measured(metrics.entropy), measured(metrics.grad_norm)


def _named(metrics: Mapping[str, float | str], keys: Keys) -> Core:
    reward, entropy, grad_norm = keys
    return measured(metrics.get(reward)), measured(metrics.get(entropy)), measured(metrics.get(grad_norm))


def _tis_skipped(metrics: reading.StepMetrics) -> float | None:
    """The fraction of a batch to which the correction was not applied; a counter alone says all or nothing."""
    fraction = measured(metrics.tis_skipped)
    if fraction is not None:
        return fraction
    skipped = measured(metrics.tis_batch_skipped)
    return None if skipped is None else float(skipped != 0)


def _one(series: Series, point: Point, step: reading.LoggedStep, *, live: bool) -> Series:
    span = series.spans.get(point.attempt)
    odd, before = series.odd, None
    if span is None:
        after = Span(point.step, point.step, 1, point.pos, step.weight_version, point.pos if live else None)
    else:
        if point.step <= span.last:
            before = _logged_before(series, point)
            odd = _went_back(series, span, before, point)
        if step.weight_version is not None and span.weight_version is not None:
            odd = _versions(odd, span.weight_version, step.weight_version, point)
        after = _longer(span, point, step.weight_version, again=before is not None, live=live)
    metrics = step.metrics
    return Series(
        grown(series.points, point),
        {**series.spans, point.attempt: after},
        odd,
        _within(series.updates, metrics.update_steps),
        _within(series.clipped, metrics.clip_ratio),
        series.kl or _any_kl(metrics),
        series.tail if before is not None and adds_nothing(before, point) else following(series.tail, point),
    )


def _longer(span: Span, point: Point, version: int | None, *, again: bool, live: bool) -> Span:
    if version is None or (span.weight_version is not None and span.weight_version > version):
        version = span.weight_version
    first, last = min(span.first, point.step), max(span.last, point.step)
    return Span(first, last, span.steps + (not again), point.pos, version, point.pos if live else span.live_pos)


def _logged_before(series: Series, point: Point) -> Point | None:
    """What the same attempt logged of the same step last."""
    return next((p for p in newest_first(series.points) if p.attempt == point.attempt and p.step == point.step), None)


def _went_back(series: Series, span: Span, before: Point | None, point: Point) -> tuple[Odd, ...]:
    """With what a step that is not above the last one contradicts."""
    if before is None:
        message = f"attempt {point.attempt} logged step {point.step} after step {span.last}"
        return noted(series.odd, STEP_WENT_BACK, point.attempt, message, point.pos)
    differs = _difference(before, point)
    if differs is None:
        return series.odd
    message = f"attempt {point.attempt} logged step {point.step} twice: {differs}"
    return noted(series.odd, STEP_LOGGED_TWICE, point.attempt, message, before.pos, point.pos)


def _difference(before: Point, after: Point) -> str | None:
    """What was measured both times, with other values."""
    for name, of in _COMPARED:
        one, other = of(before), of(after)
        if one is not None and other is not None and one != other and not (one != one and other != other):  # noqa: PLR0124  # NaN is the number that is not itself
            return f"{name} {shown(one)}, then {shown(other)}"
    return None


def _versions(odd: tuple[Odd, ...], highest: int, version: int, point: Point) -> tuple[Odd, ...]:
    if version >= highest:
        return odd
    message = f"step {point.step} of attempt {point.attempt} rolled out weights {version}, after weights {highest}"
    return noted(odd, WEIGHT_VERSION_WENT_BACK, point.attempt, message, point.pos)


def _within(known: Range | None, recorded: reading.Number) -> Range | None:
    value = measured(recorded)
    if value is None or not isfinite(value) or (known is not None and known.least <= value <= known.greatest):
        return known
    return Range(value, value) if known is None else Range(min(known.least, value), max(known.greatest, value))


def _any_kl(metrics: reading.StepMetrics) -> bool:
    logged = (metrics.policy_kl, metrics.average_kl, metrics.reward_kl)
    return logged != _NO_KL and any(measured(value) is not None for value in logged)
