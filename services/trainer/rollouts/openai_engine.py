"""Sampling by a vLLM server over its OpenAI-compatible interface, which may serve on other machines.

Tokens go there and come back as numbers, so that nothing is tokenised twice. Weights are loaded through the server's
development interface from a folder that trainer and server both see.

- A request that fails is completions of the finish `error`. A server that refuses the key fails the run.
- A server that was started anew has its first weights again, and says nothing: so its start is looked at after each
  batch, and what another process than the one with the weights answered is an error.
- Log-probabilities of another temperature than the sampler's would spoil each importance weight: a server that gives
  those is refused before the first sample.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from ledger.core.errors import InvalidInput, LedgerError, NotFound, Unavailable
from services.trainer.rollouts.draws import failed, refusal, seed_of
from services.trainer.rollouts.engines import Completion, Sampling, Weights
from services.trainer.rollouts.serving_calls import PAUSES, Answer, Calls
from services.trainer.rollouts.vllm_answers import completions, prompt_logprobs, spread
from services.trainer.rollouts.vllm_counters import StepCounters

SERVE: Final = "Start it by `python -m services.trainer.rollouts.serving --model FOLDER`"
STARTED: Final = re.compile(rb"^process_start_time_seconds (\S+)$", re.MULTILINE)
NOISE: Final = 1e-3
"""Between two answers to one prompt. Where the two temperatures are no further apart, neither matters."""
NEUTRAL: Final[Mapping[str, Any]] = {
    "top_p": 1.0,
    "top_k": 0,
    "min_p": 0.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "repetition_penalty": 1.0,
    "add_special_tokens": False,
    "skip_special_tokens": False,
    "return_token_ids": True,
    "return_tokens_as_token_ids": True,
}
"""Said in every request: what is left out, a server takes from its model's generation configuration."""


class OpenAIEngine:
    """See `engines.Engine`.

    Args:
        url: The server's address, without /v1.
        ends: An answer ends with one of these tokens.
        model_name: As the server calls the model; null: the only one that it has.
        key: The server's key.
        max_concurrent: Answers in flight; those of one prompt are one request, so there may be more.
        timeout: Seconds for which one answer is waited for.
        pauses: Seconds before each further try of a connection.
    """

    name = "vllm"

    def __init__(
        self,
        url: str,
        *,
        ends: Collection[int],
        model_name: str | None = None,
        key: str | None = None,
        max_concurrent: int = 64,
        timeout: float = 1800.0,
        pauses: tuple[float, ...] = PAUSES,
    ) -> None:
        self.version: str | None = None
        self.weight_version = -1
        self._calls = Calls(url, key=key, timeout=timeout, pauses=pauses)
        self._ends = sorted(ends)
        self._model_name = model_name
        self._max_concurrent = max_concurrent
        self._pauses = pauses
        self._model: str | None = None
        self._room: int | None = None
        self._started: bytes | None = None
        self._checked: set[float] = {1.0}
        self._counters = StepCounters()

    def load(self, weights: Weights) -> None:
        first = self._model is None
        self._find_model()
        if first:
            self.metrics()  # the server may have served others before: counted is what comes now
        self.weight_version = -1
        self._reload(str(weights.folder().absolute()))
        self._reset_cache()
        self._started = self._start_time()
        self.weight_version = weights.version

    def generate(self, prompts: Sequence[Sequence[int]], sampling: Sampling) -> list[list[Completion]]:
        self._check_temperature(prompts, sampling.temperature)
        answers = self._together(prompts, sampling)
        if not self._still_the_same():
            self.weight_version = -1
            return [failed("ServerRestarted", sampling.n) for _ in prompts]
        return answers

    def probe(self, token_ids: Sequence[int]) -> list[float]:
        body = {"prompt": list(token_ids), "max_tokens": 1, "temperature": 1.0, "prompt_logprobs": 0}
        answer = self._calls.post("/v1/completions", {**NEUTRAL, **body, "model": self._model})
        found = prompt_logprobs(answer.json(), token_ids) if answer.ok else None
        if found is None:
            raise self._unavailable(answer, "gives no log-probabilities of a prompt", "Look at its log.")
        return found

    def metrics(self) -> Mapping[str, float]:
        try:
            answer = self._calls.get("/metrics")
            return self._counters.since_last(answer.body.decode()) if answer.ok else {}
        except (LedgerError, ValueError):
            # Counters are worth no step: the package that reads them is optional, and the server may be gone.
            return {}

    def close(self) -> None:
        """There is nothing to let go of: a connection lives as long as its request, and the server is another's."""
        self.weight_version = -1

    def _together(self, prompts: Sequence[Sequence[int]], sampling: Sampling) -> list[list[Completion]]:
        pool = ThreadPoolExecutor(max(1, self._max_concurrent // sampling.n), "rollouts")
        try:
            return list(pool.map(lambda i: self._one(prompts[i], i, sampling), range(len(prompts))))
        except BaseException:
            # Whoever stops the run does not wait for long answers, and the server need not write them.
            pool.shutdown(wait=False, cancel_futures=True)
            self._calls.abort()
            raise
        finally:
            pool.shutdown()

    def _one(self, prompt: Sequence[int], place: int, sampling: Sampling) -> list[Completion]:
        if why := refusal(prompt, sampling.max_tokens, room=self._room):
            return failed(why, sampling.n)
        body = {
            "model": self._model,
            "prompt": list(prompt),
            "n": sampling.n,
            "max_tokens": sampling.max_tokens,
            "temperature": sampling.temperature,
            "seed": seed_of(sampling.seed, place),
            "logprobs": 0,
            "ignore_eos": True,
            "stop_token_ids": self._ends,
        }
        try:
            answer = self._calls.post("/v1/completions", {**NEUTRAL, **body})
        except Unavailable as error:
            return failed(error.details.get("error", "Unavailable"), sampling.n)
        self._permitted(answer)
        return completions(answer.json(), sampling.n) if answer.ok else failed(answer.error_type(), sampling.n)

    def _find_model(self) -> None:
        answer = self._calls.get("/v1/models")
        self._permitted(answer)
        said = answer.json()
        data = said.get("data") if answer.ok and isinstance(said, dict) else None
        listed = data if isinstance(data, list) else []
        models = [m for m in listed if isinstance(m, dict) and isinstance(m.get("id"), str)]
        if not models:
            raise self._unavailable(answer, "names no models", "Name a vLLM server by `rollouts.url`, without /v1.")
        model = self._chosen(models)
        self._model = model["id"]
        length = model.get("max_model_len")
        self._room = length if isinstance(length, int) else None
        version = self._calls.get("/version").json()
        self.version = str(version["version"])[:100] if isinstance(version, dict) and "version" in version else None

    def _chosen(self, models: list[dict[str, Any]]) -> dict[str, Any]:
        if self._model_name is None and len(models) == 1:
            return models[0]
        named = [model for model in models if model["id"] == self._model_name]
        if named:
            return named[0]
        raise NotFound(
            f"{self._calls.place} has {len(models)} models"
            + ("" if self._model_name is None else f", and none is called {self._model_name!r}"),
            remedy="Name one of them by `rollouts.model_name`: " + ", ".join(repr(m["id"][:100]) for m in models[:10]),
        )

    def _reload(self, folder: str) -> None:
        answer = self._calls.post("/collective_rpc", {"method": "reload_weights", "kwargs": {"weights_path": folder}})
        if answer.status == 404:  # there is no such path
            raise self._unavailable(
                answer,
                "takes no weights",
                f"{SERVE}, or with VLLM_SERVER_DEV_MODE=1: the development interface loads weights, so serve it "
                "where only the trainer comes.",
            )
        if not answer.ok:
            raise self._unavailable(
                answer,
                f"did not load the weights in {folder}",
                "Look whether it sees that folder, and start it anew: after a load that failed it holds a mix.",
            )

    def _reset_cache(self) -> None:
        """Keys and values that are kept for prompts are those of the old weights."""
        for pause in (*self._pauses, None):
            answer = self._calls.post("/reset_prefix_cache", {})
            said = answer.json()
            if answer.ok and isinstance(said, dict) and said.get("success") is True:
                return
            if pause is not None:
                time.sleep(pause)
        raise self._unavailable(answer, "still holds the cache of the old weights", "Look whether others use it too.")

    def _start_time(self) -> bytes | None:
        """When the server's process began, as it says itself; null: it does not."""
        answer = self._calls.get("/metrics")
        found = STARTED.search(answer.body) if answer.ok else None
        return found[1] if found else None

    def _still_the_same(self) -> bool:
        try:
            return self._start_time() == self._started
        except Unavailable:
            return False

    def _check_temperature(self, prompts: Sequence[Sequence[int]], temperature: float) -> None:
        """Looks, once for a temperature, whether log-probabilities are those of the distribution that is sampled.

        Dividing logits divides the differences of log-probabilities too, whichever tokens are compared.
        """
        prompt = next((list(p) for p in prompts if refusal(p, 1, room=self._room) is None), None)
        if temperature in self._checked or prompt is None:
            return
        body = {**NEUTRAL, "model": self._model, "prompt": prompt, "max_tokens": 1, "logprobs": 5}
        try:
            plain, divided = (
                self._calls.post("/v1/completions", {**body, "temperature": t}) for t in (1.0, temperature)
            )
        except Unavailable:
            return
        self._permitted(plain)
        found = spread(plain.json(), divided.json())
        if found is None:
            return
        self._checked.add(temperature)
        at_one, at_temperature = found
        would_be = at_one / temperature
        if abs(would_be - at_one) > NOISE and abs(at_temperature - would_be) > abs(at_temperature - at_one):
            raise InvalidInput(
                f"{self._calls.place} gives log-probabilities at temperature 1, and the run samples at {temperature}",
                reason="USAGE",
                remedy=f"{SERVE}, or with --logprobs-mode processed_logprobs; or sample at temperature 1.",
            )

    def _permitted(self, answer: Answer) -> None:
        if answer.status in (401, 403):
            raise LedgerError(
                f"{self._calls.place} refuses the trainer's key, or wants one",
                reason="NOT_PERMITTED",
                remedy="Set `rollouts.api_key_env` to the name of the variable that holds the key.",
            )

    def _unavailable(self, answer: Answer, what: str, remedy: str) -> Unavailable:
        return Unavailable(f"{self._calls.place} {what}: {answer.error_type()}", remedy=remedy)
