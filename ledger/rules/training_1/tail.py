"""The outcome of a series, kept up step by step, so that a summary after each step costs the same however long the run.

It gives what `standing` gives of the last lineage, whatever the series says. Where a step is no simple continuation, or
something happened that bears on lineages, there is no tail, and the whole series is read. The progress before the step
that was logged last is kept beside the one with it, since more may be logged of that step.
"""

from __future__ import annotations

from ledger.rules.training_1.model import Life, Run, Series, Tail
from ledger.rules.training_1.progress import Progress
from ledger.rules.training_1.series import Part, Point, on_lineage
from ledger.rules.training_1.standing import lineage_points, standing
from ledger.rules.training_1.values import Value


class Outcome(Value, frozen=True):
    """What a summary says of the series."""

    reward: float | None = None
    ema: float | None = None
    kinds: tuple[str, ...] = ()
    onset: int | None = None


def outcome(run: Run) -> Outcome:
    """Of the last lineage: from the tail where there is one, else from the whole series."""
    tail = run.series.tail
    if tail is None:
        return whole(run)
    now = tail.now
    return Outcome(now.reward, now.ema, now.kinds(), now.onset())


def whole(run: Run) -> Outcome:
    """The same, read from the whole series."""
    now = standing(run)
    rewards = [point.reward for point in now.points if point.reward is not None]
    kinds = tuple(dict.fromkeys(found.kind for found in now.found))
    average = now.averages[-1] if now.averages else None
    return Outcome(rewards[-1] if rewards else None, average, kinds, now.onset)


def following(tail: Tail | None, point: Point) -> Tail | None:
    """The tail after one more point; none where it is no simple continuation."""
    if tail is None or point.attempt != tail.last.attempt or point.step < tail.last.step:
        return None
    if point.step > tail.last.step:
        return _next(tail.now, point)
    one_step = (Part(point.attempt, point.step, point.step),)
    return _next(tail.before, on_lineage((tail.last, point), one_step)[0])


def tail_of(life: Life, series: Series) -> Tail | None:
    """The tail of a whole series; none where nothing was logged."""
    tail: Tail | None = None
    for point in lineage_points(life, series):
        tail = _next(Progress() if tail is None else tail.now, point)
    return tail


def _next(before: Progress, point: Point) -> Tail:
    return Tail(before, point, before.after(point))
