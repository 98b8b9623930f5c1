"""A sequence that is never changed in place, and still cheap to add to.

Items lie in runs whose lengths fall from left to right, as the bits of a binary counter: adding one item merges only
the short runs at the end, so that n additions copy n log n items and not n². How items lie depends on their number
alone, so equal sequences are equal values.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TypeVar

Item = TypeVar("Item")


def grown(runs: tuple[tuple[Item, ...], ...], item: Item) -> tuple[tuple[Item, ...], ...]:
    """The sequence with one more item."""
    last: tuple[Item, ...] = (item,)
    kept = len(runs)
    while kept and len(runs[kept - 1]) <= len(last):
        kept -= 1
        last = runs[kept] + last
    return (*runs[:kept], last)


def items(runs: tuple[tuple[Item, ...], ...]) -> Iterator[Item]:
    """The items, oldest first."""
    return chain.from_iterable(runs)


def count(runs: tuple[tuple[Item, ...], ...]) -> int:
    return sum(map(len, runs))
