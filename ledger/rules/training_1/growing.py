"""A sequence that is never changed in place, and still cheap to add to.

Items lie in runs. The last run takes items one by one until it is full; full runs have lengths that fall from left to
right, as the bits of a binary counter, so that n additions copy n log n items and not n². How items lie depends on
their number alone, so equal sequences are equal values.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Final, TypeVar

Item = TypeVar("Item")

RUN: Final = 32
"""Items in a run before another is begun: copying so few costs less than keeping them apart."""


def grown(runs: tuple[tuple[Item, ...], ...], item: Item) -> tuple[tuple[Item, ...], ...]:
    """The sequence with one more item."""
    if not runs:
        return ((item,),)
    last = runs[-1]
    if len(last) < RUN:
        return (*runs[:-1], (*last, item)) if len(runs) > 1 else ((*last, item),)
    kept = len(runs) - 1
    while kept and len(runs[kept - 1]) <= len(last):
        kept -= 1
        last = runs[kept] + last
    return (*runs[:kept], last, (item,))


def items(runs: tuple[tuple[Item, ...], ...]) -> Iterator[Item]:
    """The items, oldest first."""
    return chain.from_iterable(runs)


def newest_first(runs: tuple[tuple[Item, ...], ...]) -> Iterator[Item]:
    """The items, newest first."""
    return chain.from_iterable(map(reversed, reversed(runs)))
