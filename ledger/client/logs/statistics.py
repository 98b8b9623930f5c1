"""Numbers over a series, one value at a time: mean, spread and extremes of what is finite, and how much is not."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass
class Statistics:
    """Of the finite values that were taken; the others are counted, never averaged in and never dropped unseen."""

    count: int = 0
    mean: float = 0.0
    lowest: float = math.inf
    highest: float = -math.inf
    not_finite: int = 0
    _squares: float = 0.0

    def take(self, value: float) -> None:
        if not math.isfinite(value):
            self.not_finite += 1
            return
        self.count += 1
        apart = value - self.mean
        self.mean += apart / self.count
        self._squares += apart * (value - self.mean)
        self.lowest = min(self.lowest, value)
        self.highest = max(self.highest, value)

    @property
    def spread(self) -> float | None:
        """The sample's standard deviation; None of fewer than two values."""
        return math.sqrt(self._squares / (self.count - 1)) if self.count > 1 else None

    @property
    def total(self) -> float:
        return self.mean * self.count


@dataclass
class ByKey:
    """Statistics of every key that occurs."""

    keys: dict[str, Statistics] = field(default_factory=lambda: defaultdict(Statistics))

    def take(self, values: Mapping[str, float]) -> None:
        for key, value in values.items():
            self.keys[key].take(value)

    def note(self, keys: Iterable[str]) -> None:
        """Keys that occur, though nothing of them is to be averaged."""
        for key in keys:
            self.keys[key]  # a look makes the entry

    def categories(self) -> dict[str, list[str]]:
        """The keys by what stands before their first slash, both in order."""
        found: dict[str, list[str]] = defaultdict(list)
        for key in sorted(self.keys):
            found[key.split("/", 1)[0]].append(key)
        return dict(sorted(found.items()))
