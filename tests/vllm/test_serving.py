"""The server that `services.trainer.rollouts.serving` starts, in a process of its own."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ledger.core.errors import Unavailable
from services.trainer.rollouts.engines import Sampling, Weights
from services.trainer.rollouts.openai_engine import NEUTRAL, OpenAIEngine
from services.trainer.rollouts.probing import WeightSync, forward_logprobs, largest_difference
from services.trainer.rollouts.serving_calls import Calls
from services.trainer.rollouts.vllm_engine import VllmEngine
from tests.trainer.rollouts.engines_at_work import Trainer
from tests.trainer.rollouts.fake_vllm import fake_vllm
from tests.vllm.serving_at_work import Server, serving, trainer_in

pytestmark = [
    pytest.mark.vllm,
    # vLLM and what it imports warn of one another's deprecations, of forks, and of sockets left to the collector.
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"),
]
PROMPTS = [[5, 6, 7], [8, 9, 10, 11, 12, 13, 14, 15], [20], [21, 22]]
PROBE = [5, 9, 13, 17, 21, 25, 29]
FLOAT32 = 1e-4


@pytest.fixture(scope="module")
def of(tmp_path_factory: pytest.TempPathFactory) -> Trainer:
    return trainer_in(tmp_path_factory.mktemp("weights"))


@pytest.fixture(scope="module")
def server(of: Trainer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    log = tmp_path_factory.mktemp("server") / "log"
    with serving("services.trainer.rollouts.serving", of.folder(), log) as running:
        yield running


@pytest.fixture
def engine(server: Server, of: Trainer) -> OpenAIEngine:
    return OpenAIEngine(server.url, ends=of.stop_ids, max_concurrent=16, pauses=(0.1,))


def sampling(**how: Any) -> Sampling:
    return Sampling(**{"n": 3, "max_tokens": 12, "temperature": 1.0, "seed": 3, **how})


def sync_of(engine: OpenAIEngine, of: Trainer) -> WeightSync:
    return WeightSync(engine, PROBE, lambda ids: forward_logprobs(of.model, ids), 1e-3)


@pytest.mark.parametrize("temperature", [0.4, 1.0, 1.6])
def test_log_probabilities_are_the_trainers_at_the_temperature(
    engine: OpenAIEngine, of: Trainer, temperature: float
) -> None:
    sync_of(engine, of).send(of.weights())
    assert engine.version == "0.32.0"
    answers = engine.generate(PROMPTS, sampling(temperature=temperature))
    for prompt, group in zip(PROMPTS, answers, strict=True):
        for completion in group:
            assert completion.logprobs is not None
            expected = of.sampled_logprobs(prompt, completion.token_ids, temperature)
            assert largest_difference(expected, completion.logprobs) < FLOAT32


def test_updates_are_seen(engine: OpenAIEngine, of: Trainer) -> None:
    sync = sync_of(engine, of)
    sync.send(of.weights())
    for seed in range(3):
        of.update(seed=seed)
        sent = sync.send(of.weights())
        assert (sent.tries, sent.conclusive) == (1, True)
        assert sent.difference < FLOAT32


def test_a_server_draws_the_tokens_that_vllm_in_the_trainers_process_draws(engine: OpenAIEngine, of: Trainer) -> None:
    engine.load(of.weights())
    served = engine.generate(PROMPTS, sampling())
    inside = VllmEngine(
        dtype="float32", on_cpu=True, ends=of.stop_ids, max_length=128, vocabulary=of.model.config.vocab_size
    )
    inside.load(of.weights())
    drawn = inside.generate(PROMPTS, sampling())
    inside.close()
    assert [[c.token_ids for c in group] for group in served] == [[c.token_ids for c in group] for group in drawn]


def test_answers_end_with_the_end_tokens_that_were_named(server: Server, of: Trainer) -> None:
    some = frozenset(range(12))
    engine = OpenAIEngine(server.url, ends=some)
    engine.load(of.weights())
    finishes = set()
    for group in engine.generate(PROMPTS, sampling(n=8)):
        for completion in group:
            assert not some & set(completion.token_ids[:-1])
            assert (completion.token_ids[-1] in some) == (completion.finish == "stop")
            finishes.add(completion.finish)
    assert finishes == {"stop", "length"}


def test_prompts_that_cannot_be_answered_fail_alone(engine: OpenAIEngine, of: Trainer) -> None:
    engine.load(of.weights())
    answers = engine.generate([PROMPTS[0], [], [99_999], [5] * 120], sampling())
    assert [group[0].error for group in answers] == [None, "EmptyPrompt", "BadRequestError", "PromptTooLong"]


def test_counters_are_those_since_the_last_look(engine: OpenAIEngine, of: Trainer) -> None:
    engine.load(of.weights())
    engine.metrics()
    engine.generate(PROMPTS, sampling())
    told = engine.metrics()
    assert told["vllm/total_finished_requests"] == 12
    assert told["vllm/latency_e2e_mean"] > 0


def test_the_server_of_the_quick_tests_answers_in_the_shapes_of_the_real_one(
    server: Server, engine: OpenAIEngine, of: Trainer
) -> None:
    engine.load(of.weights())
    ask = {**NEUTRAL, "prompt": PROMPTS[0], "max_tokens": 3, "logprobs": 1, "temperature": 1.0}
    requests: list[tuple[str, dict[str, Any]]] = [
        ("/v1/completions", {**ask, "n": 2, "seed": 5, "model": server.name}),
        ("/v1/completions", {**ask, "max_tokens": 1, "prompt_logprobs": 0, "model": server.name}),
        ("/reset_prefix_cache", {}),
        ("/collective_rpc", {"method": "reload_weights", "kwargs": {"weights_path": str(of.folder().absolute())}}),
        ("/nowhere", {}),
    ]
    with fake_vllm(of) as fake:
        for path, body in requests:
            real, faked = Calls(server.url).post(path, body), Calls(fake.url).post(path, body)
            assert faked.status == real.status
            assert unlike(faked.json(), real.json()) == []
        assert unlike(Calls(fake.url).get("/v1/models").json(), Calls(server.url).get("/v1/models").json()) == []
        assert unlike(Calls(fake.url).get("/version").json(), Calls(server.url).get("/version").json()) == []
        told = [
            text.body.decode().splitlines() for text in (c.get("/metrics") for c in map(Calls, (fake.url, server.url)))
        ]
        names = [{line.rpartition(" ")[0] for line in lines if line and line[0] != "#"} for lines in told]
        assert {n.replace('model_name="tiny"', f'model_name="{server.name}"') for n in names[0]} <= names[1]


def unlike(faked: Any, real: Any, place: str = "") -> list[str]:
    """Where an answer of the quick tests' server has what the real one's has not, or of another type."""
    if isinstance(faked, dict) and isinstance(real, dict):
        numbered = all(key.removeprefix("token_id:").isdigit() for key in faked)
        pairs = zip(faked, real, strict=False) if numbered else ((key, key) for key in faked)
        return [u for one, two in pairs for u in unlike(faked[one], real.get(two, "nothing"), f"{place}.{one}")]
    if isinstance(faked, list) and isinstance(real, list):
        lengths = [f"{place} has {len(faked)}, not {len(real)}"] if len(faked) != len(real) else []
        return lengths + [u for one, two in zip(faked, real, strict=False) for u in unlike(one, two, f"{place}[]")]
    return [] if type(faked) is type(real) else [f"{place} is {faked!r}, not {real!r}"]


def test_a_server_that_dies_and_comes_back_is_noticed_and_takes_weights_again(
    server: Server, engine: OpenAIEngine, of: Trainer
) -> None:
    engine.load(of.weights())
    server.stop(signal.SIGKILL)
    away = engine.generate(PROMPTS, sampling())
    assert {c.error for group in away for c in group} == {"ServerRestarted"}
    with pytest.raises(Unavailable, match="ConnectionRefusedError"):
        engine.load(of.weights())
    server.start()
    anew = engine.generate(PROMPTS, sampling())
    assert {c.error for group in anew for c in group} == {"ServerRestarted"}
    assert sync_of(engine, of).send(of.weights()).difference < FLOAT32


def test_a_folder_that_the_server_does_not_see_is_unavailable_and_costs_the_server(
    server: Server, engine: OpenAIEngine, of: Trainer
) -> None:
    engine.load(of.weights())
    with pytest.raises(Unavailable, match="InternalServerError") as caught:
        engine.load(Weights(1, dict, lambda: Path("/nowhere/weights")))
    assert "start it anew" in caught.value.remedy
    assert engine.weight_version == -1
    server.stop()
    server.start()
    assert sync_of(engine, of).send(of.weights()).difference < FLOAT32
