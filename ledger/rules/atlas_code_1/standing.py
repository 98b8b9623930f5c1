"""The source's mutable row: what the publisher wrote into it, and what the defect triggers made of that.

- a publication writes its rating, null too, and the row points at it: the last one wins, whatever its date;
- while a defect is open the trigger rewrites that: Bad stays Bad, everything else that is not Bad, no rating
  included, becomes Some issues;
- a defect that opens does the same at once;
- a defect that closes writes nothing: the row waits for a publication.
"""

from __future__ import annotations

from msgspec.structs import replace

from ledger.rules.atlas_code_1.model import Rating, Review, Standing


def published(standing: Standing, review: Review) -> Standing:
    """The row after the publisher wrote a collection into it."""
    if standing.open:
        return replace(
            standing,
            review=review.id,
            quality=_capped(standing.quality, review.rating),
            forced_at=review.pos,
            sample=standing.sample or review.sample,
        )
    return replace(standing, review=review.id, quality=review.rating, forced_at=None, sample=review.sample)


def opened(standing: Standing, pos: int, *, sample: bool) -> Standing:
    """The row after a defect was confirmed or reopened."""
    return replace(
        standing,
        quality=_capped(standing.quality, None),
        open=standing.open + 1,
        forced_at=pos,
        opened_at=pos,
        sample=standing.sample or sample,
    )


def closed(standing: Standing, pos: int, *, sample: bool) -> Standing:
    """The row after an open defect was resolved or withdrawn."""
    return replace(standing, open=standing.open - 1, closed_at=pos, sample=standing.sample or sample)


def _capped(stored: Rating | None, written: Rating | None) -> Rating:
    return "bad" if "bad" in {stored, written} else "some_issues"
