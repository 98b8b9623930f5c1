"""Lists of sources, as briefs: kept for the last moments, and carried on from one moment to a later one.

What a generation's rows say of a size never changes, but for redactions, which are a part of a moment's key. So a list
of a later size is the earlier one with what changed in between.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, NamedTuple

from ledger.audit.briefs import Brief, brief_of
from ledger.audit.coordinates import Moment
from ledger.audit.reading import CHECK_EVERY, Check, go_on
from ledger.audit.states import Shelf

KEPT: Final = 3
"""A list is some hundred bytes a source; what did not change is shared by lists of one generation."""


class _Key(NamedTuple):
    generation: str
    """Empty where the log was folded."""
    rules_digest: str
    redactions_through: int
    size: int
    policy_size: int

    def leads_to(self, later: _Key) -> bool:
        """Whether rows carry the one on to the other."""
        return bool(self.generation) and self[:3] == later[:3] and self.size <= later.size


class Listings:
    """Gives the briefs of a moment. Safe to use from many threads."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._making = threading.Lock()  # one list at a time: a second asker of the same finds it kept
        self._guard = threading.Lock()
        self._kept: OrderedDict[_Key, Sequence[Brief]] = OrderedDict()  # guarded by _guard

    def of(self, moment: Moment, check: Check = go_on) -> Sequence[Brief]:
        """Every source that is listed at the moment, by origin, then id.

        Raises:
            Moved: the generation that answers is gone.
        """
        key = _key(moment)
        found = self._find(key)
        if found is None:
            with self._making:
                found = self._find(key)
                if found is None:
                    found = self._made(moment, key, check)
                    self._keep(key, found)
        return found

    def _find(self, key: _Key) -> Sequence[Brief] | None:
        with self._guard:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
            return found

    def _keep(self, key: _Key, found: Sequence[Brief]) -> None:
        with self._guard:
            self._kept[key] = found
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)

    def _made(self, moment: Moment, key: _Key, check: Check) -> list[Brief]:
        since, start = self._nearest(key)
        briefs = {brief.id: brief for brief in start}
        for number, (source, state) in enumerate(self._shelf.states(moment).changed(since)):
            if number % CHECK_EVERY == 0:
                check()
            if state:
                briefs[source] = brief_of(state)
            else:
                briefs.pop(source, None)
        return sorted(briefs.values(), key=lambda brief: brief.place)

    def _nearest(self, key: _Key) -> tuple[int, Sequence[Brief]]:
        """The size of the last kept list that leads to this one, and the list; from nothing, if there is none."""
        with self._guard:
            leading = [kept for kept in self._kept if kept.leads_to(key)]
            if not leading:
                return 0, ()
            last = max(leading, key=lambda kept: kept.size)
            return last.size, self._kept[last]


def _key(moment: Moment) -> _Key:
    generation = moment.generation.id if moment.generation is not None else ""
    # Rows answer where the policy did not move: whatever its size, they are the same.
    policy_size = moment.size if generation else moment.policy_size
    return _Key(generation, moment.rules_digest, moment.redactions_through, moment.size, policy_size)
