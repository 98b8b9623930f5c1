"""What a build saw: how many trials came how far, what has no row and why, and what was odd or replaced in a row.

A count of trials is known only if it is known of every trial. Where a file that would tell cannot be read, or a place
does not say it, the count is null; what was seen of it is told beside, as the lower bound that it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ledger.core.secrets import redact

STAGES: Final = ("started", "finished", "verified", "consumed", "trained")
"""How far a trial came, as `traces.published` counts it."""
MAX_NAMED: Final = 50
"""Places of one kind that are named; all are counted."""


class Tally:
    """How many trials came to each stage."""

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()
        self._hidden: set[str] = set()

    def add(self, reached: Mapping[str, bool | None]) -> None:
        """One trial that started; a stage of which nothing is known of it is known of no sum."""
        self._seen["started"] += 1
        for stage in STAGES[1:]:
            if (came := reached.get(stage)) is None:
                self._hidden.add(stage)
            else:
                self._seen[stage] += came

    def hide(self, *stages: str) -> None:
        """Something that would have told of these stages could not be read."""
        self._hidden.update(stages)

    @property
    def seen(self) -> dict[str, int]:
        return {stage: self._seen[stage] for stage in STAGES}

    @property
    def counts(self) -> dict[str, int | None]:
        return {stage: None if stage in self._hidden else count for stage, count in self.seen.items()}


@dataclass
class Named:
    """How often something was met, by its kind, and the first places of each."""

    counts: Counter[str] = field(default_factory=Counter)
    places: dict[str, list[str]] = field(default_factory=dict)

    def add(self, kind: str, place: str, count: int = 1) -> None:
        self.counts[kind] += count
        named = self.places.setdefault(kind, [])
        if len(named) < MAX_NAMED:
            named.append(place)

    def as_dict(self) -> dict[str, Any]:
        return {
            kind: {"count": self.counts[kind], "places": sorted(set(self.places[kind]))} for kind in sorted(self.counts)
        }


@dataclass
class Account:
    """Filled while places are read; the same places give the same account."""

    tally: Tally = field(default_factory=Tally)
    left_out: Named = field(default_factory=Named)
    """What has no row, by the reason."""
    odd: Named = field(default_factory=Named)
    """What has one, and something about it that a reader should know."""
    redactions: Counter[str] = field(default_factory=Counter)
    """Secrets that were replaced, by shape."""
    replaced: Counter[str] = field(default_factory=Counter)
    """Characters that became U+FFFD, by what they were."""

    def leave_out(self, reason: str, place: str, *, hides: tuple[str, ...] = ()) -> None:
        """Something has no row; nobody knows how many trials came to the stages that it hides."""
        self.left_out.add(reason, self.clean(place))
        self.tally.hide(*hides)

    def note(self, what: str, place: str, *, hides: tuple[str, ...] = ()) -> None:
        """Something is odd about what has a row."""
        self.odd.add(what, self.clean(place))
        self.tally.hide(*hides)

    def clean(self, place: str) -> str:
        """A place by a name that others gave it: it may hold what must not be published."""
        cleaned, found = redact(place)
        self.redactions.update(found)
        return cleaned
