"""Why a review is the one that is shown, what was passed over for it, and what is to be known of its judges."""

from __future__ import annotations

from ledger.rules.ledger_1.listing import Listing
from ledger.rules.ledger_1.model import Settled
from ledger.rules.ledger_1.ratings import why_unrated
from ledger.rules.ledger_1.reasons import Reason, listed, plural, reason
from ledger.rules.ledger_1.review_model import Review
from ledger.rules.ledger_1.reviews import Basis, passed_over


def review_reasons(settled: Settled, basis: Basis | None, listing: Listing) -> list[Reason]:
    if basis is None:
        return [reason("review", "review.none", "No review of this source has been published.", listing.events)]
    if basis.review is None:
        text = "No published collection gives a rating; the one that the inventory states stands in."
        return [reason("review", "review.authored", text, listing.stated)]
    review = basis.review
    return [
        *_why_shown(review),
        *_passed_over(settled, review),
        *_superseded(settled),
        _why_dated(review),
        *_diversity(review),
        *_contracts(review),
    ]


def _why_shown(review: Review) -> list[Reason]:
    if review.superseded is not None:
        text = "Every collection is superseded; the newest one is shown, and gives no rating."
        return [reason("review", "review.all-superseded", text, (review.pos, review.superseded))]
    if review.rating is None:
        return why_unrated(review)
    text = "The rating rests on the collection with the latest judgments of those that give one and are not superseded."
    return [reason("review", "review.newest-rating", text, [review.pos])]


def _passed_over(settled: Settled, review: Review) -> list[Reason]:
    judged_earlier, without = passed_over(settled, review)
    reasons: list[Reason] = []
    if judged_earlier:
        text = (
            f"{plural(len(judged_earlier), 'collection')} published later, and judged earlier or at an unknown date: "
            "in the pool, and no rating taken from it unless it is said to supersede."
        )
        reasons.append(reason("review", "review.older-judgment", text, [r.pos for r in judged_earlier]))
    if without:
        text = f"{plural(len(without), 'newer collection')} without a rating, which moves none."
        reasons.append(reason("review", "review.no-rating-moves-none", text, [r.pos for r in without]))
    return reasons


def _superseded(settled: Settled) -> list[Reason]:
    superseded = [r.superseded for r in settled.reviews if r.superseded is not None]
    if not superseded:
        return []
    text = f"{plural(len(superseded), 'superseded collection')}: still readable, gives no rating."
    return [reason("review", "review.superseded", text, superseded)]


def _why_dated(review: Review) -> Reason:
    if review.tally.judged_at is None:
        text = "The review date is unknown: no judgment says when it was made."
        return reason("review", "review.date-unknown", text, [review.pos])
    text = "The review date is that of the latest actual judgment, model or human; syntheses are left out."
    return reason("review", "review.latest-judgment", text, (review.pos, review.tally.judged_pos))


def _diversity(review: Review) -> list[Reason]:
    judges = review.tally.judges
    if review.tally.panel.models != 1:
        return []
    text = f"{plural(judges.count, 'model judgment')} by one model alone: what it overlooks, nobody else could see."
    return [reason("review", "review.one-judge-model", text, [review.pos], [judges])]


def _contracts(review: Review) -> list[Reason]:
    contracts = review.tally.contracts
    if len(contracts) < 2:
        return []
    names = [name if name is not None else "an unknown one" for name in contracts]
    text = f"Native runs were scored under {listed(names)}: their scores do not compare."
    return [reason("review", "review.scoring-contracts-differ", text, [review.pos], [review.tally.traces])]
