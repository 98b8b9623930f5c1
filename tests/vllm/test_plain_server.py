"""A server as vLLM starts it by itself, with its packed layers: what must not go unnoticed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger.core.errors import InvalidInput
from services.trainer.rollouts.engines import Sampling
from services.trainer.rollouts.openai_engine import OpenAIEngine
from services.trainer.rollouts.probing import StaleWeights, WeightSync, forward_logprobs
from tests.vllm.serving_at_work import Server, serving, trainer_in

pytestmark = pytest.mark.vllm
PROBE = [5, 9, 13, 17, 21, 25, 29]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("plain")
    module = "vllm.entrypoints.openai.api_server"
    with serving(module, trainer_in(folder).folder(), folder / "log", "--enforce-eager") as running:
        yield running


def test_weights_that_packed_layers_kept_are_found_and_no_second_load_hides_it(server: Server, tmp_path: Path) -> None:
    of = trainer_in(tmp_path)
    engine = OpenAIEngine(server.url, ends=of.stop_ids)
    sync = WeightSync(engine, PROBE, lambda ids: forward_logprobs(of.model, ids), 1e-3)
    assert sync.send(of.weights()).difference < 1e-4
    of.update()
    with pytest.raises(StaleWeights) as caught:
        sync.send(of.weights())
    assert float(caught.value.details["difference"]) > 0.01
    assert "services.trainer.rollouts.serving" in caught.value.remedy


def test_log_probabilities_before_the_temperature_are_refused(server: Server, tmp_path: Path) -> None:
    of = trainer_in(tmp_path)
    engine = OpenAIEngine(server.url, ends=of.stop_ids)
    engine.load(of.weights())
    with pytest.raises(InvalidInput, match="at temperature 1"):
        engine.generate([[5, 6, 7]], Sampling(n=1, max_tokens=4, temperature=0.5, seed=1))
