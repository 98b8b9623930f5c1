"""Which engine the settings open, and what is refused before anything runs."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from typing import Any

import pytest
import torch

from ledger.core.errors import InvalidInput, LedgerError
from services.trainer.models import load
from services.trainer.rollouts.engines import Sampling
from services.trainer.rollouts.openai_engine import OpenAIEngine
from services.trainer.rollouts.opening import open_engine
from services.trainer.rollouts.probing import WeightSync, forward_logprobs, probe_tokens
from services.trainer.rollouts.transformers_engine import TransformersEngine
from services.trainer.settings import Settings
from tests.trainer.rollouts.engines_at_work import Trainer


def settings(**rollouts: Any) -> Settings:
    return Settings.model_validate(
        {
            "run": {"id": "r1", "folder": "/tmp/r1", "steps": 1},
            "model": {"kind": "tiny-qwen3", "hidden_size": 32, "device": "cpu"},
            "data": [{"kind": "digits"}],
            "rollouts": rollouts,
        }
    )


def test_the_engine_of_a_loaded_model_takes_its_weights_and_samples() -> None:
    chosen = settings()
    loaded = load(chosen.model)
    engine = open_engine(chosen, loaded)
    assert isinstance(engine, TransformersEngine)
    sync = WeightSync(
        engine,
        probe_tokens(chosen, loaded.tokenizer),
        lambda ids: forward_logprobs(loaded.model, ids),
        chosen.rollouts.probe_tolerance,
    )
    assert sync.send(Trainer(loaded.model, loaded.tokenizer).weights()).difference < 1e-5
    (group,) = engine.generate([loaded.prompt_ids("7")], Sampling(n=2, max_tokens=4, temperature=1.0, seed=1))
    assert all(c.finish in ("stop", "length") for c in group)


def test_a_server_is_named_by_its_address_and_its_key_by_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = settings(engine="openai", url="http://127.0.0.1:1", api_key_env="ROLLOUT_KEY")
    loaded = load(chosen.model)
    monkeypatch.delenv("ROLLOUT_KEY", raising=False)
    with pytest.raises(LedgerError, match="ROLLOUT_KEY") as caught:
        open_engine(chosen, loaded)
    assert caught.value.reason == "NOT_PERMITTED"
    monkeypatch.setenv("ROLLOUT_KEY", "sk")
    assert isinstance(open_engine(chosen, loaded), OpenAIEngine)


@pytest.mark.skipif(importlib.util.find_spec("vllm") is not None, reason="it is about an environment without vLLM")
def test_vllm_that_is_not_installed_is_refused_with_the_extra_that_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", dict(os.environ))
    chosen = settings(engine="vllm")
    with pytest.raises(LedgerError, match="vllm") as caught:
        open_engine(chosen, load(chosen.model))
    assert caught.value.reason == "EXTRA_MISSING"
    assert caught.value.details["extra"] == "vllm"
    assert "atlas-ledger[vllm]" in caught.value.remedy


def test_vllm_on_a_cpu_is_refused_in_a_run_of_several_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = settings(engine="vllm")
    loaded = load(chosen.model)
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    with pytest.raises(InvalidInput, match="only one") as caught:
        open_engine(chosen, loaded)
    assert "openai" in caught.value.remedy


def test_opening_imports_neither_torch_nor_vllm() -> None:
    code = (
        "import sys, services.trainer.rollouts.opening, services.trainer.rollouts.openai_engine, "
        "services.trainer.rollouts.probing\n"
        "print(sorted({'torch', 'transformers', 'vllm', 'prometheus_client'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
