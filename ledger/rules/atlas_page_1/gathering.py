"""What the parts of a review collection add up to, one part at a time.

A part is gathered when it is recorded, and counts when its collection is published. What the parts say in words is not
kept: only counts, positions and revisions that a rule asks for.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from ledger.core.clock import from_text
from ledger.events.reviews import Finding, JudgmentRecorded, ObservationRecorded, SynthesisRecorded
from ledger.rules import RuleEvent
from ledger.rules.atlas_page_1.model import MAX_CITED, Claim, Counted, NativeRun, SourceSubject, Tally

SUPPLEMENTAL_JUDGE: Final = "model:Qwen/Qwen3-Coder-30B-A3B-Instruct"
"""A collection judged by this model supplements others and gives no rating."""
SEVERE: Final = frozenset({"high", "critical"})
QUALIFYING: Final = SEVERE | {"medium"}

ReviewPart = ObservationRecorded | JudgmentRecorded | SynthesisRecorded


def gathered(tally: Tally, event: RuleEvent, part: ReviewPart) -> Tally:
    """The tally with one more review."""
    if isinstance(part, ObservationRecorded):
        changes = _observed(tally, event.pos, part)
    elif isinstance(part, JudgmentRecorded):
        changes = _judged(tally, event.pos, part)
    else:
        changes = _synthesised(tally, event.pos, part)
    if part.subject.level == "source":
        changes["subjects"] = _with_subject(tally.subjects, part)
    if claims := _claims(event.pos, part.attributes.get("resolved_verifier_issues")):
        changes["claims"] = tally.claims + claims
    if event.sample:
        changes["sample"] = True
    return replace(tally, **changes) if changes else tally


def _observed(tally: Tally, pos: int, part: ObservationRecorded) -> dict[str, Any]:
    if part.method != "runtime_execution":
        return {}
    changes: dict[str, Any] = {"traces": _one_more(tally.traces, pos)}
    if _verification_status(part) != "verified":
        changes["unverified"] = _one_more(tally.unverified, pos)
    elif part.tests_executed is True:
        changes["runs"] = _with_run(tally.runs, NativeRun(pos, part.subject.dataset_revision))
    return changes


def _verification_status(part: ObservationRecorded) -> object:
    """The native verifier's status; the document has it among the attributes."""
    if part.verification is not None:
        return part.verification.status
    attribute = part.attributes.get("verification")
    return attribute.get("status") if isinstance(attribute, dict) else None


def _with_run(runs: tuple[NativeRun, ...], run: NativeRun) -> tuple[NativeRun, ...]:
    # One run a revision is enough to tell what was run there.
    known = any(r.dataset_revision == run.dataset_revision for r in runs)
    return runs if known else (*runs, run)


def _judged(tally: Tally, pos: int, part: JudgmentRecorded) -> dict[str, Any]:
    changes: dict[str, Any] = {"judgments": tally.judgments + 1} | _latest(tally, pos, part.reviewed_at)
    if part.method != "model_judgment":
        return changes
    changes["judges"] = _one_more(tally.judges, pos)
    if part.verdict == "reject":
        changes["rejects"] = _one_more(tally.rejects, pos)
    if part.reviewer.id == SUPPLEMENTAL_JUDGE:
        changes["supplemental_judges"] = _one_more(tally.supplemental_judges, pos)
    return changes | _issues(tally, pos, part.findings)


def _latest(tally: Tally, pos: int, text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    moment = from_text(text)
    if tally.judged_at_us is not None and moment <= tally.judged_at_us:
        return {}
    return {"judged_pos": pos, "judged_at": text, "judged_at_us": moment}


def _synthesised(tally: Tally, pos: int, part: SynthesisRecorded) -> dict[str, Any]:
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
        fix_validated=entry.get("fix_validated") is True,
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
