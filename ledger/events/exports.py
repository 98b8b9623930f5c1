"""Exports: from a checkpoint to published files, what was checked on the way, and where they were seen afterwards.

A repository's branch moves: what is published is a commit. What a third party shows is an observation of a day; two
that contradict each other are both kept.
"""

# ruff: noqa: RUF012  # pydantic copies the defaults of a model

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ledger.events.checkpoints import FileDigest
from ledger.events.fields import (
    AnyText,
    ArtifactRef,
    Count,
    Name,
    Record,
    Revision,
    Sha256,
    Text,
    Timestamp,
    Url,
)
from ledger.events.registry import event
from ledger.events.runs import Attempt, Basis, CodeRevision, ModelRef, RedactionCount, RunId

ExportId = RunId


class ExportedCheckpoint(Record):
    """Which checkpoint is exported. Its digest is its identity; a step is a label."""

    run_id: RunId
    step: Count
    attempt: Attempt | None = None
    digest: Sha256 | None = None


@event("export.started", family="export", streams=("export",))
class ExportStarted(Record):
    export_id: ExportId
    checkpoint: ExportedCheckpoint
    route: Literal["in_trainer", "rerun", "offline", "unknown"]
    """`rerun`: the trainer's own export path in a job of its own, with no update. `offline`: a conversion of files."""
    route_note: AnyText | None = None
    base: ModelRef | None = None
    code: list[CodeRevision] = []
    started_at: Timestamp | None = None
    basis: Basis | None = None


@event("export.completed", family="export", streams=("export",))
class ExportCompleted(Record):
    """The exported files are there."""

    export_id: ExportId
    digest: Sha256 | None = None
    """Over the files' paths and digests, in order of path."""
    files: list[FileDigest] = []
    manifest: ArtifactRef | None = None
    shard_count: Count | None = None
    total_size: Count | None = None
    """Bytes of all tensors, headers not counted."""
    tensor_count: Count | None = None
    parameter_count: Count | None = None
    dtypes: list[Name] = []
    tied_weights: bool | None = None
    checkpoint_digest_before: Sha256 | None = None
    checkpoint_digest_after: Sha256 | None = None
    location: AnyText | None = None
    completed_at: Timestamp | None = None
    basis: Basis | None = None


class Check(Record):
    """One check, and what it found."""

    name: Name
    outcome: Literal["passed", "failed", "not_checked"]
    detail: AnyText | None = None
    tensor: AnyText | None = None
    file: AnyText | None = None


class IndexNumbers(Record):
    """The numbers of a verification, by which anyone can see that it adds up."""

    shard_files: Count
    """Shard files that are there."""
    shards_named: Count
    """Different files in the index's weight_map."""
    shards_in_names: Count | None = None
    """The N of `model-0000i-of-0000N`; null where names hold none."""
    index_total_size: Count
    tensor_bytes: Count
    """Summed over the headers of all shards."""
    tensors_in_index: Count
    tensors_in_shards: Count
    ghost_tensors: list[AnyText] = []
    """In the index, in no shard."""
    unlisted_tensors: list[AnyText] = []
    """In a shard, not in the index."""
    parameter_count: Count | None = None


@event("export.verified", family="export", streams=("export",), decision=True)
class ExportVerified(Record):
    """An export was checked and found whole."""

    export_id: ExportId
    digest: Sha256 | None = None
    """Of the export that was checked."""
    place: AnyText | None = None
    """Where its bytes were read: a folder, an object store, a repository's commit."""
    numbers: IndexNumbers
    checks: Annotated[list[Check], Field(min_length=1)]
    """Without a basis, at least index_parses, shards_present, weight_map_complete, total_size and not_truncated."""
    files: list[FileDigest] = []
    base: ModelRef | None = None
    tool: CodeRevision | None = None
    report: ArtifactRef | None = None
    verified_at: Timestamp | None = None
    basis: Basis | None = None


@event("export.failed", family="export", streams=("export",))
class ExportFailed(Record):
    export_id: ExportId
    stage: Literal["load", "convert", "write", "verify", "upload", "other"]
    reason: Text
    failed_checks: list[Check] = []
    failed_at: Timestamp | None = None
    basis: Basis | None = None


@event("model.published", family="export", streams=("export",))
class ModelPublished(Record):
    """An export was published; other events say whether it was verified."""

    export_id: ExportId
    repository: Name
    commit: Revision | None
    url: Url | None = None
    license: Name | None = None
    base_license: Name | None = None
    tags: list[Name] = []
    files: list[FileDigest] = []
    card: ArtifactRef | None = None
    published_at: Timestamp | None = None
    basis: Basis | None = None


class TraceCoverage(Record):
    """How many trials there were, and how many rows came of them; null: not counted."""

    started: Count | None = None
    finished: Count | None = None
    verified: Count | None = None
    consumed: Count | None = None
    trained: Count | None = None
    published: Count | None = None


@event("traces.published", family="export", streams=("run",))
class TracesPublished(Record):
    """Rollouts were published as a dataset."""

    run_id: RunId
    repository: Name
    commit: Revision | None
    url: Url | None = None
    episodes: Literal["last", "all"] | None = None
    filter: Name | None = None
    coverage: TraceCoverage | None = None
    files: list[FileDigest] = []
    digest: Sha256 | None = None
    redactions: list[RedactionCount] = []
    tool: CodeRevision | None = None
    published_at: Timestamp | None = None
    basis: Basis | None = None


@event("logs.published", family="export", streams=("run",))
class LogsPublished(Record):
    """A training_logs/ folder was published."""

    run_id: RunId
    repository: Name
    commit: Revision | None
    url: Url | None = None
    files: list[FileDigest] = []
    redactions: list[RedactionCount] = []
    redaction_stated: bool | None = None
    """Somebody says that secrets were removed, without counts."""
    tool: CodeRevision | None = None
    published_at: Timestamp | None = None
    basis: Basis | None = None


class Observation(Record):
    """One field of a page, as it stood there."""

    field: Name
    value: AnyText


@event("hosting.observed", family="export", streams=("export",))
class HostingObserved(Record):
    """How a third party offers the model, on the day when somebody looked."""

    export_id: ExportId
    host: Name
    source_url: Url | None = None
    observed_at: Timestamp | None
    observations: Annotated[list[Observation], Field(min_length=1)]
    document: ArtifactRef | None = None
