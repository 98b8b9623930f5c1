"""One pass over a run's series: the keys that occur, statistics of them, and the few columns that are drawn and told.

Steps that a later attempt made again are left out of the statistics, and counted; they stay in the tables.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from ledger.client.logs.reading import RunReading, metric, metrics
from ledger.client.logs.statistics import ByKey
from ledger.client.logs.tables import TRIALS
from ledger.client.series_keys import keys_of
from ledger.rules.training_1.keys import Keys
from ledger.wire import runs_pb2

STEP_TIME: Final = "timing/step"
TOLD: Final = (
    ("PPOClip", "policy/ppo_clip_ratio"),
    ("PolicyLoss", "policy/policy_loss"),
    ("logRatio_mean", "policy/log_ratio_abs_mean"),
    ("Step Time", STEP_TIME),
)
"""What the progression tells beside what a run declares the keys of."""
_PASS: Final = "reward/avg_pass_at_"  # noqa: S105  # a metric, not a password


class Point(NamedTuple):
    """What is drawn and told of one step; None is not logged."""

    attempt: int
    step: int
    abandoned: bool
    reward: float | None
    ema: float | None
    passed: float | None
    entropy: float | None
    grad_norm: float | None
    told: tuple[float | None, ...]


@dataclass
class Summary:
    """What the report and the plots say."""

    keys: Keys
    """Where the run's reward, entropy and gradient norm are read."""
    steps: ByKey = field(default_factory=ByKey)
    points: list[Point] = field(default_factory=list)
    engines: ByKey = field(default_factory=ByKey)
    engine_samples: Counter[str] = field(default_factory=Counter)
    unscraped: int = 0
    """Looks at engines that were read from log lines."""
    trials: ByKey = field(default_factory=ByKey)
    trial_count: int = 0
    exceptions: Counter[str] = field(default_factory=Counter)

    @property
    def abandoned(self) -> int:
        return sum(point.abandoned for point in self.points)


def summarise(run: RunReading) -> Summary:
    """Reads everything once."""
    summary = Summary(keys_of(run.dossier.run))
    for row in run.steps():
        _take_step(summary, row)
    for event, sample in run.samples():
        summary.engine_samples[sample["engine"]] += 1
        summary.unscraped += not event.get("scraped", True)
        summary.engines.take(metrics(sample["metrics"]))
    for trial in run.trials():
        _take_trial(summary, trial)
    return summary


def _take_step(summary: Summary, row: runs_pb2.StepRow) -> None:
    held = row.metrics
    if row.abandoned:
        summary.steps.note(held)
    else:
        summary.steps.take(held)
    passes = sorted(key for key in held if key.startswith(_PASS))
    summary.points.append(
        Point(
            attempt=row.attempt,
            step=row.step,
            abandoned=row.abandoned,
            reward=held.get(summary.keys.reward),
            ema=row.ema if row.HasField("ema") else None,
            passed=held[passes[0]] if passes else None,
            entropy=held.get(summary.keys.entropy),
            grad_norm=held.get(summary.keys.grad_norm),
            told=tuple(held.get(key) for _, key in TOLD),
        )
    )


def _take_trial(summary: Summary, trial: dict[str, Any]) -> None:
    summary.trial_count += 1
    if (exception := trial.get("exception_type")) is not None:
        summary.exceptions[exception] += 1
    numbers = ((column, metric(trial.get(name))) for column, name in TRIALS[2:] if name != "exception_type")
    summary.trials.take({column: value for column, value in numbers if value is not None})
