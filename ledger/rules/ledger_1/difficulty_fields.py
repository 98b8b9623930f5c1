"""Difficulty as it is shown: the fields of `Difficulty` in audit.proto.

A solve rate and its interval are computed here and nowhere else, from the saved counts.
"""

from __future__ import annotations

from typing import Any

from ledger.rules.ledger_1.difficulty import HIDDEN, Difficulty, JudgedReport
from ledger.rules.ledger_1.model import Context, FollowUp, Measured, Report, Settled
from ledger.rules.ledger_1.wilson import wilson_95


def difficulty_fields(found: Difficulty, settled: Settled) -> dict[str, Any]:
    shown = found.shown
    report = shown.report
    return {
        "status": shown.status,
        "models": _models(shown),
        "protocol": report and report.protocol,
        "estimated_at": report and report.estimated_at,
        "source_revision": report and report.source_revision,
        "verifier_revision": report and report.verifier_revision,
        "pos": report and report.pos,
        "mismatches": shown.mismatches,
        "ordering_warning": report and report.ordering_warning,
        "history": [_earlier(one, one.report) for one in found.others if one.report is not None],
        "followups": [] if shown.status in HIDDEN else _followups(settled),
        "context": settled.context and _context(settled.context),
    }


def _models(judged: JudgedReport) -> list[dict[str, Any]]:
    if judged.report is None or judged.status in HIDDEN:
        return []
    return [_model(model) for model in judged.report.models]


def _model(model: Measured) -> dict[str, Any]:
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
        "scoring_contract": model.contract,
    }


def _earlier(judged: JudgedReport, report: Report) -> dict[str, Any]:
    return {
        "pos": report.pos,
        "protocol": report.protocol,
        "status": judged.status,
        "estimated_at": report.estimated_at,
        "source_revision": report.source_revision,
        "models": _models(judged),
    }


def _followups(settled: Settled) -> list[dict[str, Any]]:
    return [_followup(f) for f in sorted(settled.followups.values(), key=lambda f: f.pos)]


def _followup(followup: FollowUp) -> dict[str, Any]:
    return {
        "id": followup.id,
        "size": "hosted" if followup.kind == "alternate_checkpoint" else "followup",
        "label": "generation setting follow-up" if followup.changed_parameter else "native verifier recheck",
        "kind": followup.kind,
        "changed_parameter": followup.changed_parameter,
        "checkpoint_change": followup.checkpoint_change,
        "outcome": _model(followup.outcome),
        "estimated_at": followup.estimated_at,
        "original_report": followup.original_report,
        "pos": followup.pos,
    }


def _context(context: Context) -> dict[str, Any]:
    return {
        "solved": context.solved,
        "verified": context.verified,
        "unverified": context.unverified,
        "attempted": context.attempted,
        "reviewers": list(context.reviewers),
        "applicability": context.applicability,
        "limitations": list(context.limitations),
        "artifact_sha256": context.artifact,
        "pos": context.pos,
    }
