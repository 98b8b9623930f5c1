"""Difficulty: how many sampled tasks fixed models solve under a fixed protocol."""

# ruff: noqa: RUF012  # pydantic copies the defaults of a model

from __future__ import annotations

from typing import Literal

from ledger.events.fields import (
    AnyText,
    ArtifactRef,
    Count,
    EventId,
    JsonObject,
    Metric,
    Name,
    Record,
    Revision,
    SourceId,
    Text,
    Timestamp,
)
from ledger.events.registry import event


class ReportProtocol(Record):
    """The protocol that the report names, and the token limits that it really ran under."""

    id: Name
    context_window: Count | None = None
    max_input_tokens: Count | None = None
    max_output_tokens: Count | None = None


class Sampling(Record):
    task_count: Count | None = None
    method: AnyText | None = None
    seed: AnyText | None = None


class ReportedModel(Record):
    """One model's outcome. `verified` is the saved denominator; nothing recomputes it."""

    size: Name
    model: Name
    model_revision: Revision | None = None
    provider: Name | None = None
    solved: Count
    verified: Count
    unverified: Count | None = None
    attempted: Count | None = None
    solve_rate: Metric | None = None
    wilson_95: list[Metric] | None = None
    generation_parameters: JsonObject = {}
    serving_configuration: JsonObject = {}
    scoring_contract: Name | None = None
    """The version of the contract by which attempts were scored: rates under different ones do not compare."""


@event("difficulty.reported", family="difficulty", streams=("source",))
class DifficultyReported(Record):
    """A difficulty report of one source."""

    atlas_id: SourceId
    report: ArtifactRef | None
    """difficulty.json itself."""
    estimated_at: Timestamp | None
    split: Name | None = None
    source_revision: Revision | None
    verifier_revision: Revision | None = None
    population_count: Count | None = None
    sampling: Sampling
    protocol: ReportProtocol
    models: list[ReportedModel]
    verifier_configuration: JsonObject = {}
    limitations: list[AnyText] = []
    ordering_warning: Text | None = None
    """That the order of the models may mislead, said by itself and not by its place among the limitations."""
    rests_on: list[EventId] = []
    """Attestations of this source by which the report vouches for unchanged execution code."""


@event("difficulty.followup_reported", family="difficulty", streams=("source",))
class DifficultyFollowupReported(Record):
    """A run with one thing changed, shown beside the report that it follows, never in its place."""

    atlas_id: SourceId
    followup_id: Name
    state: Literal["complete", "incomplete"]
    kind: Name
    original_report: ArtifactRef | None
    report: ArtifactRef | None
    estimated_at: Timestamp | None = None
    source_revision: Revision | None = None
    changed_parameter: AnyText | None
    checkpoint_change: AnyText | None
    outcome: ReportedModel
    verifier_configuration_change: JsonObject = {}
    limitations: list[AnyText] = []


@event("difficulty.context_recorded", family="difficulty", streams=("source",))
class DifficultyContextRecorded(Record):
    """The solver's initial counts and earlier evidence, shown above the comparison."""

    atlas_id: SourceId
    context: ArtifactRef | None
    reviewer_rollout_baseline: JsonObject
    historical_reference: JsonObject
