"""The rating that the publisher computes for one review collection, and why.

Judges are all model judgments of the collection, pooled over its tasks; no panel is too small, and none will do. In
order:

  1. a judge is the supplemental model: null, whatever the rest says;
  2. bad: the source synthesis rejects, more than half of the judges reject, and a judge or the source synthesis found
     an issue of high or critical severity;
  3. good: the source synthesis says keep, there is a native run, all native runs are verified, and no judge nor the
     source synthesis found an issue of medium severity or above;
  4. some issues: everything else.

The publisher refuses a collection without exactly one source synthesis, and collections in a supplemental role are put
beside the row by other means: neither is written into it.
"""

from __future__ import annotations

from ledger.rules.atlas_code_1.model import Rating, Review, Tally
from ledger.rules.atlas_code_1.reasons import Reason, listed, plural, reason

WORDS: dict[Rating, str] = {"good": "Good", "some_issues": "Some issues", "bad": "Bad"}


def is_written(tally: Tally, role: str | None) -> bool:
    """Whether the publisher writes the collection into the source's row."""
    return role is None and tally.syntheses == 1


def rate(tally: Tally, role: str | None) -> Rating | None:
    if not is_written(tally, role) or tally.supplemental_judges.count:
        return None
    if tally.synthesis_verdict == "reject" and 2 * tally.rejects.count > tally.judges.count and tally.severe.count:
        return "bad"
    return "some_issues" if _against_good(tally) else "good"


def _against_good(tally: Tally) -> list[str]:
    """What keeps a collection from being Good."""
    against: list[str] = []
    if tally.synthesis_verdict != "keep":
        against.append(f"the source synthesis says {tally.synthesis_verdict}, not keep")
    if not tally.traces.count:
        against.append("there is no native run")
    if tally.unverified.count:
        against.append(f"{tally.unverified.count} of {plural(tally.traces.count, 'native run')} not verified")
    if tally.issues.count:
        against.append(f"an issue of medium severity or above stands in {plural(tally.issues.count, 'opinion')}")
    return against


def why_rated(review: Review) -> Reason:
    """Why the collection supports its rating."""
    tally = review.tally
    rests_on = (review.pos, tally.synthesis_pos)
    if review.rating == "bad":
        text = (
            f"Bad: the source synthesis rejects, {tally.rejects.count} of "
            f"{plural(tally.judges.count, 'model judgment')} reject, and an issue of high or critical severity stands "
            f"in {plural(tally.severe.count, 'opinion')}."
        )
        return reason("quality", "quality.bad", text, rests_on, (tally.rejects, tally.severe))
    if review.rating == "good":
        text = (
            f"Good: the source synthesis says keep, every native run is verified ({tally.traces.count}), and the "
            f"sampled review ({plural(tally.judges.count, 'model judgment')}) found no issue of medium severity or "
            "above."
        )
        return reason("quality", "quality.good", text, rests_on, (tally.traces, tally.judges))
    text = f"Some issues: {listed(_against_good(tally))}."
    return reason("quality", "quality.some-issues", text, rests_on, (tally.issues, tally.unverified))


def why_supported(review: Review) -> Reason:
    """The same, said of a review whose rating a defect holds down."""
    rated = why_rated(review)
    return {**rated, "rule": "quality.review-supports", "text": f"The review itself supports {rated['text']}"}
