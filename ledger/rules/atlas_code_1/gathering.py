"""What the parts of a review collection add up to, one part at a time.

A part is gathered when it is recorded, and counts when its collection is published. What the parts say in words is not
kept: only counts, positions and revisions that a rule asks for.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from ledger.rules import RuleEvent
from ledger.rules.atlas_code_1.model import MAX_CITED, Claim, Counted, SourceSubject, Tally
from ledger.rules.atlas_code_1.reading import Finding, ReviewPart

SUPPLEMENTAL_JUDGE: Final = "model:Qwen/Qwen3-Coder-30B-A3B-Instruct"
"""A collection with a judgment of this model is rated null."""
SEVERE: Final = frozenset({"high", "critical"})
QUALIFYING: Final = SEVERE | {"medium"}


def gathered(tally: Tally, event: RuleEvent, part: ReviewPart) -> Tally:
    """The tally with one more review."""
    if event.type == "observation.recorded":
        changes = _observed(tally, event.pos, part)
    elif event.type == "judgment.recorded":
        changes = _judged(tally, event.pos, part)
    else:
        changes = _synthesised(tally, event.pos, part)
    changes |= _newest(tally, event.pos, part.reviewed_at)
    if part.subject.level == "source":
        changes["subjects"] = _with_subject(tally.subjects, part)
    if claims := _claims(event.pos, part.attributes.resolved_verifier_issues):
        changes["claims"] = tally.claims + claims
    if event.sample:
        changes["sample"] = True
    return replace(tally, **changes) if changes else tally


def _observed(tally: Tally, pos: int, part: ReviewPart) -> dict[str, Any]:
    if part.method != "runtime_execution":
        return {}
    changes: dict[str, Any] = {"traces": _one_more(tally.traces, pos)}
    if _verification_status(part) != "verified":
        changes["unverified"] = _one_more(tally.unverified, pos)
    elif part.tests_executed is True:
        changes["native_runs"] = _one_more(tally.native_runs, pos)
    return changes


def _verification_status(part: ReviewPart) -> object:
    """The native verifier's status; the document has it among the attributes."""
    if part.verification is not None:
        return part.verification.status
    attribute = part.attributes.verification
    return attribute.get("status") if isinstance(attribute, dict) else None


def _judged(tally: Tally, pos: int, part: ReviewPart) -> dict[str, Any]:
    changes: dict[str, Any] = {"judgments": tally.judgments + 1}
    if part.method != "model_judgment":
        return changes
    changes["judges"] = _one_more(tally.judges, pos)
    if part.verdict == "reject":
        changes["rejects"] = _one_more(tally.rejects, pos)
    if part.reviewer.id == SUPPLEMENTAL_JUDGE:
        changes["supplemental_judges"] = _one_more(tally.supplemental_judges, pos)
    return changes | _issues(tally, pos, part.findings)


def _newest(tally: Tally, pos: int, text: str | None) -> dict[str, Any]:
    """Dates are compared as they were written, so that one with another offset may win wrongly."""
    if text is None or (tally.newest_date is not None and text <= tally.newest_date):
        return {}
    return {"newest_date": text, "dated_pos": pos}


def _synthesised(tally: Tally, pos: int, part: ReviewPart) -> dict[str, Any]:
    if part.subject.level != "source":
        return {}
    found = {"syntheses": tally.syntheses + 1, "synthesis_pos": pos, "synthesis_verdict": part.verdict}
    return found | _issues(tally, pos, part.findings)


def _issues(tally: Tally, pos: int, findings: list[Finding]) -> dict[str, Any]:
    severities = {f.severity for f in findings if f.kind == "issue"}
    changes: dict[str, Any] = {}
    if severities & QUALIFYING:
        changes["issues"] = _one_more(tally.issues, pos)
    if severities & SEVERE:
        changes["severe"] = _one_more(tally.severe, pos)
    return changes


def _one_more(counted: Counted, pos: int) -> Counted:
    first = counted.first if len(counted.first) == MAX_CITED else (*counted.first, pos)
    return Counted(counted.count + 1, first)


def _with_subject(subjects: tuple[SourceSubject, ...], part: ReviewPart) -> tuple[SourceSubject, ...]:
    subject = SourceSubject(part.subject.id, part.subject.source_id, part.subject.dataset_revision)
    return subjects if subject in subjects else (*subjects, subject)


def _claims(pos: int, entries: object) -> tuple[Claim, ...]:
    """The entries that are objects; whatever else stands there claims nothing."""
    if not isinstance(entries, list):
        return ()
    return tuple(_claim(pos, entry) for entry in entries if isinstance(entry, dict))


def _claim(pos: int, entry: dict[str, Any]) -> Claim:
    return Claim(
        pos=pos,
        issue_url=_text(entry.get("issue_url")),
        dataset_revision=_text(entry.get("dataset_revision")),
        verifier_revision=_text(entry.get("verifier_revision")),
        names_verifier="verifier_revision" in entry and isinstance(entry["verifier_revision"], str | None),
        fix_validated=entry.get("fix_validated") is True,
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
