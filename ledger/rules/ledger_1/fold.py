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
from ledger.rules.ledger_1 import attestations, defects, environment_reading, measurements, reading
from ledger.rules.ledger_1.catalogue_rows import row_of
from ledger.rules.ledger_1.decoding import DECODE
from ledger.rules.ledger_1.gathering import part_of, tag_of
from ledger.rules.ledger_1.growing import grown, items
from ledger.rules.ledger_1.model import Facts, RowPart, Settled
from ledger.rules.ledger_1.ratings import rate
from ledger.rules.ledger_1.review_model import Pending, Review
from ledger.rules.ledger_1.tallies import tally

RowKind = Literal["declared", "revised", "reinstated"]


def fold(facts: Facts, event: RuleEvent) -> Facts:
    step = _STEPS.get(event.type)
    if step is None:
        return facts
    decode, folded = step
    return folded(facts, event, decode(event.body))


def _is_published(settled: Settled, collection: str) -> bool:
    return any(review.collection == collection for review in settled.reviews)


def _review_part(facts: Facts, event: RuleEvent, said: reading.ReviewPart) -> Facts:
    # The road of nearly every event: only what grows is made anew.
    collection = said.collection
    waiting = facts.pending.get(collection)
    if waiting is None:
        if _is_published(facts.settled, collection):
            return facts
        waiting = Pending()
    pending = Pending(grown(waiting.parts, part_of(event, said)), waiting.tags)
    return Facts(facts.settled, {**facts.pending, collection: pending})


def _tag_assigned(facts: Facts, event: RuleEvent, said: reading.TagAssigned) -> Facts:
    tag, settled = tag_of(event, said), facts.settled
    if said.collection is None:
        return Facts(replace(settled, tags=grown(settled.tags, tag)), facts.pending)
    if _is_published(settled, said.collection):
        return facts
    waiting = facts.pending.get(said.collection) or Pending()
    pending = Pending(waiting.parts, grown(waiting.tags, tag))
    return Facts(settled, {**facts.pending, said.collection: pending})


def _tag_retracted(settled: Settled, event: RuleEvent, said: reading.TagRetracted) -> Settled:
    return replace(settled, retracted=grown(settled.retracted, (event.pos, said.assignment_id)))


def _published(facts: Facts, event: RuleEvent, said: reading.ReviewPublished) -> Facts:
    settled = facts.settled
    if any(said.collection == r.collection or said.review == r.id for r in settled.reviews):
        return facts
    waiting = dict(facts.pending)
    parts = waiting.pop(said.collection, Pending())
    review = _review(event, said, parts)
    return Facts(replace(settled, reviews=(*settled.reviews, review)), waiting)


def _review(event: RuleEvent, said: reading.ReviewPublished, parts: Pending) -> Review:
    tags = tuple(items(parts.tags))
    found = tally(items(parts.parts), tags)
    dirty = said.execution_provenance is not None and said.execution_provenance.marinskyrl_dirty
    return Review(
        id=said.review,
        pos=event.pos,
        collection=said.collection,
        tally=found,
        rating=rate(found, said.review_pool_role, dirty=dirty),
        role=said.review_pool_role,
        dataset_revision=said.dataset_revision,
        verifier_revision=said.verifier_revision,
        verifier_revision_basis=said.verifier_revision_basis,
        executed_commit=said.executed_commit,
        reference_commit=said.reference_commit,
        dirty=dirty,
        rests_on=said.rests_on,
        tags=tags,
        sample=event.sample or found.sample,
    )


def _superseded(settled: Settled, event: RuleEvent, said: reading.ReviewSuperseded) -> Settled:
    reviews = tuple(
        replace(r, superseded=event.pos, superseded_by=said.superseded_by, sample=r.sample or event.sample)
        if r.id == said.review and r.superseded is None
        else r
        for r in settled.reviews
    )
    return replace(settled, reviews=reviews)


def _row_part(settled: Settled, event: RuleEvent, said: environment_reading.PartWithRow, *, kind: RowKind) -> Settled:
    part = RowPart(event.pos, said.collection, kind, row_of(bytes(said.row)), event.sample)
    return replace(settled, parts=(*settled.parts, part))


def _retired(settled: Settled, event: RuleEvent, said: environment_reading.SourceRetired) -> Settled:
    part = RowPart(event.pos, said.collection, "retired", None, event.sample)
    return replace(settled, parts=(*settled.parts, part))


def _attested(settled: Settled, event: RuleEvent, said: reading.AttestationRecorded) -> Settled:
    known = {**settled.attestations, event.id: attestations.recorded(event, said)}
    return replace(settled, attestations=known)


_FoldsFacts = Callable[[Facts, RuleEvent, Any], Facts]
_FoldsSettled = Callable[[Settled, RuleEvent, Any], Settled]


def _settling(folded: _FoldsSettled) -> _FoldsFacts:
    """Of what never waits: nothing pending changes."""

    def fold_facts(facts: Facts, event: RuleEvent, said: Any) -> Facts:
        settled = folded(facts.settled, event, said)
        return facts if settled is facts.settled else Facts(settled, facts.pending)

    return fold_facts


_FOLDS: Final[Mapping[str, _FoldsFacts]] = {
    "observation.recorded": _review_part,
    "judgment.recorded": _review_part,
    "synthesis.recorded": _review_part,
    "tag.assigned": _tag_assigned,
    "tag.retracted": _settling(_tag_retracted),
    "review.published": _published,
    "review.superseded": _settling(_superseded),
    "source.declared": _settling(partial(_row_part, kind="declared")),
    "source.revised": _settling(partial(_row_part, kind="revised")),
    "source.retired": _settling(_retired),
    "source.reinstated": _settling(partial(_row_part, kind="reinstated")),
    "defect.suspected": _settling(defects.suspected),
    "defect.confirmed": _settling(defects.confirmed),
    "defect.validation_recorded": _settling(defects.validated),
    "defect.resolved": _settling(defects.resolved),
    "defect.reopened": _settling(defects.reopened),
    "defect.withdrawn": _settling(defects.withdrawn),
    "difficulty.reported": _settling(measurements.reported),
    "difficulty.followup_reported": _settling(measurements.followed_up),
    "difficulty.context_recorded": _settling(measurements.context_recorded),
    "attestation.recorded": _settling(_attested),
}

_STEPS: Final = {type_: (DECODE[type_], folded) for type_, folded in _FOLDS.items()}
