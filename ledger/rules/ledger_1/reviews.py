"""Published collections: which one gives the rating, what the others are, and what is shown of them.

The rating rests on the collection whose judgments are the latest: one that is published later and judged earlier does
not take over, unless it was said to supersede. An unknown date is never later than a known one; of equal ones the later
publication counts. Collections without a rating move nothing. While none rates, a rating that the inventory states
stands in.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from ledger.rules.ledger_1.attestations import Covered
from ledger.rules.ledger_1.listing import Listing
from ledger.rules.ledger_1.model import Settled
from ledger.rules.ledger_1.review_model import Review
from ledger.rules.ledger_1.values import Rating

_NEVER: Final = -(2**62)
"""Before every date there is."""


class Basis(NamedTuple):
    """What the Quality of a source rests on: a published collection, or what the inventory states."""

    review: Review | None
    rating: Rating | None
    pos: int
    """Where it was published, or took effect."""
    events: tuple[int, ...]
    covered: Covered
    sample: bool


def basis_of(settled: Settled, listing: Listing) -> Basis | None:
    """The collection that rates; else the inventory's own rating; else the newest collection, standing ones first."""
    review = _rating_review(settled)
    if review is None and listing.row.authored is not None:
        return _authored(listing)
    if review is None:
        if not settled.reviews:
            return None
        newest_first = settled.reviews[::-1]
        review = next((r for r in newest_first if r.superseded is None), newest_first[0])
    rating = review.rating if review.superseded is None else None
    return Basis(review, rating, review.pos, (review.pos,), covered_by(review), review.sample)


def covered_by(review: Review) -> Covered:
    """A verifier revision shows what ran where the execution recorded it; else it is what somebody claims."""
    named, executed = review.verifier_revision, review.verifier_revision_basis == "execution"
    shown, claimed = (named, None) if executed else (None, named)
    return Covered(review.dataset_revision, shown, review.executed_commit, review.id, claimed)


def passed_over(settled: Settled, shown: Review) -> tuple[list[Review], list[Review]]:
    """Standing collections published after the one shown: those judged earlier, and those that give no rating."""
    later = [r for r in settled.reviews if r.pos > shown.pos and r.superseded is None]
    return [r for r in later if r.rating is not None], [r for r in later if r.rating is None]


def pool_role(review: Review) -> str:
    """What a collection is among the others."""
    if review.role is not None:
        return "attestation" if review.role == "verifier_revision_attestation" else "resolution"
    if not review.tally.traces.count and not review.tally.judges.count:
        return "reused"
    if review.rating is not None:
        return "rating"
    return "resolution" if review.tally.claims else "supplemental"


def review_fields(basis: Basis | None, listing: Listing) -> dict[str, Any] | None:
    """The review as `Review` in audit.proto has it; the inventory's own rating has no id."""
    if basis is None:
        return None
    review, authored = basis.review, listing.row.authored
    if review is None:
        assert authored is not None
        return {
            "id": "",
            "rating": authored.rating,
            "review_date": authored.reviewed_at,
            "dataset_revision": authored.dataset_revision,
            "verifier_revision": authored.verifier_revision,
            "verifier_revision_basis": authored.verifier_revision and "catalogue",
            "executed_commit": None,
            "reference_commit": None,
            "traces": 0,
            "judgments": 0,
            "pos": basis.pos,
        }
    return {
        "id": review.id,
        "rating": review.rating,
        "review_date": review.tally.judged_at,
        "dataset_revision": review.dataset_revision,
        "verifier_revision": review.verifier_revision,
        "verifier_revision_basis": review.verifier_revision_basis,
        "executed_commit": review.executed_commit,
        "reference_commit": review.reference_commit,
        "traces": review.tally.traces.count,
        "judgments": review.tally.judgments,
        "pos": review.pos,
    }


def pooled_fields(review: Review, applicability: str) -> dict[str, Any]:
    """As `PooledReview` in audit.proto has it."""
    return {
        "id": review.id,
        "role": pool_role(review),
        "rating": review.rating,
        "review_date": review.tally.judged_at,
        "dataset_revision": review.dataset_revision,
        "verifier_revision": review.verifier_revision,
        "applicability": applicability,
        "superseded": review.superseded,
        "pos": review.pos,
        "judgments": review.tally.judgments,
        "traces": review.tally.traces.count,
    }


def authored_fields(basis: Basis, listing: Listing, applicability: str | None) -> dict[str, Any]:
    """The inventory's own rating, as `PooledReview` in audit.proto has it."""
    authored = listing.row.authored
    assert authored is not None
    return {
        "id": "",
        "role": "reused",
        "rating": authored.rating,
        "review_date": authored.reviewed_at,
        "dataset_revision": authored.dataset_revision,
        "verifier_revision": authored.verifier_revision,
        "applicability": applicability,
        "superseded": None,
        "pos": basis.pos,
        "judgments": 0,
        "traces": 0,
    }


def panel_fields(basis: Basis | None) -> dict[str, Any] | None:
    """The judges of the review that is shown, as `Panel` in audit.proto has them."""
    if basis is None or basis.review is None:
        return None
    tally = basis.review.tally
    panel = tally.panel
    return {
        "judges": tally.judges.count,
        "tasks": panel.tasks,
        "fewest": panel.fewest,
        "most": panel.most,
        "models": panel.models,
        "conversations": panel.conversations,
        "prompts": panel.prompts,
        "tasks_rejected": panel.rejected,
        "tasks_in_conflict": panel.in_conflict,
        "overruled": panel.overruled,
    }


def _authored(listing: Listing) -> Basis:
    authored = listing.row.authored
    assert authored is not None
    covered = Covered(authored.dataset_revision, None, claimed=authored.verifier_revision)
    return Basis(None, authored.rating, listing.stated[1], listing.stated, covered, listing.sample)


def _rating_review(settled: Settled) -> Review | None:
    rating = [r for r in settled.reviews if r.rating is not None and r.superseded is None]
    if len(rating) < 2:
        return rating[0] if rating else None
    taken: dict[str, list[Review]] = {}
    for review in settled.reviews:
        if review.superseded_by is not None:
            taken.setdefault(review.superseded_by, []).append(review)
    return max(rating, key=lambda r: (_judged(r, taken), r.pos))


def _judged(review: Review, taken: dict[str, list[Review]]) -> int:
    """When it was judged, or what it supersedes was: by superseding a collection it takes that one's place."""
    if review.id not in taken:
        return _NEVER if review.tally.judged_at_us is None else review.tally.judged_at_us
    group, found = [review], {review.id}
    for one in group:
        more = [r for r in taken.get(one.id, ()) if r.id not in found]
        found.update(r.id for r in more)
        group += more
    moments = [r.tally.judged_at_us for r in group]
    return max((moment for moment in moments if moment is not None), default=_NEVER)
