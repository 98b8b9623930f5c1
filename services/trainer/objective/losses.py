"""Losses of single tokens, and what they are made of: log-probabilities, entropies, ratios, divergences.

- Logits are read at the temperature of sampling: the policy is the softmax of logits over temperature.
- Exponents are clamped, so that a token that the policy has all but dropped gives a large number and no infinity. A
  clamp that binds has no gradient.
- Logits of low precision are read in float32, a few rows at a time. For a gradient each part is computed again on the
  way back, so that no copy of the logits is kept beside them.
"""

from __future__ import annotations

from functools import partial
from typing import Final, Literal

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

Divergence = Literal["k1", "k2", "k3", "abs"]

MAX_EXPONENT: Final = 20.0
"""SkyRL's."""
MAX_K3: Final = 10.0
"""SkyRL's."""
CHUNK: Final = 1 << 24
"""Logits that are read at a time: 64 MiB in float32."""


def read_logits(
    logits: Tensor, tokens: Tensor, temperature: float, *, entropy_gradient: bool = False, chunk: int = CHUNK
) -> tuple[Tensor, Tensor]:
    """The log-probabilities of tokens, and the entropies of what they were drawn from, both [sequences, tokens].

    Args:
        logits: [sequences, tokens, vocabulary]; those at i foretell the token at i.
        tokens: [sequences, tokens].
        entropy_gradient: an entropy is measured in any case; whether it has a gradient too.
    """
    rows = max(1, chunk // logits.shape[-1])
    sequences = max(1, rows // max(1, logits.shape[1]))
    read = [
        _read_sequences(some, ids, temperature, rows, entropy_gradient=entropy_gradient)
        for some, ids in zip(torch.split(logits, sequences), torch.split(tokens, sequences), strict=True)
    ]
    logprobs, entropies = (torch.cat(parts) for parts in zip(*read, strict=True))
    return logprobs, entropies


def _read_sequences(
    logits: Tensor, ids: Tensor, temperature: float, rows: int, *, entropy_gradient: bool
) -> tuple[Tensor, Tensor]:
    """As `read_logits`, of so few sequences that `rows` of their tokens are few enough. All parts are views."""
    read = [
        _read_part(some, some_ids, temperature, entropy_gradient=entropy_gradient)
        for some, some_ids in zip(torch.split(logits, rows, dim=1), torch.split(ids, rows, dim=1), strict=True)
    ]
    logprobs, entropies = (torch.cat(parts, dim=1) for parts in zip(*read, strict=True))
    return logprobs, entropies


def _read_part(logits: Tensor, ids: Tensor, temperature: float, *, entropy_gradient: bool) -> tuple[Tensor, Tensor]:
    read = partial(_read_rows, entropy_gradient=entropy_gradient)
    if not torch.is_grad_enabled() or not logits.requires_grad:
        return read(logits, ids, temperature)
    both: tuple[Tensor, Tensor] = checkpoint(
        read, logits, ids, temperature, use_reentrant=False, preserve_rng_state=False
    )
    return both


def _read_rows(logits: Tensor, ids: Tensor, temperature: float, *, entropy_gradient: bool) -> tuple[Tensor, Tensor]:
    scaled = logits.to(torch.promote_types(logits.dtype, torch.float32)) / temperature
    logprobs = scaled.log_softmax(dim=-1)
    chosen = logprobs.gather(-1, ids.unsqueeze(-1)).squeeze(-1)
    with torch.set_grad_enabled(entropy_gradient and torch.is_grad_enabled()):
        return chosen, entropies_of(logprobs)


def entropies_of(logprobs: Tensor) -> Tensor:
    """In nats, of distributions along the last axis. What has the probability 0 adds nothing."""
    possible = logprobs.exp()
    # Both ways to 0: a logit of minus infinity, and a probability that float32 cannot hold.
    return -(possible * torch.where(possible > 0, logprobs, 0.0)).sum(dim=-1)


def ratios(new: Tensor, old: Tensor) -> Tensor:
    """How much more probable a token is than it was."""
    return (new - old).clamp(-MAX_EXPONENT, MAX_EXPONENT).exp()


def clipped(ratio: Tensor, advantages: Tensor, low: float, high: float) -> tuple[Tensor, Tensor]:
    """The losses of tokens, and where the clipped term binds: there the gradient ends."""
    free = ratio * advantages
    held = ratio.clamp(1 - low, 1 + high) * advantages
    return -torch.minimum(free, held), held < free


def divergences(new: Tensor, reference: Tensor, kind: Divergence) -> Tensor:
    """Estimates of the KL from the reference, of tokens that were drawn from the new distribution."""
    log_ratio = new - reference
    if kind == "k1":
        return log_ratio
    if kind == "abs":
        return log_ratio.abs()
    if kind == "k2":
        return log_ratio.square() / 2
    inverse = (-log_ratio).clamp(-MAX_EXPONENT, MAX_EXPONENT)
    return (inverse.exp() - inverse - 1).clamp(-MAX_K3, MAX_K3)
