"""A campaign: what it was declared to compare, and what is claimed of it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from ledger.rules.training_1.claims import campaign_claims
from ledger.rules.training_1.decoding import plain
from ledger.rules.training_1.flagging import Flag, of_odd, written_flag
from ledger.rules.training_1.model import Campaign


def campaign_flags(campaign: Campaign) -> tuple[Flag, ...]:
    """The last declaration counts; that it says something else than the one before is shown."""
    otherwise = (
        Flag(
            "CAMPAIGN_DECLARED_OTHERWISE",
            f"the campaign was declared to compare {_compared(before.said)}, then {_compared(after.said)}",
            (before.pos, after.pos),
        )
        for before, after in pairwise(campaign.declared)
        if _compared(before.said) != _compared(after.said)
    )
    found = (*otherwise, *map(of_odd, campaign.strays))
    return tuple(sorted(found, key=lambda flag: (max(flag.positions), flag.code, flag.message)))


def _compared(said: Any) -> str:
    what = said.compares or "nothing that is named"
    return f"{what} {said.setting}" if said.setting else what


def written_campaign(id_: str, campaign: Campaign, *, sample: bool) -> dict[str, Any]:
    """As `Campaign` in runs.proto."""
    state: dict[str, Any] = {
        "id": id_,
        "claims": campaign_claims(campaign.claims),
        "flags": [written_flag(flag) for flag in campaign_flags(campaign)],
        "sample": sample,
    }
    if campaign.declared:
        last = campaign.declared[-1]
        state |= {"declared": plain(last.body), "declared_pos": last.pos}
    return state
