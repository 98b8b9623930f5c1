"""What a list of sources is picked by: a few fields of each state, read without the rest of it.

A state is some kilobytes, most of them reasons. Here it is read in a tenth of the time, and a list of a hundred
thousand sources can be held. A whole state is read for what stands on the page alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from ledger.audit.wording import check_values

QUALITIES: Final = ("good", "some_issues", "bad", "unrated", "unreviewed", "needs_re_review")
DIFFICULTIES: Final = ("current", "historical", "invalid", "withheld", "needs_re_review", "not_measured")
_KNOWN: Final[Mapping[str, tuple[str, ...]]] = {
    "qualities": QUALITIES,
    "difficulties": DIFFICULTIES,
}
"""The values that the rules give; origins, families and statuses are the inventories' own words."""


class _Difficulty(msgspec.Struct, gc=False):
    status: str


class _Defect(msgspec.Struct, gc=False):
    """That there is one is all that is asked."""


class Brief(msgspec.Struct, gc=False):
    """Of a state, what a filter asks for."""

    id: str
    origin: str
    name: str | None
    family: str | None
    dataset_id: str | None
    atlas_status: str | None
    is_benchmark: bool | None
    retired: bool
    quality: str
    difficulty: _Difficulty
    open_defects: list[_Defect]

    @property
    def place(self) -> tuple[str, str]:
        """Where it stands in a list; text compares as its bytes do."""
        return self.origin, self.id


brief_of = msgspec.json.Decoder(Brief).decode


@dataclass(frozen=True)
class SourceFilter:
    """Which sources to list. Empty fields match everything; several values of one field are alternatives."""

    origins: frozenset[str] = frozenset()
    families: frozenset[str] = frozenset()
    qualities: frozenset[str] = frozenset()
    difficulties: frozenset[str] = frozenset()
    atlas_statuses: frozenset[str] = frozenset()
    has_open_defects: bool | None = None
    is_benchmark: bool | None = None
    search: str = ""
    include_retired: bool = False

    def __post_init__(self) -> None:
        check_values(self, _KNOWN)

    def takes(self, brief: Brief) -> bool:
        return (
            (self.include_retired or not brief.retired)
            and (not self.origins or brief.origin in self.origins)
            and (not self.families or brief.family in self.families)
            and (not self.qualities or brief.quality in self.qualities)
            and (not self.difficulties or brief.difficulty.status in self.difficulties)
            and (not self.atlas_statuses or brief.atlas_status in self.atlas_statuses)
            and (self.has_open_defects is None or bool(brief.open_defects) == self.has_open_defects)
            and (self.is_benchmark is None or brief.is_benchmark == self.is_benchmark)
            and (not self.search or self._finds(brief))
        )

    def _finds(self, brief: Brief) -> bool:
        wanted = self.search.casefold()
        return any(wanted in (text or "").casefold() for text in (brief.id, brief.name, brief.dataset_id, brief.family))
