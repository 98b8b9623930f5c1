"""Runs: what was to be trained, on which data, by which code, in how many attempts, and how each ended.

Names are those of the trainers' own configurations where they have one. What is not known is null: no revision is ever
inferred from another. A fact whose producer did not see it happen carries its basis.
"""

# ruff: noqa: RUF012  # pydantic copies the defaults of a model

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ledger.core.strictjson import MAX_INT
from ledger.events.fields import (
    AnyText,
    ArtifactRef,
    Count,
    JsonObject,
    Metric,
    Name,
    Number,
    Record,
    Revision,
    Sha256,
    SourceId,
    Text,
    Timestamp,
    Url,
)
from ledger.events.registry import event

RunId = Annotated[str, Field(pattern=r"^[!-~]([ -~]{0,498}[!-~])?$")]
"""A run's id, and the rest of its stream's name after `run/`: printable ASCII."""

CampaignId = RunId
Attempt = Annotated[int, Field(ge=1, le=MAX_INT)]
"""1 for the first start of a run, one more for each that follows."""

Ending = Literal["completed", "failed", "cancelled", "preempted", "unknown"]
"""How something ended. No sign of life is `unknown`, never `failed`."""


class Basis(Record):
    """How a fact is known, where whoever records it did not see it happen."""

    kind: Literal["claimed", "imported", "inferred"]
    """`claimed`: somebody says so. `imported`: read from a file that was written then. `inferred`: concluded."""
    url: Url | None = None
    document: ArtifactRef | None = None
    quote: AnyText | None = None
    """The words that say it, as they stand there."""
    note: AnyText | None = None


class ModelRef(Record):
    """A model by its repository and commit. A name alone is a label, not an identity."""

    name: Name
    repository: Name | None = None
    commit: Revision | None = None
    digest: Sha256 | None = None
    """Over its weight files."""
    parameters: Count | None = None
    license: Name | None = None


class CodeRevision(Record):
    """One piece of software as it ran."""

    role: Literal["trainer", "rollout_engine", "trial_runner", "agent_harness", "data_tools", "export_tool", "other"]
    name: Name
    repository: Name | None = None
    commit: Revision | None = None
    version: Name | None = None
    dirty: bool | None = None
    """The working tree differed from the commit; null: nobody looked."""


class ConsumedSource(Record):
    """A data source as the run takes it."""

    atlas_id: SourceId | None
    """Null while nobody has said which source of the Atlas it is."""
    dataset_id: Name
    dataset_revision: Revision | None = None
    verifier_revision: Revision | None = None
    tree_digest: Sha256 | None = None
    """Over the task files as they lay on disk."""
    task_count: Count | None = None
    role: Literal["train", "eval"] = "train"


class Algorithm(Record):
    """The objective, and the geometry that is part of its identity: a reduction means nothing without it."""

    advantage_estimator: Name | None = None
    policy_loss_type: Name | None = None
    loss_reduction: Name | None = None
    eps_clip_low: Number | None = None
    eps_clip_high: Number | None = None
    use_kl_loss: bool | None = None
    kl_loss_coef: Number | None = None
    use_kl_in_reward: bool | None = None
    use_entropy_loss: bool | None = None
    entropy_loss_coef: Number | None = None
    use_tis: bool | None = None
    tis_imp_ratio_cap: Number | None = None
    rloo_n_min_group_size: Count | None = None
    learning_rate: Number | None = None
    train_batch_size: Count | None = None
    policy_mini_batch_size: Count | None = None
    micro_train_batch_size_per_gpu: Count | None = None
    update_epochs_per_batch: Count | None = None
    n_samples_per_prompt: Count | None = None
    temperature: Number | None = None
    max_input_length: Count | None = None
    max_generate_length: Count | None = None
    max_staleness_steps: Count | None = None
    seed: Count | None = None
    other: JsonObject = {}
    """Further settings, by the trainer's own keys."""


class Parallelism(Record):
    """How the work was spread."""

    strategy: Name | None = None
    """For example `fsdp2` or `megatron`."""
    tensor: Count | None = None
    pipeline: Count | None = None
    expert: Count | None = None
    data: Count | None = None
    nodes: Count | None = None
    devices_per_node: Count | None = None
    devices: Count | None = None
    """Of training and rollouts together."""
    device_type: Name | None = None
    rollout_engines: Count | None = None
    rollout_tensor: Count | None = None


class Arm(Record):
    """One arm of a campaign as it was planned."""

    arm: Name
    run_id: RunId | None = None
    atlas_id: SourceId | None = None
    settings: JsonObject = {}


@event("campaign.declared", family="training", streams=("campaign",))
class CampaignDeclared(Record):
    """Runs that are to be compared, and in what they differ. Declared again, the last declaration counts."""

    campaign_id: CampaignId
    title: AnyText | None = None
    purpose: Text | None
    """Why, in the campaign's own words: what its outcomes may be used to say."""
    compares: Literal["sources", "setting", "other"] | None = None
    setting: Name | None = None
    """The one setting in which arms differ, as a path in the configuration."""
    arms: list[Arm] = []
    basis: Basis | None = None


class SeriesKeys(Record):
    """Under which keys a run logs the metrics that it is judged by. Null: SkyRL's key."""

    reward: Name | None = None
    """Null: `reward/avg_raw_reward`."""
    entropy: Name | None = None
    """Null: `policy/policy_entropy`."""
    grad_norm: Name | None = None
    """Null: `policy/raw_grad_norm`."""


@event("run.declared", family="training", streams=("run",))
class RunDeclared(Record):
    """What a run is. Declared again, the last declaration counts, and what differs is shown."""

    run_id: RunId
    campaign_id: CampaignId | None = None
    arm: Name | None = None
    purpose: AnyText | None = None
    rl_start: ModelRef | None
    """The model that reinforcement learning started from."""
    root_architecture: ModelRef | None = None
    """What that one descends from: cards call both of them the base."""
    sources: list[ConsumedSource]
    code: list[CodeRevision] = []
    algorithm: Algorithm | None = None
    parallelism: Parallelism | None = None
    sandbox_provider: Name | None = None
    agent_harness: Name | None = None
    planned_steps: Count | None = None
    time_budget_seconds: Count | None = None
    checkpoint_interval: Count | None = None
    """Steps from one save to the next."""
    export_interval: Count | None = None
    max_checkpoints_kept: Count | None = None
    consumption_receipt: ArtifactRef | None = None
    """What `ledger check` wrote when the run began."""
    consumption_size: Count | None = None
    """The size of the ledger that the receipt speaks of."""
    basis: Basis | None = None
    series: SeriesKeys | None = None
    """Null: SkyRL's keys. Steps are read by the declaration in force when they are recorded."""


class ResumedFrom(Record):
    """The checkpoint that an attempt began with."""

    step: Count
    attempt: Attempt | None = None
    run_id: RunId | None = None
    """Of another run; null: this one's."""
    digest: Sha256 | None = None


@event("attempt.started", family="training", streams=("run",))
class AttemptStarted(Record):
    """One start of the run's program."""

    run_id: RunId
    attempt: Attempt
    started_at: Timestamp | None = None
    resumed_from: ResumedFrom | None = None
    """Null: from the RL start, at step 0."""
    launcher_job: Name | None = None
    code: list[CodeRevision] = []
    parallelism: Parallelism | None = None
    basis: Basis | None = None


class RedactionCount(Record):
    """Secrets of one shape that were replaced."""

    shape: Name
    count: Count


@event("config.recorded", family="training", streams=("run",))
class ConfigRecorded(Record):
    """The configuration as it was before anything changed it, at a start or a resume."""

    run_id: RunId
    attempt: Attempt
    moment: Literal["start", "resume"]
    digest: Sha256
    """Over the configuration as JSON with sorted keys, secrets replaced."""
    config: ArtifactRef | None = None
    settings: JsonObject = {}
    """By dotted path: what a reader asks for, or all of it while it is small."""
    redactions: list[RedactionCount] = []
    basis: Basis | None = None


class ConfigChange(Record):
    """One setting that differs. Values are JSON as text, so that absent and null are not the same."""

    path: Name
    before: AnyText | None
    after: AnyText | None


@event("config.drifted", family="training", streams=("run",))
class ConfigDrifted(Record):
    """The configuration is not what it was."""

    run_id: RunId
    attempt: Attempt
    moment: Literal["resume", "running"]
    before_digest: Sha256
    after_digest: Sha256
    changes: list[ConfigChange]
    changes_left_out: Count = 0


@event("anomaly.claimed", family="training", streams=("run",))
class AnomalyClaimed(Record):
    """Somebody says that training went wrong. What the ledger derives itself stands beside it."""

    run_id: RunId
    attempt: Attempt | None = None
    kind: Literal["entropy_runaway", "entropy_collapse", "reward_collapse", "non_finite", "other"]
    onset_step: Count | None = None
    seen_at_step: Count | None = None
    statement: Text
    entropy_ratio: Metric | None = None
    """Entropy then over entropy at step 1."""
    reward: Metric | None = None
    basis: Basis | None = None


@event("attempt.ended", family="training", streams=("run",))
class AttemptEnded(Record):
    run_id: RunId
    attempt: Attempt
    ending: Ending
    reason: AnyText | None = None
    error_type: Name | None = None
    last_step: Count | None = None
    """The last step whose update was made."""
    ended_at: Timestamp | None = None
    basis: Basis | None = None


@event("run.ended", family="training", streams=("run",))
class RunEnded(Record):
    """No further attempt is planned."""

    run_id: RunId
    ending: Ending
    reason: AnyText | None = None
    last_step: Count | None = None
    planned_steps: Count | None = None
    ended_at: Timestamp | None = None
    basis: Basis | None = None


class StepRange(Record):
    """Steps from one to another, both included."""

    first: Count
    last: Count


@event("recording.reported", family="training", streams=("run",))
class RecordingReported(Record):
    """What a recorder did with what it was given in one epoch: only so can anyone say that nothing is missing."""

    run_id: RunId
    producer: Name
    """The id in the headers of the events that are meant."""
    epoch: Count
    last_seq: Count
    """Events recorded in the epoch bear 1 to this, less those that are named here."""
    closed: bool
    """The recorder was closed; false: its process died, and the next one counted what it left."""
    dropped: Count = 0
    """Events that had a sequence number and were never kept: there was no room for them."""
    dropped_steps: list[StepRange] = []
    refused: Count = 0
    """Events that the ledger refused; they lie beside the spool."""
    unreadable_bytes: Count = 0
    malformed_lines: Count = 0
    """Of a log that was read afterwards: lines that look like metrics and are none."""
    redactions: list[RedactionCount] = []
