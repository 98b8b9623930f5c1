"""Defects: suspected, confirmed, resolved, reopened, withdrawn.

A confirmation and a reopening open a defect; a resolution and a withdrawal close it; each is written into the row as
the applet's triggers do. A withdrawal is to the applet a deleted row, which fires no trigger. A suspicion is unknown to
it and changes nothing but the list of suspicions. What does not fit the defect's status changes nothing.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from ledger.rules import RuleEvent
from ledger.rules.atlas_code_1 import standing
from ledger.rules.atlas_code_1.model import Defect, DefectStatus, Facts
from ledger.rules.atlas_code_1.reading import (
    DefectConfirmed,
    DefectReopened,
    DefectResolved,
    DefectSuspected,
    DefectWithdrawn,
)


def suspected(facts: Facts, event: RuleEvent, said: DefectSuspected) -> Facts:
    known = facts.defects.get(said.defect)
    if known is not None and known.status != "withdrawn":
        return facts
    return _with(facts, Defect(said.defect, said.kind, "suspected", said.summary, event.pos, sample=event.sample))


def confirmed(facts: Facts, event: RuleEvent, said: DefectConfirmed) -> Facts:
    known = facts.defects.get(said.defect)
    if known is not None and known.status == "open":
        return facts
    defect = Defect(
        id=said.defect,
        kind=said.kind,
        status="open",
        summary=said.summary,
        pos=event.pos,
        issue_url=said.issue_url,
        created=_created(known, event.pos),
        opened=event.pos,
        review=said.review,
        sample=event.sample,
    )
    return _opened(facts, event, defect)


def _created(known: Defect | None, pos: int) -> int:
    """The row of a resolved defect is updated and keeps its time; that of a withdrawn one was deleted."""
    return pos if known is None or known.created is None or known.status == "withdrawn" else known.created


def resolved(facts: Facts, event: RuleEvent, said: DefectResolved) -> Facts:
    known = facts.defects.get(said.defect)
    if known is None or known.status != "open":
        return facts
    return _closed(facts, event, known, "resolved")


def reopened(facts: Facts, event: RuleEvent, said: DefectReopened) -> Facts:
    known = facts.defects.get(said.defect)
    if known is None or known.status != "resolved":
        return facts
    defect = replace(known, status="open", pos=event.pos, opened=event.pos, sample=known.sample or event.sample)
    return _opened(facts, event, defect)


def withdrawn(facts: Facts, event: RuleEvent, said: DefectWithdrawn) -> Facts:
    known = facts.defects.get(said.defect)
    if known is None or known.status not in {"suspected", "open"}:
        return facts
    if known.status == "open":
        return _closed(facts, event, known, "withdrawn")
    return _with(facts, replace(known, status="withdrawn", pos=event.pos))


def shown(facts: Facts, status: DefectStatus) -> list[dict[str, Any]]:
    """The defects in a status, as `Defect` in audit.proto has them."""
    return [
        {
            "id": d.id,
            "kind": d.kind,
            "status": d.status,
            "summary": d.summary,
            "issue_url": d.issue_url,
            "pos": d.pos,
        }
        for d in facts.defects.values()
        if d.status == status
    ]


def opened(facts: Facts) -> list[Defect]:
    """The confirmed defects that are open."""
    return [d for d in facts.defects.values() if d.status == "open"]


def _closed(facts: Facts, event: RuleEvent, defect: Defect, status: DefectStatus) -> Facts:
    changed = replace(defect, status=status, pos=event.pos, sample=defect.sample or event.sample)
    row = standing.closed(facts.standing, event.pos, sample=event.sample)
    return replace(_with(facts, changed), standing=row)


def _opened(facts: Facts, event: RuleEvent, defect: Defect) -> Facts:
    row = standing.opened(facts.standing, event.pos, sample=event.sample)
    return replace(_with(facts, defect), standing=row)


def _with(facts: Facts, defect: Defect) -> Facts:
    return replace(facts, defects={**facts.defects, defect.id: defect})
