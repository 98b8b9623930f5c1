"""Difficulty reports, follow-ups and context, as facts.

Counts are kept as they were saved. Context is free-form, so each value is looked at before it is taken.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from ledger.core.strictjson import MAX_INT
from ledger.rules import RuleEvent
from ledger.rules.ledger_1.gathering import text
from ledger.rules.ledger_1.model import Context, FollowUp, Measured, Report, Settled
from ledger.rules.ledger_1.reading import (
    DifficultyContextRecorded,
    DifficultyFollowupReported,
    DifficultyReported,
    ReportedModel,
)


def reported(settled: Settled, event: RuleEvent, said: DifficultyReported) -> Settled:
    report = Report(
        pos=event.pos,
        protocol=said.protocol.id,
        models=tuple(_measured(m) for m in said.models),
        context_window=said.protocol.context_window,
        max_input_tokens=said.protocol.max_input_tokens,
        max_output_tokens=said.protocol.max_output_tokens,
        source_revision=said.source_revision,
        verifier_revision=said.verifier_revision,
        verifier_configuration=said.verifier_configuration,
        estimated_at=said.estimated_at,
        ordering_warning=said.ordering_warning,
        rests_on=said.rests_on,
        sample=event.sample,
    )
    return replace(settled, reports=(*settled.reports, report))


def followed_up(settled: Settled, event: RuleEvent, said: DifficultyFollowupReported) -> Settled:
    """Only a complete one is shown; a later one of the same id takes its place."""
    if said.state != "complete":
        return settled
    followup = FollowUp(
        pos=event.pos,
        id=said.followup_id,
        kind=said.kind,
        outcome=_measured(said.outcome),
        changed_parameter=said.changed_parameter,
        checkpoint_change=said.checkpoint_change,
        estimated_at=said.estimated_at,
        original_report=said.original_report.sha256 if said.original_report else None,
        sample=event.sample,
    )
    return replace(settled, followups={**settled.followups, followup.id: followup})


def context_recorded(settled: Settled, event: RuleEvent, said: DifficultyContextRecorded) -> Settled:
    """The latest one counts."""
    baseline, earlier = said.reviewer_rollout_baseline, said.historical_reference
    context = Context(
        pos=event.pos,
        solved=_count(baseline.get("solved")),
        verified=_count(baseline.get("verified")),
        unverified=_count(baseline.get("unverified")),
        attempted=_count(baseline.get("attempted")),
        reviewers=_labels(baseline.get("configured_model_reviewers")),
        applicability=text(earlier.get("applicability")),
        limitations=(*_texts(baseline.get("limitations")), *_texts(earlier.get("limitations"))),
        artifact=said.context.sha256 if said.context else None,
        sample=event.sample,
    )
    return replace(settled, context=context)


def _measured(model: ReportedModel) -> Measured:
    return Measured(
        size=model.size,
        model=model.model,
        solved=model.solved,
        verified=model.verified,
        unverified=model.unverified,
        attempted=model.attempted,
        generation_parameters=model.generation_parameters,
        contract=model.scoring_contract,
    )


def _count(value: object) -> int | None:
    fits = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_INT
    return value if isinstance(value, int) and fits else None


def _labels(reviewers: object) -> tuple[str, ...]:
    labels = [r.get("label") for r in _items(reviewers) if isinstance(r, dict)]
    return tuple(label for label in labels if isinstance(label, str))


def _texts(value: object) -> tuple[str, ...]:
    return tuple(item for item in _items(value) if isinstance(item, str))


def _items(value: object) -> list[Any]:
    """A single value stands for a list of one."""
    return value if isinstance(value, list) else [value]
