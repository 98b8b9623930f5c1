"""Difficulty: a report is current under an adopted protocol, or it says why not.

First that holds:

  1. a confirmed defect is open: withheld;
  2. the review is stale, or the report was measured on other revisions than the source's: needs re-review, figures
     hidden;
  3. there is no report: not measured;
  4. the report's protocol is not adopted (any more), or nowhere defined: historical;
  5. it breaks the terms of its adopted protocol: invalid, and each mismatch is named;
  6. it rests on an attestation that does not support it: historical;
  7. it is older than the last confirmation or resolution of a defect, the source is not Good, or whether the review
     applies is unknown: historical;
  8. current.

A report belongs to the source and the revisions that it was measured on, not to a review: a new review does not drop
it. The newest report that is current is shown, else the newest. Counts are those that were saved.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ledger.rules.ledger_1 import defects
from ledger.rules.ledger_1.applicability import Applies, supporting
from ledger.rules.ledger_1.attestations import Coverage, Covered, coverage
from ledger.rules.ledger_1.environment import Environment
from ledger.rules.ledger_1.listing import Listing
from ledger.rules.ledger_1.model import Attestation, Report, Settled
from ledger.rules.ledger_1.protocols import mismatches
from ledger.rules.ledger_1.quality import Quality
from ledger.rules.ledger_1.reasons import Reason, listed, plural, reason

HIDDEN = frozenset({"withheld", "needs_re_review"})
"""Statuses under which figures are not shown."""


class JudgedReport(NamedTuple):
    """A report's status and why, or that of a source without one."""

    status: str
    report: Report | None
    reasons: list[Reason]
    mismatches: list[str]
    honoured: tuple[Attestation, ...] = ()


class Difficulty(NamedTuple):
    """What is shown of a source's difficulty."""

    shown: JudgedReport
    others: list[JudgedReport]
    """The other reports, newest first."""


class Context(NamedTuple):
    """What a report is judged against."""

    source: str
    settled: Settled
    environment: Environment
    listing: Listing
    quality: Quality
    applies: Applies


def difficulty(context: Context) -> Difficulty:
    judged = [_judge(report, context) for report in reversed(context.settled.reports)]
    if not judged:
        return Difficulty(_without_report(context), [])
    shown = next((one for one in judged if one.status == "current"), judged[0])
    return Difficulty(shown, [one for one in judged if one is not shown])


_Verdict = tuple[str, Reason]


def _without_report(context: Context) -> JudgedReport:
    """Withheld and needs re-review are said of any source that they would hide a report of."""
    status, why = _withheld(None, context) or _stale_review(None, context) or _not_measured(context)
    return JudgedReport(status, None, [why], [])


def _judge(report: Report, context: Context) -> JudgedReport:
    definition = context.environment.protocols.get(report.protocol)
    adopted = report.protocol in context.environment.adopted
    broken = mismatches(context.source, report, definition.terms) if definition and adopted else []
    found = coverage(Covered(report.source_revision, report.verifier_revision), context.settled, context.listing)
    status, why = (
        _withheld(report, context)
        or _stale_review(report, context)
        or _other_revisions(report, found, context)
        or _not_adopted(report, context)
        or _invalid(report, broken, context)
        or _unsupported(report, context)
        or _before_defect(report, context)
        or _not_for_good(report, context)
        or _current(report, context)
    )
    reasons = [why]
    if status not in HIDDEN:
        reasons += _contracts_differ(report)
    if status == "current":
        reasons += [*_unknown_revisions(report, found, context), *_attested(report, found)]
    return JudgedReport(status, report, reasons, broken, _honoured(report, found, context))


def _honoured(report: Report, found: Coverage, context: Context) -> tuple[Attestation, ...]:
    if not report.rests_on:
        return found.honoured
    supports = [supporting(event_id, context.settled, context.listing) for event_id in report.rests_on]
    return (*found.honoured, *(a for a, wrong in supports if a is not None and wrong is None))


def _pos(report: Report | None) -> int | None:
    return None if report is None else report.pos


def _verdict(status: str, rule: str, text: str, events: Sequence[int | None]) -> _Verdict:
    return status, reason("difficulty", f"difficulty.{rule}", text, events)


def _not_measured(context: Context) -> _Verdict:
    text = "Not measured: there is no difficulty report for this source."
    return _verdict("not_measured", "not-measured", text, context.listing.events)


def _withheld(report: Report | None, context: Context) -> _Verdict | None:
    found = defects.in_status(context.settled, "open")
    if not found:
        return None
    text = f"Withheld: {plural(len(found), 'confirmed defect')} open ({listed(d.id for d in found)})."
    return _verdict("withheld", "open-defect", text, (_pos(report), *(d.opened for d in found)))


def _stale_review(report: Report | None, context: Context) -> _Verdict | None:
    if context.applies.value != "stale":
        return None
    text = "Needs re-review: the data or verifier revision changed since the review."
    events = (_pos(report), *context.applies.reasons[0]["events"])
    return _verdict("needs_re_review", "review-stale", text, events)


def _other_revisions(report: Report, found: Coverage, context: Context) -> _Verdict | None:
    present = context.listing.revisions
    answers = (
        ("data", found.dataset, report.source_revision, present.dataset),
        ("verifier", found.verifier, report.verifier_revision, present.verifier),
    )
    changed = [f"{what} {then}, now {now}" for what, answer, then, now in answers if answer == "different"]
    if not changed:
        return None
    text = f"Needs re-review: the report was measured on {listed(changed)}."
    return _verdict("needs_re_review", "revision-changed", text, (report.pos, *context.listing.events))


def _not_adopted(report: Report, context: Context) -> _Verdict | None:
    adopted, name = context.environment.adopted, report.protocol
    if not adopted:
        text = f"Historical: measured under {name}; no protocol is adopted."
        return _verdict("historical", "no-protocol", text, [report.pos])
    if name not in adopted:
        successor = context.environment.replaced.get(name)
        ended = f", which {successor.protocol} replaced" if successor else ""
        text = f"Historical: measured under {name}{ended}; current {_are(list(adopted))}."
        events = [successor.pos] if successor else [adoption.pos for adoption in adopted.values()]
        return _verdict("historical", "other-protocol", text, (report.pos, *events))
    if name not in context.environment.protocols:
        text = f"Historical: the protocol {name} is adopted and nowhere defined."
        return _verdict("historical", "protocol-undefined", text, (report.pos, adopted[name].pos))
    return None


def _are(protocols: list[str]) -> str:
    return f"{'protocols are' if len(protocols) > 1 else 'is'} {listed(protocols)}"


def _invalid(report: Report, broken: list[str], context: Context) -> _Verdict | None:
    if not broken:
        return None
    text = f"Protocol mismatch: {'; '.join(broken)}."
    definition = context.environment.protocols[report.protocol]
    return _verdict("invalid", "protocol-mismatch", text, (report.pos, definition.pos))


def _unsupported(report: Report, context: Context) -> _Verdict | None:
    for event_id in report.rests_on:
        attestation, wrong = supporting(event_id, context.settled, context.listing)
        if wrong is not None:
            text = f"Historical: the report rests on an attestation that does not support it: {wrong}."
            events = (report.pos, attestation.pos if attestation else None)
            return _verdict("historical", "rests-on-unsupported", text, events)
    return None


def _before_defect(report: Report, context: Context) -> _Verdict | None:
    moments = (context.settled.last_opened, context.settled.last_resolved)
    last = max((pos for pos in moments if pos is not None), default=-1)
    if report.pos >= last:
        return None
    what = "resolved" if last == context.settled.last_resolved else "confirmed"
    text = f"Historical: a defect was {what} after the report."
    return _verdict("historical", "before-defect", text, (report.pos, last))


def _not_for_good(report: Report, context: Context) -> _Verdict | None:
    if context.quality.value != "good":
        text = "Historical: only a source that qualifies as Good has a current difficulty."
        because = [pos for why in context.quality.reasons for pos in why["events"]]
        return _verdict("historical", "not-good", text, (report.pos, *because))
    if context.applies.value != "current":
        text = (
            "Historical: whether the review applies to the present revisions is unknown, so the rating is not current."
        )
        return _verdict("historical", "review-unknown", text, (report.pos, *context.applies.reasons[0]["events"]))
    return None


def _current(report: Report, context: Context) -> _Verdict:
    environment = context.environment
    rests_on = (report.pos, environment.adopted[report.protocol].pos, environment.protocols[report.protocol].pos)
    text = f"Current: measured under {report.protocol}, an adopted protocol, on a source that is Good."
    return _verdict("current", "current", text, rests_on)


def _unknown_revisions(report: Report, found: Coverage, context: Context) -> list[Reason]:
    """An unknown revision contradicts nothing and proves nothing: said beside a current report."""
    answers = (("data", found.dataset), ("verifier", found.verifier))
    unknown = [what for what, answer in answers if answer == "unknown"]
    if not unknown:
        return []
    text = f"Whether the report covers the present {listed(unknown)} revision is unknown."
    return [reason("difficulty", "difficulty.revision-unknown", text, (report.pos, *context.listing.events))]


def _attested(report: Report, found: Coverage) -> list[Reason]:
    if not found.honoured:
        return []
    text = f"The report covers the present revisions by {plural(len(found.honoured), 'attestation')}."
    return [reason("difficulty", "difficulty.attested", text, (report.pos, *(a.pos for a in found.honoured)))]


def _contracts_differ(report: Report) -> list[Reason]:
    contracts = {model.contract for model in report.models}
    if len(contracts) < 2:
        return []
    names = sorted(contract for contract in contracts if contract is not None)
    some = " and some under an unknown one" if None in contracts else ""
    text = f"Attempts were scored under {listed(names)}{some}: the models' rates do not compare."
    return [reason("difficulty", "difficulty.scoring-contracts-differ", text, [report.pos])]
