"""Difficulty: the report of the current review, while the displayed Quality is Good.

First that holds:

  1. a defect is open: withheld;
  2. the review is stale: needs re-review;
  3. the displayed Quality is not Good, or the review that the row points at has no report: not measured. A report is
     stored under the review that was current when it was recorded, so that the next publication drops it from view;
  4. the protocol that it names is not one that the code accepts: historical;
  5. it breaks that protocol: invalid;
  6. current.

Of a review's reports the newest is shown. Counts are those that were saved; nothing recomputes them, and neither a
revision nor the date of a report is compared with anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ledger.rules.atlas_code_1 import defects
from ledger.rules.atlas_code_1.columns import Columns
from ledger.rules.atlas_code_1.listing import Listing
from ledger.rules.atlas_code_1.model import Facts, FollowUp, Measured, Report
from ledger.rules.atlas_code_1.protocols import ACCEPTED, mismatches
from ledger.rules.atlas_code_1.quality import Judged
from ledger.rules.atlas_code_1.reasons import Reason, listed, plural, reason
from ledger.rules.atlas_code_1.wilson import wilson_95


class Difficulty(NamedTuple):
    """What is shown of a source's difficulty."""

    status: str
    reason: Reason
    report: Report | None = None
    mismatches: Sequence[str] = ()
    followups: Sequence[FollowUp] = ()

    @property
    def sample(self) -> bool:
        return (self.report is not None and self.report.sample) or any(f.sample for f in self.followups)

    def fields(self) -> dict[str, Any]:
        """As `Difficulty` in audit.proto has it."""
        return {
            "status": self.status,
            "models": [model_fields(m) for m in self.report.models] if self.report else [],
            "protocol": self.report and self.report.protocol,
            "estimated_at": self.report and self.report.estimated_at,
            "mismatches": list(self.mismatches),
            "followups": [followup_fields(f) for f in self.followups],
        }


def model_fields(model: Measured) -> dict[str, Any]:
    interval = wilson_95(model.solved, model.verified)
    return {
        "size": model.size,
        "model": model.model,
        "solved": model.solved,
        "verified": model.verified,
        "unverified": model.unverified,
        "attempted": model.attempted,
        "solve_rate": model.solved / model.verified if interval else None,
        "wilson_low": interval and interval[0],
        "wilson_high": interval and interval[1],
    }


def followup_fields(followup: FollowUp) -> dict[str, Any]:
    """As `FollowUp` in audit.proto has it; it is historical always."""
    changed = followup.changed_parameter
    return {
        "id": followup.id,
        "size": "hosted" if followup.kind == "alternate_checkpoint" else "followup",
        "label": "generation setting follow-up" if changed else "native verifier recheck",
        "kind": followup.kind,
        "changed_parameter": changed,
        "checkpoint_change": followup.checkpoint_change,
        "outcome": model_fields(followup.outcome),
        "estimated_at": followup.estimated_at,
        "original_report": followup.original_report,
        "pos": followup.pos,
    }


def difficulty(facts: Facts, row: Columns, rated: Judged, applies: Judged, listing: Listing) -> Difficulty:
    hidden = _withheld(facts) or _stale(applies)
    if hidden:
        return hidden
    review = row.review and row.review.id
    report = next((r for r in reversed(facts.reports) if review is not None and r.review == review), None)
    if report is None:
        return _without_report(facts, row, listing)
    if rated.value != "good":
        text = "Not measured: a report is there, and is shown only while the displayed Quality is Good."
        because = [pos for why in rated.reasons for pos in why["events"]]
        return _shown("not_measured", "not-good", text, (report.pos, *because))
    return _by_protocol(report, _followups(facts, report))


def _shown(status: str, rule: str, text: str, events: Sequence[int | None], **more: Any) -> Difficulty:
    return Difficulty(status, reason("difficulty", f"difficulty.{rule}", text, events), **more)


def _withheld(facts: Facts) -> Difficulty | None:
    found = defects.opened(facts)
    if not found:
        return None
    text = f"Withheld: {plural(len(found), 'confirmed defect')} open ({listed(d.id for d in found)})."
    return _shown("withheld", "open-defect", text, [d.opened for d in found])


def _stale(applies: Judged) -> Difficulty | None:
    if applies.value != "stale":
        return None
    text = "Needs re-review: the review is stale."
    return _shown("needs_re_review", "review-stale", text, applies.reasons[0]["events"])


def _without_report(facts: Facts, row: Columns, listing: Listing) -> Difficulty:
    if not facts.reports:
        text = "Not measured: there is no difficulty report for this source."
        return _shown("not_measured", "not-measured", text, listing.events)
    review = row.review.pos if row.review else None
    text = (
        f"Not measured: {plural(len(facts.reports), 'report')} of this source, under a review that the row no longer "
        "points at. A new review id orphans the report before it."
    )
    return _shown("not_measured", "orphaned", text, (review, *(r.pos for r in facts.reports)))


def _by_protocol(report: Report, followups: Sequence[FollowUp]) -> Difficulty:
    events = (report.pos, *(f.pos for f in followups))
    if report.protocol not in ACCEPTED:
        text = f"Historical: measured under {report.protocol}; the code accepts {listed(ACCEPTED)}."
        return _shown("historical", "protocol-not-accepted", text, events, report=report, followups=followups)
    found = mismatches(report)
    if found:
        text = f"Invalid, protocol mismatch: {'; '.join(found)}."
        return _shown(
            "invalid", "protocol-mismatch", text, events, report=report, mismatches=found, followups=followups
        )
    text = f"Current: measured under {report.protocol}, which the code accepts, on a source that is shown as Good."
    return _shown("current", "current", text, events, report=report, followups=followups)


def _followups(facts: Facts, report: Report) -> list[FollowUp]:
    """Those stored under the same review that follow this report, or do not say which one; the newest of an id."""
    newest = {
        f.id: f for f in facts.followups if f.review == report.review and f.original_report in {None, report.artifact}
    }
    return list(newest.values())
