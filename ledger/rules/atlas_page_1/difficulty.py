"""Difficulty: a report is current under the protocol in force, or it says why not.

First that holds:

  1. a confirmed defect is open: withheld;
  2. the review is stale, or the report names other revisions than the source's: needs re-review, figures hidden;
  3. there is no report: not measured;
  4. no protocol or another one is adopted, or the report breaks the one that it names: historical;
  5. Quality is not Good, or the report is older than the last confirmation of a defect: historical;
  6. current.

The newest report that is current is shown, else the newest. Counts are those that were saved; nothing recomputes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ledger.rules.atlas_page_1 import defects
from ledger.rules.atlas_page_1.environment import Environment
from ledger.rules.atlas_page_1.listing import Listing
from ledger.rules.atlas_page_1.model import Facts, Measured, Report
from ledger.rules.atlas_page_1.protocols import mismatches
from ledger.rules.atlas_page_1.quality import Judged
from ledger.rules.atlas_page_1.reasons import Reason, listed, plural, reason
from ledger.rules.atlas_page_1.wilson import wilson_95


class Difficulty(NamedTuple):
    """What is shown of a source's difficulty."""

    status: str
    report: Report | None
    reasons: list[Reason]
    sample: bool = False

    def fields(self) -> dict[str, Any]:
        """As `Difficulty` in audit.proto has it."""
        hidden = self.report is None or self.status in {"withheld", "needs_re_review"}
        return {
            "status": self.status,
            "models": [] if hidden or self.report is None else [model_fields(m) for m in self.report.models],
            "protocol": self.report and self.report.protocol,
            "estimated_at": self.report and self.report.estimated_at,
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


class _Context(NamedTuple):
    """What a report is judged against."""

    facts: Facts
    environment: Environment
    listing: Listing
    quality: Judged
    applies: Judged


def difficulty(
    facts: Facts, environment: Environment, listing: Listing, quality: Judged, applies: Judged
) -> Difficulty:
    context = _Context(facts, environment, listing, quality, applies)
    if not facts.reports:
        return _without_report(context)
    judged = (_judge(report, context) for report in reversed(facts.reports))
    newest = next(judged)
    if newest.status in {"current", "withheld"}:
        return newest
    return next((older for older in judged if older.status == "current"), newest)


def _without_report(context: _Context) -> Difficulty:
    """Withheld and needs re-review are said of any source that they would hide a report of."""
    status, why = _withheld(None, context) or _stale_review(None, context) or _not_measured(context)
    return Difficulty(status, None, [why])


def _judge(report: Report, context: _Context) -> Difficulty:
    status, why = (
        _withheld(report, context)
        or _stale_review(report, context)
        or _other_revisions(report, context)
        or _under_other_protocol(report, context)
        or _breaks_protocol(report, context)
        or _not_for_good(report, context)
        or _current(report, context)
    )
    reasons = [why, *_unknown_revisions(report, context)] if status == "current" else [why]
    adopted = context.environment.adopted
    return Difficulty(status, report, reasons, report.sample or (adopted is not None and adopted.sample))


_Verdict = tuple[str, Reason]


def _pos(report: Report | None) -> int | None:
    return None if report is None else report.pos


def _verdict(status: str, rule: str, text: str, events: Sequence[int | None]) -> _Verdict:
    return status, reason("difficulty", f"difficulty.{rule}", text, events)


def _not_measured(context: _Context) -> _Verdict:
    text = "Not measured: there is no difficulty report for this source."
    return _verdict("not_measured", "not-measured", text, context.listing.events)


def _withheld(report: Report | None, context: _Context) -> _Verdict | None:
    found = defects.opened(context.facts)
    if not found:
        return None
    text = f"Withheld: {plural(len(found), 'confirmed defect')} open ({listed(d.id for d in found)})."
    return _verdict("withheld", "open-defect", text, (_pos(report), *(d.opened for d in found)))


def _stale_review(report: Report | None, context: _Context) -> _Verdict | None:
    if context.applies.value != "stale":
        return None
    text = "Needs re-review: the data or verifier revision changed since the review."
    events = (_pos(report), *context.applies.reasons[0]["events"])
    return _verdict("needs_re_review", "review-stale", text, events)


def _other_revisions(report: Report, context: _Context) -> _Verdict | None:
    present = context.listing.revisions
    pairs = (
        ("data", report.source_revision, present.dataset),
        ("verifier", report.verifier_revision, present.verifier),
    )
    changed = [f"{what} {then}, now {now}" for what, then, now in pairs if then and now and then != now]
    if not changed:
        return None
    text = f"Needs re-review: the report was measured on {listed(changed)}."
    return _verdict("needs_re_review", "revision-changed", text, (report.pos, *context.listing.events))


def _under_other_protocol(report: Report, context: _Context) -> _Verdict | None:
    adopted = context.environment.adopted
    if adopted is None:
        text = f"Historical: measured under {report.protocol}; no protocol is adopted."
        return _verdict("historical", "no-protocol", text, [report.pos])
    if report.protocol == adopted.protocol:
        return None
    text = f"Historical: measured under {report.protocol}; the current protocol is {adopted.protocol}."
    return _verdict("historical", "other-protocol", text, (report.pos, adopted.pos))


def _breaks_protocol(report: Report, context: _Context) -> _Verdict | None:
    definition = context.environment.protocols.get(report.protocol)
    if definition is None:
        text = f"Historical: the protocol {report.protocol} is adopted and nowhere defined."
        return _verdict("historical", "protocol-undefined", text, [report.pos])
    found = mismatches(report, definition.terms)
    if not found:
        return None
    text = f"Historical, protocol mismatch: {'; '.join(found)}."
    return _verdict("historical", "protocol-mismatch", text, (report.pos, definition.pos))


def _not_for_good(report: Report, context: _Context) -> _Verdict | None:
    confirmed = defects.last_opened(context.facts)
    if confirmed is not None and report.pos < confirmed:
        text = "Historical: a defect was confirmed after the report."
        return _verdict("historical", "before-defect", text, (report.pos, confirmed))
    if context.quality.value == "good":
        return None
    text = "Historical: only a source that qualifies as Good has a current difficulty."
    because = [pos for why in context.quality.reasons for pos in why["events"]]
    return _verdict("historical", "not-good", text, (report.pos, *because))


def _current(report: Report, context: _Context) -> _Verdict:
    adopted = context.environment.adopted
    assert adopted is not None
    rests_on = (report.pos, adopted.pos, context.environment.protocols[report.protocol].pos)
    text = f"Current: measured under {report.protocol}, the current protocol, on a source that is Good."
    return _verdict("current", "current", text, rests_on)


def _unknown_revisions(report: Report, context: _Context) -> list[Reason]:
    """An unknown revision contradicts nothing and proves nothing: said beside a current report."""
    present = context.listing.revisions
    known = {
        "data": report.source_revision and present.dataset,
        "verifier": report.verifier_revision and present.verifier,
    }
    unknown = [what for what, revision in known.items() if not revision]
    if not unknown:
        return []
    text = f"Whether the report covers the present {listed(unknown)} revision is unknown."
    return [reason("difficulty", "difficulty.revision-unknown", text, (report.pos, *context.listing.events))]
