"""The Atlas review collection, format 0.3.0: its models, and what is read of a review's free attributes.

A model says what one part of a document holds. What the parts must say of one another is judged by `review_checks`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue

from ledger.events.fields import (
    AnyText,
    Commit,
    JsonObject,
    Name,
    Number,
    Person,
    Record,
    Revision,
    Sha256,
    SourceId,
    Text,
    Timestamp,
)
from ledger.events.reviews import (
    Coverage,
    ExecutionProvenance,
    Locator,
    ReviewMetric,
    Severity,
    Subject,
    TagTarget,
    Verdict,
)


def with_z(moment: str) -> str:
    """UTC as the ledger writes it: Z in the place of +00:00. Any other offset stays."""
    return moment.removesuffix("+00:00") + "Z" if moment.endswith("+00:00") else moment


DocumentTime = Annotated[Timestamp, AfterValidator(with_z)]


class DocumentEvidence(Record):
    """A snapshot under the run's root. `url` is where it lay when it was made, and is not followed."""

    url: AnyText
    snapshot_path: Name | None
    sha256: Sha256 | None
    retrieved_at: DocumentTime | None
    locator: Locator | None
    artifact_revision: Revision | None


class DocumentFinding(Record):
    """A finding as the format has it: what it points at stands in the review's attributes, as `finding_evidence`."""

    id: Name
    dimension: Name
    text: Text
    severity: Severity | None
    kind: Literal["issue", "observation", "unknown"]


class Review(Record):
    """One observation, judgment or synthesis."""

    id: Name
    subject_id: Name
    reviewer: Person
    publisher: Person
    reviewed_at: DocumentTime | None
    imported_at: DocumentTime
    method: Literal[
        "static_inspection", "runtime_execution", "model_judgment", "human_judgment", "synthesis", "unknown"
    ]
    tests_executed: bool | None
    coverage: Coverage
    summary: AnyText
    verdict: Verdict
    metrics: list[ReviewMetric]
    findings: list[DocumentFinding]
    evidence: Annotated[list[DocumentEvidence], Field(min_length=1)]
    derived_from_review_ids: list[Name]
    supersedes_review_id: Name | None
    attributes: JsonObject


class TagAssignment(Record):
    id: Name
    target: TagTarget
    namespace: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,99}$")]
    value: Text
    origin: Literal["upstream", "derived", "curated"]
    assigned_by: Person
    assigned_at: DocumentTime
    evidence_review_ids: list[Name]
    note: AnyText | None
    supersedes_assignment_id: Name | None
    state: Literal["active", "retracted"]


class DocumentMapping(Record):
    """Which Atlas source an imported audit speaks of."""

    id: Name
    subject_id: Name
    atlas_source_ids: list[SourceId]
    status: Literal["confirmed", "ambiguous", "unresolved"]
    applicability: Literal["exact_revision", "historical", "unknown"]
    evidence: list[DocumentEvidence]
    note: AnyText | None


class Collection(Record):
    """The whole document."""

    schema_version: Literal["0.3.0"]
    created_at: DocumentTime
    subjects: list[Subject]
    reviews: list[Review]
    tag_assignments: list[TagAssignment]
    source_mappings: list[DocumentMapping]
    execution_provenance: ExecutionProvenance | None


class NativeResult(BaseModel):
    """`attributes.verification` as far as it is read by name; the rest is kept with the attributes."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")

    status: Literal["verified", "unavailable", "error", "skipped"]
    score: Number | None = None
    passed: bool | None = None
    reason: AnyText | None = None
    scoring_contract: Name | None = None


class ResolvedIssue(BaseModel):
    """An entry of `attributes.resolved_verifier_issues`."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")

    issue_url: Text | None
    """Null where no issue was filed."""
    dataset_revision: Revision | None
    verifier_revision: Revision | None
    fix_validated: bool


class FindingCitation(Record):
    """A file that a finding points at, by its path under the run's root, and where in it."""

    path: Name
    locator: Locator | None = None


class KnownAttributes(BaseModel):
    """The attributes that decide something. All others are free."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")

    verification: NativeResult | None = None
    review_pool_role: Literal["verifier_defect", "verifier_revision_attestation"] | None = None
    resolved_verifier_issues: list[ResolvedIssue] = []
    inspected_marinskyrl_commit: Commit | None = None
    finding_evidence: dict[Name, list[FindingCitation]] = {}
    """What each finding of the review points at, by the finding's id."""
    conversation_id: Name | None = None
    request_ids: list[Name] = []
    prompt: str | None = None
    """The full text that a judge was given."""


def known_attributes(review: Review) -> KnownAttributes:
    """The attributes that decide something; a verification is a native run's own, and a session a judge's."""
    attributes = dict(review.attributes)
    foreign = []
    if review.method != "runtime_execution":
        foreign += ["verification"]
    if review.method not in {"model_judgment", "human_judgment"}:
        foreign += ["conversation_id", "request_ids", "prompt"]
    for name in foreign:
        attributes.pop(name, None)
    return KnownAttributes.model_validate(attributes)


def without_local_uris(value: JsonValue) -> JsonValue:
    """The value with null in the place of each local file URI: what lay somewhere is named by its content alone."""
    if isinstance(value, str):
        return None if value.lstrip().lower().startswith("file:") else value
    if isinstance(value, list):
        return [without_local_uris(item) for item in value]
    if isinstance(value, dict):
        return {key: without_local_uris(item) for key, item in value.items()}
    return value


def sole_source(subjects: Iterable[Subject]) -> Subject:
    """The one subject of level source, which every sound document has."""
    return next(s for s in subjects if s.level == "source")


def source_syntheses(subjects: Iterable[Subject], reviews: Iterable[Review]) -> list[Review]:
    """The syntheses that speak of a whole source."""
    sources = {s.id for s in subjects if s.level == "source"}
    return [r for r in reviews if r.method == "synthesis" and r.subject_id in sources]
