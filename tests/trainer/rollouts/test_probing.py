"""Weights that did not arrive, and what the probe makes of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from ledger.core.errors import InvalidInput, Unavailable
from services.trainer.rollouts.engines import Completion, Sampling, Weights
from services.trainer.rollouts.probing import (
    StaleWeights,
    WeightSync,
    forward_logprobs,
    largest_difference,
    probe_tokens,
)
from services.trainer.rollouts.transformers_engine import TransformersEngine
from services.trainer.settings import Settings
from tests.trainer.rollouts.engines_at_work import Trainer, no_folder, trainer

PROBE = [5, 9, 13, 17, 21, 25]
TOLERANCE = 1e-3


class Stubborn(TransformersEngine):
    """Says that it takes weights over and keeps its first ones, as a reload into packed layers does.

    Starting anew cures it, unless it is stubborn `for_good`.
    """

    def __init__(self, of: Trainer, *, for_good: bool) -> None:
        super().__init__(of.model.config, dtype=torch.float32, device="cpu", ends=of.stop_ids)
        self.for_good = for_good
        self.first: dict[str, torch.Tensor] | None = None
        self.loads = 0

    def load(self, weights: Weights) -> None:
        self.loads += 1
        if self.first is None:
            self.first = {name: tensor.clone() for name, tensor in weights.state().items()}
        kept = self.first
        super().load(Weights(weights.version, lambda: kept, no_folder))

    def close(self) -> None:
        super().close()
        if not self.for_good:
            self.first = None


class Scripted:
    """Answers probes from a list; what is an exception is raised by the load before."""

    name = "scripted"
    version = None
    weight_version = -1

    def __init__(self, *answers: list[float] | Exception) -> None:
        self.answers = list(answers)
        self.did: list[str] = []

    def load(self, weights: Weights) -> None:
        del weights
        self.did.append("load")
        if isinstance(self.answers[0], Exception):
            raise self.answers.pop(0)  # type: ignore[misc]  # the line above saw that it is one

    def generate(self, prompts: Sequence[Sequence[int]], sampling: Sampling) -> list[list[Completion]]:
        raise AssertionError("nothing is sampled here")

    def probe(self, token_ids: Sequence[int]) -> list[float]:
        del token_ids
        answer = self.answers.pop(0)
        assert isinstance(answer, list)
        return answer

    def metrics(self) -> Mapping[str, float]:
        return {}

    def close(self) -> None:
        self.did.append("close")


def weights(version: int = 0) -> Weights:
    return Weights(version, dict, lambda: Path("nowhere"))


def scripted(expected: list[list[float]], *answers: list[float] | Exception) -> tuple[Scripted, WeightSync]:
    engine = Scripted(*answers)
    told = iter(expected)
    return engine, WeightSync(engine, [1, 2, 3], lambda _: next(told), TOLERANCE)


def sync_of(engine: Any, of: Trainer) -> WeightSync:
    return WeightSync(engine, PROBE, lambda ids: forward_logprobs(of.model, ids), TOLERANCE)


def test_weights_that_arrive_are_told_with_both_differences() -> None:
    of = trainer()
    sync = sync_of(TransformersEngine(of.model.config, dtype=torch.float32, device="cpu", ends=of.stop_ids), of)
    first = sync.send(of.weights())
    before = forward_logprobs(of.model, PROBE)
    of.update()
    second = sync.send(of.weights())
    assert (first.weight_version, first.moved, first.tries) == (0, None, 1)
    assert first.difference < 1e-5
    assert (second.weight_version, second.tries) == (1, 1)
    assert second.difference < 1e-5
    assert second.moved == largest_difference(before, forward_logprobs(of.model, PROBE)) > TOLERANCE
    assert second.conclusive
    assert second.metrics() == {
        "weights/probe_difference": second.difference,
        "weights/probe_moved": second.moved,
        "weights/probe_conclusive": 1.0,
        "weights/sync_tries": 1.0,
    }
    assert "weights/probe_moved" not in first.metrics()


def test_an_engine_that_keeps_old_weights_for_good_is_found_with_both_numbers_and_a_remedy() -> None:
    of = trainer()
    engine = Stubborn(of, for_good=True)
    sync = sync_of(engine, of)
    sync.send(of.weights())
    of.update()
    with pytest.raises(StaleWeights) as caught:
        sync.send(of.weights())
    assert engine.loads == 3
    difference = float(caught.value.details["difference"])
    assert difference > TOLERANCE
    assert f"{difference:.3g}" in caught.value.message
    assert f"{TOLERANCE:.3g} is allowed" in caught.value.message
    assert "services.trainer.rollouts.serving" in caught.value.remedy
    assert caught.value.reason == "VERIFICATION_FAILED"


def test_an_engine_that_a_new_start_cures_costs_one_more_try() -> None:
    of = trainer()
    engine = Stubborn(of, for_good=False)
    sync = sync_of(engine, of)
    sync.send(of.weights())
    of.update()
    sent = sync.send(of.weights())
    assert sent.tries == 2
    assert engine.loads == 3
    assert sent.difference < 1e-5


def test_an_update_far_below_the_tolerance_is_missed_by_no_engine_that_is_exact_enough() -> None:
    of = trainer()
    sync = sync_of(Stubborn(of, for_good=True), of)
    sync.send(of.weights())
    of.update(by=2e-6)
    with pytest.raises(StaleWeights) as caught:
        sync.send(of.weights())
    assert float(caught.value.details["difference"]) < TOLERANCE


def test_an_update_below_the_tolerance_is_told_apart_by_an_engine_that_is_exact_enough() -> None:
    of = trainer()
    sync = sync_of(TransformersEngine(of.model.config, dtype=torch.float32, device="cpu", ends=of.stop_ids), of)
    sync.send(of.weights())
    of.update(by=2e-6)
    sent = sync.send(of.weights())
    assert sent.moved is not None
    assert 0 < sent.moved < TOLERANCE
    assert sent.conclusive


def test_a_probe_that_cannot_tell_old_from_new_says_so() -> None:
    # The engine's own noise is 4e-4, and the update moved the prompt by 2e-4.
    _, sync = scripted([[-1.0, -2.0], [-1.0002, -2.0]], [-1.0004, -2.0], [-1.0004, -2.0])
    assert sync.send(weights(0)).conclusive
    sent = sync.send(weights(1))
    assert not sent.conclusive
    assert sent.metrics()["weights/probe_conclusive"] == 0.0


def test_a_probe_whose_prompt_did_not_move_at_all_is_not_conclusive() -> None:
    _, sync = scripted([[-1.0, -2.0]] * 2, [-1.0, -2.0], [-1.0, -2.0])
    sync.send(weights(0))
    assert not sync.send(weights(1)).conclusive


def test_old_weights_that_no_single_update_shows_are_found_once_they_add_up() -> None:
    # Each update moves the prompt by 4.5e-4; the engine never moves, and its noise is up to 4e-4.
    expected = [[-1.0 - 4.5e-4 * i, -2.0] for i in range(3)]
    _, sync = scripted(expected, *([-1.0 + noise, -2.0] for noise in (4e-4, -4e-4, 4e-4, 4e-4)))
    assert sync.send(weights(0)).tries == 1
    assert not sync.send(weights(1)).conclusive
    with pytest.raises(StaleWeights):
        sync.send(weights(2))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_log_probabilities_that_are_not_finite_are_stale(bad: float) -> None:
    engine, sync = scripted([[-1.0, -2.0]], [-1.0, bad], [-1.0, bad])
    with pytest.raises(StaleWeights, match="inf"):
        sync.send(weights())
    assert engine.did == ["load", "close", "load"]


def test_log_probabilities_of_another_number_of_tokens_are_stale() -> None:
    _, sync = scripted([[-1.0, -2.0]], [-1.0], [-1.0])
    with pytest.raises(StaleWeights):
        sync.send(weights())


def test_a_difference_of_just_the_tolerance_passes_and_a_larger_one_does_not() -> None:
    _, sync = scripted([[0.0, 0.0]], [TOLERANCE, 0.0])
    assert sync.send(weights()).difference == TOLERANCE
    _, sync = scripted([[0.0, 0.0]], *[[math.nextafter(TOLERANCE, 1), 0.0]] * 2)
    with pytest.raises(StaleWeights):
        sync.send(weights())


def test_an_engine_that_does_not_answer_once_is_started_anew() -> None:
    engine, sync = scripted([[-1.0, -2.0]], Unavailable("away"), [-1.0, -2.0])
    assert sync.send(weights()).tries == 2
    assert engine.did == ["load", "close", "load"]


def test_an_engine_that_does_not_answer_twice_is_unavailable() -> None:
    _, sync = scripted([[-1.0, -2.0]], Unavailable("away"), Unavailable("still away"))
    with pytest.raises(Unavailable, match="still away"):
        sync.send(weights())


def test_weights_that_were_not_taken_are_not_what_the_next_ones_are_compared_with() -> None:
    _, sync = scripted([[-1.0, -2.0], [-1.5, -2.0], [-1.7, -2.0]], [-1.0, -2.0], *[[-9.0, -2.0]] * 2, [-1.7, -2.0])
    sync.send(weights(0))
    with pytest.raises(StaleWeights):
        sync.send(weights(1))
    assert sync.send(weights(2)).moved == pytest.approx(0.7)


def test_the_trainers_forward_pass_leaves_the_models_mode_and_takes_no_gradient() -> None:
    of = trainer()
    of.model.train()
    found = forward_logprobs(of.model, PROBE)
    assert of.model.training
    assert found == pytest.approx(of.sampled_logprobs(PROBE[:1], PROBE[1:], 1.0), abs=1e-6)
    of.model.eval()
    forward_logprobs(of.model, PROBE)
    assert not of.model.training


def settings(**rollouts: Any) -> Settings:
    return Settings.model_validate(
        {
            "run": {"id": "r1", "folder": "/tmp/r1", "steps": 1},
            "model": {"kind": "tiny-qwen3"},
            "data": [{"kind": "digits"}],
            "rollouts": rollouts,
        }
    )


def test_the_probe_is_the_settings_prompt_in_the_models_tokens() -> None:
    of = trainer()
    tokens = probe_tokens(settings(probe_prompt="a fox"), of.tokenizer)
    assert of.tokenizer.decode(tokens) == "a fox"
    assert len(probe_tokens(settings(), of.tokenizer)) > 8


def test_a_probe_of_one_token_is_refused() -> None:
    with pytest.raises(InvalidInput, match="probe_prompt"):
        probe_tokens(settings(probe_prompt="a"), trainer().tokenizer)
