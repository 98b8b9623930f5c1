"""A step's samples as tensors, cut into what each process passes through the model at a time.

- A row is one sample. Its prompt is padded on the left and its answer on the right, so that the answers of a
  micro-batch stand in the same columns, and logits are computed for these alone.
- A mini-batch is some prompts' rows. Each process takes a contiguous share; shares are filled up to one length with
  rows that are in no loss and no count, since all processes have to make as many passes.
- The micro-batches of the first pass over a mini-batch are those in which the old log-probabilities were computed: on
  policy a ratio is exactly 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from services.trainer.sampling import Sample


@dataclass(frozen=True)
class Micro:
    """Rows of one pass on one process; the last `fillers` of them only fill up."""

    rows: tuple[int, ...]
    fillers: int = 0


@dataclass(frozen=True)
class Inputs:
    """What the model reads; its last `width` + 1 logits but the very last foretell the answers."""

    ids: Tensor
    mask: Tensor
    positions: Tensor
    width: int


class StepBatch:
    """All samples of a step, on the CPU: every process has them all."""

    def __init__(self, samples: Sequence[Sample], pad_id: int) -> None:
        self._pad = pad_id
        # Of what failed nothing is read: it need not be as long as the prompt that was too long.
        self._prompts = [s.prompt_ids if s.token_ids else s.prompt_ids[:1] or (pad_id,) for s in samples]
        self._lengths = [len(s.token_ids) for s in samples]
        width = max(1, *self._lengths)
        self.tokens = torch.tensor([[*s.token_ids, *[pad_id] * (width - len(s.token_ids))] for s in samples])
        self.mask = torch.tensor([[1] * n + [0] * (width - n) for n in self._lengths])
        self.groups = torch.tensor([s.group for s in samples])
        self.excluded = torch.tensor([s.excluded for s in samples])
        self.rewards = torch.tensor(
            [float("nan") if s.reward is None else s.reward for s in samples], dtype=torch.float64
        )
        self.rollout_known = torch.tensor([s.logprobs is not None for s in samples])
        self.rollout_logprobs = torch.tensor([_padded(s.logprobs or (), width) for s in samples], dtype=torch.float32)

    def __len__(self) -> int:
        return len(self._lengths)

    def inputs(self, micro: Micro, device: torch.device) -> Inputs:
        """The rows of a micro-batch as the model reads them."""
        width = self.width(micro)
        longest = max(len(self._prompts[row]) for row in micro.rows)
        ids = torch.full((len(micro.rows), longest + width), self._pad)
        mask = torch.zeros_like(ids)
        for i, row in enumerate(micro.rows):
            prompt = self._prompts[row]
            ids[i, longest - len(prompt) : longest] = torch.tensor(prompt)
            ids[i, longest:] = self.tokens[row, :width]
            mask[i, longest - len(prompt) : longest + self._lengths[row]] = 1
        positions = (mask.cumsum(-1) - 1).clamp(min=0)
        return Inputs(ids.to(device), mask.to(device), positions.to(device), width)

    def width(self, micro: Micro) -> int:
        """The tokens of its longest answer, at least one."""
        return max(1, *(self._lengths[row] for row in micro.rows))


def mini_batches(prompts: int, samples: int, size: int) -> list[list[int]]:
    """The rows of each optimizer step: `size` prompts, `samples` rows each, side by side."""
    return [list(range(begin * samples, min(begin + size, prompts) * samples)) for begin in range(0, prompts, size)]


def micro_batches(rows: Sequence[int], size: int, rank: int, world_size: int) -> list[Micro]:
    """One process's share of a mini-batch, `size` rows at a time. All processes get as many, of the same sizes."""
    share = -(-len(rows) // world_size)
    own = list(rows[rank * share : (rank + 1) * share])
    fillers = share - len(own)
    own += [rows[0]] * fillers
    return [
        Micro(tuple(own[begin : begin + size]), max(0, min(begin + size, share) - max(begin, share - fillers)))
        for begin in range(0, share, size)
    ]


def _padded(values: Sequence[float], width: int) -> list[float]:
    return [*values, *[0.0] * (width - len(values))]
