"""The fold: one event of a source's stream at a time, into its facts.

Total: an event that contradicts what is known (a resolution of an unknown defect, a second publication) was recorded
all the same, and changes nothing. Parts of a review count from its publication; parts that come after it count for
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, Literal

from msgspec.structs import replace

from ledger.rules import RuleEvent
from ledger.rules.atlas_code_1 import defects, reading, standing
from ledger.rules.atlas_code_1.catalogue_rows import row_of
from ledger.rules.atlas_code_1.gathering import gathered
from ledger.rules.atlas_code_1.grading import attested
from ledger.rules.atlas_code_1.growing import grown
from ledger.rules.atlas_code_1.model import (
    Facts,
    FollowUp,
    Measured,
    Pending,
    Report,
    Review,
    RowPart,
)
from ledger.rules.atlas_code_1.ratings import is_written, rate
from ledger.rules.atlas_code_1.reading import read

RowKind = Literal["declared", "revised", "reinstated"]


def fold(facts: Facts, event: RuleEvent) -> Facts:
    folded = _FOLDS.get(event.type)
    return folded(facts, event, read(event)) if folded else facts


def _row_part(facts: Facts, event: RuleEvent, said: reading.PartWithRow, *, kind: RowKind) -> Facts:
    return _with_part(facts, RowPart(event.pos, said.collection, kind, row_of(bytes(said.row)), event.sample))


def _retired(facts: Facts, event: RuleEvent, said: reading.SourceRetired) -> Facts:
    return _with_part(facts, RowPart(event.pos, said.collection, "retired", None, event.sample))


def _with_part(facts: Facts, part: RowPart) -> Facts:
    return replace(facts, parts=(*facts.parts, part))


def _review_part(facts: Facts, event: RuleEvent, part: reading.ReviewPart) -> Facts:
    if _is_published(facts, part.collection):
        return facts
    pending = facts.pending.get(part.collection) or Pending()
    pending = Pending(grown(pending.ids, event.id), gathered(pending.tally, event, part))
    return replace(facts, pending={**facts.pending, part.collection: pending})


def _tag_assigned(facts: Facts, event: RuleEvent, said: reading.TagAssigned) -> Facts:
    if said.collection is None or _is_published(facts, said.collection):
        return facts
    pending = facts.pending.get(said.collection) or Pending()
    tally = replace(pending.tally, sample=True) if event.sample else pending.tally
    pending = Pending(grown(pending.ids, event.id), tally)
    return replace(facts, pending={**facts.pending, said.collection: pending})


def _is_published(facts: Facts, collection: str) -> bool:
    return any(review.collection == collection for review in facts.reviews)


def _published(facts: Facts, event: RuleEvent, said: reading.ReviewPublished) -> Facts:
    if _is_published(facts, said.collection) or any(r.id == said.review for r in facts.reviews):
        return facts
    waiting = dict(facts.pending)
    tally = waiting.pop(said.collection, Pending()).tally
    review = Review(
        id=said.review,
        pos=event.pos,
        collection=said.collection,
        tally=tally,
        rating=rate(tally, said.review_pool_role),
        role=said.review_pool_role,
        dataset_revision=said.dataset_revision,
        executed_commit=said.executed_commit,
        reference_commit=said.reference_commit,
        sample=event.sample or tally.sample,
    )
    facts = replace(facts, pending=waiting, reviews=(*facts.reviews, review))
    if not is_written(tally, review.role):
        return facts
    return replace(facts, standing=standing.published(facts.standing, review))


def _superseded(facts: Facts, event: RuleEvent, said: reading.ReviewSuperseded) -> Facts:
    """Kept to be told, and to refuse a second one: the row does not move."""
    reviews = tuple(
        replace(r, superseded=event.pos) if r.id == said.review and r.superseded is None else r for r in facts.reviews
    )
    return replace(facts, reviews=reviews)


def _reported(facts: Facts, event: RuleEvent, said: reading.DifficultyReported) -> Facts:
    report = Report(
        pos=event.pos,
        protocol=said.protocol.id,
        models=tuple(_measured(m) for m in said.models),
        atlas_id=said.atlas_id,
        review=facts.standing.review,
        artifact=said.report.sha256 if said.report else None,
        context_window=said.protocol.context_window,
        max_input_tokens=said.protocol.max_input_tokens,
        max_output_tokens=said.protocol.max_output_tokens,
        verifier_configuration=said.verifier_configuration,
        estimated_at=said.estimated_at,
        sample=event.sample,
    )
    return replace(facts, reports=(*facts.reports, report))


def _followed_up(facts: Facts, event: RuleEvent, said: reading.DifficultyFollowupReported) -> Facts:
    if said.state != "complete":
        return facts
    followup = FollowUp(
        id=said.followup_id,
        pos=event.pos,
        kind=said.kind,
        outcome=_measured(said.outcome),
        review=facts.standing.review,
        original_report=said.original_report.sha256 if said.original_report else None,
        changed_parameter=said.changed_parameter,
        checkpoint_change=said.checkpoint_change,
        estimated_at=said.estimated_at,
        sample=event.sample,
    )
    return replace(facts, followups=(*facts.followups, followup))


def _measured(model: reading.ReportedModel) -> Measured:
    return Measured(
        size=model.size,
        model=model.model,
        solved=model.solved,
        verified=model.verified,
        unverified=model.unverified,
        attempted=model.attempted,
        generation_parameters=model.generation_parameters,
    )


_FOLDS: Final[Mapping[str, Callable[[Facts, RuleEvent, Any], Facts]]] = {
    "source.declared": partial(_row_part, kind="declared"),
    "source.revised": partial(_row_part, kind="revised"),
    "source.reinstated": partial(_row_part, kind="reinstated"),
    "source.retired": _retired,
    "observation.recorded": _review_part,
    "judgment.recorded": _review_part,
    "synthesis.recorded": _review_part,
    "tag.assigned": _tag_assigned,
    "review.published": _published,
    "review.superseded": _superseded,
    "defect.suspected": defects.suspected,
    "defect.confirmed": defects.confirmed,
    "defect.resolved": defects.resolved,
    "defect.reopened": defects.reopened,
    "defect.withdrawn": defects.withdrawn,
    "difficulty.reported": _reported,
    "difficulty.followup_reported": _followed_up,
    "attestation.recorded": attested,
}
