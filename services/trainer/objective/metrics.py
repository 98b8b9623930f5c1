"""A step's metrics of the objective: sums over tokens that are divided once, at the end.

Sums can be added over micro-batches, optimizer steps and processes, in any cut; means could not. A metric of something
that was not measured is absent: it is not 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import torch
from torch import Tensor

from services.trainer.objective.importance import Importance

LOSSES: Final = ("policy_loss", "kl_loss", "entropy_loss")
"""A micro-batch's parts of its mini-batch's losses."""
SUMS: Final = (
    *LOSSES,
    "tokens",
    "entropy",
    "clipped",
    "log_ratio_abs",
    "sequences",
    "tis_sequences",
    "tis_tokens",
    "tis_ratio",
    "tis_capped",
    "tis_log_ratio_abs",
)
"""What a micro-batch adds: its parts of the losses, and what is counted or added up over tokens or sequences in the
loss."""


def no_sums(device: torch.device | str = "cpu") -> Tensor:
    """What a first micro-batch's sums are added to."""
    return torch.zeros(len(SUMS), dtype=torch.float64, device=device)


def sums_of(values: Mapping[str, Tensor], device: torch.device) -> Tensor:
    """[`SUMS`] of float64, each over all of its tensor; 0 for what is not there."""
    nothing = torch.zeros((), dtype=torch.float64, device=device)
    return torch.stack([values.get(name, nothing).detach().double().sum() for name in SUMS])


def correction_sums(correction: Importance) -> dict[str, Tensor]:
    """Of importance weights, where they were applied."""
    return {
        "tis_sequences": correction.applied.any(dim=1),
        "tis_tokens": correction.applied,
        "tis_ratio": torch.where(correction.applied, correction.ratio, 0.0),
        "tis_capped": correction.capped,
        "tis_log_ratio_abs": correction.log_ratio.abs(),
    }


def advantage_metrics(scores: Tensor, advantages: Tensor, mask: Tensor) -> dict[str, float]:
    """The mean of the scores that count, and the mean advantage of a token in the loss."""
    metrics = {"loss/avg_final_rewards": float(scores.mean())} if len(scores) else {}
    tokens = mask.ne(0).sum(dim=1).cpu().double()
    if float(tokens.sum()):
        metrics["loss/avg_raw_advantages"] = float((advantages * tokens).sum() / tokens.sum())
        metrics["loss/avg_raw_advantages_abs"] = float((advantages.abs() * tokens).sum() / tokens.sum())
    return metrics


def reward_kl_metrics(kl: Tensor, inside: Tensor, coefficient: float) -> dict[str, float]:
    """Of a KL [samples, tokens] that is taken off the reward; samples without a token are left out."""
    metrics = {"loss/kl_loss_coef": coefficient}
    spoken = inside.any(dim=1)
    if bool(spoken.any()):
        kl, tokens = kl[spoken], inside[spoken].sum(dim=1)
        metrics["loss/avg_kl"] = float((kl.sum(dim=1) / tokens).mean())
        metrics["loss/avg_kl_max"] = float(kl.abs().amax(dim=1).mean())
    return metrics


def token_metrics(total: Mapping[str, float]) -> dict[str, float]:
    """What is a mean over the tokens in the loss."""
    tokens = total["tokens"]
    if not tokens:
        return {}
    return {
        "policy/policy_entropy": total["entropy"] / tokens,
        "policy/ppo_clip_ratio": total["clipped"] / tokens,
        "policy/log_ratio_abs_mean": total["log_ratio_abs"] / tokens,
    }


def correction_metrics(total: Mapping[str, float], steps_before: int, skipped_before: int) -> dict[str, float]:
    """Of importance weights that are switched on: on how much they were applied, and what they were."""
    applied = total["tis_tokens"]
    skipped = float(not applied)
    metrics = {
        "tis/batch_skipped_no_logprobs": skipped,
        "tis/skipped_fraction": (skipped_before + skipped) / (steps_before + 1),
    }
    if total["tokens"]:
        metrics["policy/tis/applied_token_fraction"] = applied / total["tokens"]
        metrics["policy/tis/applied_sequence_fraction"] = total["tis_sequences"] / total["sequences"]
    if applied:
        metrics["policy/tis/imp_ratio_mean"] = total["tis_ratio"] / applied
        metrics["policy/tis/imp_ratio_capped_fraction"] = total["tis_capped"] / applied
        metrics["policy/tis/log_ratio_abs_mean"] = total["tis_log_ratio_abs"] / applied
    return metrics
