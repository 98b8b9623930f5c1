"""The fold: one event of a source's stream at a time, into its facts.

Total: an event that contradicts what is known (a resolution of an unknown defect, a second publication) was recorded
all the same, and changes nothing. Parts of a review count from its publication; parts that come after it count for
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, Final

from msgspec.structs import replace
from pydantic import BaseModel

from ledger.core import strictjson
from ledger.events.catalogue import CatalogueRow, SourceDeclared, SourceReinstated, SourceRetired, SourceRevised
from ledger.events.defects import (
    DefectConfirmed,
    DefectReopened,
    DefectResolved,
    DefectSuspected,
    DefectValidationRecorded,
    DefectWithdrawn,
)
from ledger.events.difficulty import DifficultyReported, ReportedModel
from ledger.events.reviews import (
    JudgmentRecorded,
    ObservationRecorded,
    ReviewPublished,
    ReviewSuperseded,
    SynthesisRecorded,
    TagAssigned,
)
from ledger.rules import RuleEvent
from ledger.rules.atlas_page_1 import defects
from ledger.rules.atlas_page_1.gathering import ReviewPart, gathered
from ledger.rules.atlas_page_1.growing import grown
from ledger.rules.atlas_page_1.model import (
    Facts,
    Measured,
    Pending,
    Report,
    Review,
    Row,
    RowPart,
    Turn,
)
from ledger.rules.atlas_page_1.ratings import rate
from ledger.rules.atlas_page_1.standing import turned, without_superseded


def fold(facts: Facts, event: RuleEvent) -> Facts:
    folded = _FOLDS.get(type(event.payload))
    return folded(facts, event, event.payload) if folded else facts


def _declared(facts: Facts, event: RuleEvent, payload: SourceDeclared) -> Facts:
    return _with_part(facts, RowPart(event.pos, payload.collection, "declared", _row(payload.row), event.sample))


def _revised(facts: Facts, event: RuleEvent, payload: SourceRevised) -> Facts:
    return _with_part(facts, RowPart(event.pos, payload.collection, "revised", _row(payload.row), event.sample))


def _reinstated(facts: Facts, event: RuleEvent, payload: SourceReinstated) -> Facts:
    return _with_part(facts, RowPart(event.pos, payload.collection, "reinstated", _row(payload.row), event.sample))


def _retired(facts: Facts, event: RuleEvent, payload: SourceRetired) -> Facts:
    return _with_part(facts, RowPart(event.pos, payload.collection, "retired", None, event.sample))


def _with_part(facts: Facts, part: RowPart) -> Facts:
    return replace(facts, parts=(*facts.parts, part))


def _row(row: CatalogueRow) -> Row:
    return Row(
        origin=row.origin,
        sha256=sha256(strictjson.dumps(row.model_dump(exclude_defaults=True))).hexdigest(),
        name=row.name,
        family=row.family,
        url=row.url,
        dataset_id=row.dataset_id,
        dataset_revision=row.dataset_revision,
        revision=row.revision,
        verifier_revision=row.verifier_revision,
        atlas_status=row.atlas_status,
        intended_use=row.intended_use,
        is_benchmark=row.is_benchmark,
        input_rows=row.input_rows,
    )


def _review_part(facts: Facts, event: RuleEvent, part: ReviewPart) -> Facts:
    if _is_published(facts, part.collection):
        return facts
    pending = facts.pending.get(part.collection) or Pending()
    pending = Pending(grown(pending.ids, event.id), gathered(pending.tally, event, part))
    return replace(facts, pending={**facts.pending, part.collection: pending})


def _tag_assigned(facts: Facts, event: RuleEvent, payload: TagAssigned) -> Facts:
    if payload.collection is None or _is_published(facts, payload.collection):
        return facts
    pending = facts.pending.get(payload.collection) or Pending()
    tally = replace(pending.tally, sample=True) if event.sample else pending.tally
    pending = Pending(grown(pending.ids, event.id), tally)
    return replace(facts, pending={**facts.pending, payload.collection: pending})


def _is_published(facts: Facts, collection: str) -> bool:
    return any(review.collection == collection for review in facts.reviews)


def _published(facts: Facts, event: RuleEvent, payload: ReviewPublished) -> Facts:
    if _is_published(facts, payload.collection) or any(r.id == payload.review for r in facts.reviews):
        return facts
    waiting = dict(facts.pending)
    tally = waiting.pop(payload.collection, Pending()).tally
    review = Review(
        id=payload.review,
        pos=event.pos,
        collection=payload.collection,
        tally=tally,
        rating=rate(tally, payload.review_pool_role),
        role=payload.review_pool_role,
        dataset_revision=payload.dataset_revision,
        verifier_revision=payload.verifier_revision,
        verifier_revision_basis=payload.verifier_revision_basis,
        executed_commit=payload.executed_commit,
        reference_commit=payload.reference_commit,
        sample=event.sample or tally.sample,
    )
    facts = replace(facts, pending=waiting, reviews=(*facts.reviews, review))
    if review.rating is None:
        return facts
    return turned(facts, Turn(event.pos, "rated", review.rating, review.id, review.sample))


def _superseded(facts: Facts, event: RuleEvent, payload: ReviewSuperseded) -> Facts:
    reviews = tuple(
        replace(r, superseded=event.pos) if r.id == payload.review and r.superseded is None else r
        for r in facts.reviews
    )
    if reviews == facts.reviews:
        return facts
    return without_superseded(replace(facts, reviews=reviews), sample=event.sample)


def _reported(facts: Facts, event: RuleEvent, payload: DifficultyReported) -> Facts:
    report = Report(
        pos=event.pos,
        protocol=payload.protocol.id,
        models=tuple(_measured(m) for m in payload.models),
        context_window=payload.protocol.context_window,
        max_input_tokens=payload.protocol.max_input_tokens,
        max_output_tokens=payload.protocol.max_output_tokens,
        source_revision=payload.source_revision,
        verifier_revision=payload.verifier_revision,
        estimated_at=payload.estimated_at,
        sample=event.sample,
    )
    return replace(facts, reports=(*facts.reports, report))


def _measured(model: ReportedModel) -> Measured:
    return Measured(
        size=model.size,
        model=model.model,
        solved=model.solved,
        verified=model.verified,
        unverified=model.unverified,
        attempted=model.attempted,
        generation_parameters=model.generation_parameters,
    )


_FOLDS: Final[Mapping[type[BaseModel], Callable[[Facts, RuleEvent, Any], Facts]]] = {
    SourceDeclared: _declared,
    SourceRevised: _revised,
    SourceRetired: _retired,
    SourceReinstated: _reinstated,
    ObservationRecorded: _review_part,
    JudgmentRecorded: _review_part,
    SynthesisRecorded: _review_part,
    TagAssigned: _tag_assigned,
    ReviewPublished: _published,
    ReviewSuperseded: _superseded,
    DefectSuspected: defects.suspected,
    DefectConfirmed: defects.confirmed,
    DefectValidationRecorded: defects.validated,
    DefectResolved: defects.resolved,
    DefectReopened: defects.reopened,
    DefectWithdrawn: defects.withdrawn,
    DifficultyReported: _reported,
}
