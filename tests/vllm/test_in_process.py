"""vLLM in the trainer's process, against forward passes of the trainer's model."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ledger.core.errors import Unavailable
from services.trainer.rollouts.engines import Completion, Sampling, Weights
from services.trainer.rollouts.probing import WeightSync, forward_logprobs, largest_difference
from services.trainer.rollouts.vllm_engine import VllmEngine
from tests.trainer.rollouts.engines_at_work import Trainer
from tests.vllm.serving_at_work import trainer_in

pytestmark = [
    pytest.mark.vllm,
    # vLLM and what it imports warn of one another's deprecations, of forks, and of sockets left to the collector.
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"),
]
PROMPTS = [[5, 6, 7], [8, 9, 10, 11, 12, 13, 14, 15], [20], [21, 22]]
PROBE = [5, 9, 13, 17, 21, 25, 29]
TOLERANCE = 1e-3
FLOAT32 = 1e-4


@pytest.fixture
def of(tmp_path: Path) -> Trainer:
    return trainer_in(tmp_path)


@pytest.fixture
def opened() -> Iterator[Callable[..., VllmEngine]]:
    engines = []

    def opens(of: Trainer, **how: Any) -> VllmEngine:
        vocabulary = of.model.config.vocab_size
        how = {"ends": of.stop_ids, "max_length": 128, "max_concurrent": 16, **how}
        engines.append(VllmEngine(dtype="float32", on_cpu=True, vocabulary=vocabulary, **how))
        return engines[-1]

    yield opens
    for engine in engines:
        engine.close()


def sampling(**how: Any) -> Sampling:
    return Sampling(**{"n": 3, "max_tokens": 12, "temperature": 1.0, "seed": 3, **how})


def sync_of(engine: VllmEngine, of: Trainer) -> WeightSync:
    return WeightSync(engine, PROBE, lambda ids: forward_logprobs(of.model, ids), TOLERANCE)


def largest_error(of: Trainer, answers: list[list[Completion]], temperature: float) -> float:
    errors = []
    for prompt, group in zip(PROMPTS, answers, strict=True):
        for completion in group:
            assert completion.logprobs is not None
            expected = of.sampled_logprobs(prompt, completion.token_ids, temperature)
            errors.append(largest_difference(expected, completion.logprobs))
    return max(errors)


def test_log_probabilities_are_the_trainers_at_the_temperature(of: Trainer, opened: Callable[..., VllmEngine]) -> None:
    engine = opened(of)
    assert sync_of(engine, of).send(of.weights()).difference < FLOAT32
    for temperature in (0.4, 1.0, 1.6):
        answers = engine.generate(PROMPTS, sampling(temperature=temperature))
        assert largest_error(of, answers, temperature) < FLOAT32


def test_the_same_call_gives_the_same_tokens_whatever_else_is_in_the_batch(
    of: Trainer, opened: Callable[..., VllmEngine]
) -> None:
    engine = opened(of)
    engine.load(of.weights())
    first = engine.generate(PROMPTS, sampling())
    torch.manual_seed(5)
    assert [[c.token_ids for c in g] for g in engine.generate(PROMPTS, sampling())] == [
        [c.token_ids for c in g] for g in first
    ]
    (alone,) = engine.generate(PROMPTS[:1], sampling())
    assert [c.token_ids for c in alone] == [c.token_ids for c in first[0]]
    drawn = [c.token_ids for group in (*first, *engine.generate(PROMPTS, sampling(seed=4))) for c in group]
    assert len(set(drawn)) == len(drawn)


def test_answers_end_with_the_end_tokens_that_were_named_and_no_others(
    of: Trainer, opened: Callable[..., VllmEngine]
) -> None:
    some = frozenset(range(12))
    engine = opened(of, ends=some)
    engine.load(of.weights())
    finishes = set()
    for group in engine.generate(PROMPTS, sampling(n=8)):
        for completion in group:
            assert not some & set(completion.token_ids[:-1])
            assert (completion.token_ids[-1] in some) == (completion.finish == "stop")
            finishes.add(completion.finish)
    assert finishes == {"stop", "length"}


def test_prompts_that_cannot_be_answered_fail_alone(of: Trainer, opened: Callable[..., VllmEngine]) -> None:
    engine = opened(of)
    engine.load(of.weights())
    prompts = [PROMPTS[0], [], [99_999], [5] * 120, PROMPTS[2]]
    answers = engine.generate(prompts, sampling())
    assert [group[0].error for group in answers] == [None, "EmptyPrompt", "UnknownToken", "PromptTooLong", None]


@pytest.mark.parametrize("tied", [True, False])
def test_an_update_is_seen_after_a_reload_in_place(
    tmp_path: Path, opened: Callable[..., VllmEngine], tied: bool
) -> None:
    of = trainer_in(tmp_path, tied=tied)
    engine = opened(of)
    sync = sync_of(engine, of)
    sync.send(of.weights())
    built = engine._llm
    for _ in range(3):
        of.update()
        sent = sync.send(of.weights())
        assert (sent.tries, sent.conclusive) == (1, True)
        assert sent.difference < FLOAT32
    assert engine._llm is built
    assert largest_error(of, engine.generate(PROMPTS, sampling()), 1.0) < FLOAT32


def test_packed_layers_keep_old_weights_and_the_probe_has_the_engine_built_anew(
    of: Trainer, opened: Callable[..., VllmEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    from vllm import _custom_ops  # noqa: PLC0415  # in an environment of its own

    engine = opened(of)
    monkeypatch.setattr(_custom_ops, "_supports_onednn", True)
    engine.load(of.weights())
    of.update()
    engine.load(of.weights())
    stale = largest_difference(engine.probe(PROBE), forward_logprobs(of.model, PROBE))
    assert stale > 10 * TOLERANCE
    sync = sync_of(engine, of)
    of.update(seed=2)
    assert sync.send(of.weights()).tries == 2
    of.update(seed=3)
    assert sync.send(of.weights()).tries == 1
    assert largest_error(of, engine.generate(PROMPTS, sampling()), 1.0) < FLOAT32


def test_an_engine_that_died_answers_with_errors_until_it_is_loaded(
    of: Trainer, opened: Callable[..., VllmEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = opened(of)
    engine.load(of.weights())

    def dies(*_: Any, **__: Any) -> Any:
        raise RuntimeError("CPU Generator does not use offset")

    monkeypatch.setattr(engine._llm, "generate", dies)
    assert engine.generate(PROMPTS[:1], sampling()) == [[Completion((), None, "error", "RuntimeError")] * 3]
    assert engine.weight_version == -1
    assert engine.generate(PROMPTS[:1], sampling()) == [[Completion((), None, "error", "EngineDead")] * 3]
    with pytest.raises(Unavailable):
        engine.probe(PROBE)
    engine.load(of.weights())
    assert largest_error(of, engine.generate(PROMPTS, sampling()), 1.0) < FLOAT32


def test_many_seeded_requests_with_long_prompts_end_no_engine(of: Trainer, opened: Callable[..., VllmEngine]) -> None:
    engine = opened(of, max_concurrent=256)
    engine.load(of.weights())
    prompts = [[5 + (i + j) % 40 for j in range(100)] for i in range(64)]
    answers = engine.generate(prompts, sampling(n=4, max_tokens=8))
    assert {c.finish for group in answers for c in group} <= {"stop", "length"}


def test_weights_that_are_not_finite_give_errors_and_no_answers(of: Trainer, opened: Callable[..., VllmEngine]) -> None:
    with torch.no_grad():
        next(of.model.parameters()).fill_(float("nan"))
    engine = opened(of)
    engine.load(of.weights())
    assert {c.error for group in engine.generate(PROMPTS, sampling()) for c in group} == {"NotFiniteLogits"}


def test_a_folder_that_holds_no_model_is_unavailable(of: Trainer, opened: Callable[..., VllmEngine]) -> None:
    engine = opened(of)
    nowhere = of.folder().parent / "nowhere"
    with pytest.raises(Unavailable):
        engine.load(Weights(0, dict, lambda: nowhere))
    assert engine.weight_version == -1
    engine.load(of.weights())
    of.update()
    with pytest.raises(Unavailable):
        engine.load(Weights(1, dict, lambda: nowhere))
    assert engine.weight_version == -1
    assert sync_of(engine, of).send(of.weights()).difference < FLOAT32


def test_the_processs_random_generators_and_threads_are_left_alone(
    of: Trainer, opened: Callable[..., VllmEngine]
) -> None:
    def states() -> tuple[Any, ...]:
        numpy = np.random.get_state()[1].tolist()  # noqa: NPY002  # the generator that vLLM seeds
        return torch.get_rng_state().tolist(), random.getstate(), numpy, torch.get_num_threads()

    before = states()
    set_threads, affinity = torch.set_num_threads, os.sched_getaffinity(0)
    engine = opened(of)
    engine.load(of.weights())
    engine.generate(PROMPTS, sampling())
    engine.probe(PROBE)
    engine.close()
    assert states() == before
    assert torch.set_num_threads is set_threads
    assert os.sched_getaffinity(0) == affinity
    assert torch.get_default_dtype() == torch.float32


def test_a_process_group_of_the_trainers_is_used_and_left(
    of: Trainer, opened: Callable[..., VllmEngine], tmp_path: Path
) -> None:
    engine = opened(of)
    engine.load(of.weights())
    engine.close()
    assert not torch.distributed.is_initialized()
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1)
    try:
        for _ in range(2):
            assert sync_of(engine, of).send(of.weights()).difference < FLOAT32
            engine.close()
        assert torch.distributed.is_initialized()
        torch.distributed.barrier()
    finally:
        torch.distributed.destroy_process_group()


def test_counters_are_those_since_the_last_look(of: Trainer, opened: Callable[..., VllmEngine]) -> None:
    engine = opened(of)
    engine.load(of.weights())
    engine.metrics()
    engine.generate(PROMPTS, sampling())
    told = engine.metrics()
    assert told["vllm/total_finished_requests"] == 12
    assert told["vllm/total_generation_tokens"] > 12
    assert told["vllm/latency_e2e_mean"] > 0
    assert engine.metrics()["vllm/total_finished_requests"] == 0
