"""What happened while a run trained: steps, engines, evaluations, rollouts, what became of each group.

Every metric key is taken as it is, and a value that is not finite is carried by name. A step is known by run, attempt
and number: after a resume the same number comes again, with other values. The metrics of step N score rollouts of the
weights before update N.
"""

# ruff: noqa: RUF012  # pydantic copies the defaults of a model

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ledger.events.fields import (
    AnyText,
    ArtifactRef,
    Count,
    Metric,
    Name,
    Number,
    Record,
    Sha256,
    SourceId,
    Timestamp,
)
from ledger.events.registry import event
from ledger.events.runs import Attempt, Basis, RunId

MetricKey = Annotated[str, Field(min_length=1, max_length=512)]
Metrics = dict[MetricKey, Metric]


class LoggedStep(Record):
    """One step of an attempt."""

    step: Count
    epoch: Number | None = None
    weight_version: Count | None = None
    """Of the weights that the rollouts of this step came from, by the producer's own count."""
    logged_at: Timestamp | None = None
    metrics: Metrics


@event("steps.logged", family="training", streams=("run",))
class StepsLogged(Record):
    """Metrics of one or more steps, in their order."""

    run_id: RunId
    attempt: Attempt
    steps: Annotated[list[LoggedStep], Field(min_length=1)]
    log_file: Name | None = None
    """Where they were read from, if not from the trainer itself."""
    basis: Basis | None = None


class EngineSample(Record):
    """One look at one rollout engine's counters."""

    engine: Name
    sampled_at: Timestamp
    step: Count | None = None
    phase: Literal["train", "eval"] | None = None
    weight_version: Count | None = None
    metrics: Metrics


@event("engine.sampled", family="training", streams=("run",))
class EngineSampled(Record):
    """Counters of rollout engines, as their Prometheus endpoint gave them."""

    run_id: RunId
    attempt: Attempt
    samples: Annotated[list[EngineSample], Field(min_length=1)]
    scraped: bool = True
    """False: read from log lines, which show fewer engines than there are."""
    basis: Basis | None = None


@event("weights.synced", family="training", streams=("run",))
class WeightsSynced(Record):
    """Weights were sent to the rollout engines, and whether a probe found them there."""

    run_id: RunId
    attempt: Attempt
    step: Count
    """The last update that is in them."""
    weight_version: Count
    engines: Count | None = None
    probe_difference: Metric | None = None
    """The largest difference of log-probabilities of a probe prompt, engine against trainer; null: not probed."""
    probe_tolerance: Number | None = None


class Evaluation(Record):
    data_source: Name
    atlas_id: SourceId | None = None
    tasks: Count | None = None
    samples: Count | None = None
    metrics: Metrics


@event("eval.logged", family="training", streams=("run",))
class EvalLogged(Record):
    """An evaluation of the weights after a step; step 0: of the RL start."""

    run_id: RunId
    attempt: Attempt
    step: Count
    weight_version: Count | None = None
    evaluations: list[Evaluation]
    basis: Basis | None = None


Treatment = Literal["mask", "zero", "passthrough", "default"]
"""What an exception of a trial does to its reward: left out of the baseline, a zero in it, or its own reward."""


class ErrorCount(Record):
    exception_type: Name
    treatment: Treatment | None = None
    count: Count


class RewardCount(Record):
    reward: Metric
    count: Count


class Trial(Record):
    """One rollout, as its runner's result says."""

    trial_name: Name
    trial_id: Name | None = None
    task_name: Name
    task_checksum: Sha256 | None = None
    atlas_id: SourceId | None = None
    group: Name | None = None
    """The prompt's uid: trials of one group are compared with one another."""
    step: Count | None = None
    weight_version: Count | None = None
    episodes: Count | None = None
    input_tokens: Count | None = None
    output_tokens: Count | None = None
    reward: Metric | None = None
    exception_type: Name | None = None
    treatment: Treatment | None = None
    started_at: Timestamp | None = None
    finished_at: Timestamp | None = None
    seconds: Metric | None = None
    environment_setup_seconds: Metric | None = None
    agent_setup_seconds: Metric | None = None
    agent_execution_seconds: Metric | None = None
    verifier_seconds: Metric | None = None


@event("rollouts.summarised", family="training", streams=("run",))
class RolloutsSummarised(Record):
    """How many rollouts came to what. A count that nobody made is null: none is derived from another."""

    run_id: RunId
    attempt: Attempt | None = None
    step: Count | None = None
    """Null: not known for which step."""
    phase: Literal["train", "eval"] | None = None
    started: Count | None = None
    finished: Count | None = None
    verified: Count | None = None
    """Have a verifier's reward."""
    consumed: Count | None = None
    """Taken into a batch."""
    trained: Count | None = None
    """Had a say in an update: consumed, and neither masked nor discarded."""
    masked: Count | None = None
    errors: list[ErrorCount] = []
    rewards: list[RewardCount] = []
    trials: list[Trial] = []
    evidence: ArtifactRef | None = None
    basis: Basis | None = None


class DisposedGroup(Record):
    """What became of one group of samples."""

    group: Name
    disposition: Literal["consumed", "discarded", "masked", "filtered"]
    reason: AnyText | None = None
    samples: Count | None = None
    atlas_id: SourceId | None = None
    weight_version: Count | None = None


class DispositionCount(Record):
    disposition: Literal["consumed", "discarded", "masked", "filtered"]
    reason: AnyText | None = None
    groups: Count
    samples: Count | None = None


@event("groups.disposed", family="training", streams=("run",))
class GroupsDisposed(Record):
    """Which groups of a step trained, and why others did not: by group, or only counted."""

    run_id: RunId
    attempt: Attempt
    step: Count
    groups: list[DisposedGroup] = []
    counts: list[DispositionCount] = []
    """Of all groups of the step where they are not named."""
