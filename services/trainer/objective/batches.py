"""What the objective is computed over: a step's samples, a mini-batch in numbers, and the micro-batches it is read in.

A row is one sample: its completion's tokens, padded to the right to the longest. A mask is 1 where a token is in the
loss. What stands where the mask is 0 is never read, so that padding may hold anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Samples:
    """All samples of one step, whichever process trains on them."""

    rewards: Tensor
    """[samples]; of an excluded one anything, NaN too."""
    groups: Tensor
    """[samples] of whole numbers: equal for the samples of one prompt."""
    mask: Tensor
    """[samples, tokens]."""
    excluded: Tensor | None = None
    """[samples] of bool: infrastructure failures, which say nothing of the policy. None: there are none."""
    old_logprobs: Tensor | None = None
    """[samples, tokens], by the trainer; read where the KL is taken off the reward."""
    reference_logprobs: Tensor | None = None
    """[samples, tokens], by the model that training started from; read as above."""


@dataclass(frozen=True, kw_only=True)
class MiniBatch:
    """What one optimizer step trains on, in numbers, over all of its micro-batches and all processes.

    Every process computes its own part with `of`; `counts` is summed over processes, and `from_counts` reads it back.
    Rows that only fill up a process's share, so that all make as many passes, belong to no mini-batch.
    """

    tokens: int
    """In the loss."""
    sequences: int
    """Samples, those without a token in the loss too: a mean over sequences has a divisor that no failure changes."""
    active: int
    """Samples with a token in the loss and an advantage other than 0."""

    @classmethod
    def of(cls, mask: Tensor, advantages: Tensor) -> Self:
        """In numbers, of [sequences, tokens] and [sequences]."""
        present = mask.ne(0)
        active = present.any(dim=1) & advantages.to(mask.device).ne(0)
        return cls(tokens=int(present.sum()), sequences=len(mask), active=int(active.sum()))

    def counts(self, device: torch.device | str = "cpu") -> Tensor:
        """For an all-reduce that sums."""
        return torch.tensor([self.tokens, self.sequences, self.active], dtype=torch.int64, device=device)

    @classmethod
    def from_counts(cls, counts: Tensor) -> Self:
        """As `counts` gave it, summed over processes."""
        tokens, sequences, active = (int(n) for n in counts.tolist())
        return cls(tokens=tokens, sequences=sequences, active=active)


@dataclass(frozen=True, kw_only=True)
class MicroBatch:
    """The rows of one forward and backward pass on one process."""

    tokens: Tensor
    """[sequences, tokens] of token ids."""
    mask: Tensor
    """[sequences, tokens]."""
    advantages: Tensor
    """[sequences]."""
    old_logprobs: Tensor
    """[sequences, tokens], by the trainer before the step's first update."""
    rollout_logprobs: Tensor | None = None
    """[sequences, tokens], as the engine sampled them; None: of no sequence."""
    rollout_known: Tensor | None = None
    """[sequences] of bool: whose rollout log-probabilities are there; None: all, where `rollout_logprobs` is given."""
    reference_logprobs: Tensor | None = None
    """[sequences, tokens]; read where the KL is a loss."""
