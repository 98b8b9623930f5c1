"""Whether the review that the row points at is stale, and the Quality that is displayed.

The applicability, first that holds:

  1. the data revision that it covers is known and another than the present one: stale;
  2. the source is enrolled in grading, and no valid binding covers the review: stale;
  3. it is not enrolled, and the verifier revision that the review covers is known and another than the present one:
     stale. A review without one is never stale by it;
  4. the data revision that it covers is null: unknown, displayed like a current one;
  5. current.

The Quality, first that holds:

  1. a defect is open: Bad if Bad is stored, else Some issues, of a stale source too;
  2. stale: Needs re-review;
  3. the rating that is stored, or authored where nothing is stored;
  4. Unrated if the row points at a review, else Unreviewed.
"""

from __future__ import annotations

from typing import NamedTuple

from ledger.rules.atlas_code_1 import defects
from ledger.rules.atlas_code_1.columns import Columns
from ledger.rules.atlas_code_1.grading import enrolled, grading
from ledger.rules.atlas_code_1.listing import Listing
from ledger.rules.atlas_code_1.model import Facts
from ledger.rules.atlas_code_1.ratings import WORDS, why_rated, why_supported
from ledger.rules.atlas_code_1.reasons import Reason, listed, plural, reason


class Judged(NamedTuple):
    """A derived value and why it is so."""

    value: str | None
    reasons: list[Reason]
    sample: bool = False


def applicability(facts: Facts, row: Columns, listing: Listing) -> Judged:
    """Whether the review holds for the present data and verifier revisions."""
    if row.review is None and row.authored is None and not enrolled(facts):
        text = "There is no review whose revisions could be compared."
        return Judged(None, [reason("applicability", "applicability.no-review", text, listing.events)])
    by_grading = _by_grading(facts, row, listing) if enrolled(facts) else None
    changed = _changed(row, listing, by_verifier=by_grading is None)
    if changed:
        text = f"The source changed since the review: {listed(changed)}. {_BASIS}"
        events = (*row.events, *listing.events)
        return Judged("stale", [reason("applicability", "applicability.revision-changed", text, events)])
    if by_grading is not None and by_grading.value == "stale":
        return by_grading
    beside = by_grading.reasons if by_grading else []
    return Judged(_known(row), [_why_not_stale(row, listing), *beside], by_grading is not None and by_grading.sample)


_BASIS = "A verifier revision is taken from the catalogue at the review's publication, whatever was executed."


def _changed(row: Columns, listing: Listing, *, by_verifier: bool) -> list[str]:
    """A revision that the review names is compared with the present one, and differs from none as from another."""
    pairs = [("data", row.source_revision, listing.revisions.dataset)]
    if by_verifier:
        pairs.append(("verifier", row.verifier_revision, listing.revisions.verifier))
    return [f"{what} {now or 'none'} instead of {then}" for what, then, now in pairs if then and then != now]


def _by_grading(facts: Facts, row: Columns, listing: Listing) -> Judged:
    """What the bindings of an enrolled source make of its review."""
    found = grading(facts, row, listing)
    first = facts.bindings[0].pos
    events = (first, found.binding.pos if found.binding else None, *row.events, *listing.events)
    sample = any(b.sample for b in facts.bindings)
    enrolment = "enrolled in grading, so that the verifier revision is ignored"
    if not found.valid:
        text = f"The source is {enrolment}, and {found.against}."
        return Judged("stale", [reason("applicability", "applicability.grading-not-bound", text, events)], sample)
    text = f"The source is {enrolment}; a binding claims that the grading code is equivalent, which is taken as said."
    return Judged("current", [reason("applicability", "applicability.grading-bound", text, events)], sample)


def _known(row: Columns) -> str:
    return "current" if row.source_revision else "unknown"


def _why_not_stale(row: Columns, listing: Listing) -> Reason:
    events = (*row.events, *listing.events)
    if not row.source_revision:
        text = "The review names no data revision: unknown, and displayed like a current one."
        return reason("applicability", "applicability.data-revision-null", text, events)
    if not row.verifier_revision:
        text = "The review covers the present data revision, and names no verifier revision: null is never stale."
        return reason("applicability", "applicability.verifier-revision-null", text, events)
    text = f"No revision that the review covers has changed. {_BASIS}"
    return reason("applicability", "applicability.revisions-equal", text, events)


def quality(facts: Facts, row: Columns, applies: Judged, listing: Listing) -> Judged:
    """The Quality that is displayed."""
    if facts.standing.open:
        return Judged(row.quality, [*_held_by_defect(facts, row, applies), *_supported(row)])
    if applies.value == "stale":
        text = "Needs re-review: the rating of a stale review is hidden. Its link and date stay."
        why = reason("quality", "quality.needs-re-review", text, applies.reasons[0]["events"])
        return Judged("needs_re_review", [why])
    if facts.standing.forced_at is not None:
        return Judged(row.quality, [_waits(facts), *_supported(row)])
    if row.review is not None:
        return _of_review(row)
    return _authored(row, listing)


def _of_review(row: Columns) -> Judged:
    assert row.review is not None
    if row.quality is not None:
        return Judged(row.quality, [why_rated(row.review)])
    text = "Unrated: the review that the row points at was rated null."
    return Judged("unrated", [reason("quality", "quality.unrated", text, [row.review.pos])])


def _authored(row: Columns, listing: Listing) -> Judged:
    if row.quality is not None:
        text = f"{WORDS[row.quality]} as the inventory states it: nothing is stored, and no review can be linked."
        return Judged(row.quality, [reason("quality", "quality.authored", text, listing.events)])
    text = "Unreviewed: the row points at no review."
    return Judged("unreviewed", [reason("quality", "quality.unreviewed", text, listing.events)])


def _supported(row: Columns) -> list[Reason]:
    """What the review itself supports, whatever a defect makes of it."""
    return [why_supported(row.review)] if row.review is not None and row.review.rating is not None else []


def _held_by_defect(facts: Facts, row: Columns, applies: Judged) -> list[Reason]:
    open_defects = defects.opened(facts)
    what = f"{plural(len(open_defects), 'defect')} open ({listed(d.id for d in open_defects)})"
    text = (
        f"Bad stays Bad: {what}, and no publication lifts it while one is."
        if row.quality == "bad"
        else f"Some issues: {what}, and a rating that is not Bad becomes that, no rating included."
    )
    reasons = [reason("quality", "quality.open-defect", text, [d.opened for d in open_defects])]
    if row.authored is not None and row.authored.grade == "bad":
        text = "The inventory states Bad, and an open defect shows Some issues: it looks at the stored rating alone."
        reasons.append(reason("quality", "quality.authored-bad-upgraded", text, row.events))
    if applies.value == "stale":
        text = "The review is stale too; an open defect is shown before that."
        events = applies.reasons[0]["events"]
        reasons.append(reason("quality", "quality.defect-before-stale", text, events))
    return reasons


def _waits(facts: Facts) -> Reason:
    standing = facts.standing
    assert standing.quality is not None
    text = (
        f"{WORDS[standing.quality]} as an open defect left it: closing a defect writes nothing, and the row waits for "
        "a publication."
    )
    rests_on = (standing.forced_at, standing.opened_at, standing.closed_at)
    return reason("quality", "quality.waits-for-publication", text, rests_on)
