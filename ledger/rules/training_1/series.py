"""Which logged steps lie behind which weights.

A run is a chain of attempts. Each begins with the weights of some step and makes the next ones, so a step's number
comes again after a resume, with other values. Rules kept here:

  - a step is known by attempt and number; where one attempt logged it twice, what came first counts, and what came
    later only adds what was not logged before;
  - a lineage leads from the RL start to one attempt's step: an attempt lends it the steps after its own beginning, up
    to where the next attempt began. Its attempts strictly increase, and no step is on it twice;
  - a part of a lineage is a range of updates, logged or not: metrics that were lost do not unmake an update;
  - nothing here raises: an attempt that says of itself what cannot be is followed as far as it makes sense.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import msgspec

FIRST_STEP: Final = 1
"""The first update after the RL start, unless the trainer counts from 0 and logs it."""


class Point(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What one attempt logged of one step, as far as rules read it. NaN stays NaN; None was not logged."""

    attempt: int
    step: int
    reward: float | None
    entropy: float | None
    grad_norm: float | None
    not_finite: int
    """How many of the step's metrics were not finite."""
    tis_skipped: float | None
    pos: int


class Resume(msgspec.Struct, frozen=True):
    """The checkpoint that an attempt began with."""

    attempt: int | None
    """None: the latest earlier attempt that committed the step, else that logged it, else that came nearest below
    it."""
    step: int


class Part(msgspec.Struct, frozen=True):
    """The updates that one attempt lends to a lineage, both ends included."""

    attempt: int
    first_step: int
    last_step: int


Resumes = Mapping[int, Resume | None]
"""By attempt; None: it began at the RL start. An attempt that is missing is taken to begin with its first logged
step."""

Saves = Collection[tuple[int, int]]
"""Attempt and step of committed checkpoints."""


class Lineages:
    """Lineages over one set of points: what each attempt logged is gathered once."""

    def __init__(self, resumes: Resumes, points: Iterable[Point], committed: Saves = ()) -> None:
        self._resumes = resumes
        self._committed = frozenset(committed)
        logged: dict[int, set[int]] = {}
        for point in points:
            logged.setdefault(point.attempt, set()).add(point.step)
        self._logged = {attempt: sorted(steps) for attempt, steps in logged.items()}
        self._known = {*logged, *resumes, *(attempt for attempt, _ in self._committed)}
        self._attempts = sorted(self._known, reverse=True)

    def of(self, attempt: int | None, step: int) -> tuple[Part, ...]:
        """The parts behind the weights of the attempt's step, oldest first; none where no attempt can have made it, and
        none of an attempt that is only named as somebody's beginning."""
        parts: list[Part] = []
        maker, last = attempt if attempt is not None else self.maker(step), step
        while maker is not None:
            first, parent, parent_step = self._beginning(maker)
            if first <= last and maker in self._known:
                parts.append(Part(maker, first, last))
            maker, last = parent, min(parent_step, last)
        return tuple(reversed(parts))

    def maker(self, step: int, before: int | None = None) -> int | None:
        """The latest attempt (earlier than `before`) that saved the step, else logged it, else came nearest below."""
        attempts = [attempt for attempt in self._attempts if before is None or attempt < before]
        for attempt in attempts:
            if (attempt, step) in self._committed:
                return attempt
        nearest: int | None = None
        reached = -1
        for attempt in attempts:
            steps = self._logged.get(attempt, [])
            place = bisect_right(steps, step)
            if place and steps[place - 1] > reached:
                nearest, reached = attempt, steps[place - 1]
        return nearest

    def head(self) -> tuple[int, int] | None:
        """The latest attempt that logged a step, and its last one: one that came to nothing leaves nothing behind."""
        attempt = max(self._logged, default=None)
        return None if attempt is None else (attempt, self._logged[attempt][-1])

    def final(self) -> tuple[Part, ...]:
        """The lineage of the last weights that are known."""
        head = self.head()
        return self.of(*head) if head else ()

    def _beginning(self, attempt: int) -> tuple[int, int | None, int]:
        """The attempt's first step; then the attempt and step whose weights it began with."""
        lowest = self._logged[attempt][0] if attempt in self._logged else FIRST_STEP
        start = self._resumes.get(attempt, Resume(None, lowest - 1))
        if start is None:
            return min(FIRST_STEP, lowest), None, 0
        parent = start.attempt
        if parent is None or parent >= attempt:
            parent = self.maker(start.step, before=attempt)
        return start.step + 1, parent, start.step


def lineage(
    resumes: Resumes, points: Sequence[Point], attempt: int | None, step: int, *, committed: Saves = ()
) -> tuple[Part, ...]:
    """From the RL start to the attempt's step: which attempts' steps lie behind these weights. No attempt: the
    latest."""
    return Lineages(resumes, points, committed).of(attempt, step)


def final_lineage(resumes: Resumes, points: Sequence[Point], *, committed: Saves = ()) -> tuple[Part, ...]:
    """The lineage of the last step of the latest attempt that logged any."""
    return Lineages(resumes, points, committed).final()


def on_lineage(points: Iterable[Point], parts: Sequence[Part]) -> list[Point]:
    """The points on the lineage by step, each step once."""
    ranges = {part.attempt: part for part in parts}
    by_step: dict[int, Point] = {}
    for point in sorted(points, key=_recorded):
        part = ranges.get(point.attempt)
        if part is None or not part.first_step <= point.step <= part.last_step:
            continue
        first = by_step.get(point.step)
        by_step[point.step] = point if first is None else _completed(first, point)
    return [by_step[step] for step in sorted(by_step)]


def abandoned(points: Sequence[Point], resumes: Resumes, *, committed: Saves = ()) -> set[tuple[int, int]]:
    """Attempt and step of what a later attempt made again or left behind."""
    lineages = Lineages(resumes, points, committed)
    head = lineages.head()
    if head is None:
        return set()
    kept = {part.attempt: part for part in lineages.of(*head)}
    return {
        (point.attempt, point.step)
        for point in points
        if point.attempt < head[0] and not _within(point.step, kept.get(point.attempt))
    }


def adds_nothing(first: Point, later: Point) -> bool:
    """Whether what was logged of a step again leaves it as it was: what came first counts."""
    return later.not_finite <= first.not_finite and all(
        known is not None or again is None
        for known, again in (
            (first.reward, later.reward),
            (first.entropy, later.entropy),
            (first.grad_norm, later.grad_norm),
            (first.tis_skipped, later.tis_skipped),
        )
    )


def _within(step: int, part: Part | None) -> bool:
    return part is not None and part.first_step <= step <= part.last_step


def _recorded(point: Point) -> int:
    return point.pos


def _completed(first: Point, later: Point) -> Point:
    """The first one, with what only the later one says. A second value does not correct the first."""
    return Point(
        attempt=first.attempt,
        step=first.step,
        reward=later.reward if first.reward is None else first.reward,
        entropy=later.entropy if first.entropy is None else first.entropy,
        grad_norm=later.grad_norm if first.grad_norm is None else first.grad_norm,
        not_finite=max(first.not_finite, later.not_finite),
        tis_skipped=later.tis_skipped if first.tis_skipped is None else first.tis_skipped,
        pos=first.pos,
    )
