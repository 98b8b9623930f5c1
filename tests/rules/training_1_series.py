"""One-line builders of series for the rules of runs, and the golden series."""

from __future__ import annotations

import json
from collections.abc import Sequence
from fractions import Fraction
from math import isfinite, nan
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from ledger.rules.training_1.selection import Saved
from ledger.rules.training_1.series import Point, Resume

VECTORS = Path(__file__).parent.parent / "vectors" / "training"


def point(
    attempt: int,
    step: int,
    reward: float | None = None,
    entropy: float | None = None,
    grad_norm: float | None = None,
    *,
    not_finite: int = 0,
    pos: int | None = None,
) -> Point:
    """A step; unless said otherwise its position is a thousand an attempt and one a step."""
    at = 1000 * attempt + step if pos is None else pos
    return Point(attempt, step, reward, entropy, grad_norm, not_finite, None, at)


def rewards(values: Sequence[float | None], *, attempt: int = 1, first: int = 1) -> list[Point]:
    return [point(attempt, first + place, value) for place, value in enumerate(values)]


def entropies(values: Sequence[float | None], reward: float | None = None) -> list[Point]:
    return [point(1, place + 1, reward, value) for place, value in enumerate(values)]


def saves(*steps: int, attempt: int = 1) -> list[Saved]:
    return [Saved(attempt, step, committed_pos=1000 * attempt + step) for step in steps]


def exact_ema(values: Sequence[float | None]) -> list[Fraction | None]:
    """The definition, by exact fractions: the closed form of the weights, not the recursion."""
    averages: list[Fraction | None] = []
    seen: list[Fraction] = []
    for value in values:
        if value is not None and isfinite(value):
            seen.append(Fraction(value))
        averages.append(_weighed(seen) if seen else None)
    return averages


def _weighed(seen: Sequence[Fraction]) -> Fraction:
    last, third = len(seen) - 1, Fraction(1, 3)
    weights = [(1 - third) ** last] + [third * (1 - third) ** (last - place) for place in range(1, last + 1)]
    return sum((weight * value for weight, value in zip(weights, seen, strict=True)), start=Fraction(0))


class Golden:
    """A series with what the rules must find in it."""

    def __init__(self, path: Path) -> None:
        document: dict[str, Any] = json.loads(path.read_text("utf-8"))
        self.expect: dict[str, Any] = document["expect"]
        self.interval: int = document["interval"]
        self.resumes = {
            int(attempt): None if begun is None else Resume(begun["attempt"], begun["step"])
            for attempt, begun in document["resumes"].items()
        }
        self.points = [
            Point(attempt, step, _number(reward), _number(entropy), _number(norm), int(reward == "NaN"), None, place)
            for place, (attempt, step, reward, entropy, norm) in enumerate(document["points"])
        ]
        self.saved = [
            Saved(attempt, step, committed_pos=len(self.points) + place, last_update=update[0] if update else None)
            for place, (attempt, step, *update) in enumerate(document["saved"])
        ]


def _number(value: Any) -> float | None:
    return nan if value == "NaN" else value


def goldens() -> dict[str, Golden]:
    return {path.stem: Golden(path) for path in sorted(VECTORS.glob("*.json"))}


ODD_FLOATS = st.none() | st.floats(allow_nan=True, allow_infinity=True)


@st.composite
def stories(
    draw: st.DrawFn, values: st.SearchStrategy[float | None] = ODD_FLOATS
) -> tuple[list[Point], dict[int, Any]]:
    """Generated runs: each attempt resumes from a step of an earlier one, or from the RL start; some do not say where."""
    points: list[Point] = []
    resumes: dict[int, Resume | None] = {}
    reached: dict[int, int] = {}
    for attempt in range(1, draw(st.integers(1, 4)) + 1):
        start, told = 0, None
        if reached and draw(st.booleans()):
            parent = draw(st.sampled_from(sorted(reached)))
            start = draw(st.integers(0, reached[parent]))
            told = Resume(draw(st.sampled_from([parent, None])), start)
        if not draw(st.integers(0, 9)):
            told = Resume(draw(st.sampled_from([attempt, attempt + 1, 99, None])), draw(st.integers(0, 60)))
        if draw(st.integers(0, 9)):
            resumes[attempt] = told
        count = draw(st.integers(0, 8))
        for step in range(start + 1, start + count + 1):
            points.append(_drawn(draw, values, attempt, step, len(points)))
        if count:
            reached[attempt] = start + count
    return draw(st.permutations(points)) if draw(st.booleans()) else points, resumes


def _drawn(draw: st.DrawFn, values: st.SearchStrategy[float | None], attempt: int, step: int, pos: int) -> Point:
    return Point(attempt, step, draw(values), draw(values), draw(values), draw(st.integers(0, 2)), None, pos)
