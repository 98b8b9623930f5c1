"""Of the events of exports and campaigns, and of what runs publish, what these rules read: as `reading` has it."""

from __future__ import annotations

from ledger.rules.training_1.reading import Basis, Said


class FileDigest(Said, frozen=True):
    path: str
    sha256: str | None


class ExportedCheckpoint(Said, frozen=True):
    run_id: str
    step: int
    attempt: int | None = None
    digest: str | None = None


class ExportStarted(Said, frozen=True):
    checkpoint: ExportedCheckpoint
    route: str
    basis: Basis | None = None


class ExportCompleted(Said, frozen=True):
    digest: str | None = None
    files: tuple[FileDigest, ...] = ()
    shard_count: int | None = None
    total_size: int | None = None
    tensor_count: int | None = None
    parameter_count: int | None = None
    checkpoint_digest_before: str | None = None
    checkpoint_digest_after: str | None = None
    basis: Basis | None = None


class Check(Said, frozen=True):
    name: str
    outcome: str
    detail: str | None = None
    tensor: str | None = None
    file: str | None = None


class IndexNumbers(Said, frozen=True):
    shard_files: int
    shards_named: int
    index_total_size: int
    tensor_bytes: int
    tensors_in_index: int
    tensors_in_shards: int
    shards_in_names: int | None = None
    ghost_tensors: tuple[str, ...] = ()
    unlisted_tensors: tuple[str, ...] = ()
    parameter_count: int | None = None


class ExportVerified(Said, frozen=True):
    numbers: IndexNumbers
    checks: tuple[Check, ...]
    digest: str | None = None
    files: tuple[FileDigest, ...] = ()
    basis: Basis | None = None


class ExportFailed(Said, frozen=True):
    stage: str
    reason: str


class ModelPublished(Said, frozen=True):
    repository: str
    commit: str | None
    files: tuple[FileDigest, ...] = ()
    basis: Basis | None = None


class TraceCoverage(Said, frozen=True):
    published: int | None = None


class TracesPublished(Said, frozen=True):
    repository: str
    commit: str | None
    coverage: TraceCoverage | None = None
    basis: Basis | None = None


class LogsPublished(Said, frozen=True):
    repository: str
    commit: str | None
    basis: Basis | None = None


class CampaignDeclared(Said, frozen=True):
    purpose: str | None
    compares: str | None = None
    setting: str | None = None
