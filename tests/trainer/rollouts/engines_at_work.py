"""A small model with its weights as a trainer would send them, and a reference that samples nothing."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from services.trainer.models import full_names
from services.trainer.rollouts.engines import Weights
from services.trainer.tiny_models import build_model, build_tokenizer


def no_folder() -> Path:
    raise AssertionError("this engine needs no folder")


@dataclass
class Trainer:
    """Stands for the trainer: it has a model that changes, and sends its weights."""

    model: Any
    tokenizer: Any
    folder: Callable[[], Path] = no_folder
    version: int = 0

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    @property
    def stop_ids(self) -> tuple[int, ...]:
        return (self.tokenizer.eos_token_id,)

    def weights(self) -> Weights:
        return Weights(self.version, lambda: {n: t.detach() for n, t in full_names(self.model).items()}, self.folder)

    def update(self, by: float = 0.05, seed: int = 1) -> None:
        """As an optimizer's step would: every parameter moves."""
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for parameter in self.model.parameters():
                parameter.add_(torch.randn(parameter.shape, generator=generator) * by)
        self.version += 1

    def sampled_logprobs(self, prompt: Sequence[int], answer: Sequence[int], temperature: float) -> list[float]:
        """What a fresh forward pass without a cache gives for an answer's tokens."""
        with torch.no_grad():
            logits = self.model(input_ids=torch.tensor([[*prompt, *answer]]), use_cache=False).logits[0].float()
        logprobs = (logits / temperature).log_softmax(-1)
        return [float(logprobs[len(prompt) - 1 + i, token]) for i, token in enumerate(answer)]


def trainer(seed: int = 0, *, tied: bool = True) -> Trainer:
    return Trainer(build_model(seed, 32, 2, tied=tied).eval(), build_tokenizer())


def frozen(of: Trainer) -> Trainer:
    """The trainer as it is now."""
    return Trainer(copy.deepcopy(of.model), of.tokenizer, of.folder, of.version)
