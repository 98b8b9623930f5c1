"""Lists of runs: which there are, by what a reader picks them by."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from ledger.audit.coordinates import Moment
from ledger.audit.pages import Room, encode_token
from ledger.audit.run_briefs import RunBrief
from ledger.audit.wording import check_values

QUESTION: Final = "runs"
STATUSES: Final = ("open", "completed", "failed", "cancelled", "preempted", "unknown")
ANOMALIES: Final = ("entropy_runaway", "entropy_collapse", "reward_collapse", "non_finite", "other")
_KNOWN: Final[Mapping[str, tuple[str, ...]]] = {"statuses": STATUSES, "anomalies": ANOMALIES}


@dataclass(frozen=True)
class RunFilter:
    """Which runs to list. Empty fields match everything; several values of one field are alternatives."""

    campaigns: frozenset[str] = frozenset()
    sources: frozenset[str] = frozenset()
    """Atlas ids that the run trains on."""
    statuses: frozenset[str] = frozenset()
    anomalies: frozenset[str] = frozenset()
    has_flags: bool | None = None
    selected: bool | None = None
    search: str = ""

    def __post_init__(self) -> None:
        check_values(self, _KNOWN)

    def takes(self, run: RunBrief) -> bool:
        summary = run.summary
        return (
            (not self.campaigns or summary.get("campaign_id") in self.campaigns)
            and (not self.sources or not self.sources.isdisjoint(run.trained_on))
            and (not self.statuses or summary.get("status") in self.statuses)
            and (not self.anomalies or not self.anomalies.isdisjoint(summary.get("anomalies") or ()))
            and (self.has_flags is None or bool(summary.get("flags")) == self.has_flags)
            and (self.selected is None or bool(summary.get("selected_steps")) == self.selected)
            and (not self.search or self._finds(run))
        )

    def _finds(self, run: RunBrief) -> bool:
        wanted, summary = self.search.casefold(), run.summary
        texts = (run.id, summary.get("arm"), summary.get("rl_start"), *(summary.get("sources") or ()))
        return any(wanted in (text or "").casefold() for text in texts)


@dataclass(frozen=True, slots=True)
class RunPage:
    """Some of the runs that pass, and how to ask for more."""

    runs: tuple[Mapping[str, Any], ...]
    """Their summaries."""
    total: int
    next_token: str = ""


def page(runs: Iterable[RunBrief], which: RunFilter, moment: Moment, *, size: int = 0, start: int = 0) -> RunPage:
    """The runs that pass, by campaign, then id, from the one with the number `start`; those of no campaign last."""
    passing = sorted((run for run in runs if which.takes(run)), key=_place)
    room, given = Room(size), 0
    for run in passing[start:]:
        if not room.takes(len(orjson.dumps(run.summary))):
            break
        given += 1
    end = start + given
    token = encode_token(QUESTION, which, [moment], end) if end < len(passing) else ""
    return RunPage(tuple(run.summary for run in passing[start:end]), len(passing), token)


def of_campaign(runs: Sequence[RunBrief], campaign: str, planned: Collection[str] = ()) -> list[RunBrief]:
    """The runs that say they belong to a campaign, and those that it plans and that name no other, by id."""
    of = {None, campaign}
    return [
        run
        for run in sorted(runs, key=lambda run: run.id)
        if (named := run.summary.get("campaign_id")) == campaign or (run.id in planned and named in of)
    ]


def _place(run: RunBrief) -> tuple[bool, str, str]:
    campaign = run.summary.get("campaign_id")
    return campaign is None, campaign or "", run.id
