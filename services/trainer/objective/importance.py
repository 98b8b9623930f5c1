"""Truncated importance sampling: a weight for what the engine sampled and the trainer computes differently.

    w = min(exp(log p of the trainer - log p of the engine), cap)

It multiplies a token's loss after the clipping and before the reduction, and is a number, not a function of the
parameters. It measures how engine and trainer differ and how stale the engine's weights were, both at once.

A sequence whose log-probabilities the engine did not give has the weight 1, and counts as one to which nothing was
applied: a switch that is on is no sign that anything was corrected.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from services.trainer.objective.losses import ratios


@dataclass(frozen=True)
class Importance:
    """Weights [sequences, tokens], and what they were made of where `applied`."""

    weights: Tensor
    applied: Tensor
    """[sequences, tokens] of bool: in the loss, and of a sequence with log-probabilities."""
    ratio: Tensor
    """Before the cap; 1 where nothing was applied."""
    capped: Tensor
    """[sequences, tokens] of bool."""
    log_ratio: Tensor
    """Trainer less engine, not clamped; 0 where nothing was applied."""


def importance(old: Tensor, rollout: Tensor | None, known: Tensor | None, mask: Tensor, cap: float) -> Importance:
    """Of log-probabilities [sequences, tokens] by trainer and engine.

    Args:
        old: by the trainer, before the step's first update.
        rollout: by the engine; None: of no sequence.
        known: [sequences], whose are there; None: all of `rollout`.
        mask: the loss's. What stands where it is 0 is not read.
        cap: the largest weight.
    """
    inside = mask.ne(0)
    if rollout is None:
        applied = torch.zeros_like(inside)
        log_ratio = torch.zeros_like(old)
    else:
        applied = inside if known is None else inside & known.unsqueeze(1)
        log_ratio = torch.where(applied, old.detach() - rollout, 0.0)
    ratio = ratios(log_ratio, torch.zeros_like(log_ratio))
    capped = applied & (ratio > cap)
    # A cap below 1 leaves a sequence to which nothing is applied alone.
    return Importance(torch.where(applied, ratio.clamp(max=cap), 1.0), applied, ratio, capped, log_ratio)
