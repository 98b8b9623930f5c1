"""The engine over HTTP, against a server in the test that speaks as vLLM does."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ledger.core.errors import InvalidInput, LedgerError, NotFound, Unavailable
from services.trainer.rollouts.draws import seed_of
from services.trainer.rollouts.engines import Completion, Sampling
from services.trainer.rollouts.openai_engine import NEUTRAL, OpenAIEngine
from services.trainer.rollouts.probing import StaleWeights, WeightSync, forward_logprobs
from services.trainer.rollouts.serving_calls import key_from
from tests.trainer.rollouts.engines_at_work import Trainer, trainer
from tests.trainer.rollouts.fake_vllm import FakeVllm, fake_vllm

PROMPTS = [[5, 6, 7], [8, 9, 10, 11], [20]]
PROBE = [5, 9, 13, 17]
PAUSES = (0.01, 0.01)


@pytest.fixture
def of(tmp_path: Path) -> Trainer:
    made = trainer()
    made.folder = lambda: tmp_path / "weights"
    return made


@pytest.fixture
def server(of: Trainer) -> Iterator[FakeVllm]:
    with fake_vllm(of) as running:
        yield running


def engine_of(server: FakeVllm, *, loaded: bool = True, **how: Any) -> OpenAIEngine:
    engine = OpenAIEngine(server.url, ends=server.trainer.stop_ids, pauses=PAUSES, **how)
    if loaded:
        engine.load(server.trainer.weights())
    return engine


def sampling(**how: Any) -> Sampling:
    return Sampling(**{"n": 2, "max_tokens": 4, "temperature": 1.0, "seed": 3, **how})


def errors(engine: OpenAIEngine, **how: Any) -> set[tuple[str, str | None]]:
    return {(c.finish, c.error) for group in engine.generate(PROMPTS, sampling(**how)) for c in group}


def test_answers_come_with_the_servers_tokens_and_log_probabilities_in_the_prompts_order(server: FakeVllm) -> None:
    answers = engine_of(server).generate(PROMPTS, sampling())
    for place, (prompt, group) in enumerate(zip(PROMPTS, answers, strict=True)):
        for index, completion in enumerate(group):
            assert completion.token_ids[0] == (seed_of(3, place) + index) % 60
            assert completion.finish == "length"
            assert completion.logprobs == pytest.approx(
                server.trainer.sampled_logprobs(prompt, completion.token_ids, 1.0), abs=1e-6
            )


def test_a_request_says_all_that_the_server_would_else_take_from_its_defaults(server: FakeVllm) -> None:
    engine_of(server).generate([PROMPTS[1]], sampling(n=3, max_tokens=5))
    (body,) = server.bodies("/v1/completions")
    assert body == {
        **NEUTRAL,
        "model": "tiny",
        "prompt": PROMPTS[1],
        "n": 3,
        "max_tokens": 5,
        "temperature": 1.0,
        "seed": seed_of(3, 0),
        "logprobs": 0,
        "ignore_eos": True,
        "stop_token_ids": list(server.trainer.stop_ids),
    }
    assert (NEUTRAL["top_p"], NEUTRAL["top_k"], NEUTRAL["min_p"], NEUTRAL["repetition_penalty"]) == (1, 0, 0, 1)


def test_seeds_differ_by_prompt_and_fit_what_a_server_takes_with_a_samples_index_added() -> None:
    seeds = {seed_of(seed, place) for seed in range(20) for place in range(50)}
    assert len(seeds) == 1000
    assert max(seeds) + 100_000 < 2**63


def test_weights_are_loaded_from_the_folder_and_the_old_cache_is_dropped(server: FakeVllm) -> None:
    engine = engine_of(server)
    assert (engine.name, engine.version, engine.weight_version) == ("vllm", "0.32.0", 0)
    assert server.bodies("/collective_rpc") == [
        {"method": "reload_weights", "kwargs": {"weights_path": str(server.trainer.folder().absolute())}}
    ]
    assert len(server.bodies("/reset_prefix_cache")) == 1
    server.trainer.update()
    engine.load(server.trainer.weights())
    assert engine.weight_version == 1
    assert engine.probe(PROBE) == pytest.approx(forward_logprobs(server.trainer.model, PROBE), abs=1e-6)


def test_a_server_that_ignores_a_load_is_seen_by_the_probe(server: FakeVllm) -> None:
    sync = WeightSync(engine_of(server, loaded=False), PROBE, lambda i: forward_logprobs(server.trainer.model, i), 1e-3)
    sync.send(server.trainer.weights())
    server.stale = True
    server.trainer.update()
    with pytest.raises(StaleWeights):
        sync.send(server.trainer.weights())
    server.stale = False
    assert sync.send(server.trainer.weights()).tries == 1


def test_a_server_without_its_development_interface_is_unavailable_and_the_remedy_says_how(server: FakeVllm) -> None:
    server.development = False
    engine = engine_of(server, loaded=False)
    with pytest.raises(Unavailable) as caught:
        engine.load(server.trainer.weights())
    assert "VLLM_SERVER_DEV_MODE=1" in caught.value.remedy
    assert engine.weight_version == -1


def test_a_load_that_fails_leaves_no_weights_of_any_version(server: FakeVllm) -> None:
    engine = engine_of(server)
    failure = {"error": {"message": "no such folder", "type": "InternalServerError", "code": 500}}
    server.answers["/collective_rpc"] = (500, failure)
    with pytest.raises(Unavailable, match="InternalServerError") as caught:
        engine.load(server.trainer.weights())
    assert "anew" in caught.value.remedy
    assert engine.weight_version == -1


def test_a_cache_that_is_in_use_is_asked_for_again(server: FakeVllm) -> None:
    server.cache_refusals = 2
    assert engine_of(server).weight_version == 0
    assert len(server.bodies("/reset_prefix_cache")) == 3


def test_a_cache_that_stays_in_use_is_unavailable(server: FakeVllm) -> None:
    server.cache_refusals = 99
    with pytest.raises(Unavailable, match="cache of the old weights"):
        engine_of(server)


def test_connections_that_break_off_are_tried_again(server: FakeVllm) -> None:
    engine = engine_of(server)
    expected = engine.generate(PROMPTS[:1], sampling())
    server.broken_connections = 2
    assert engine.generate(PROMPTS[:1], sampling()) == expected


def test_a_request_whose_connection_keeps_breaking_off_is_errors_and_the_others_are_answers(server: FakeVllm) -> None:
    engine = engine_of(server, max_concurrent=2)
    server.broken_connections = 3
    broken, *sound = engine.generate(PROMPTS, sampling())
    assert broken == [Completion((), None, "error", "RemoteDisconnected")] * 2
    assert {c.finish for group in sound for c in group} == {"length"}


def test_a_server_that_is_away_is_unavailable_at_a_load_and_errors_at_a_sample(server: FakeVllm) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        away = OpenAIEngine(f"http://127.0.0.1:{taken.getsockname()[1]}", ends=[1], pauses=PAUSES)
        with pytest.raises(Unavailable, match="ConnectionRefusedError"):
            away.load(server.trainer.weights())
        assert errors(away) == {("error", "ServerRestarted")}
        assert away.metrics() == {}


def test_a_server_that_answers_too_late_is_an_error_and_not_asked_again() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        engine = OpenAIEngine(f"http://127.0.0.1:{silent.getsockname()[1]}", ends=[1], pauses=PAUSES, timeout=0.05)
        with pytest.raises(Unavailable, match="TimeoutError"):
            engine.probe(PROBE)
        silent.settimeout(0.05)
        silent.accept()[0].close()
        with pytest.raises(TimeoutError):
            silent.accept()


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (500, {"error": {"message": "x", "type": "InternalServerError", "code": 500}}, "InternalServerError"),
        (400, {"error": {"message": "x", "type": "BadRequestError", "code": 400}}, "BadRequestError"),
        (503, "busy", "HTTP503"),
        (500, {"error": {"type": "<b>\x1b[31m"}}, "HTTP500"),
        (200, "no JSON", "MalformedAnswer"),
        (200, {"choices": []}, "MalformedAnswer"),
        (200, {"choices": None}, "MalformedAnswer"),
        (200, [1], "MalformedAnswer"),
    ],
)
def test_a_failed_request_is_errors_of_the_servers_type(server: FakeVllm, status: int, body: Any, error: str) -> None:
    engine = engine_of(server)
    server.answers["/v1/completions"] = (status, body)
    assert errors(engine) == {("error", error)}


@pytest.mark.parametrize(
    ("choice", "error"),
    [
        ({"finish_reason": "abort"}, "Abort"),
        ({"finish_reason": "error"}, "Error"),
        ({"finish_reason": None}, "MalformedAnswer"),
        ({"token_ids": None}, "MalformedAnswer"),
        ({"token_ids": [1, "2", 3, 4]}, "MalformedAnswer"),
        ({"token_ids": [1, 2]}, "MalformedAnswer"),
        ({"logprobs": {"token_logprobs": [None] * 4}}, "MalformedAnswer"),
        ({"index": 7}, "MalformedAnswer"),
        ({"logprobs": {"token_logprobs": [-1.0, float("nan"), -1.0, -1.0]}}, "NotFiniteLogits"),
    ],
)
def test_a_choice_that_is_not_whole_is_an_error(server: FakeVllm, choice: dict[str, Any], error: str) -> None:
    engine = engine_of(server)
    server.choice = choice
    assert errors(engine) == {("error", error)}


def test_an_answer_without_log_probabilities_says_that_there_are_none(server: FakeVllm) -> None:
    engine = engine_of(server)
    server.choice = {"logprobs": None}
    ((first, _), *_) = engine.generate(PROMPTS, sampling())
    assert first.finish == "length"
    assert first.token_ids
    assert first.logprobs is None


def test_a_prompt_that_cannot_be_answered_is_not_sent(server: FakeVllm) -> None:
    engine = engine_of(server)
    answers = engine.generate([[], [5] * 125, PROMPTS[0]], sampling())
    assert [group[0].error for group in answers] == ["EmptyPrompt", "PromptTooLong", None]
    assert len(server.bodies("/v1/completions")) == 1


def test_a_server_that_was_started_anew_has_answered_nothing(server: FakeVllm) -> None:
    engine = engine_of(server)
    server.started += 60
    assert errors(engine) == {("error", "ServerRestarted")}
    assert engine.weight_version == -1
    engine.load(server.trainer.weights())
    assert errors(engine) == {("length", None)}


def test_a_server_that_gives_log_probabilities_of_another_temperature_is_refused(server: FakeVllm) -> None:
    engine = engine_of(server)
    server.raw_logprobs = True
    with pytest.raises(InvalidInput, match=r"temperature 1, and the run samples at 0\.5") as caught:
        engine.generate(PROMPTS, sampling(temperature=0.5))
    assert "processed_logprobs" in caught.value.remedy
    assert errors(engine, temperature=1.0) == {("length", None)}


def test_a_temperature_is_looked_at_once(server: FakeVllm) -> None:
    engine = engine_of(server)
    for _ in range(2):
        assert errors(engine, temperature=0.5) == {("length", None)}
    assert len(server.bodies("/v1/completions")) == 2 + 2 * len(PROMPTS)


def test_counters_are_those_since_the_last_look(server: FakeVllm) -> None:
    server.finished = 1000
    engine = engine_of(server)
    engine.generate(PROMPTS, sampling())
    told = dict(engine.metrics())
    assert told["vllm/total_finished_requests"] == 6
    assert told["vllm/latency_e2e_mean"] == 0.5
    assert told["vllm/num_engines"] == 1
    assert dict(engine.metrics())["vllm/total_finished_requests"] == 0


@pytest.mark.parametrize("body", ["<html>", "", "vllm:x{ 1"])
def test_counters_that_cannot_be_read_are_none(server: FakeVllm, body: str) -> None:
    engine = engine_of(server)
    server.answers["/metrics"] = (200, body)
    assert engine.metrics() == {}


def test_the_only_model_is_taken(server: FakeVllm) -> None:
    server.models = ["other"]
    engine_of(server).generate(PROMPTS[:1], sampling())
    assert server.bodies("/v1/completions")[0]["model"] == "other"


def test_one_of_several_models_must_be_named(server: FakeVllm) -> None:
    server.models = ["a", "b"]
    with pytest.raises(NotFound, match="2 models") as caught:
        engine_of(server)
    assert "'a', 'b'" in caught.value.remedy
    engine_of(server, model_name="b").generate(PROMPTS[:1], sampling())
    assert server.bodies("/v1/completions")[0]["model"] == "b"
    with pytest.raises(NotFound, match="none is called 'c'"):
        engine_of(server, model_name="c")


@pytest.mark.parametrize("body", [(404, {"detail": "Not Found"}), (200, "x"), (200, {"data": []}), (200, {"data": 3})])
def test_an_address_that_is_no_such_server_is_unavailable(server: FakeVllm, body: tuple[int, Any]) -> None:
    server.answers["/v1/models"] = body
    with pytest.raises(Unavailable, match="names no models"):
        engine_of(server)


def test_the_key_is_sent_with_each_request_and_told_to_nobody(
    server: FakeVllm, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.key = "sk-very-secret"
    monkeypatch.setenv("ROLLOUT_KEY", "sk-very-secret")
    engine = engine_of(server, key=key_from("ROLLOUT_KEY"))
    assert errors(engine) == {("length", None)}
    assert server.keys == {"Bearer sk-very-secret"}
    server.key = "another"
    with pytest.raises(LedgerError) as caught:
        engine.generate(PROMPTS, sampling())
    assert caught.value.reason == "NOT_PERMITTED"
    assert "secret" not in repr(caught.value.to_dict()) + str(caught.value)


def test_a_server_that_wants_a_key_says_which_setting_names_it(server: FakeVllm) -> None:
    server.key = "sk"
    with pytest.raises(LedgerError) as caught:
        engine_of(server)
    assert caught.value.reason == "NOT_PERMITTED"
    assert "rollouts.api_key_env" in caught.value.remedy


@pytest.mark.parametrize("value", [None, "", "two\nlines"])
def test_a_variable_without_a_key_is_refused_and_its_value_not_told(
    value: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if value is None:
        monkeypatch.delenv("ROLLOUT_KEY", raising=False)
    else:
        monkeypatch.setenv("ROLLOUT_KEY", value)
    with pytest.raises(LedgerError, match="ROLLOUT_KEY") as caught:
        key_from("ROLLOUT_KEY")
    assert "two" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["http://me:pass@127.0.0.1:1", "http://pass:99999", "http://", "ftp://pass", "http://[pass"]
)
def test_an_address_with_a_user_or_none_at_all_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(InvalidInput, match=r"rollouts\.url") as caught:
        OpenAIEngine(url, ends=[1])
    assert "pass" not in repr(caught.value.to_dict())


def test_whoever_stops_the_run_does_not_wait_for_answers(of: Trainer) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, stop)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        engine = OpenAIEngine(f"http://127.0.0.1:{silent.getsockname()[1]}", ends=of.stop_ids, timeout=120)
        timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1))
        began = time.monotonic()
        timer.start()
        try:
            with pytest.raises(KeyboardInterrupt):
                engine.generate(PROMPTS, sampling())
        finally:
            timer.join()
            signal.signal(signal.SIGUSR1, before)
    assert time.monotonic() - began < 60
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("rollouts")]


def test_a_path_in_the_address_comes_before_those_of_the_server(server: FakeVllm) -> None:
    engine = OpenAIEngine(f"{server.url}/behind/", ends=[1], pauses=PAUSES)
    with pytest.raises(Unavailable):
        engine.load(server.trainer.weights())
    assert server.seen[0][0] == "/behind/v1/models"


def test_a_probe_that_lacks_a_token_is_unavailable(server: FakeVllm) -> None:
    engine = engine_of(server)
    for bad in (None, [None], [None, {"9": {"logprob": -1.0}}, {}, None], [None, *[{"9": {"logprob": None}}] * 3]):
        server.choice = {"prompt_logprobs": bad}
        with pytest.raises(Unavailable, match="no log-probabilities of a prompt"):
            engine.probe(PROBE)


def test_closing_twice_is_no_error_and_leaves_no_weights(server: FakeVllm) -> None:
    engine = engine_of(server)
    engine.close()
    engine.close()
    assert engine.weight_version == -1
