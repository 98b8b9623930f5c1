"""A step's metrics of its rollouts, by SkyRL's keys.

`reward/avg_raw_reward` is the mean over the samples that have a reward, as the objective takes it: a failure that
counts as 0 is in it, and one that is masked is not. How many had none is told beside it. A mean over nothing is absent.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from services.trainer.sampling import Sample


def rollout_metrics(samples: Sequence[Sample], n: int) -> dict[str, float]:
    """Of all samples of a step."""
    groups: dict[int, list[Sample]] = {}
    for sample in samples:
        groups.setdefault(sample.group, []).append(sample)
    failed = [sample for sample in samples if sample.error is not None]
    return {
        **reward_metrics(groups, n),
        **_lengths([sample for sample in samples if sample.finish != "error"]),
        "generate/trajectories_truncated": float(sum(sample.finish == "length" for sample in samples)),
        "generate/num_failed_trajectories": float(len(failed)),
        "generate/num_failed_instances": float(sum(all(s.error for s in group) for group in groups.values())),
        "generate/num_masked_trajectories": float(sum(sample.excluded for sample in samples)),
        **{f"generate/errors/{kind}": float(count) for kind, count in Counter(s.error for s in failed).items()},
    }


def reward_metrics(groups: Mapping[int, Sequence[Sample]], n: int, prefix: str = "reward") -> dict[str, float]:
    """The mean reward, and the share of prompts of which any sample has a reward above 0."""
    rewards = [s.reward for group in groups.values() for s in group if s.reward is not None]
    rated = [group for group in groups.values() if any(s.reward is not None for s in group)]
    found = _mean(f"{prefix}/avg_raw_reward", rewards)
    return found | _mean(f"{prefix}/avg_pass_at_{n}", [float(any((s.reward or 0) > 0 for s in g)) for g in rated])


def evaluation_metrics(samples: Iterable[Sample], n: int) -> dict[str, float]:
    """Of the samples of one set of tasks."""
    groups: dict[int, list[Sample]] = {}
    for sample in samples:
        groups.setdefault(sample.group, []).append(sample)
    found = reward_metrics(groups, n, "")
    renamed = {"/avg_raw_reward": "avg_score", f"/avg_pass_at_{n}": f"pass_at_{n}"}
    failed = sum(s.error is not None for group in groups.values() for s in group)
    return {renamed[name]: value for name, value in found.items()} | {"num_failed_trajectories": float(failed)}


def _lengths(answered: Sequence[Sample]) -> dict[str, float]:
    lengths = [len(sample.token_ids) for sample in answered]
    if not lengths:
        return {}
    return {
        "generate/min_num_tokens": float(min(lengths)),
        "generate/max_num_tokens": float(max(lengths)),
        "generate/avg_num_tokens": statistics.fmean(lengths),
        "generate/std_num_tokens": statistics.pstdev(lengths),
        **_mean("generate/avg_tokens_non_zero_rewards", [float(len(s.token_ids)) for s in answered if s.reward]),
        **_mean("generate/avg_tokens_zero_rewards", [float(len(s.token_ids)) for s in answered if s.reward == 0]),
    }


def _mean(name: str, values: Sequence[float]) -> dict[str, float]:
    return {name: statistics.fmean(values)} if values else {}
