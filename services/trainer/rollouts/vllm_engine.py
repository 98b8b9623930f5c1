"""Sampling by vLLM, started by the trainer: in its own process on a CPU, beside it on a GPU.

- Weights are taken over by a reload in place, from a folder. An engine whose reload was not believed, so that the same
  weights are sent once more, is built anew from then on.
- An engine that dies takes with it what it had in flight: those completions are errors. The next `load` builds another.
- vLLM seeds and uses the process's random generators, and refuses later changes of torch's threads. Both are put back.
"""

from __future__ import annotations

import gc
import os
import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from ledger.core.errors import InvalidInput, Unavailable
from services.trainer.rollouts.draws import answered, failed, refusal, seed_of
from services.trainer.rollouts.engines import Completion, Sampling, Weights
from services.trainer.rollouts.vllm_counters import StepCounters
from services.trainer.rollouts.vllm_setup import engine_arguments, prepare


class VllmEngine:
    """See `engines.Engine`.

    Args:
        dtype: Of the weights in the engine, such as `float32`.
        on_cpu: There is no GPU for it.
        ends: An answer ends with one of these tokens.
        max_length: Tokens of a prompt with its answer.
        vocabulary: Tokens that the model knows.
        max_concurrent: Answers in flight.
        gpu_memory_utilization: The share of a GPU's memory that it may take.
    """

    name = "vllm"

    def __init__(
        self,
        *,
        dtype: str,
        on_cpu: bool,
        ends: Collection[int],
        max_length: int,
        vocabulary: int,
        max_concurrent: int = 64,
        gpu_memory_utilization: float = 0.5,
    ) -> None:
        if on_cpu:
            _alone()
            os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
        os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")  # else it tells the trainer's terminal of its own work
        prepare(on_cpu=on_cpu)
        import vllm  # noqa: PLC0415  # of an extra

        self.version: str | None = vllm.__version__
        self.weight_version = -1
        self._vllm = vllm
        self._on_cpu = on_cpu
        self._ends = sorted(ends)
        self._room = max_length
        self._vocabulary = vocabulary
        self._arguments: dict[str, Any] = {
            **engine_arguments(on_cpu=on_cpu, max_length=max_length, max_concurrent=max_concurrent),
            "dtype": dtype,
            "gpu_memory_utilization": gpu_memory_utilization,
            "skip_tokenizer_init": True,
            "disable_log_stats": False,
            "use_tqdm_on_load": False,
        }
        self._llm: Any = None
        self._own_group = False
        self._reloaded = -1
        self._reloads = True
        self._counters = StepCounters()

    def load(self, weights: Weights) -> None:
        folder = weights.folder().absolute()
        if weights.version == self._reloaded:
            self._reloads = False
        with _process_kept():
            if self._llm is None or not (self._reloads and self._reload(folder, weights.version)):
                self._build(folder)
        self.weight_version = weights.version

    def generate(self, prompts: Sequence[Sequence[int]], sampling: Sampling) -> list[list[Completion]]:
        answers = [failed("EngineDead", sampling.n) for _ in prompts]
        if self._llm is None:
            return answers
        asked = []
        for place, prompt in enumerate(prompts):
            why = refusal(prompt, sampling.max_tokens, vocabulary=self._vocabulary, room=self._room)
            if why is None:
                asked.append(place)
            else:
                answers[place] = failed(why, sampling.n)
        try:
            found = self._answers([prompts[p] for p in asked], [self._parameters(sampling, p) for p in asked])
        except Exception as error:  # noqa: BLE001  # whatever it died of, it is gone
            self.close()
            found = [failed(type(error).__name__, sampling.n) for _ in asked]
        for place, completions in zip(asked, found, strict=True):
            answers[place] = completions
        return answers

    def probe(self, token_ids: Sequence[int]) -> list[float]:
        if self._llm is None:
            raise Unavailable("the engine is not there", remedy="Call `load` first.")
        parameters = self._vllm.SamplingParams(max_tokens=1, temperature=1.0, prompt_logprobs=0, detokenize=False)
        try:
            (output,) = self._run([token_ids], [parameters])
        except Exception as error:
            self.close()
            raise _died(error) from error
        told = zip(token_ids[1:], output.prompt_logprobs[1:], strict=True)
        return [float(place[token].logprob) for token, place in told]

    def metrics(self) -> Mapping[str, float]:
        from prometheus_client import generate_latest  # noqa: PLC0415  # a dependency of vLLM

        return self._counters.since_last(generate_latest().decode())

    def close(self) -> None:
        if self._llm is None:
            return
        with _process_kept():
            llm, self._llm, self.weight_version = self._llm, None, -1
            with _group_kept(own=self._own_group):
                llm.llm_engine.engine_core.shutdown()
            del llm
            gc.collect()

    def _answers(self, prompts: list[Sequence[int]], parameters: list[Any]) -> list[list[Completion]]:
        outputs = self._run(prompts, parameters) if prompts else []
        return [
            [_completion(answer) for answer in sorted(output.outputs, key=lambda answer: int(answer.index))]
            for output in outputs
        ]

    def _run(self, prompts: list[Sequence[int]], parameters: list[Any]) -> list[Any]:
        with _process_kept():
            asked = [{"prompt_token_ids": list(prompt)} for prompt in prompts]
            return list(self._llm.generate(asked, parameters, use_tqdm=False))

    def _parameters(self, sampling: Sampling, place: int) -> Any:
        return self._vllm.SamplingParams(
            n=sampling.n,
            max_tokens=sampling.max_tokens,
            temperature=sampling.temperature,
            top_p=1.0,
            top_k=0,
            min_p=0.0,
            seed=seed_of(sampling.seed, place),
            logprobs=0,
            ignore_eos=True,
            stop_token_ids=self._ends,
            detokenize=False,
        )

    def _reload(self, folder: Path, version: int) -> bool:
        """Takes weights over in place; false: it could not, and is gone, since it may hold a mix."""
        try:
            self._llm.collective_rpc("reload_weights", kwargs={"weights_path": str(folder)})
            taken = bool(self._llm.reset_prefix_cache())
        except Exception:  # noqa: BLE001  # whatever it was, the engine is built anew
            taken = False
        if taken:
            self._reloaded = version
        else:
            self.close()
        return taken

    def _build(self, folder: Path) -> None:
        self.close()
        self._own_group = self._on_cpu and not torch.distributed.is_initialized()
        try:
            self._llm = self._vllm.LLM(model=str(folder), **self._arguments)
        except Exception as error:
            with _group_kept(own=self._own_group) as groups:
                groups.destroy_model_parallel()
                groups.destroy_distributed_environment()
            raise _died(error) from error


def _completion(answer: Any) -> Completion:
    if answer.finish_reason not in ("stop", "length"):
        return failed(str(answer.finish_reason).title(), 1)[0]
    tokens = [int(token) for token in answer.token_ids]
    logprobs = [float(place[token].logprob) for token, place in zip(tokens, answer.logprobs, strict=True)]
    return answered(tokens, logprobs, answer.finish_reason)


def _died(error: Exception) -> Unavailable:
    return Unavailable(
        f"vLLM does not run: {type(error).__name__}: {str(error)[:500]}",
        remedy="Set VLLM_LOGGING_LEVEL=INFO to see more. It takes less memory with a smaller "
        "`rollouts.max_concurrent` or `rollouts.gpu_memory_utilization`.",
    )


def _alone() -> None:
    """In a process of several, vLLM would take the trainer's process group for its own."""
    if torch.distributed.is_initialized() and torch.distributed.get_world_size() > 1:
        raise InvalidInput(
            "on a CPU vLLM samples in the trainer's process, of which a run with it has only one",
            reason="USAGE",
            remedy='Train in one process, or serve apart and set `rollouts.engine = "openai"`.',
        )


@contextmanager
def _group_kept(*, own: bool) -> Iterator[Any]:
    """Lets vLLM leave the process group that it made; where the trainer made it, only vLLM's part of it."""
    from vllm.distributed import parallel_state  # noqa: PLC0415  # of an extra

    def leave() -> None:
        if parallel_state._WORLD is not None:  # noqa: SLF001  # there is no function for a part
            parallel_state._WORLD.destroy()  # noqa: SLF001
        parallel_state._WORLD = parallel_state._NODE_COUNT = None  # noqa: SLF001

    destroy = parallel_state.destroy_distributed_environment
    if not own:
        parallel_state.destroy_distributed_environment = leave
    try:
        yield parallel_state
    finally:
        parallel_state.destroy_distributed_environment = destroy


@contextmanager
def _process_kept() -> Iterator[None]:
    """Puts back what vLLM changes in the process: random generators, and torch's threads."""
    import numpy as np  # noqa: PLC0415  # a dependency of vLLM

    state, numpy_state = random.getstate(), np.random.get_state()  # noqa: NPY002  # the one that it seeds
    threads, set_threads = torch.get_num_threads(), torch.set_num_threads
    try:
        with torch.random.fork_rng(devices=[]):  # where there is a GPU, vLLM is a process of its own
            yield
    finally:
        random.setstate(state)
        np.random.set_state(numpy_state)  # noqa: NPY002
        torch.set_num_threads = set_threads
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
