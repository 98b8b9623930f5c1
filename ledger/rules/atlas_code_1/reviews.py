"""The review that the row points at, as it is shown, and why it is that one."""

from __future__ import annotations

from typing import Any

from ledger.rules.atlas_code_1.columns import Columns
from ledger.rules.atlas_code_1.listing import Listing
from ledger.rules.atlas_code_1.model import Facts, Review
from ledger.rules.atlas_code_1.ratings import is_written
from ledger.rules.atlas_code_1.reasons import Reason, plural, reason


def review_fields(row: Columns) -> dict[str, Any] | None:
    """The review as `Review` in audit.proto has it; an authored one has no collection to show."""
    review = row.review
    if review is None:
        return None
    return {
        "id": review.id,
        "rating": review.rating,
        "review_date": review.tally.newest_date,
        "dataset_revision": row.source_revision,
        "verifier_revision": row.verifier_revision,
        "verifier_revision_basis": "catalogue" if row.verifier_revision else None,
        "executed_commit": review.executed_commit,
        "reference_commit": review.reference_commit,
        "traces": review.tally.traces.count,
        "judgments": review.tally.judgments,
        "pos": review.pos,
    }


def review_reasons(facts: Facts, row: Columns, listing: Listing) -> list[Reason]:
    """Why this review is the one that is shown, and why its date is what it is."""
    review = row.review
    if review is None:
        text = "The row points at no review: the publisher has written none."
        return [reason("review", "review.none", text, listing.events), *_beside(facts), *_superseded(facts)]
    return [_why_shown(facts, review), *_beside(facts), *_superseded(facts), _why_dated(review)]


def _why_shown(facts: Facts, review: Review) -> Reason:
    earlier = [r for r in facts.reviews if r.pos < review.pos and is_written(r.tally, r.role)]
    if review.rating is None:
        text = (
            f"{plural(review.tally.supplemental_judges.count, 'judgment')} by the supplemental model: the rating is "
            "null, which is written over the one before it, and the review shown moves here."
        )
        rests_on = (review.pos, earlier[-1].pos if earlier else None)
        return reason("review", "review.supplemental-erases", text, rests_on, [review.tally.supplemental_judges])
    newer = [r.pos for r in earlier if (r.tally.newest_date or "") > (review.tally.newest_date or "")]
    if newer:
        text = "The last publication wins: dates are not compared, and an earlier one has a newer date."
        return reason("review", "review.last-wins-whatever-its-date", text, (review.pos, *newer))
    text = "The last publication wins: the row points at the collection that was written last."
    return reason("review", "review.last-published", text, [review.pos])


def _beside(facts: Facts) -> list[Reason]:
    beside = [r.pos for r in facts.reviews if not is_written(r.tally, r.role)]
    if not beside:
        return []
    text = (
        f"{plural(len(beside), 'collection')} beside the row, in a supplemental role or without one source synthesis."
    )
    return [reason("review", "review.beside-the-row", text, beside)]


def _superseded(facts: Facts) -> list[Reason]:
    superseded = [r.superseded for r in facts.reviews if r.superseded is not None]
    if not superseded:
        return []
    text = f"{plural(len(superseded), 'superseded collection')}: the applet knows no supersession, and nothing moves."
    return [reason("review", "review.supersession-not-known", text, superseded)]


def _why_dated(review: Review) -> Reason:
    if review.tally.newest_date is None:
        text = "The review date is unknown: no review of the collection says when it was made."
        return reason("review", "review.date-unknown", text, [review.pos])
    text = "The review date is the newest of all reviews of the collection, runs and syntheses included."
    return reason("review", "review.newest-date", text, (review.pos, review.tally.dated_pos))
