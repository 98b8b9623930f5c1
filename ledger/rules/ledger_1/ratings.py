"""The rating that one review collection supports, and why.

In order:

  1. a collection in a supplemental role, without exactly one source synthesis, or with a supplemental judge: no rating;
  2. bad: the source synthesis rejects, more than half of the judged tasks are rejected, each by more than half of its
     own judges, and a judge or the source synthesis found an issue of high or critical severity;
  3. some issues: the source synthesis does not say keep, there is no native run or one that is not verified, or a judge
     or the source synthesis found an issue of medium severity or above;
  4. no rating: a precondition of Good is not met: a task is judged, each natively run task by a whole panel, and the
     tree that ran held no changes that no commit has;
  5. good.
"""

from __future__ import annotations

from typing import Final

from ledger.rules.ledger_1.reasons import Reason, listed, plural, reason
from ledger.rules.ledger_1.review_model import Counted, Review, Tally
from ledger.rules.ledger_1.tallies import PANEL
from ledger.rules.ledger_1.values import Rating

WORDS: Final[dict[Rating, str]] = {"good": "Good", "some_issues": "Some issues", "bad": "Bad"}
ORDER: Final[tuple[Rating, ...]] = ("bad", "some_issues", "good")


def rate(tally: Tally, role: str | None, *, dirty: bool) -> Rating | None:
    if _gives_none(tally, role):
        return None
    if _is_bad(tally):
        return "bad"
    if _against_good(tally):
        return "some_issues"
    return None if _unmet(tally, dirty=dirty) else "good"


def _gives_none(tally: Tally, role: str | None) -> bool:
    return role is not None or tally.syntheses != 1 or tally.supplemental_judges.count > 0


def _is_bad(tally: Tally) -> bool:
    most_tasks = 2 * tally.panel.rejected > tally.panel.tasks
    return tally.synthesis_verdict == "reject" and most_tasks and tally.severe.count > 0


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


def _unmet(tally: Tally, *, dirty: bool) -> list[tuple[str, str, Counted]]:
    """Preconditions of Good that are not met: the rule, what it says, and the parts that show it."""
    unmet: list[tuple[str, str, Counted]] = []
    if not tally.panel.tasks:
        unmet.append(("no-judges", "no task is judged by a model", tally.traces))
    if tally.thin.count:
        text = f"{plural(tally.thin.count, 'native run')} of a task with fewer than {PANEL} model judgments"
        unmet.append(("panel-size", text, tally.thin))
    if dirty:
        unmet.append(("dirty-tree", "the tree that ran held changes that no commit has", Counted()))
    return unmet


def why_rated(review: Review) -> Reason:
    """Why the collection supports its rating."""
    tally = review.tally
    rests_on = (review.pos, tally.synthesis_pos)
    if review.rating == "bad":
        text = (
            f"Bad: the source synthesis rejects, {tally.panel.rejected} of "
            f"{plural(tally.panel.tasks, 'judged task')} are rejected by most of their own judges, and an issue of "
            f"high or critical severity stands in {plural(tally.severe.count, 'opinion')}."
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


def why_unrated(review: Review) -> list[Reason]:
    """Why the collection gives no rating."""
    tally = review.tally
    if review.role is not None:
        text = f"The collection supplements others ({review.role}), so it gives no rating."
        return [reason("review", "review.supplemental-role", text, [review.pos])]
    if tally.supplemental_judges.count:
        text = (
            f"The collection has {plural(tally.supplemental_judges.count, 'judgment')} by a supplemental judge, so it "
            "gives no rating and moves none."
        )
        return [reason("review", "review.supplemental-judge", text, [review.pos], [tally.supplemental_judges])]
    if tally.syntheses != 1:
        text = f"A rating needs exactly one source synthesis; the collection has {tally.syntheses}."
        return [reason("review", "review.source-synthesis", text, (review.pos, tally.synthesis_pos))]
    return [
        reason("review", f"review.{rule}", f"Not Good, and so without a rating: {text}.", [review.pos], [parts])
        for rule, text, parts in _unmet(tally, dirty=review.dirty)
    ]
