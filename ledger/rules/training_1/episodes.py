"""From a sign at each step to episodes: when something began, when it was certain, and when it was over.

One state machine says it, whether a series is read whole or comes in step by step.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from ledger.rules.training_1.thresholds import HELD_FOR
from ledger.rules.training_1.values import Value


class Sign(NamedTuple):
    """One step's sign, past the near threshold or past both."""

    near: bool
    far: bool


CALM: Final = Sign(near=False, far=False)


class Episode(NamedTuple):
    """Places in the series of signs."""

    onset: int
    """From here on the sign stayed past the near threshold until it was seen."""
    seen: int
    """Here it had been past the far threshold for `HELD_FOR` steps in a row."""
    over: int | None
    """From here on it was back within the near threshold for `HELD_FOR` steps in a row; None: it lasted."""


class Watch(Value, frozen=True):
    """Where a sign stands, after the places that it was watched at."""

    since: int | None = None
    """From here on it was past the near threshold; of an episode that lasts, its onset."""
    far: int = 0
    """Places in a row past the far threshold, until that is an episode."""
    seen: int | None = None
    """Of the episode that lasts; None: none does."""
    back: int = 0
    """Places in a row back within the near threshold, while an episode lasts."""

    @property
    def onset(self) -> int | None:
        """Of the episode that lasts."""
        return None if self.seen is None else self.since

    def after(self, place: int, sign: Sign) -> Watch:
        """The same, one place later."""
        near, far = sign
        if self.seen is not None:
            return self._while_it_lasts(within=not (near or far))
        if not (near or far):
            return QUIET
        since = place if self.since is None else self.since
        held = self.far + 1 if far else 0
        return Watch(since, seen=place) if held == HELD_FOR else Watch(since, held)

    def _while_it_lasts(self, *, within: bool) -> Watch:
        back = self.back + 1 if within else 0
        if back == HELD_FOR:
            return QUIET
        return self if back == self.back else Watch(self.since, seen=self.seen, back=back)


QUIET: Final = Watch()


def episodes(signs: Iterable[Sign]) -> list[Episode]:
    """All episodes in order. They never overlap, and only the last one can last."""
    found: list[Episode] = []
    watch = QUIET
    for place, sign in enumerate(signs):
        before, watch = watch, watch.after(place, sign)
        if before.seen is not None and watch.seen is None:
            found.append(_episode(before, over=place - HELD_FOR + 1))
    if watch.seen is not None:
        found.append(_episode(watch, over=None))
    return found


def _episode(watch: Watch, over: int | None) -> Episode:
    assert watch.since is not None  # what was seen began
    assert watch.seen is not None  # asked of an episode
    return Episode(watch.since, watch.seen, over)
