"""What the series of a run comes to: rewards, their EMA on the last lineage, and the anomalies in it."""

from __future__ import annotations

from math import isfinite
from typing import Any

from ledger.rules.training_1.anomalies import Found, anomalies, onset
from ledger.rules.training_1.ema import ALPHA, trailing_ema
from ledger.rules.training_1.growing import items
from ledger.rules.training_1.history import resumes, rule_saves
from ledger.rules.training_1.keys import keys_in_force
from ledger.rules.training_1.model import Fact, Life, Run, Series
from ledger.rules.training_1.reading import AnomalyClaimed
from ledger.rules.training_1.remembering import remembered_briefly
from ledger.rules.training_1.selection import committed_steps
from ledger.rules.training_1.series import Lineages, Point, on_lineage
from ledger.rules.training_1.values import Value, measured, written


class Standing(Value, frozen=True):
    """The last lineage, read once."""

    points: tuple[Point, ...]
    averages: tuple[float | None, ...]
    """The EMA after each point."""
    found: tuple[Found, ...]
    onset: int | None
    """Where the failure began that the run did not recover from."""


def standing(run: Run) -> Standing:
    return _standing(run.life, run.series)


@remembered_briefly
def _standing(life: Life, series: Series) -> Standing:
    last = lineage_points(life, series)
    found = anomalies(last)
    averages = trailing_ema([point.reward for point in last])
    return Standing(tuple(last), tuple(averages), found, onset(found))


def lineage_points(life: Life, series: Series) -> list[Point]:
    """The points behind the last weights that are known, by step."""
    points = tuple(items(series.points))
    return on_lineage(points, Lineages(resumes(life), points, committed_steps(rule_saves(life))).final())


def reward_summary(run: Run) -> dict[str, Any]:
    """As `RewardSummary` in runs.proto, over the last lineage."""
    now = standing(run)
    rewards = [(point.step, point.reward) for point in now.points if point.reward is not None]
    finite = [(reward, -step) for step, reward in rewards if isfinite(reward)]
    entropies = [point.entropy for point in now.points if point.entropy is not None]
    summary: dict[str, Any] = {
        "metric": keys_in_force(run.life).reward,
        "steps": len(now.points),
        "not_finite": sum(point.not_finite for point in now.points),
        "alpha": ALPHA,
    }
    if rewards:
        summary |= {"first": written(rewards[0][1]), "last": written(rewards[-1][1])}
    if finite:
        best, step = max(finite)
        summary |= {"max": best, "max_step": -step, "last_ema": now.averages[-1]}
    if entropies:
        summary |= {"entropy_first": written(entropies[0]), "entropy_last": written(entropies[-1])}
    return summary


def written_anomalies(run: Run) -> list[dict[str, Any]]:
    """As `Anomaly` in runs.proto: derived ones first, then those that somebody claims."""
    return [*(_derived(found) for found in standing(run).found), *(_claimed(fact) for fact in run.life.anomalies)]


def _derived(found: Found) -> dict[str, Any]:
    return {
        "kind": found.kind,
        "origin": "derived",
        "onset_step": found.onset_step,
        "seen_at_step": found.seen_at_step,
        "attempt": found.attempt,
        "numbers": [{"name": name, "value": written(value)} for name, value in found.numbers],
        "statement": found.statement,
        "positions": list(found.positions),
        "rule": found.rule,
    }


def _claimed(fact: Fact[AnomalyClaimed]) -> dict[str, Any]:
    said = fact.said
    numbers = (("entropy_ratio", measured(said.entropy_ratio)), ("reward", measured(said.reward)))
    stated = {"onset_step": said.onset_step, "seen_at_step": said.seen_at_step, "attempt": said.attempt}
    return {
        "kind": said.kind,
        "origin": "claimed",
        **{name: value for name, value in stated.items() if value is not None},
        "numbers": [{"name": name, "value": written(value)} for name, value in numbers if value is not None],
        "statement": said.statement,
        "positions": [fact.pos],
    }
