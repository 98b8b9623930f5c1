"""Attestations: evidence that data, a verifier, grading or execution code is unchanged, within a stated scope.

A claim records what was found on both sides and leaves the comparison to the rules: nothing is equal because somebody
says so. A later attestation of the same `subject` supersedes an earlier one, whatever it found.
"""

# ruff: noqa: RUF012  # pydantic copies the defaults of a model

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from ledger.events.fields import (
    AnyText,
    ArtifactRef,
    Commit,
    Count,
    JsonObject,
    Name,
    Person,
    Record,
    Revision,
    Sha256,
    SourceId,
    Text,
    Timestamp,
)
from ledger.events.registry import event

AttestationKind = Literal["native_revision", "dataset_revision", "grading_applicability", "execution_implementation"]


class ComparedObject(Record):
    """One path of a repository at both commits: git object ids, None where it is not there."""

    path: Name
    reviewed_object: Commit | None
    registry_object: Commit | None


class NativeRevision(Record):
    """The verifier's code at the commit that was executed, and at the one that the catalogue names."""

    reviewed_commit: Commit
    registry_commit: Commit
    dirty: bool
    """The checkout that ran held changes that no commit has."""
    objects: Annotated[list[ComparedObject], Field(min_length=1)]


class ComparedFile(Record):
    """One data file at both revisions."""

    path: Name
    executed_sha256: Sha256
    current_sha256: Sha256
    size: Count | None = None


class Selection(Record):
    """Which rows of the files make up the source, at both revisions."""

    executed_selector: AnyText
    current_selector: AnyText
    executed_rows: Count
    current_rows: Count
    executed_rows_sha256: Sha256 | None = None
    """Over the selected rows' identities, in order."""
    current_rows_sha256: Sha256 | None = None


class DatasetRevision(Record):
    """The source's data at the revision that was reviewed, and at a later one. Bytes and selection are two claims."""

    executed_revision: Revision
    current_revision: Revision
    files: Annotated[list[ComparedFile], Field(min_length=1)]
    selection: Selection | None
    """Null: the source is the whole of its files."""


class ComparedProgram(Record):
    """One grading route: digests of the program that ran and of the one in the manifest; None where there is none."""

    route: Name
    executed_sha256: Sha256 | None
    manifest_sha256: Sha256 | None


class GradingApplicability(Record):
    """A native execution, and the grading manifest that it was checked against."""

    review: Sha256
    """The review collection that it speaks for."""
    source_revision: Revision
    captured_verifier_revision: Revision
    """The identity that the review recorded."""
    grading_revision: Sha256
    """The grading identity that the catalogue names: the digest of its manifest."""
    manifest_sha256: Sha256
    """Of the manifest that the execution was checked against, as the checker derived it."""
    programs: Annotated[list[ComparedProgram], Field(min_length=1)]
    unchecked: list[Name] = []
    """What the check could not see, such as third-party packages: stated, not waved through."""


class ComparedDefinition(Record):
    """One definition that a root reaches: the digest of its parsed form on both sides, None where it is not there."""

    name: Name
    original_sha256: Sha256 | None
    executed_sha256: Sha256 | None


class ChangeValidation(Record):
    """That changed execution code was validated: what was run, and what it showed."""

    evidence: Annotated[list[ArtifactRef], Field(min_length=1)]
    validated_by: Person
    note: Text


class ExecutionImplementation(Record):
    """The parsed definitions under some roots of a script, with all that they reference and import, on both sides."""

    script: Name
    original_sha256: Sha256
    """Of the whole file."""
    executed_sha256: Sha256
    roots: Annotated[list[Name], Field(min_length=1)]
    definitions: Annotated[list[ComparedDefinition], Field(min_length=1)]
    original_closure_sha256: Sha256
    executed_closure_sha256: Sha256
    encoding: Name
    """How parsed definitions were written to be hashed; two digests compare under one encoding alone."""
    validation: ChangeValidation | None = None


@event("attestation.recorded", family="attestation", streams=("source",))
class AttestationRecorded(Record):
    """One claim about one source, with its evidence and its limits."""

    source_id: SourceId
    kind: AttestationKind
    subject: Name
    """What it compares, such as "dataset a1b2 to c3d4": a later attestation of the same kind and subject supersedes."""
    evidence: Annotated[list[ArtifactRef], Field(min_length=1)]
    scope: Text
    """What the evidence covers, and what it does not."""
    attested_at: Timestamp | None
    native_revision: NativeRevision | None = None
    dataset_revision: DatasetRevision | None = None
    grading_applicability: GradingApplicability | None = None
    execution_implementation: ExecutionImplementation | None = None
    context: JsonObject = {}

    @model_validator(mode="after")
    def _has_the_claim_of_its_kind(self) -> AttestationRecorded:
        claims = {
            "native_revision": self.native_revision,
            "dataset_revision": self.dataset_revision,
            "grading_applicability": self.grading_applicability,
            "execution_implementation": self.execution_implementation,
        }
        if [name for name, claim in claims.items() if claim is not None] != [self.kind]:
            raise ValueError(f"a {self.kind} attestation holds exactly the claim of that name")
        return self
