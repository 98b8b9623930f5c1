"""Defects: suspected, confirmed, resolved, reopened, withdrawn.

A suspicion changes nothing but the list of suspicions. A confirmation and a reopening open a defect; a resolution and a
withdrawal close it. What does not fit the defect's status changes nothing. Where a defect was last opened and last
closed is kept, since a rating and a report have to be newer than that.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from ledger.rules import RuleEvent
from ledger.rules.ledger_1 import reading
from ledger.rules.ledger_1.model import Defect, DefectStatus, Resolution, Settled, Validation

ADVERSE: Final = frozenset({"incorrect", "empty", "trivial", "perturbed"})
"""Kinds of control that must not be rewarded."""


def suspected(settled: Settled, event: RuleEvent, said: reading.DefectSuspected) -> Settled:
    known = settled.defects.get(said.defect)
    if known is not None and known.status != "withdrawn":
        return settled
    return _with(settled, Defect(said.defect, said.kind, "suspected", said.summary, event.pos, sample=event.sample))


def confirmed(settled: Settled, event: RuleEvent, said: reading.DefectConfirmed) -> Settled:
    known = settled.defects.get(said.defect)
    if known is not None and known.status == "open":
        return settled
    defect = Defect(
        id=said.defect,
        kind=said.kind,
        status="open",
        summary=said.summary,
        pos=event.pos,
        issue_url=said.issue_url,
        confirmed=event.pos,
        confirmed_by=event.principal,
        opened=event.pos,
        native_inputs=tuple(ref.sha256 for ref in said.native_inputs),
        review=said.review,
        validations=known.validations if known else (),
        sample=event.sample,
    )
    return replace(_with(settled, defect), last_opened=event.pos)


def validated(settled: Settled, event: RuleEvent, said: reading.DefectValidationRecorded) -> Settled:
    known = settled.defects.get(said.defect)
    if known is None:
        return settled
    validation = Validation(
        id=event.id,
        pos=event.pos,
        dataset_revision=said.dataset_revision,
        verifier_revision=said.verifier_revision,
        replayed=tuple(r.input_sha256 for r in said.replays if r.passed),
        failed_replays=sum(not r.passed for r in said.replays),
        adverse_controls=sum(c.kind in ADVERSE for c in said.controls),
        failed_controls=sum(not c.passed for c in said.controls),
        evidence=len(said.evidence),
    )
    return _with(settled, replace(known, validations=(*known.validations, validation)))


def resolved(settled: Settled, event: RuleEvent, said: reading.DefectResolved) -> Settled:
    known = settled.defects.get(said.defect)
    if known is None or known.status != "open":
        return settled
    resolution = Resolution(event.pos, said.validation, said.review, event.principal)
    closed = _closed(settled, event, replace(known, resolution=resolution), "resolved")
    return replace(closed, last_resolved=event.pos)


def reopened(settled: Settled, event: RuleEvent, said: reading.DefectReopened) -> Settled:
    known = settled.defects.get(said.defect)
    if known is None or known.status != "resolved":
        return settled
    sample = known.sample or event.sample
    defect = replace(known, status="open", pos=event.pos, opened=event.pos, resolution=None, sample=sample)
    return replace(_with(settled, defect), last_opened=event.pos)


def withdrawn(settled: Settled, event: RuleEvent, said: reading.DefectWithdrawn) -> Settled:
    known = settled.defects.get(said.defect)
    if known is None or known.status not in {"suspected", "open"}:
        return settled
    if known.status == "open":
        return _closed(settled, event, known, "withdrawn")
    return _with(settled, replace(known, status="withdrawn", pos=event.pos))


def in_status(settled: Settled, status: DefectStatus) -> list[Defect]:
    """In the order of their first appearance."""
    return [d for d in settled.defects.values() if d.status == status] if settled.defects else []


def _closed(settled: Settled, event: RuleEvent, defect: Defect, status: DefectStatus) -> Settled:
    closed = replace(defect, status=status, pos=event.pos, sample=defect.sample or event.sample)
    return replace(_with(settled, closed), last_closed=event.pos)


def _with(settled: Settled, defect: Defect) -> Settled:
    return replace(settled, defects={**settled.defects, defect.id: defect})
