"""A real model of 135 million parameters for a few steps: on our sums, and on tasks of reasoning-gym."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ledger.client.testing import FakeLedger
from services.trainer.options import Options
from services.trainer.running import run
from services.trainer.settings import Settings
from tests.peers.test_smollm2_model import gguf

pytestmark = pytest.mark.peers


def smollm2(folder: Path, data: dict[str, Any]) -> Settings:
    return Settings.model_validate(
        {
            "run": {"id": "smollm2", "folder": folder, "steps": 2, "checkpoint_interval": 1},
            "model": {"kind": "gguf", "path": gguf(), "root": {"name": "SmolLM2-135M"}},
            "data": [data],
            "algorithm": {
                "advantage_estimator": "rloo_n",
                "train_batch_size": 2,
                "n_samples_per_prompt": 4,
                "micro_train_batch_size_per_gpu": 4,
                "max_input_length": 192,
                "max_generate_length": 24,
                "learning_rate": 1e-5,
            },
            "export": {"enabled": True},
        }
    )


@pytest.mark.parametrize(
    "data",
    [
        {"kind": "sums", "count": 8},
        {"kind": "reasoning-gym", "name": "chain_sum", "verifier": "last-number", "count": 8},
    ],
    ids=lambda data: data["kind"],
)
def test_it_trains_is_saved_and_exported(tmp_path, data):
    with FakeLedger() as ledger:
        outcome = run(smollm2(tmp_path, data), Options(address=ledger.address), tell=lambda _: None)
    steps = [e.payload["steps"][0]["metrics"] for e in ledger.of_type("steps.logged")]
    assert len(steps) == 2
    assert all(0 <= metrics["reward/avg_raw_reward"] <= 1 for metrics in steps)
    assert all(0 < metrics["policy/policy_entropy"] < 11 for metrics in steps)
    assert max(e.payload["probe_difference"] for e in ledger.of_type("weights.synced")) < 1e-3
    assert outcome.steps_saved == [1, 2]
    exported = ledger.of_type("export.completed")[0].payload
    assert exported["parameter_count"] == 134_515_008
    assert exported["tied_weights"]
    assert ledger.of_type("export.verified")
