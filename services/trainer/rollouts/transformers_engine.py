"""Sampling in the trainer's process, from a copy of the model by transformers.

Slow, exact, and everywhere: in float32 the log-probabilities are those of a fresh forward pass to within 1e-5. The
engine has a model of its own, built from the configuration, into which `load` copies: how the trainer's is sharded,
and what an update does to it meanwhile, has no effect here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
import transformers

from ledger.core.errors import InvalidInput, Unavailable
from services.trainer.models import full_names
from services.trainer.rollouts.decoding import Row, decode, stream
from services.trainer.rollouts.draws import answered, failed, refusal
from services.trainer.rollouts.engines import Completion, Sampling, Weights
from services.trainer.rollouts.probing import forward_logprobs


class TransformersEngine:
    """See `engines.Engine`.

    Args:
        config: The model's configuration, of transformers.
        dtype: Of the copy.
        device: Where it samples.
        ends: An answer ends with one of these tokens.
        max_concurrent: Answers in a batch; those of one prompt are never parted, so there may be more.
    """

    name = "transformers"

    def __init__(
        self,
        config: Any,
        *,
        dtype: torch.dtype,
        device: torch.device | str,
        ends: Collection[int],
        max_concurrent: int = 64,
    ) -> None:
        self.version: str | None = transformers.__version__
        self.weight_version = -1
        self._config = config
        self._dtype = dtype
        self._device = torch.device(device)
        self._ends = frozenset(ends)
        self._max_concurrent = max_concurrent
        self._model: Any = None

    def load(self, weights: Weights) -> None:
        if self._model is None:
            self._model = self._built()
        self._take(weights.state())
        self.weight_version = weights.version

    def generate(self, prompts: Sequence[Sequence[int]], sampling: Sampling) -> list[list[Completion]]:
        model = self._loaded()
        answers: list[list[Completion]] = [[] for _ in prompts]
        sound = []
        for place, prompt in enumerate(prompts):
            why = refusal(
                prompt,
                sampling.max_tokens,
                vocabulary=self._config.vocab_size,
                room=getattr(self._config, "max_position_embeddings", None),
            )
            if why is None:
                sound.append(place)
            else:
                answers[place] = failed(why, sampling.n)
        share = max(1, self._max_concurrent // sampling.n)
        for begin in range(0, len(sound), share):
            places = sound[begin : begin + share]
            for place, found in zip(places, self._batch(model, prompts, places, sampling), strict=True):
                answers[place] = found
        return answers

    def probe(self, token_ids: Sequence[int]) -> list[float]:
        return forward_logprobs(self._loaded(), token_ids)

    def metrics(self) -> Mapping[str, float]:
        return {}

    def close(self) -> None:
        self._model = None
        self.weight_version = -1

    def _batch(
        self, model: Any, prompts: Sequence[Sequence[int]], places: list[int], sampling: Sampling
    ) -> list[list[Completion]]:
        streams = torch.stack(
            [stream(sampling.seed, place, j, sampling.max_tokens) for place in places for j in range(sampling.n)]
        )
        try:
            rows = decode(
                model,
                [prompts[place] for place in places],
                streams,
                temperature=sampling.temperature,
                ends=self._ends,
            )
        except torch.OutOfMemoryError as error:
            return [failed(type(error).__name__, sampling.n) for _ in places]
        told = [_completion(row) for row in rows]
        return [told[at : at + sampling.n] for at in range(0, len(told), sampling.n)]

    def _loaded(self) -> Any:
        if self._model is None:
            raise Unavailable("the engine has no weights yet", remedy="Call `load` first.")
        return self._model

    def _built(self) -> Any:
        # Building draws initial weights, which `load` overwrites: the trainer's generators must not notice.
        with torch.random.fork_rng(devices=[]):
            model = transformers.AutoModelForCausalLM.from_config(self._config, dtype=self._dtype)
        return model.to(self._device).eval().requires_grad_(requires_grad=False)

    def _take(self, state: Mapping[str, torch.Tensor]) -> None:
        """Copies all or nothing: what does not fit is refused before the first tensor is written."""
        own = full_names(self._model)
        wrong = [f"{name} is missing" for name in own.keys() - state.keys()]
        wrong += [f"{name} has no place in the model" for name in state.keys() - own.keys()]
        wrong += [
            f"{name} is {list(state[name].shape)}, not {list(own[name].shape)}"
            for name in own.keys() & state.keys()
            if own[name].shape != state[name].shape
        ]
        if wrong:
            raise InvalidInput(
                f"the weights are not those of the engine's model: {min(wrong)}"
                + (f", and {len(wrong) - 1} more" if len(wrong) > 1 else ""),
                remedy="Send every tensor by its Hugging Face name, tied ones once: `models.full_names` tells them.",
            )
        with torch.no_grad():
            for name, tensor in own.items():
                tensor.copy_(state[name])


def _completion(row: Row) -> Completion:
    if row.broken:
        return failed("NotFiniteLogits", 1)[0]
    return answered(row.token_ids, row.logprobs, "stop" if row.ended else "length")
