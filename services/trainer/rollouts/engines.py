"""What a rollout engine promises, whichever samples.

- What it samples from is the softmax of the logits over the temperature, and nothing else: no top-k, no top-p, no
  penalty. So the log-probabilities that it gives are those of the policy that the objective speaks of.
- A completion's log-probabilities are the sampler's own, one for each of its tokens; null where the engine gives none.
- The same weights, prompts and seed give the same tokens, whatever else is in flight.
- A completion that failed says so: it is an infrastructure failure, and never an answer that is worth 0.
- After `load` the engine samples from those weights, or raises. `probe` lets the trainer look for itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    import torch

Finish = Literal["stop", "length", "error"]


@dataclass(frozen=True)
class Sampling:
    """How completions are drawn."""

    n: int
    """Completions a prompt."""
    max_tokens: int
    temperature: float
    seed: int
    """Of the whole call: prompt i's completion j draws from a stream of its own."""


@dataclass(frozen=True)
class Completion:
    """One answer."""

    token_ids: tuple[int, ...]
    """With the end token, if it stopped."""
    logprobs: tuple[float, ...] | None
    finish: Finish
    error: str | None = None
    """The type of what went wrong."""


@dataclass(frozen=True)
class Weights:
    """What is sent to an engine."""

    version: int
    state: Callable[[], Mapping[str, torch.Tensor]]
    """Full tensors by their Hugging Face names, tied ones once."""
    folder: Callable[[], Path]
    """A folder of Hugging Face files with these weights, made when it is first asked for."""


class Engine(Protocol):
    """Samples from weights. Used by one thread."""

    name: str
    """Of the software, for `run.declared.code`: `transformers` or `vllm`."""
    version: str | None
    weight_version: int
    """Of the weights that it samples from; -1 before the first `load`."""

    def load(self, weights: Weights) -> None:
        """Takes weights over.

        Raises:
            Unavailable: the engine does not answer; it still has the old ones, or none.
        """

    def generate(self, prompts: Sequence[Sequence[int]], sampling: Sampling) -> list[list[Completion]]:
        """`sampling.n` completions of each prompt, in its order. A failure is a completion of the finish `error`."""

    def probe(self, token_ids: Sequence[int]) -> list[float]:
        """The log-probability of each token but the first, given those before it, at temperature 1."""

    def metrics(self) -> Mapping[str, float]:
        """Counters since the last call, by the keys that a step logs (`vllm/...`); empty where there are none."""

    def close(self) -> None:
        """Lets go of processes and memory; may be called again."""
