"""Defects of a source: suspected, confirmed on native inputs, validated as fixed, resolved."""

# ruff: noqa: RUF012  # pydantic copies the defaults of a model

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from ledger.events.fields import ArtifactRef, EventId, Record, Revision, Sha256, Text, Url
from ledger.events.registry import event

DefectId = Annotated[str, Field(pattern=r"^[!-~]{1,100}$")]
DefectKind = Literal["verifier", "task-import", "judge-output"]


@event("defect.suspected", family="defect", streams=("source",))
class DefectSuspected(Record):
    """Somebody thinks that something is wrong. A suspicion confirms nothing."""

    defect: DefectId
    kind: DefectKind
    summary: Text
    evidence: list[ArtifactRef] = []
    review: Sha256 | None = None


@event("defect.confirmed", family="defect", streams=("source",), decision=True)
class DefectConfirmed(Record):
    """A mismatch between expected and observed behaviour was reproduced on actual native inputs."""

    defect: DefectId
    kind: DefectKind
    summary: Text
    native_inputs: Annotated[list[ArtifactRef], Field(min_length=1)]
    """The inputs that fail, as stored bytes."""
    expected: Text
    observed: Text
    reproduction: Text
    """How to make it happen again."""
    issue_state: Literal["filed", "missing"]
    issue_url: Url | None
    dataset_revision: Revision | None = None
    verifier_revision: Revision | None = None
    review: Sha256 | None = None
    """The supplemental review collection that holds the evidence."""
    evidence: list[ArtifactRef] = []

    @model_validator(mode="after")
    def _issue_is_named_or_missing(self) -> DefectConfirmed:
        if (self.issue_state == "filed") != (self.issue_url is not None):
            raise ValueError('issue_state "filed" needs an issue_url, and "missing" forbids one')
        return self


class Replay(Record):
    """One saved failing input, run again after the fix."""

    input_sha256: Sha256
    expected: Text
    observed: Text
    passed: bool
    """The repaired behaviour was observed."""


class Control(Record):
    """An answer whose right treatment is known: a wrong one must not be rewarded, a right one must be."""

    kind: Literal["incorrect", "correct", "empty", "trivial", "perturbed"]
    expected: Text
    observed: Text
    passed: bool
    evidence: ArtifactRef | None = None


@event("defect.validation_recorded", family="defect", streams=("source",))
class DefectValidationRecorded(Record):
    """What a fix was checked against, and what came out. Recorded whatever came out."""

    defect: DefectId
    dataset_revision: Revision | None
    verifier_revision: Revision | None
    replays: list[Replay]
    controls: list[Control]
    fix: Text | None = None
    """Where the fix is: a commit or a link."""
    evidence: list[ArtifactRef]


@event("defect.resolved", family="defect", streams=("source",), decision=True)
class DefectResolved(Record):
    """The defect is no longer there at the present revisions."""

    defect: DefectId
    validation: EventId
    """The `defect.validation_recorded` that it rests on."""
    review: Sha256
    """The review collection published since the confirmation, with a verified native run."""
    note: Text | None = None


@event("defect.reopened", family="defect", streams=("source",), decision=True)
class DefectReopened(Record):
    """A resolved defect is there again."""

    defect: DefectId
    reason: Text
    evidence: list[ArtifactRef] = []


@event("defect.withdrawn", family="defect", streams=("source",), decision=True)
class DefectWithdrawn(Record):
    """It was no defect. The record of it stays."""

    defect: DefectId
    reason: Text
    evidence: list[ArtifactRef] = []
