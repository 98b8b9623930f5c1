"""The row as it is displayed, before its age and its defects are looked at.

A column of the row is taken where the row has a review or the column is set; else what the inventory states in the
row's place. So an authored rating shows only while nothing is stored, and never with a review to link to.

The verifier revision that a review is said to cover is the catalogue's at its publication, whatever was executed.
"""

from __future__ import annotations

from typing import NamedTuple

from ledger.rules.atlas_code_1.environment import Environment
from ledger.rules.atlas_code_1.listing import Listing, listing
from ledger.rules.atlas_code_1.model import Authored, Facts, Rating, Review


class Columns(NamedTuple):
    """What the row says of its review; None is null."""

    review: Review | None
    authored: Authored | None
    """What the inventory states, where nothing is stored in its place."""
    quality: Rating | None
    source_revision: str | None
    verifier_revision: str | None
    events: tuple[int, ...]
    """What the revisions were taken from."""


def columns(facts: Facts, environment: Environment, listed: Listing) -> Columns:
    review = current_review(facts)
    stored = facts.standing.quality
    if review is not None:
        then = listing(facts, environment, before=review.pos)
        verifier = then.row.verifier_revision if then else None
        events = (review.pos, *(then.events if then else ()))
        return Columns(review, None, stored, review.dataset_revision, verifier, events)
    authored = listed.row.authored
    if authored is None:
        return Columns(None, None, stored, None, None, listed.events)
    quality = stored or authored.grade
    return Columns(None, authored, quality, authored.dataset_revision, authored.verifier_revision, listed.events)


def current_review(facts: Facts) -> Review | None:
    """The review that the row points at."""
    return next((r for r in facts.reviews if r.id == facts.standing.review), None)
