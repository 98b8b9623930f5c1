"""One training step, on every process alike: sample, grade, compare, update.

Metrics of step N are of the weights before update N. The rollouts are kept before the update, so that what an update
rests on is on disk when it is made.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from services.trainer.batches import Micro, StepBatch, micro_batches, mini_batches
from services.trainer.data_orders import Prompt
from services.trainer.objective.advantages import Outcome
from services.trainer.objective.batches import Samples
from services.trainer.objective.metrics import no_sums
from services.trainer.objective.objective import Advantages
from services.trainer.policies import Policy
from services.trainer.rollout_metrics import rollout_metrics
from services.trainer.sampling import Sampled
from services.trainer.settings import Algorithm

Sampling = Callable[[], Sampled]
Keeping = Callable[[Sampled, Advantages], Path]


@dataclass
class Clock:
    """Seconds by what they were spent on, as `timing/...`."""

    spent: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        begun = time.monotonic()
        try:
            yield
        finally:
            self.spent[f"timing/{name}"] = time.monotonic() - begun


@dataclass(frozen=True)
class Skipped:
    """How many steps came before, and how many of them went without importance weights."""

    steps: int = 0
    without: int = 0


@dataclass(frozen=True)
class StepDone:
    """What a step came to."""

    sampled: Sampled
    advantages: Advantages
    metrics: Mapping[str, float]

    @property
    def trained(self) -> int:
        """The samples that had a say in the update."""
        worth = self.advantages.values.tolist()
        return sum(bool(s.token_ids) and a != 0.0 for s, a in zip(self.sampled.samples, worth, strict=True))


class Stepper:
    """Makes steps of one policy."""

    def __init__(self, policy: Policy, settings: Algorithm, pad_id: int, reference: Any = None) -> None:
        self._policy = policy
        self._settings = settings
        self._pad_id = pad_id
        self._reference = reference

    def step(
        self, step: int, prompts: Sequence[Prompt], *, sample: Sampling, keep: Keeping, clock: Clock, before: Skipped
    ) -> StepDone:
        """Trains on prompts. `sample` and `keep` are done by the first process alone."""
        with clock("generate"):
            sampled = self._policy.team.share(sample)
        batch = StepBatch(sampled.samples, self._pad_id)
        cuts = self._cuts(len(prompts))
        with clock("fwd_logprobs_values_reward"):
            micros = [micro for _, cut in cuts for micro in cut]
            old = self._policy.logprobs(batch, micros)
            reference = None
            if self._reference is not None:
                reference = self._policy.logprobs(batch, micros, self._reference)
        with clock("compute_advantages_and_returns"):
            advantages = self._policy.objective.advantages(_samples(batch, old, reference))
        with clock("write_rollouts"):
            self._policy.team.share(lambda: keep(sampled, advantages))
        with clock("policy_train"):
            trained = self._train(step, batch, cuts, advantages, old, reference, before)
        metrics = {
            **rollout_metrics(sampled.samples, self._settings.n_samples_per_prompt),
            **advantages.metrics,
            **_difference(batch, old),
            **trained,
        }
        return StepDone(sampled, advantages, metrics)

    def _cuts(self, prompts: int) -> list[tuple[list[int], list[Micro]]]:
        """The rows of each mini-batch, with the micro-batches of them that are this process's."""
        team, settings = self._policy.team, self._settings
        return [
            (rows, micro_batches(rows, settings.micro_train_batch_size_per_gpu, team.rank, team.world_size))
            for rows in mini_batches(prompts, settings.n_samples_per_prompt, settings.mini_batch)
        ]

    def _train(  # noqa: PLR0917  # what an update is made of
        self,
        step: int,
        batch: StepBatch,
        cuts: Sequence[tuple[list[int], list[Micro]]],
        advantages: Advantages,
        old: Tensor,
        reference: Tensor | None,
        before: Skipped,
    ) -> dict[str, float]:
        rate = self._policy.begin(step)
        sums, norms, left = no_sums(), [], 0
        for _ in range(self._settings.update_epochs_per_batch):
            for rows, micros in cuts:
                updated = self._policy.update(batch, rows, micros, advantages, old, reference)
                sums += updated.sums
                norms.append(updated.grad_norm)
                left += not updated.made
        found = self._policy.objective.finish(
            self._policy.team.sum(sums),
            updates=len(norms),
            steps_before=before.steps,
            skipped_before=before.without,
        )
        return found | {
            "policy/raw_grad_norm": sum(norms) / len(norms),
            "policy/policy_lr": rate,
            "policy/updates_left_out": float(left),
        }


def _samples(batch: StepBatch, old: Tensor, reference: Tensor | None) -> Samples:
    return Samples(
        rewards=batch.rewards,
        groups=batch.groups,
        mask=batch.mask,
        excluded=batch.excluded,
        old_logprobs=old,
        reference_logprobs=reference,
    )


def _difference(batch: StepBatch, old: Tensor) -> dict[str, float]:
    """How far the engine's probabilities of what it sampled are from the trainer's."""
    inside = batch.mask.ne(0) & batch.rollout_known.unsqueeze(1)
    if not bool(inside.any()):
        return {}
    difference = (old.double().exp() - batch.rollout_logprobs.double().exp())[inside].abs()
    told = torch.stack([difference.mean(), difference.std(correction=0)]).tolist()
    return dict(zip(("policy/rollout_train_prob_diff_mean", "policy/rollout_train_prob_diff_std"), told, strict=True))


def dispositions(done: StepDone, smallest: int) -> list[tuple[str, str | None]]:
    """What became of each group, in order, and why it did not train."""
    counts = Counter(sample.group for sample in done.sampled.samples if not sample.excluded)
    sizes = Counter(sample.group for sample in done.sampled.samples)
    return [
        _disposition(outcome, f"{counts[group]} of {sizes[group]} samples have a reward, and {smallest} are needed")
        for group, outcome in sorted(done.advantages.outcomes.items())
    ]


def _disposition(outcome: Outcome, too_few: str) -> tuple[str, str | None]:
    told: dict[Outcome, tuple[str, str | None]] = {
        "trained": ("consumed", None),
        "tied": ("filtered", "tied: all samples have the same score"),
        "below_minimum": ("masked", too_few),
        "all_excluded": ("masked", "no sample has a reward"),
    }
    return told[outcome]
