"""The objective as the training loop uses it: advantages of a step, the loss of a micro-batch, a step's metrics.

- Whatever the sizes of micro-batches and however many processes there are, the losses of a mini-batch add up to the
  same number, and so do the gradients: see `reductions`.
- A metric is a sum over tokens divided once, at the end; never a mean of means. What was not measured is absent.
- No state but the settings: the same calls give the same numbers. Nothing is read but what is passed in.

    objective = Objective(settings.algorithm, world_size=2)
    step = objective.advantages(samples)
    sums = no_sums()
    for mini in ...:                                      # one optimizer step each
        mine = MiniBatch.of(step.mask[rows], step.values[rows])
        whole = MiniBatch.from_counts(all_reduced(mine.counts()))
        for micro in ...:
            loss = objective.loss(micro, whole, logits=...)
            loss.total.backward()
            sums += loss.sums
    metrics = step.metrics | objective.finish(all_reduced(sums), updates=...)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

import torch
from torch import Tensor

from ledger.core.errors import InvalidInput
from services.trainer.objective.advantages import Estimates, Outcome, less_kl, rloo, rloo_n
from services.trainer.objective.batches import MicroBatch, MiniBatch, Samples
from services.trainer.objective.importance import Importance, importance
from services.trainer.objective.losses import clipped, divergences, ratios, read_logits
from services.trainer.objective.metrics import (
    LOSSES,
    SUMS,
    advantage_metrics,
    correction_metrics,
    correction_sums,
    reward_kl_metrics,
    sums_of,
    token_metrics,
)
from services.trainer.objective.reductions import sequence_mean_weights, token_weights, undo_averaging
from services.trainer.settings import Algorithm

KL_COEFFICIENT: Final = 1e-3
ENTROPY_COEFFICIENT: Final = 1e-2
MIN_GROUP_SIZE: Final = 2

Amount = TypeVar("Amount", Tensor, float)


@dataclass(frozen=True, kw_only=True)
class Advantages:
    """What each sample of a step is worth. All but the mask are on the CPU."""

    values: Tensor
    """[samples] of float32."""
    scores: Tensor
    """[samples] of float64: what the estimator compared, after a KL was taken off; NaN where a sample is excluded."""
    mask: Tensor
    """[samples, tokens]: the loss's, which is the samples' without the excluded ones."""
    outcomes: Mapping[int, Outcome]
    """What became of each group."""
    metrics: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Loss:
    """Of one micro-batch."""

    total: Tensor
    """To go backward from. It carries the factor that undoes the mean over processes: it is no metric."""
    sums: Tensor
    """[`SUMS`] of float64, without a gradient: to be added over micro-batches, mini-batches and processes."""


class Objective:
    """One objective: its settings, and the number of data-parallel processes that average their gradients."""

    def __init__(self, settings: Algorithm, *, world_size: int = 1) -> None:
        self.settings = settings
        self.world_size = world_size
        kl, entropy = settings.kl_loss_coef, settings.entropy_loss_coef
        self._kl_coefficient = KL_COEFFICIENT if kl is None else kl
        self._entropy_coefficient = ENTROPY_COEFFICIENT if entropy is None else entropy

    @property
    def needs_reference(self) -> bool:
        """A KL is measured against a reference: its log-probabilities have to be given."""
        return self.settings.use_kl_loss or self.settings.use_kl_in_reward

    @property
    def needs_rollout_logprobs(self) -> bool:
        """Importance weights are wanted: the engine is to give log-probabilities."""
        return self.settings.use_tis

    def advantages(self, samples: Samples) -> Advantages:
        """Of all samples of a step; every process that is given the same samples gets the same.

        Raises:
            InvalidInput: a score is not finite; rloo is given excluded samples; log-probabilities are missing.
        """
        excluded = _excluded(samples)
        mask = torch.where(excluded.to(samples.mask.device).unsqueeze(1), 0, samples.mask)
        scores, metrics = samples.rewards.detach().cpu().double(), {}
        if self.settings.use_kl_in_reward:
            kl = self._reward_kl(samples, mask)
            metrics = reward_kl_metrics(kl, mask.ne(0).cpu(), self._kl_coefficient)
            scores = less_kl(scores, kl, self._kl_coefficient)
        estimates = self._estimates(scores, samples.groups, excluded)
        metrics |= estimates.counts.metrics(self.settings.advantage_estimator)
        metrics |= advantage_metrics(scores[~excluded], estimates.values, mask)
        scores = torch.where(excluded, torch.nan, scores)
        return Advantages(
            values=estimates.values.float(), scores=scores, mask=mask, outcomes=estimates.outcomes, metrics=metrics
        )

    def logprobs(self, logits: Tensor, tokens: Tensor) -> Tensor:
        """Of the tokens, at the temperature of sampling; logits[:, i] are those that foretell tokens[:, i]."""
        return read_logits(logits, tokens, self.settings.temperature)[0]

    def loss(self, micro: MicroBatch, mini: MiniBatch, *, logits: Tensor) -> Loss:
        """Of the rows of a micro-batch, as a part of its mini-batch; logits are [sequences, tokens, vocabulary].

        Raises:
            InvalidInput: the KL is a loss, and the reference's log-probabilities are missing.
        """
        settings, inside = self.settings, micro.mask.ne(0)
        logprobs, entropies = (
            torch.where(inside, read, 0.0)
            for read in read_logits(
                logits, micro.tokens, settings.temperature, entropy_gradient=settings.use_entropy_loss
            )
        )
        old = torch.where(inside, micro.old_logprobs, 0.0)
        ratio = ratios(logprobs, old)
        losses, bound = clipped(ratio, micro.advantages.unsqueeze(1), settings.eps_clip_low, settings.eps_clip_high)
        values = {
            "tokens": inside,
            "entropy": entropies,
            "clipped": bound,  # outside of the mask nothing binds: there the ratio is 1
            "log_ratio_abs": (logprobs - old).abs(),
            "sequences": inside.any(dim=1),
            "entropy_loss": entropies.double() / max(mini.tokens, 1),
        }
        correction = self._correction(micro, old)
        if correction is not None:
            losses = losses * correction.weights
            values |= correction_sums(correction)
        if settings.use_kl_loss:
            values["kl_loss"] = self._kl(micro, logprobs) * sequence_mean_weights(micro.mask, mini)
        values["policy_loss"] = losses * token_weights(settings.loss_reduction, micro.mask, mini, settings.max_seq_len)
        final = self._final({name: value.sum() for name, value in values.items() if name in LOSSES})
        return Loss(total=undo_averaging(final, self.world_size), sums=sums_of(values, logits.device))

    def finish(self, sums: Tensor, *, updates: int, steps_before: int = 0, skipped_before: int = 0) -> dict[str, float]:
        """A step's metrics, by SkyRL's keys.

        Args:
            sums: over all micro-batches, processes and optimizer steps of the step.
            updates: its optimizer steps: a loss is the mean over them.
            steps_before: the run's steps before this one.
            skipped_before: how many of those had `tis/batch_skipped_no_logprobs`.
        """
        total = dict(zip(SUMS, sums.tolist(), strict=True))
        metrics = {"policy/policy_update_steps": float(updates)} | token_metrics(total)
        if updates:
            metrics["policy/policy_loss"] = total["policy_loss"] / updates
            metrics["policy/final_loss"] = self._final(total) / updates
            if self.settings.use_kl_loss:
                metrics["policy/policy_kl"] = total["kl_loss"] / updates
        if self.settings.use_tis:
            metrics |= correction_metrics(total, steps_before, skipped_before)
        return metrics

    def _estimates(self, scores: Tensor, groups: Tensor, excluded: Tensor) -> Estimates:
        bad = (~excluded & ~scores.isfinite()).nonzero().flatten().tolist()
        if bad:
            raise InvalidInput(
                f"{len(bad)} samples have a score that is no finite number, the first of them at {bad[0]}",
                remedy="Exclude samples that have no reward, or give them one.",
            )
        if self.settings.advantage_estimator == "rloo_n":
            return rloo_n(scores, groups, excluded, self.settings.rloo_n_min_group_size or MIN_GROUP_SIZE)
        if bool(excluded.any()):
            raise InvalidInput(
                f"rloo compares all samples of a prompt, and {int(excluded.sum())} are excluded",
                remedy='Give them a reward of 0 (`errors = "zero"`), or use the estimator rloo_n.',
            )
        return rloo(scores, groups)

    def _reward_kl(self, samples: Samples, mask: Tensor) -> Tensor:
        """[samples, tokens] of float64; 0 where the mask is."""
        if samples.old_logprobs is None or samples.reference_logprobs is None:
            raise _missing("use_kl_in_reward", "`old_logprobs` and `reference_logprobs` of the samples")
        old, reference = samples.old_logprobs.detach().double(), samples.reference_logprobs.detach().double()
        kl = divergences(old, reference, self.settings.kl_estimator_type)
        return torch.where(mask.ne(0), kl, 0.0).cpu()

    def _correction(self, micro: MicroBatch, old: Tensor) -> Importance | None:
        cap = self.settings.tis_imp_ratio_cap
        if not self.settings.use_tis or cap is None:
            return None
        return importance(old, micro.rollout_logprobs, micro.rollout_known, micro.mask, cap)

    def _kl(self, micro: MicroBatch, logprobs: Tensor) -> Tensor:
        if micro.reference_logprobs is None:
            raise _missing("use_kl_loss", "`reference_logprobs` of the micro-batch")
        reference = torch.where(micro.mask.ne(0), micro.reference_logprobs, 0.0)
        return divergences(logprobs, reference, self.settings.kl_estimator_type)

    def _final(self, losses: Mapping[str, Amount]) -> Amount:
        final = losses["policy_loss"]
        if self.settings.use_kl_loss:
            final = final + self._kl_coefficient * losses["kl_loss"]
        if self.settings.use_entropy_loss:
            final = final - self._entropy_coefficient * losses["entropy_loss"]
        return final


def _excluded(samples: Samples) -> Tensor:
    if samples.excluded is None:
        return torch.zeros(len(samples.rewards), dtype=torch.bool)
    return samples.excluded.cpu()


def _missing(setting: str, what: str) -> InvalidInput:
    return InvalidInput(
        f"`{setting}` is on and needs {what}",
        remedy="Compute the reference's log-probabilities where `needs_reference` says so.",
    )
