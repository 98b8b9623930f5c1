"""Of each event type, what these rules read, and nothing else.

Payloads were checked when they were recorded. Here they are read once more from their JSON, in the newest version, into
structs of this package that hold only the fields that a rule asks for: nothing outside it can change what a payload
means to these rules. A field that stands in a free-form object may be anything, and is looked at before it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

import msgspec

from ledger.rules import RuleEvent


class Said(msgspec.Struct, frozen=True, gc=False):
    """Part of a payload."""


class ArtifactRef(Said, frozen=True):
    sha256: str


class Parts(Said, frozen=True):
    count: int
    digest: str
    ids: list[str] | None = None


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


class Attributes(Said, frozen=True):
    """Of the free-form attributes, the ones that mean something to a rule."""

    resolved_verifier_issues: Any = None
    verification: Any = None


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


class ReviewPublished(Said, frozen=True):
    collection: str
    review: str
    source_id: str
    parts: Parts
    dataset_revision: str | None = None
    executed_commit: str | None = None
    reference_commit: str | None = None
    review_pool_role: str | None = None


class ReviewSuperseded(Said, frozen=True):
    review: str
    superseded_by: str | None = None


class TagAssigned(Said, frozen=True):
    collection: str | None = None


class DefectSuspected(Said, frozen=True):
    defect: str
    kind: str
    summary: str


class DefectConfirmed(Said, frozen=True):
    defect: str
    kind: str
    summary: str
    expected: str
    observed: str
    issue_url: str | None = None
    review: str | None = None


class DefectResolved(Said, frozen=True):
    defect: str
    review: str


class DefectReopened(Said, frozen=True):
    defect: str


class DefectWithdrawn(Said, frozen=True):
    defect: str


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


class DifficultyReported(Said, frozen=True):
    atlas_id: str
    protocol: ReportProtocol
    models: list[ReportedModel]
    report: ArtifactRef | None = None
    estimated_at: str | None = None
    verifier_configuration: dict[str, Any] = msgspec.field(default_factory=dict)


class DifficultyFollowupReported(Said, frozen=True):
    followup_id: str
    state: str
    kind: str
    outcome: ReportedModel
    original_report: ArtifactRef | None = None
    estimated_at: str | None = None
    changed_parameter: str | None = None
    checkpoint_change: str | None = None


class ComparedProgram(Said, frozen=True):
    executed_sha256: str | None = None
    manifest_sha256: str | None = None


class GradingApplicability(Said, frozen=True):
    review: str
    source_revision: str
    captured_verifier_revision: str
    grading_revision: str
    programs: list[ComparedProgram]


class AttestationRecorded(Said, frozen=True):
    grading_applicability: GradingApplicability | None = None


class AuthoredReview(Said, frozen=True):
    grade: Literal["good", "some_issues", "bad"] | None = None
    dataset_revision: str | None = None
    verifier_revision: str | None = None


class Extra(Said, frozen=True):
    """Of an inventory's keys that have no field of their own, the one that means something to a rule."""

    grading_revision: Any = None


class CatalogueRow(Said, frozen=True):
    id: str
    origin: str
    name: str | None = None
    family: str | None = None
    url: str | None = None
    dataset_id: str | None = None
    dataset_revision: str | None = None
    revision: str | None = None
    verifier_revision: str | None = None
    is_benchmark: bool | None = None
    atlas_status: str | None = None
    intended_use: str | None = None
    input_rows: int | None = None
    authored_review: AuthoredReview | None = None
    extra: Extra = Extra()


class RowHead(Said, frozen=True):
    id: str
    origin: str


class PartHead(Said, frozen=True):
    """Of a catalogue part, what the environment asks; a retirement has no row."""

    collection: str
    row: RowHead | None = None


class PartWithRow(Said, frozen=True):
    """source.declared, source.revised, source.reinstated: the row as it was written, read apart."""

    collection: str
    row: msgspec.Raw


class SourceRetired(Said, frozen=True):
    collection: str


class CatalogueSynced(Said, frozen=True):
    collection: str
    origin: str
    parts: Parts
    replaces: str | None = None


class RulesAdopted(Said, frozen=True):
    rules: str
    digest: str


class ProtocolModel(Said, frozen=True):
    size: str
    model: str
    reasoning: str
    generation_parameters: dict[str, Any]
    must_record: tuple[str, ...] = ()


class ProtocolJudge(Said, frozen=True):
    key: str
    required: dict[str, Any]
    not_empty: tuple[str, ...] = ()


class ProtocolDefined(Said, frozen=True):
    protocol: str
    context_window: int
    max_input_tokens: int
    max_output_tokens: int
    models: tuple[ProtocolModel, ...]
    judge: ProtocolJudge | None = None
    sources: tuple[str, ...] = ()
    note: str | None = None


class ProtocolAdopted(Said, frozen=True):
    protocol: str
    definition: str
    replaces: str | None = None


_TYPES: Final[Mapping[str, type[Said]]] = {
    "observation.recorded": ReviewPart,
    "judgment.recorded": ReviewPart,
    "synthesis.recorded": ReviewPart,
    "review.published": ReviewPublished,
    "review.superseded": ReviewSuperseded,
    "tag.assigned": TagAssigned,
    "defect.suspected": DefectSuspected,
    "defect.confirmed": DefectConfirmed,
    "defect.resolved": DefectResolved,
    "defect.reopened": DefectReopened,
    "defect.withdrawn": DefectWithdrawn,
    "difficulty.reported": DifficultyReported,
    "difficulty.followup_reported": DifficultyFollowupReported,
    "attestation.recorded": AttestationRecorded,
    "source.declared": PartWithRow,
    "source.revised": PartWithRow,
    "source.retired": SourceRetired,
    "source.reinstated": PartWithRow,
    "catalogue.synced": CatalogueSynced,
    "rules.adopted": RulesAdopted,
    "protocol.defined": ProtocolDefined,
    "protocol.adopted": ProtocolAdopted,
}

_DECODE: Final[Mapping[str, Callable[[bytes], Any]]] = {
    type_: msgspec.json.Decoder(said).decode for type_, said in _TYPES.items()
}

decode_row: Final = msgspec.json.Decoder(CatalogueRow).decode
decode_part_head: Final = msgspec.json.Decoder(PartHead).decode


def read(event: RuleEvent) -> Any:
    """What an event says; its type must be one that means something to these rules."""
    return _DECODE[event.type](event.body)
