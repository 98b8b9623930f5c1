"""The review that a source shows, whether it still applies, and the Quality that follows.

Quality, first that holds:

  1. a confirmed defect is open: Some issues, or Bad if it was Bad, whatever a review or its age says;
  2. the review is stale: Needs re-review, and its rating is hidden;
  3. a defect was closed and no rating published since: what it was demoted to;
  4. the rating of the newest collection that gives one and is not superseded;
  5. a review without a rating: Unrated; none at all: Unreviewed.

Unknown equals nothing: with a revision unknown on either side a review is neither current nor stale.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeGuard

from ledger.rules.atlas_page_1 import defects
from ledger.rules.atlas_page_1.listing import Listing
from ledger.rules.atlas_page_1.model import Facts, Review
from ledger.rules.atlas_page_1.ratings import WORDS, why_rated, why_supported, why_unrated
from ledger.rules.atlas_page_1.reasons import Reason, listed, plural, reason


class Judged(NamedTuple):
    """A derived value and why it is so."""

    value: str | None
    reasons: list[Reason]


def review_shown(facts: Facts) -> Review | None:
    """The newest review that gives a rating and is not superseded; else the newest, standing ones first."""
    newest_first = facts.reviews[::-1]
    standing = [r for r in newest_first if r.superseded is None]
    rating = [r for r in standing if r.rating is not None]
    return next(iter((*rating, *standing, *newest_first)), None)


def review_fields(review: Review | None) -> dict[str, Any] | None:
    """The review as `Review` in audit.proto has it."""
    if review is None:
        return None
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


def review_reasons(facts: Facts, review: Review | None, listing: Listing) -> list[Reason]:
    """Why this review is the one that is shown, and why its date is what it is."""
    if review is None:
        return [reason("review", "review.none", "No review of this source has been published.", listing.events)]
    reasons = [_why_shown(review)]
    passed_over = [r.pos for r in facts.reviews if r.pos > review.pos and r.superseded is None]
    if passed_over:
        text = f"{plural(len(passed_over), 'newer collection')} without a rating, which moves none."
        reasons.append(reason("review", "review.no-rating-moves-none", text, passed_over))
    superseded = [r.superseded for r in facts.reviews if r.superseded is not None]
    if superseded:
        text = f"{plural(len(superseded), 'superseded collection')}: still readable, gives no rating."
        reasons.append(reason("review", "review.superseded", text, superseded))
    return [*reasons, _why_dated(review)]


def _why_shown(review: Review) -> Reason:
    if review.superseded is not None:
        text = "Every collection is superseded; the newest one is shown, and gives no rating."
        return reason("review", "review.all-superseded", text, (review.pos, review.superseded))
    if review.rating is None:
        return why_unrated(review)
    text = "The rating rests on the newest collection that gives one and is not superseded."
    return reason("review", "review.newest-rating", text, [review.pos])


def _why_dated(review: Review) -> Reason:
    if review.tally.judged_at is None:
        text = "The review date is unknown: no judgment says when it was made."
        return reason("review", "review.date-unknown", text, [review.pos])
    text = "The review date is that of the latest actual judgment, model or human; syntheses are left out."
    return reason("review", "review.latest-judgment", text, (review.pos, review.tally.judged_pos))


def applicability(review: Review | None, listing: Listing) -> Judged:
    """Whether the review holds for the present data and verifier revisions."""
    if review is None:
        text = "There is no review whose revisions could be compared."
        return Judged(None, [reason("applicability", "applicability.no-review", text, listing.events)])
    present = listing.revisions
    pairs = (
        ("data", review.dataset_revision, present.dataset),
        ("verifier", review.verifier_revision, present.verifier),
    )
    rests_on, basis = (review.pos, *listing.events), _basis(review)
    if stale := [f"{what} {now} instead of {then}" for what, then, now in pairs if then and now and then != now]:
        text = f"The source changed since the review: {listed(stale)}{basis}."
        return Judged("stale", [reason("applicability", "applicability.revision-changed", text, rests_on)])
    if unknown := [_unknown(*pair) for pair in pairs if not (pair[1] and pair[2])]:
        text = f"Unknown is equal to nothing: {listed(unknown)}{basis}."
        return Judged("unknown", [reason("applicability", "applicability.revision-unknown", text, rests_on)])
    text = f"The review covers the present data and verifier revisions{basis}."
    return Judged("current", [reason("applicability", "applicability.revisions-equal", text, rests_on)])


def _basis(review: Review) -> str:
    """Said where the catalogue vouches for itself: the review did not show the revision that it is compared by."""
    taken = review.verifier_revision and review.verifier_revision_basis == "catalogue"
    return "; the verifier revision was taken from the catalogue at publication" if taken else ""


def _unknown(what: str, then: str | None, now: str | None) -> str:
    who = [name for name, revision in (("the review", then), ("the catalogue", now)) if not revision]
    return f"{' and '.join(who)} {'do' if len(who) > 1 else 'does'} not say which {what} revision"


def quality(facts: Facts, review: Review | None, applies: Judged, listing: Listing) -> Judged:
    """The Quality that is displayed."""
    standing = facts.standing
    if standing.open:
        return Judged(standing.quality, [*_held_by_defect(facts, applies), *_supported(review)])
    if applies.value == "stale":
        assert review is not None
        text = "Needs re-review: the data or verifier revision changed since the review. Its link and date stay."
        stale = reason("quality", "quality.needs-re-review", text, (review.pos, *listing.events))
        return Judged("needs_re_review", [stale])
    if standing.barred:
        return Judged(standing.quality, [_waits(facts), *_supported(review)])
    if standing.quality is not None:
        return Judged(standing.quality, [why_rated(review)] if _rates(review) else [])
    if review is None:
        text = "Unreviewed: no review has been published."
        return Judged("unreviewed", [reason("quality", "quality.unreviewed", text, listing.events)])
    text = "Unrated: there is a review, and none that gives a rating."
    return Judged("unrated", [reason("quality", "quality.unrated", text, (review.pos, review.superseded))])


def _rates(review: Review | None) -> TypeGuard[Review]:
    return review is not None and review.rating is not None and review.superseded is None


def _supported(review: Review | None) -> list[Reason]:
    """What the review itself supports, whatever a defect makes of it."""
    return [why_supported(review)] if _rates(review) else []


def _held_by_defect(facts: Facts, applies: Judged) -> list[Reason]:
    open_defects = defects.opened(facts)
    what = f"{plural(len(open_defects), 'confirmed defect')} open ({listed(d.id for d in open_defects)})"
    text = (
        f"Bad stays Bad: {what}, and no new publication lifts it."
        if facts.standing.quality == "bad"
        else f"Some issues: {what}; Good cannot return before all are resolved and a new rating is published."
    )
    reasons = [reason("quality", "quality.open-defect", text, [d.opened for d in open_defects])]
    if applies.value == "stale":
        text = "The review is stale too; an open defect is shown before that."
        events = applies.reasons[0]["events"]
        reasons.append(reason("quality", "quality.defect-before-stale", text, events))
    return reasons


def _waits(facts: Facts) -> Reason:
    assert facts.standing.quality is not None
    word = WORDS[facts.standing.quality]
    text = (
        f"{word} as it was when the last defect was closed: the rating waits for a new publication. "
        "Next: publish a new review collection."
    )
    return reason(
        "quality", "quality.waits-for-publication", text, (defects.last_opened(facts), defects.last_closed(facts))
    )
