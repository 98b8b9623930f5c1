"""Results of pure functions, remembered for the very objects that they were asked of.

Facts share what stayed from event to event, so a report is judged against the same terms as often as anything happens
to its source. Arguments are told apart by identity, which for what is never changed is as good as equality and costs
nothing to compare. They are held as long as their result is, so that no other object can come to bear their identity.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar, TypeVarTuple

MOST: Final = 1_024
"""Results of one function that are held; then all are let go, which costs no more than asking again."""

FEW: Final = 8
"""Of results that may be as large as a run's whole series."""

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")


def remembered(function: Callable[[*Arguments], Result]) -> Callable[[*Arguments], Result]:
    """The function, asked once for the same immutable arguments; safe to call from several threads."""
    return _holding(function, MOST)


def remembered_briefly(function: Callable[[*Arguments], Result]) -> Callable[[*Arguments], Result]:
    """As `remembered`, for results that are large."""
    return _holding(function, FEW)


def _holding(function: Callable[[*Arguments], Result], most: int) -> Callable[[*Arguments], Result]:
    known: dict[tuple[int, ...], tuple[object, Result]] = {}

    def ask(*args: *Arguments) -> Result:
        key = tuple(map(id, args))
        found = known.get(key)
        if found is not None:
            return found[1]
        result = function(*args)
        if len(known) >= most:
            known.clear()
        known[key] = (args, result)
        return result

    return ask
