"""Defects: suspected, confirmed, resolved, reopened, withdrawn.

A suspicion changes nothing but the list of suspicions. A confirmation and a reopening open a defect; a resolution and a
withdrawal close it; each is a turn of the rating. What does not fit the defect's status changes nothing.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from ledger.events.defects import (
    DefectConfirmed,
    DefectReopened,
    DefectResolved,
    DefectSuspected,
    DefectValidationRecorded,
    DefectWithdrawn,
)
from ledger.rules import RuleEvent
from ledger.rules.atlas_page_1.model import Defect, DefectStatus, Facts, Turn, Validation
from ledger.rules.atlas_page_1.standing import turned

ADVERSE: Final = frozenset({"incorrect", "empty", "trivial", "perturbed"})
"""Kinds of control that must not be rewarded."""


def suspected(facts: Facts, event: RuleEvent, payload: DefectSuspected) -> Facts:
    known = facts.defects.get(payload.defect)
    if known is not None and known.status != "withdrawn":
        return facts
    return _with(
        facts, Defect(payload.defect, payload.kind, "suspected", payload.summary, event.pos, sample=event.sample)
    )


def confirmed(facts: Facts, event: RuleEvent, payload: DefectConfirmed) -> Facts:
    known = facts.defects.get(payload.defect)
    if known is not None and known.status == "open":
        return facts
    defect = Defect(
        id=payload.defect,
        kind=payload.kind,
        status="open",
        summary=payload.summary,
        pos=event.pos,
        issue_url=payload.issue_url,
        opened=event.pos,
        native_inputs=tuple(ref.sha256 for ref in payload.native_inputs),
        review=payload.review,
        validations=known.validations if known else (),
        sample=event.sample,
    )
    return turned(_with(facts, defect), Turn(event.pos, "opened", sample=event.sample))


def validated(facts: Facts, event: RuleEvent, payload: DefectValidationRecorded) -> Facts:
    known = facts.defects.get(payload.defect)
    if known is None:
        return facts
    validation = Validation(
        id=event.id,
        pos=event.pos,
        dataset_revision=payload.dataset_revision,
        verifier_revision=payload.verifier_revision,
        replayed=tuple(r.input_sha256 for r in payload.replays if r.passed),
        failed_replays=sum(not r.passed for r in payload.replays),
        adverse_controls=sum(c.kind in ADVERSE for c in payload.controls),
        failed_controls=sum(not c.passed for c in payload.controls),
        evidence=len(payload.evidence),
    )
    return _with(facts, replace(known, validations=(*known.validations, validation)))


def resolved(facts: Facts, event: RuleEvent, payload: DefectResolved) -> Facts:
    known = facts.defects.get(payload.defect)
    if known is None or known.status != "open":
        return facts
    return _closed(facts, event, known, "resolved")


def reopened(facts: Facts, event: RuleEvent, payload: DefectReopened) -> Facts:
    known = facts.defects.get(payload.defect)
    if known is None or known.status != "resolved":
        return facts
    defect = replace(known, status="open", pos=event.pos, opened=event.pos, sample=known.sample or event.sample)
    return turned(_with(facts, defect), Turn(event.pos, "opened", sample=event.sample))


def withdrawn(facts: Facts, event: RuleEvent, payload: DefectWithdrawn) -> Facts:
    known = facts.defects.get(payload.defect)
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


def last_opened(facts: Facts) -> int | None:
    """Position of the last confirmation or reopening of any defect, whatever became of it."""
    return next((turn.pos for turn in reversed(facts.turns) if turn.kind == "opened"), None)


def last_closed(facts: Facts) -> int | None:
    """Position of the last resolution or withdrawal of a confirmed defect."""
    return next((turn.pos for turn in reversed(facts.turns) if turn.kind == "closed"), None)


def _closed(facts: Facts, event: RuleEvent, defect: Defect, status: DefectStatus) -> Facts:
    closed = replace(defect, status=status, pos=event.pos, sample=defect.sample or event.sample)
    return turned(_with(facts, closed), Turn(event.pos, "closed", sample=event.sample))


def _with(facts: Facts, defect: Defect) -> Facts:
    return replace(facts, defects={**facts.defects, defect.id: defect})
