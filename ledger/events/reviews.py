"""Reviews: native observations, judgments, syntheses, and the publication that closes their collection.

Field names are those of the Atlas review format 0.3.0. Rules read the parts only through `review.published`.
"""

# ruff: noqa: RUF012  # pydantic copies the defaults of a model

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ledger.events.fields import (
    AnyText,
    ArtifactRef,
    CollectionId,
    Commit,
    Count,
    EventId,
    JsonObject,
    Metric,
    Name,
    Number,
    Parts,
    Person,
    Record,
    Revision,
    Sha256,
    SourceId,
    Text,
    Timestamp,
)
from ledger.events.registry import event

Verdict = Literal["keep", "reject", "conditional", "inconclusive", "unrated"]
Severity = Literal["info", "low", "medium", "high", "critical"]


class Subject(Record):
    """What was reviewed: a source, or one of its tasks."""

    id: Name
    level: Literal["source", "task"]
    repository: Name
    dataset_revision: Revision | None
    source_id: Name
    task_id: Name | None
    task_path: Name | None
    row_index: Count | None


class Locator(Record):
    kind: Literal["json_pointer", "line_range"]
    value: AnyText


class FindingEvidence(Record):
    """The bytes that a finding points at, and where in them."""

    artifact: ArtifactRef
    locator: Locator | None


class Finding(Record):
    """Severity is the defect's impact, never confidence; an observation has severity info or none."""

    id: Name
    dimension: Name
    text: Text
    severity: Severity | None
    kind: Literal["issue", "observation", "unknown"]
    evidence: list[FindingEvidence] = []


class Scale(Record):
    minimum: Metric | None
    maximum: Metric | None
    higher_means: Literal["better", "worse", "neither"]
    rubric_url: AnyText | None


class ReviewMetric(Record):
    key: Name
    value: bool | Number | AnyText | None
    scale: Scale | None


class Sample(Record):
    task_path: AnyText
    row_index: Count | None


class Coverage(Record):
    scope: Literal["single_task", "source_sample", "full_source", "unknown"]
    sample_count: Count | None
    population_count: Count | None
    sampling_method: AnyText | None
    seed: AnyText | None
    samples: list[Sample]


class Evidence(Record):
    """Where a review's evidence lies; `artifact` names the stored bytes."""

    artifact: ArtifactRef | None
    retrieved_at: Timestamp | None
    locator: Locator | None
    artifact_revision: Revision | None


class Verification(Record):
    """A native verifier's result. Verified needs a score; the other statuses forbid one."""

    status: Literal["verified", "unavailable", "error", "skipped"]
    score: Metric | None = None
    passed: bool | None = None
    reason: AnyText | None = None
    scoring_contract: Name | None = None
    """The version of the contract by which the attempt was scored: scores under different ones do not compare."""


class _Review(Record):
    collection: CollectionId
    review_id: Name
    subject: Subject
    reviewer: Person
    publisher: Person
    reviewed_at: Timestamp | None
    imported_at: Timestamp
    tests_executed: bool | None
    coverage: Coverage
    summary: AnyText
    verdict: Verdict
    metrics: list[ReviewMetric]
    findings: list[Finding]
    evidence: list[Evidence]
    derived_from_review_ids: list[Name]
    supersedes_review_id: Name | None
    verification: Verification | None = None
    attributes: JsonObject


@event("observation.recorded", family="review", streams=("source",))
class ObservationRecorded(_Review):
    """What a native run, an inspection or an imported audit saw."""

    method: Literal["runtime_execution", "static_inspection", "unknown"]


class JudgeSession(Record):
    """What makes a judge's opinion its own: where it was asked, and with what."""

    conversation_id: Name | None = None
    request_ids: list[Name] = []
    model_revision: Revision | None = None
    prompt_sha256: Sha256 | None = None
    parameters_sha256: Sha256 | None = None


@event("judgment.recorded", family="review", streams=("source",))
class JudgmentRecorded(_Review):
    """One judge's opinion. Judges are independent."""

    method: Literal["model_judgment", "human_judgment"]
    session: JudgeSession | None = None


@event("synthesis.recorded", family="review", streams=("source",))
class SynthesisRecorded(_Review):
    """Opinions brought together, their disagreement kept."""

    method: Literal["synthesis"]


class VerifyIt(Record):
    version: Name
    source_url: AnyText
    source_commit: Commit


class ExecutionProvenance(Record):
    """The code that really ran."""

    marinskyrl_commit: Commit
    marinskyrl_dirty: bool
    marinskyrl_python_tree_sha256: Sha256
    harbor_commit: Commit | None
    grading_revision: Sha256 | None = None
    verifyit: VerifyIt | None = None


class SourceMapping(Record):
    """Which Atlas source an imported audit speaks of."""

    id: Name
    subject_id: Name
    atlas_source_ids: list[SourceId]
    status: Literal["confirmed", "ambiguous", "unresolved"]
    applicability: Literal["exact_revision", "historical", "unknown"]
    evidence: list[Evidence]
    note: AnyText | None


@event("review.published", family="review", streams=("source",), decision=True)
class ReviewPublished(Record):
    """Closes a review collection: from here on its parts count."""

    collection: CollectionId
    review: Sha256
    """SHA-256 of quality-reviews.json: the collection's name in the Atlas."""
    source_id: SourceId
    parts: Parts
    document: ArtifactRef
    """quality-reviews.json itself."""
    schema_version: Name
    created_at: Timestamp
    dataset_revision: Revision | None
    """The dataset revision that was reviewed."""
    verifier_revision: Revision | None
    """The verifier revision that the rating covers."""
    verifier_revision_basis: Literal["execution", "catalogue", "publisher"] | None
    """Who says so: the run, the catalogue at publication, or the publisher."""
    executed_commit: Commit | None
    reference_commit: Commit | None
    """The commit that was looked at for reused evidence."""
    execution_provenance: ExecutionProvenance | None
    review_pool_role: Literal["verifier_defect", "verifier_revision_attestation"] | None = None
    rests_on: list[EventId] = []
    """Attestations of this source by which the review vouches for what it did not run itself."""
    artifacts: list[ArtifactRef] = []
    source_mappings: list[SourceMapping] = []


@event("review.superseded", family="review", streams=("source",), decision=True)
class ReviewSuperseded(Record):
    """A published collection no longer speaks for the source; it stays readable."""

    review: Sha256
    superseded_by: Sha256 | None
    reason: Text


class TagTarget(Record):
    kind: Literal["subject", "review", "finding"]
    id: Name


@event("tag.assigned", family="review", streams=("source",))
class TagAssigned(Record):
    """A tag on a subject, a review or a finding."""

    collection: CollectionId | None
    assignment_id: Name
    target: TagTarget
    namespace: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,99}$")]
    value: Text
    origin: Literal["upstream", "derived", "curated"]
    assigned_by: Person
    assigned_at: Timestamp
    evidence_review_ids: list[Name]
    note: AnyText | None
    supersedes_assignment_id: Name | None


@event("tag.retracted", family="review", streams=("source",))
class TagRetracted(Record):
    """A tag is taken back."""

    assignment_id: Name
    reason: AnyText | None
