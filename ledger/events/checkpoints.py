"""Checkpoints: attempted, committed, loaded, deleted, selected; and what is claimed of a run, a model or an export.

A folder's name is a label: it may be one more than the last update in its weights. A digest over the files, taken at
the first save, is the only thing that tells two saves of one step apart.
"""

# ruff: noqa: RUF012  # pydantic copies the defaults of a model

from __future__ import annotations

from typing import Literal

from ledger.events.fields import (
    AnyText,
    ArtifactRef,
    Count,
    Metric,
    Name,
    Number,
    Record,
    Revision,
    Sha256,
    Text,
    Timestamp,
)
from ledger.events.registry import event
from ledger.events.runs import Attempt, Basis, RunId

CheckpointFormat = Literal["torch_dcp", "megatron_torch_dist", "fsdp_shards", "safetensors", "other"]


class FileDigest(Record):
    """A file by its path below the folder."""

    path: Name
    sha256: Sha256 | None
    """Null: only its size is known."""
    size: Count | None = None


class Contents(Record):
    """What a checkpoint can restore; null: nobody looked."""

    weights: bool | None = None
    optimizer: bool | None = None
    scheduler: bool | None = None
    rng: bool | None = None
    data_state: bool | None = None


class DataState(Record):
    """How far the data was consumed, so that a resume neither skips nor repeats."""

    epoch: Count | None = None
    prompts_consumed: Count | None = None
    prompts_trained: Count | None = None
    shuffle_seed: Count | None = None
    consumed_digest: Sha256 | None = None
    """Over the sorted ids that were consumed in the epoch."""


@event("checkpoint.save_started", family="training", streams=("run",))
class CheckpointSaveStarted(Record):
    """A save was begun: without its commit it is the trace of a save that failed."""

    run_id: RunId
    attempt: Attempt
    step: Count


@event("checkpoint.committed", family="training", streams=("run",))
class CheckpointCommitted(Record):
    """A checkpoint is durable and whole, as far as its producer can tell."""

    run_id: RunId
    attempt: Attempt | None
    step: Count
    """As it is labelled: the number in the folder's name."""
    last_update: Count | None = None
    """The last update that is in the weights; null: as the label says."""
    weight_version: Count | None = None
    digest: Sha256 | None = None
    """Over its files' paths and digests, in order of path."""
    files: list[FileDigest] = []
    manifest: ArtifactRef | None = None
    """The list of files, where it is long."""
    file_count: Count | None = None
    total_bytes: Count | None = None
    format: CheckpointFormat | None = None
    world_size: Count | None = None
    contents: Contents | None = None
    data_state: DataState | None = None
    recorded_step: Count | None = None
    """The step that the checkpoint's own state names, where somebody looked."""
    saved_by: Literal["trainer", "export_job", "other"] | None = None
    location: AnyText | None = None
    committed_at: Timestamp | None = None
    basis: Basis | None = None


@event("checkpoint.loaded", family="training", streams=("run",))
class CheckpointLoaded(Record):
    """A checkpoint was read back into a trainer."""

    run_id: RunId
    attempt: Attempt
    step: Count
    digest: Sha256 | None = None
    from_run_id: RunId | None = None
    restored: Contents | None = None
    data_state: DataState | None = None
    recorded_step: Count | None = None
    weight_version: Count | None = None
    """That the trainer counts on from."""
    basis: Basis | None = None


@event("checkpoint.deleted", family="training", streams=("run",))
class CheckpointDeleted(Record):
    run_id: RunId
    attempt: Attempt | None = None
    step: Count
    digest: Sha256 | None = None
    reason: AnyText | None = None
    basis: Basis | None = None


class SelectionRule(Record):
    """By what a checkpoint was chosen: a rule with its version and parameters, never only its nickname."""

    id: Name
    """`trailing-ema` is computed and compared by the ledger; others are recorded as they are named."""
    version: Name | None = None
    metric: Name | None = None
    alpha: Number | None = None
    interval: Count | None = None
    """Only its multiples can be chosen."""
    first_eligible: Count | None = None
    code: Revision | None = None


@event("checkpoint.selected", family="training", streams=("run",), decision=True)
class CheckpointSelected(Record):
    """A checkpoint was chosen, for a purpose, by a rule."""

    run_id: RunId
    attempt: Attempt | None = None
    step: Count
    digest: Sha256 | None = None
    purpose: Name
    """For example `export`, `publication` or `resume`."""
    rule: SelectionRule
    ema: Metric | None = None
    reward: Metric | None = None
    eligible_steps: list[Count] | None = None
    cap_step: Count | None = None
    """No later step could be chosen."""
    wording: AnyText | None = None
    """What the choice is called elsewhere, such as optimal."""
    selected_at: Timestamp | None = None
    basis: Basis | None = None


class ClaimSubject(Record):
    kind: Literal["campaign", "run", "checkpoint", "export", "model", "traces", "logs", "hosting"]
    id: Name
    step: Count | None = None


@event("claim.recorded", family="training", streams=("run", "export", "campaign"))
class ClaimRecorded(Record):
    """What somebody says, with where they say it; or that nothing is said of a topic where one would look for it."""

    subject: ClaimSubject
    topic: Name
    """For example `selection.ema`, `selection.reward`, `entropy.ratio`, `export.verification` or `benchmark`."""
    statement: Text
    """The claim in their words; for an absence, how it is said, or where it was looked for."""
    absent: bool = False
    """Nothing is claimed of the topic."""
    number: Metric | None = None
    text: AnyText | None = None
    unit: Name | None = None
    basis: Basis
