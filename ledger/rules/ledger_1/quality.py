"""The Quality that is displayed.

First that holds:

  1. the review is stale: Needs re-review, and its rating is hidden, whatever defects say;
  2. there is no rating: Unrated, or Unreviewed where there is no review; an open defect is listed and invents none;
  3. a confirmed defect is open: the rating, and at best Some issues;
  4. a defect was closed since the collection was published: the same cap; Good waits for a new publication;
  5. the rating.

The cap is a cap: the rating underneath stays, and moves with later reviews, up as well as down.
"""

from __future__ import annotations

from typing import NamedTuple

from ledger.rules.ledger_1 import defects
from ledger.rules.ledger_1.applicability import Applies
from ledger.rules.ledger_1.listing import Listing
from ledger.rules.ledger_1.model import Settled
from ledger.rules.ledger_1.ratings import ORDER, WORDS, why_rated
from ledger.rules.ledger_1.reasons import Reason, listed, plural, reason
from ledger.rules.ledger_1.reviews import Basis
from ledger.rules.ledger_1.values import Rating

CAP: Rating = "some_issues"


class Quality(NamedTuple):
    value: str
    underlying: Rating | None
    """The rating by reviews alone, without the cap of defects."""
    reasons: list[Reason]


def quality(settled: Settled, basis: Basis | None, applies: Applies, listing: Listing) -> Quality:
    if basis is None:
        text = "Unreviewed: no review has been published."
        unreviewed = reason("quality", "quality.unreviewed", text, listing.events)
        return Quality("unreviewed", None, [unreviewed, *_listed_defects(settled)])
    if applies.value == "stale":
        text = "Needs re-review: the data or verifier revision changed since the review. Its link and date stay."
        stale = reason("quality", "quality.needs-re-review", text, (*basis.events, *listing.events))
        return Quality("needs_re_review", None, [stale, *_listed_defects(settled)])
    if basis.rating is None:
        text = "Unrated: there is a review, and none that gives a rating."
        superseded = basis.review.superseded if basis.review else None
        unrated = reason("quality", "quality.unrated", text, (basis.pos, superseded))
        return Quality("unrated", None, [unrated, *_listed_defects(settled)])
    capped = _cap(settled, basis)
    value = basis.rating if capped is None else min(basis.rating, CAP, key=ORDER.index)
    return Quality(value, basis.rating, _reasons(basis, applies, listing, capped))


def _cap(settled: Settled, basis: Basis) -> Reason | None:
    """What holds the rating down."""
    if defects.in_status(settled, "open"):
        return _held(settled, basis)
    closed = settled.last_closed
    if basis.rating == "good" and closed is not None and basis.pos < closed:
        text = (
            "Some issues: the rating is older than the closing of the last defect, and waits for a new publication. "
            "Next: publish a new review collection."
        )
        return reason("quality", "quality.waits-for-publication", text, (settled.last_opened, closed))
    return None


def _held(settled: Settled, basis: Basis) -> Reason:
    found = defects.in_status(settled, "open")
    what = f"{plural(len(found), 'confirmed defect')} open ({listed(d.id for d in found)})"
    text = (
        f"Bad by the reviews, with {what}; a newer review may lift it to Some issues."
        if basis.rating == "bad"
        else f"Some issues at best: {what}; Good needs all of them closed and a new publication after that."
    )
    return reason("quality", "quality.open-defect", text, [d.opened for d in found])


def _listed_defects(settled: Settled) -> list[Reason]:
    """Where there is no rating to hold down."""
    found = defects.in_status(settled, "open")
    if not found:
        return []
    text = f"{plural(len(found), 'confirmed defect')} open ({listed(d.id for d in found)}): listed, and no rating."
    return [reason("quality", "quality.open-defect-listed", text, [d.opened for d in found])]


def _reasons(basis: Basis, applies: Applies, listing: Listing, capped: Reason | None) -> list[Reason]:
    reasons = [_why(basis, listing)]
    if capped is not None:
        supported = {**reasons[0], "rule": "quality.review-supports"}
        reasons = [capped, {**supported, "text": f"The review itself supports {reasons[0]['text']}"}]
    if applies.value == "unknown":
        assert basis.rating is not None
        text = f"{WORDS[basis.rating]}, applicability unknown: whether it holds for the present revisions is not known."
        reasons.append(reason("quality", "quality.applicability-unknown", text, basis.events))
    return reasons


def _why(basis: Basis, listing: Listing) -> Reason:
    if basis.review is not None:
        return why_rated(basis.review)
    assert basis.rating is not None
    text = f"{WORDS[basis.rating]}: stated by the inventory, while no published collection gives a rating."
    return reason("quality", "quality.authored", text, listing.stated)
