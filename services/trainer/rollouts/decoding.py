"""Sampling a batch of sequences from a causal language model, token by token, with a cache of keys and values.

Each prompt is read once, however many answers it gets. Prompts are padded on the left, and a row that has ended
leaves the batch. A token is drawn by inverting the distribution's sum at a number of the row's own stream, so that a
draw takes one number and is the same on every machine, as far as the logits are. That sum is made on the CPU, in one
order: CUDA has none for it, and refuses it where a run is to be deterministic.
"""

from __future__ import annotations

import hashlib
import inspect
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import DynamicCache

from services.trainer.rollouts.draws import key_of


@dataclass
class Row:
    """What was drawn for one answer."""

    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    ended: bool = False
    """By an end token."""
    broken: bool = False
    """The logits were no distribution."""


@torch.inference_mode()
def decode(
    model: Any,
    prompts: Sequence[Sequence[int]],
    streams: torch.Tensor,
    *,
    temperature: float,
    ends: Collection[int],
) -> list[Row]:
    """Answers to prompts, those of one prompt side by side.

    Args:
        model: In evaluation mode, with a causal language model's `forward` of transformers.
        prompts: Tokens of each, not empty.
        streams: Numbers in [0, 1), on the CPU: a row for each answer, a column for each token that it may have. The
            rows are a multiple of the prompts.
        temperature: Divides the logits.
        ends: An answer ends with one of these tokens.
    """
    rows = [Row() for _ in range(len(streams))]
    samples = len(streams) // len(prompts)
    cache = DynamicCache(config=model.config)
    device = model.device
    ids, mask = _padded(prompts, device)
    logits = _next(model, cache, ids, mask, (mask.cumsum(-1) - 1).clamp(min=0)).repeat_interleave(samples, 0)
    mask = mask.repeat_interleave(samples, 0)
    cache.batch_repeat_interleave(samples)
    live = torch.arange(len(rows))
    for column in range(streams.shape[1]):
        tokens, logprobs = draw(logits, streams[live, column], temperature)
        stays = _note(rows, live, tokens, logprobs, ends)
        if column + 1 == streams.shape[1] or not stays.numel():
            break
        if len(stays) < len(live):
            live, tokens, mask = live[stays], tokens[stays], mask[stays.to(device)]
            cache.batch_select_indices(stays.to(device))
        mask = torch.cat([mask, mask.new_ones(len(live), 1)], -1)
        logits = _next(model, cache, tokens[:, None].to(device), mask, mask.sum(-1, keepdim=True) - 1)
    return rows


def _next(model: Any, cache: Any, ids: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """The logits of each row's next token; the cache grows by what was read."""
    # Transformers renamed the argument in 5.24, and models that are not its own may have the old name longer.
    name = "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"
    read = {"input_ids": ids, "attention_mask": mask, "position_ids": positions, name: cache}
    logits: torch.Tensor = model(**read, use_cache=True, logits_to_keep=1).logits
    return logits[:, -1]


def stream(seed: int, prompt: int, sample: int, count: int) -> torch.Tensor:
    """The first numbers in [0, 1) of a completion's stream: 53 bits each, by a hash and not by torch's generators."""
    digest = bytearray(hashlib.shake_256(key_of(seed, prompt, sample)).digest(8 * count))
    return (torch.frombuffer(digest, dtype=torch.int64) & (2**53 - 1)).double() * 2.0**-53


def draw(logits: torch.Tensor, numbers: torch.Tensor, temperature: float) -> tuple[torch.Tensor, torch.Tensor]:
    """A token of each row and its log-probability, on the CPU; NaN where a row's logits are no distribution."""
    logprobs = (logits.float() / temperature).log_softmax(-1).cpu()
    sums = logprobs.double().exp().cumsum(-1)
    # The sum is 1 but for rounding; scaled by it, a number close to 1 still lies within the vocabulary.
    tokens = torch.searchsorted(sums, numbers[:, None] * sums[:, -1:], right=True)[:, 0].clamp(max=logits.shape[-1] - 1)
    return tokens, logprobs.gather(-1, tokens[:, None])[:, 0]


def _note(
    rows: list[Row], live: torch.Tensor, tokens: torch.Tensor, logprobs: torch.Tensor, ends: Collection[int]
) -> torch.Tensor:
    """Notes what was drawn; gives the places in the batch of the rows that go on."""
    stays = []
    drawn = zip(live.tolist(), tokens.tolist(), logprobs.tolist(), strict=True)
    for place, (index, token, logprob) in enumerate(drawn):
        row = rows[index]
        row.broken = math.isnan(logprob)
        if row.broken:
            continue
        row.token_ids.append(token)
        row.logprobs.append(logprob)
        row.ended = token in ends
        if not row.ended:
            stays.append(place)
    return torch.tensor(stays, dtype=torch.long)


def _padded(prompts: Sequence[Sequence[int]], device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens and mask, padded on the left. What stands in the padding has no effect: it is masked."""
    width = max(map(len, prompts))
    ids = torch.zeros(len(prompts), width, dtype=torch.long)
    mask = torch.zeros(len(prompts), width, dtype=torch.long)
    for row, prompt in enumerate(prompts):
        ids[row, width - len(prompt) :] = torch.tensor(list(prompt))
        mask[row, width - len(prompt) :] = 1
    return ids.to(device), mask.to(device)
