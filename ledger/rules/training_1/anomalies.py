"""What went wrong in training, as far as its numbers tell.

Found are entropy runaway, entropy collapse, reward collapse, and metrics that are not finite. The two signs of entropy
are opposite and are two anomalies; a run can have both. Everything is diagnosed from what was logged, at the step at
which it became certain; nothing is predicted. Each finding carries the numbers that it rests on and the positions of
the events that hold them. Steps at which a number was not logged, or was not finite, are passed over: they neither
begin an episode nor end one. Of several episodes of a kind the first and the last are told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from math import isfinite

import msgspec

from ledger.rules.training_1.ema import trailing_ema
from ledger.rules.training_1.episodes import CALM, Episode, Sign, episodes
from ledger.rules.training_1.series import Point
from ledger.rules.training_1.signs import collapse, lost_reward, median, runaway, usual
from ledger.rules.training_1.thresholds import (
    BASE_STEPS,
    COLLAPSE_FLOOR,
    COLLAPSE_FRACTION,
    COLLAPSE_ONSET_FRACTION,
    REWARD_FRACTION,
    REWARD_ONSET_FRACTION,
    RUNAWAY_ONSET_RATIO,
    RUNAWAY_RATIO,
    VERSION,
)
from ledger.rules.training_1.values import plural

Numbers = tuple[tuple[str, float], ...]


class Found(msgspec.Struct, frozen=True):
    """One anomaly."""

    kind: str
    onset_step: int
    seen_at_step: int
    attempt: int
    """That made the step at which it was seen."""
    numbers: Numbers
    positions: tuple[int, ...]
    rule: str
    statement: str
    """The finding in words, with the numbers that decide it."""
    lasted_from: int | None = None
    """From this step on, it lasted to the last step that is known; None: the run recovered."""


def anomalies(points: Sequence[Point]) -> tuple[Found, ...]:
    """All anomalies of a lineage (its points by step), by onset."""
    found = [*_entropy(points), *_reward_collapse(points), *_not_finite(points)]
    return tuple(sorted(found, key=lambda each: (each.onset_step, each.seen_at_step, each.kind)))


def onset(found: Iterable[Found]) -> int | None:
    """The step at which the failure began that the run did not recover from; None: there is none."""
    return min((each.lasted_from for each in found if each.lasted_from is not None), default=None)


def _entropy(points: Sequence[Point]) -> list[Found]:
    measured = _measured(points, _entropy_of)
    values = [value for _, value in measured]
    bounds = usual(values)
    if bounds is None:
        return []
    # The base is what is usual; it cannot itself be unusual.
    calm, later = [CALM] * BASE_STEPS, values[BASE_STEPS:]
    up = [*calm, *(runaway(value, bounds) for value in later)]
    down = [*calm, *(collapse(value, bounds) for value in later)]
    series = [point for point, _ in measured]
    return [
        *_told(series, up, "entropy_runaway", lambda episode: _entropy_numbers(measured, episode, up=True)),
        *_told(series, down, "entropy_collapse", lambda episode: _entropy_numbers(measured, episode, up=False)),
    ]


def _entropy_numbers(measured: list[tuple[Point, float]], episode: Episode, *, up: bool) -> tuple[Numbers, str]:
    values = [value for _, value in measured]
    (first_point, first), (seen_point, then) = measured[0], measured[episode.seen]
    middle = median(values[:BASE_STEPS])
    lasting = measured[episode.onset : episode.over]
    far_point, far = max(lasting, key=_value) if up else min(lasting, key=_value)
    extreme = "max" if up else "min"
    numbers = [
        ("entropy_first", first),
        ("entropy_first_step", float(first_point.step)),
        ("entropy_median_5", middle),
        ("entropy_then", then),
        ("ratio", then / first),
        ("ratio_to_median_5", then / middle),
        ("threshold", RUNAWAY_RATIO if up else COLLAPSE_FRACTION),
        ("onset_threshold", RUNAWAY_ONSET_RATIO if up else COLLAPSE_ONSET_FRACTION),
        (f"entropy_{extreme}", far),
        (f"entropy_{extreme}_step", float(far_point.step)),
        (f"ratio_{extreme}", far / first),
        ("entropy_last", values[-1]),
        ("ratio_last", values[-1] / first),
        *([] if up else [("floor", COLLAPSE_FLOOR)]),
        *_grad_norm_ratio([point for point, _ in measured], seen_point),
    ]
    words = (
        f"policy entropy was {then:.4g}, {then / first:.3g} times its value at step {first_point.step} ({first:.4g}) "
        f"and {then / middle:.3g} times the median of the first {BASE_STEPS} steps"
    )
    return tuple(numbers), words


def _reward_collapse(points: Sequence[Point]) -> list[Found]:
    measured = _measured(points, _reward_of)
    values = [value for _, value in measured]
    averages = [average for average in trailing_ema(values) if average is not None]
    signs = [lost_reward(value, height) for value, height in zip(values, accumulate(averages, max), strict=True)]
    series = [point for point, _ in measured]
    numbers = _RewardNumbers(points, series, values, averages)
    return _told(series, signs, "reward_collapse", numbers.of)


class _RewardNumbers:
    """The numbers of a reward collapse, out of the series that it was found in."""

    def __init__(
        self, points: Sequence[Point], series: list[Point], values: list[float], averages: list[float]
    ) -> None:
        self._points = points
        self._series = series
        self._values = values
        self._averages = averages

    def of(self, episode: Episode) -> tuple[Numbers, str]:
        seen = episode.seen
        top, top_average = _highest(self._values, seen), _highest(self._averages, seen)
        reward, average = self._values[seen], self._averages[seen]
        numbers = [
            ("reward_max", self._values[top]),
            ("reward_max_step", float(self._series[top].step)),
            ("reward_then", reward),
            ("fraction", reward / self._averages[top_average]),
            ("threshold", REWARD_FRACTION),
            ("onset_threshold", REWARD_ONSET_FRACTION),
            ("ema_max", self._averages[top_average]),
            ("ema_max_step", float(self._series[top_average].step)),
            ("ema_then", average),
            ("ema_drawdown", 1 - average / self._averages[top_average]),
            ("zero_steps", float(self._values[episode.onset : episode.over].count(0.0))),
            ("reward_last", self._values[-1]),
            *_grad_norm_ratio(self._points, self._series[seen]),
            *self._entropy_at(seen),
        ]
        words = (
            f"the reward was {reward:.4g} after {self._values[top]:.4g} at step {self._series[top].step}, and its "
            f"trailing EMA had come down to {average:.4g} from {self._averages[top_average]:.4g}"
        )
        return tuple(numbers), words

    def _entropy_at(self, seen: int) -> list[tuple[str, float]]:
        """Both signs at once are more than either: the entropy at that step against the first."""
        entropy = _measured(self._points, _entropy_of)
        then = _entropy_of(self._series[seen])
        if not entropy or then is None or not isfinite(then) or entropy[0][1] <= 0:
            return []
        return [("entropy_ratio", then / entropy[0][1])]


def _not_finite(points: Sequence[Point]) -> list[Found]:
    """Any metric that was not finite. It counts as the run's end only where what trains stayed so to the last step."""
    marked = [point for point in points if point.not_finite or _core_not_finite(point)]
    if not marked:
        return []
    first, last = marked[0], marked[-1]
    values = sum(max(point.not_finite, _core_not_finite(point)) for point in marked)
    numbers = (
        ("steps", float(len(marked))),
        ("values", float(values)),
        ("last_step", float(last.step)),
        ("reward_steps", float(sum(_is_odd(point.reward) for point in points))),
        ("entropy_steps", float(sum(_is_odd(point.entropy) for point in points))),
        ("grad_norm_steps", float(sum(_is_odd(point.grad_norm) for point in points))),
    )
    return [
        Found(
            kind="non_finite",
            onset_step=first.step,
            seen_at_step=first.step,
            attempt=first.attempt,
            numbers=numbers,
            positions=tuple(sorted({first.pos, last.pos})),
            rule=f"{VERSION}/non-finite",
            statement=(
                f"diagnosed at step {first.step}: {plural(values, 'value')} not finite, on {len(marked)} of "
                f"{plural(len(points), 'step')}, the last of them step {last.step}"
            ),
            lasted_from=_broken_from(points),
        )
    ]


def _broken_from(points: Sequence[Point]) -> int | None:
    """From this step on, every step that logged reward, entropy or gradient norm logged one that is not finite."""
    broken: int | None = None
    for point in reversed(points):
        if _core_not_finite(point):
            broken = point.step
        elif (point.reward, point.entropy, point.grad_norm) != (None, None, None):
            break
    return broken


def _told(
    series: list[Point], signs: list[Sign], kind: str, numbers_of: Callable[[Episode], tuple[Numbers, str]]
) -> list[Found]:
    """The first and the last episode of a kind."""
    all_of_them = episodes(signs)
    told = all_of_them if len(all_of_them) < 3 else [all_of_them[0], all_of_them[-1]]
    return [_found(series, kind, episode, len(all_of_them), numbers_of(episode)) for episode in told]


def _found(series: list[Point], kind: str, episode: Episode, count: int, numbers: tuple[Numbers, str]) -> Found:
    began, seen = series[episode.onset], series[episode.seen]
    over = None if episode.over is None else series[episode.over]
    ends = [("recovered_at_step", float(over.step))] if over else []
    recovery = f"; over at step {over.step}" if over else ""
    cited = {series[0].pos, began.pos, seen.pos, (over or series[-1]).pos}
    return Found(
        kind=kind,
        onset_step=began.step,
        seen_at_step=seen.step,
        attempt=seen.attempt,
        numbers=(*numbers[0], *ends, ("episodes", float(count))),
        positions=tuple(sorted(cited)),
        rule=f"{VERSION}/{kind.replace('_', '-')}",
        statement=f"diagnosed at step {seen.step}: {numbers[1]}; it began at step {began.step}{recovery}",
        lasted_from=None if over else began.step,
    )


def _measured(points: Iterable[Point], value_of: Callable[[Point], float | None]) -> list[tuple[Point, float]]:
    """The points at which a finite value was logged, with it."""
    pairs = ((point, value_of(point)) for point in points)
    return [(point, value) for point, value in pairs if value is not None and isfinite(value)]


def _grad_norm_ratio(points: Sequence[Point], then: Point) -> list[tuple[str, float]]:
    """Over the median of the first steps, where both are known."""
    base = [value for _, value in _measured(points, _grad_norm_of)][:BASE_STEPS]
    norm = then.grad_norm
    if len(base) < BASE_STEPS or norm is None or not isfinite(norm) or median(base) <= 0:
        return []
    return [("grad_norm_then", norm), ("grad_norm_ratio", norm / median(base))]


def _core_not_finite(point: Point) -> int:
    return _is_odd(point.reward) + _is_odd(point.entropy) + _is_odd(point.grad_norm)


def _is_odd(value: float | None) -> bool:
    return value is not None and not isfinite(value)


def _highest(values: Sequence[float], last: int) -> int:
    """The place of the highest value up to a place; of equal ones the first."""
    return max(range(last + 1), key=lambda place: (values[place], -place))


def _value(pair: tuple[Point, float]) -> float:
    return pair[1]


def _entropy_of(point: Point) -> float | None:
    return point.entropy


def _grad_norm_of(point: Point) -> float | None:
    return point.grad_norm


def _reward_of(point: Point) -> float | None:
    return point.reward
