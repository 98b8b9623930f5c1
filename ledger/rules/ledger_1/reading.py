"""Of the events of a source, what these rules read, and nothing else.

Payloads were checked when they were recorded. Here they are read once more from their JSON, in the newest version, into
structs that hold only the fields that a rule asks for: everything else is skipped without being built. A field that
stands in a free-form object may be anything, and is looked at before it is used.
"""

from __future__ import annotations

from typing import Any

import msgspec


class Said(msgspec.Struct, frozen=True, gc=False):
    """Part of a payload."""


class ArtifactRef(Said, frozen=True):
    sha256: str


class Parts(Said, frozen=True):
    count: int
    digest: str
    ids: list[str] | None = None


# Reviews


class Subject(Said, frozen=True):
    id: str
    level: str
    source_id: str
    dataset_revision: str | None = None


class Reviewer(Said, frozen=True):
    id: str


class Finding(Said, frozen=True):
    kind: str
    severity: str | None = None


class Verification(Said, frozen=True):
    status: str
    scoring_contract: str | None = None


class Session(Said, frozen=True):
    conversation_id: str | None = None
    prompt_sha256: str | None = None


class Attributes(Said, frozen=True):
    """Of the free-form attributes, the ones that mean something to a rule."""

    resolved_verifier_issues: Any = None
    verification: Any = None
    prompt: Any = None
    conversation_id: Any = None


class ReviewPart(Said, frozen=True):
    """An observation, a judgment or a synthesis."""

    collection: str
    subject: Subject
    reviewer: Reviewer
    method: str
    verdict: str
    attributes: Attributes
    findings: list[Finding]
    reviewed_at: str | None = None
    tests_executed: bool | None = None
    verification: Verification | None = None
    session: Session | None = None


class Provenance(Said, frozen=True):
    marinskyrl_dirty: bool


class ReviewPublished(Said, frozen=True):
    collection: str
    review: str
    source_id: str
    parts: Parts
    dataset_revision: str | None = None
    verifier_revision: str | None = None
    verifier_revision_basis: str | None = None
    executed_commit: str | None = None
    reference_commit: str | None = None
    execution_provenance: Provenance | None = None
    review_pool_role: str | None = None
    rests_on: tuple[str, ...] = ()


class ReviewSuperseded(Said, frozen=True):
    review: str
    superseded_by: str | None = None


class TagAssigned(Said, frozen=True):
    assignment_id: str
    namespace: str
    value: str
    collection: str | None = None
    supersedes_assignment_id: str | None = None


class TagRetracted(Said, frozen=True):
    assignment_id: str


# Defects


class DefectSuspected(Said, frozen=True):
    defect: str
    kind: str
    summary: str


class DefectConfirmed(Said, frozen=True):
    defect: str
    kind: str
    summary: str
    native_inputs: list[ArtifactRef]
    expected: str
    observed: str
    issue_url: str | None = None
    review: str | None = None


class Replay(Said, frozen=True):
    input_sha256: str
    passed: bool


class Control(Said, frozen=True):
    kind: str
    passed: bool


class DefectValidationRecorded(Said, frozen=True):
    defect: str
    replays: list[Replay]
    controls: list[Control]
    evidence: list[ArtifactRef]
    dataset_revision: str | None = None
    verifier_revision: str | None = None


class DefectResolved(Said, frozen=True):
    defect: str
    validation: str
    review: str


class DefectReopened(Said, frozen=True):
    defect: str


class DefectWithdrawn(Said, frozen=True):
    defect: str


# Difficulty


class ReportProtocol(Said, frozen=True):
    id: str
    context_window: int | None = None
    max_input_tokens: int | None = None
    max_output_tokens: int | None = None


class ReportedModel(Said, frozen=True):
    size: str
    model: str
    solved: int
    verified: int
    unverified: int | None = None
    attempted: int | None = None
    generation_parameters: dict[str, Any] = msgspec.field(default_factory=dict)
    scoring_contract: str | None = None


class DifficultyReported(Said, frozen=True):
    protocol: ReportProtocol
    models: list[ReportedModel]
    estimated_at: str | None = None
    source_revision: str | None = None
    verifier_revision: str | None = None
    verifier_configuration: dict[str, Any] = msgspec.field(default_factory=dict)
    ordering_warning: str | None = None
    rests_on: tuple[str, ...] = ()


class DifficultyFollowupReported(Said, frozen=True):
    followup_id: str
    state: str
    kind: str
    outcome: ReportedModel
    original_report: ArtifactRef | None = None
    estimated_at: str | None = None
    changed_parameter: str | None = None
    checkpoint_change: str | None = None


class DifficultyContextRecorded(Said, frozen=True):
    reviewer_rollout_baseline: dict[str, Any]
    historical_reference: dict[str, Any]
    context: ArtifactRef | None = None


# Attestations


class ComparedObject(Said, frozen=True):
    reviewed_object: str | None
    registry_object: str | None


class NativeRevision(Said, frozen=True):
    reviewed_commit: str
    registry_commit: str
    dirty: bool
    objects: list[ComparedObject]


class ComparedFile(Said, frozen=True):
    executed_sha256: str
    current_sha256: str


class Selection(Said, frozen=True):
    executed_selector: str
    current_selector: str
    executed_rows: int
    current_rows: int
    executed_rows_sha256: str | None = None
    current_rows_sha256: str | None = None


class DatasetRevision(Said, frozen=True):
    executed_revision: str
    current_revision: str
    files: list[ComparedFile]
    selection: Selection | None = None


class ComparedProgram(Said, frozen=True):
    executed_sha256: str | None
    manifest_sha256: str | None


class GradingApplicability(Said, frozen=True):
    review: str
    source_revision: str
    captured_verifier_revision: str
    grading_revision: str
    manifest_sha256: str
    programs: list[ComparedProgram]
    unchecked: tuple[str, ...] = ()


class ComparedDefinition(Said, frozen=True):
    original_sha256: str | None
    executed_sha256: str | None


class ChangeValidation(Said, frozen=True):
    evidence: list[ArtifactRef]


class ExecutionImplementation(Said, frozen=True):
    definitions: list[ComparedDefinition]
    original_closure_sha256: str
    executed_closure_sha256: str
    validation: ChangeValidation | None = None


class AttestationRecorded(Said, frozen=True):
    kind: str
    subject: str
    scope: str
    native_revision: NativeRevision | None = None
    dataset_revision: DatasetRevision | None = None
    grading_applicability: GradingApplicability | None = None
    execution_implementation: ExecutionImplementation | None = None
