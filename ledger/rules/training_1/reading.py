"""Of the events of a run, an export or a campaign, what these rules read, and nothing else.

Payloads were checked when they were recorded. Here they are read once more from their JSON, in the newest version, into
structs that hold only the fields that a rule asks for. What an answer repeats word for word is kept as its bytes.
"""

from __future__ import annotations

from typing import Any

import msgspec

Number = float | str | None
"""A measured number; one that is not finite stands by name."""


class Said(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Part of a payload."""


class Basis(Said, frozen=True):
    kind: str


# Runs


class ModelRef(Said, frozen=True):
    name: str
    repository: str | None = None
    commit: str | None = None


class ConsumedSource(Said, frozen=True):
    dataset_id: str
    atlas_id: str | None = None
    dataset_revision: str | None = None
    verifier_revision: str | None = None
    tree_digest: str | None = None
    role: str = "train"


class CodeRevision(Said, frozen=True):
    role: str
    name: str
    commit: str | None = None
    dirty: bool | None = None


class SeriesKeys(Said, frozen=True):
    reward: str | None = None
    entropy: str | None = None
    grad_norm: str | None = None


class RunDeclared(Said, frozen=True):
    rl_start: ModelRef | None
    sources: tuple[ConsumedSource, ...]
    campaign_id: str | None = None
    arm: str | None = None
    code: tuple[CodeRevision, ...] = ()
    algorithm: dict[str, Any] | None = None
    parallelism: dict[str, Any] | None = None
    planned_steps: int | None = None
    checkpoint_interval: int | None = None
    export_interval: int | None = None
    max_checkpoints_kept: int | None = None
    basis: Basis | None = None
    series: SeriesKeys | None = None


class ResumedFrom(Said, frozen=True):
    step: int
    attempt: int | None = None
    run_id: str | None = None
    digest: str | None = None


class AttemptStarted(Said, frozen=True):
    attempt: int
    started_at: str | None = None
    resumed_from: ResumedFrom | None = None
    basis: Basis | None = None


class ConfigRecorded(Said, frozen=True):
    attempt: int
    moment: str
    digest: str
    settings: msgspec.Raw = msgspec.Raw(b"{}")


class ConfigChange(Said, frozen=True):
    path: str
    before: str | None
    after: str | None


class ConfigDrifted(Said, frozen=True):
    attempt: int
    before_digest: str
    after_digest: str
    changes: tuple[ConfigChange, ...]
    changes_left_out: int = 0


class AnomalyClaimed(Said, frozen=True):
    kind: str
    statement: str
    attempt: int | None = None
    onset_step: int | None = None
    seen_at_step: int | None = None
    entropy_ratio: Number = None
    reward: Number = None


class AttemptEnded(Said, frozen=True):
    attempt: int
    ending: str
    reason: str | None = None
    error_type: str | None = None
    last_step: int | None = None
    basis: Basis | None = None


class RunEnded(Said, frozen=True):
    ending: str
    reason: str | None = None
    last_step: int | None = None
    planned_steps: int | None = None
    basis: Basis | None = None


class StepRange(Said, frozen=True):
    first: int
    last: int


class RecordingReported(Said, frozen=True):
    producer: str
    epoch: int
    last_seq: int
    closed: bool
    dropped: int = 0
    dropped_steps: tuple[StepRange, ...] = ()
    refused: int = 0
    unreadable_bytes: int = 0
    malformed_lines: int = 0


# Steps


class StepMetrics(Said, frozen=True):
    """The metrics that a rule asks for, by SkyRL's keys."""

    reward: Number = msgspec.field(default=None, name="reward/avg_raw_reward")
    entropy: Number = msgspec.field(default=None, name="policy/policy_entropy")
    grad_norm: Number = msgspec.field(default=None, name="policy/raw_grad_norm")
    tis_skipped: Number = msgspec.field(default=None, name="tis/skipped_fraction")
    tis_batch_skipped: Number = msgspec.field(default=None, name="tis/batch_skipped_no_logprobs")
    update_steps: Number = msgspec.field(default=None, name="policy/policy_update_steps")
    clip_ratio: Number = msgspec.field(default=None, name="policy/ppo_clip_ratio")
    policy_kl: Number = msgspec.field(default=None, name="policy/policy_kl")
    average_kl: Number = msgspec.field(default=None, name="loss/avg_kl")
    reward_kl: Number = msgspec.field(default=None, name="reward/policy_ref_kl")


class LoggedStep(Said, frozen=True):
    step: int
    metrics: StepMetrics
    weight_version: int | None = None


class StepsLogged(Said, frozen=True):
    attempt: int
    steps: tuple[LoggedStep, ...]
    basis: Basis | None = None


class AnyStep(Said, frozen=True):
    """A step with all that it measured, by any key."""

    metrics: dict[str, float | str]


class AnySteps(Said, frozen=True):
    steps: tuple[AnyStep, ...]


class WeightsSynced(Said, frozen=True):
    attempt: int
    step: int
    weight_version: int
    probe_difference: Number = None
    probe_tolerance: float | None = None


class EvalLogged(Said, frozen=True):
    attempt: int
    step: int
    evaluations: tuple[msgspec.Raw, ...]


class ErrorCount(Said, frozen=True):
    exception_type: str
    count: int
    treatment: str | None = None


class RolloutsSummarised(Said, frozen=True):
    step: int | None = None
    phase: str | None = None
    started: int | None = None
    finished: int | None = None
    verified: int | None = None
    consumed: int | None = None
    trained: int | None = None
    masked: int | None = None
    errors: tuple[ErrorCount, ...] = ()


class DisposedGroup(Said, frozen=True):
    disposition: str
    reason: str | None = None
    samples: int | None = None


class DispositionCount(Said, frozen=True):
    disposition: str
    groups: int
    reason: str | None = None
    samples: int | None = None


class GroupsDisposed(Said, frozen=True):
    groups: tuple[DisposedGroup, ...] = ()
    counts: tuple[DispositionCount, ...] = ()


# Checkpoints


class Contents(Said, frozen=True):
    weights: bool | None = None
    optimizer: bool | None = None
    scheduler: bool | None = None
    rng: bool | None = None
    data_state: bool | None = None


class DataState(Said, frozen=True):
    epoch: int | None = None
    prompts_consumed: int | None = None
    prompts_trained: int | None = None
    shuffle_seed: int | None = None
    consumed_digest: str | None = None


class CheckpointSaveStarted(Said, frozen=True):
    attempt: int
    step: int


class CheckpointCommitted(Said, frozen=True):
    attempt: int | None
    step: int
    last_update: int | None = None
    digest: str | None = None
    total_bytes: int | None = None
    format: str | None = None
    contents: Contents | None = None
    data_state: DataState | None = None
    recorded_step: int | None = None
    saved_by: str | None = None
    location: str | None = None
    basis: Basis | None = None


class CheckpointLoaded(Said, frozen=True):
    attempt: int
    step: int
    digest: str | None = None
    from_run_id: str | None = None
    restored: Contents | None = None
    data_state: DataState | None = None
    recorded_step: int | None = None


class CheckpointDeleted(Said, frozen=True):
    step: int
    attempt: int | None = None
    digest: str | None = None
    basis: Basis | None = None


class SelectionRule(Said, frozen=True):
    id: str
    metric: str | None = None
    alpha: float | None = None
    interval: int | None = None
    first_eligible: int | None = None


class CheckpointSelected(Said, frozen=True):
    step: int
    purpose: str
    rule: SelectionRule
    attempt: int | None = None
    digest: str | None = None
    ema: Number = None
    reward: Number = None
    eligible_steps: tuple[int, ...] | None = None
    cap_step: int | None = None
    wording: str | None = None
    basis: Basis | None = None


class ClaimSubject(Said, frozen=True):
    kind: str
    id: str
    step: int | None = None


class ClaimRecorded(Said, frozen=True):
    subject: ClaimSubject
    topic: str
    absent: bool = False
    number: Number = None
    text: str | None = None
