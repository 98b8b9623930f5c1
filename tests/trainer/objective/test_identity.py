"""What two runs must share to have had the same objective."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from ledger.events.runs import Algorithm as RecordedAlgorithm
from services.trainer.objective import identity as module
from services.trainer.objective.identity import (
    OPTIMIZER,
    algorithm_fields,
    code_digest,
    effective,
    identity,
    identity_digest,
)
from services.trainer.settings import Algorithm, Settings

RLOO_N = {"advantage_estimator": "rloo_n"}
KL = {"use_kl_loss": True}
TIS = {"use_tis": True, "tis_imp_ratio_cap": 2.0}
ENTROPY = {"use_entropy_loss": True}

CHANGES: dict[str, tuple[dict[str, Any], Any]] = {
    "advantage_estimator": ({}, "rloo_n"),
    "rloo_n_min_group_size": (RLOO_N, 3),
    "loss_reduction": ({}, "sequence_mean"),
    "eps_clip_low": ({}, 0.1),
    "eps_clip_high": ({}, 0.1),
    "use_kl_loss": ({}, True),
    "use_kl_in_reward": ({}, True),
    "kl_loss_coef": (KL, 0.5),
    "kl_estimator_type": (KL, "k1"),
    "use_entropy_loss": ({}, True),
    "entropy_loss_coef": (ENTROPY, 0.5),
    "use_tis": ({"tis_imp_ratio_cap": None}, True),
    "tis_imp_ratio_cap": (TIS, 3.0),
    "train_batch_size": ({}, 16),
    "policy_mini_batch_size": ({}, 4),
    "micro_train_batch_size_per_gpu": ({}, 1),
    "update_epochs_per_batch": ({}, 2),
    "n_samples_per_prompt": ({}, 8),
    "temperature": ({}, 0.7),
    "max_input_length": ({}, 64),
    "max_generate_length": ({}, 8),
    "errors": (RLOO_N, "zero"),
}
"""Of each setting: those that it needs to have an effect, and another value than its default."""


def changed(name: str) -> tuple[Algorithm, Algorithm]:
    needs, value = CHANGES[name]
    after = needs | {name: value} | (TIS if name == "use_tis" else {})
    return Algorithm.model_validate(needs), Algorithm.model_validate(after)


@pytest.mark.parametrize("name", CHANGES)
def test_a_setting_that_changes_makes_another_objective(name: str) -> None:
    before, after = changed(name)
    assert identity_digest(before, 1) != identity_digest(after, 1)


def test_every_setting_is_of_the_objective_or_of_the_optimizer() -> None:
    one_valued = {"policy_loss_type"}
    assert set(CHANGES) | OPTIMIZER | one_valued == set(Algorithm.model_fields)
    assert not set(CHANGES) & OPTIMIZER


@pytest.mark.parametrize("name", sorted(OPTIMIZER))
def test_a_setting_of_the_optimizer_does_not(name: str) -> None:
    assert identity_digest(Algorithm(), 1) == identity_digest(Algorithm.model_validate({name: 7}), 1)


def test_the_number_of_processes_is_part_of_it() -> None:
    assert identity_digest(Algorithm(), 1) != identity_digest(Algorithm(), 2)


@pytest.mark.parametrize(
    "said",
    [
        {**RLOO_N, "rloo_n_min_group_size": 2},
        {**KL, "kl_loss_coef": 1e-3},
        {**ENTROPY, "entropy_loss_coef": 1e-2},
        {"policy_mini_batch_size": 8},
        {"errors": "zero"},
    ],
)
def test_a_default_that_is_written_out_is_the_same_objective(said: dict[str, Any]) -> None:
    silent = {k: v for k, v in said.items() if k in {"advantage_estimator", "use_kl_loss", "use_entropy_loss"}}
    assert identity(Algorithm.model_validate(said), 1) == identity(Algorithm.model_validate(silent), 1)


def test_a_setting_without_an_effect_is_null() -> None:
    found = effective(Algorithm())
    assert found["kl_estimator_type"] is None
    assert found["kl_loss_coef"] is None
    assert found["entropy_loss_coef"] is None
    assert effective(Algorithm(use_kl_in_reward=True))["kl_estimator_type"] == "k3"


def test_the_code_is_part_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = tmp_path / "objective"
    shutil.copytree(Path(module.__file__).parent, copy)
    monkeypatch.setattr(module, "__file__", str(copy / "identity.py"))
    assert code_digest() == identity(Algorithm(), 1)["code"]
    before = identity_digest(Algorithm(), 1)
    losses = copy / "losses.py"
    losses.write_text(
        losses.read_text("utf-8").replace("MAX_EXPONENT: Final = 20.0", "MAX_EXPONENT: Final = 21.0"), "utf-8"
    )
    assert identity_digest(Algorithm(), 1) != before


def test_what_a_run_declares_is_in_its_own_words_and_the_rest_beside_it() -> None:
    settings = Settings.model_validate(
        {
            "run": {"id": "r", "folder": "/r", "steps": 1, "seed": 5},
            "model": {"kind": "tiny-qwen3"},
            "data": [{"kind": "digits"}],
            "algorithm": RLOO_N | TIS | {"learning_rate": 1e-4},
        }
    )
    found = algorithm_fields(settings, 2)
    recorded = RecordedAlgorithm.model_validate(found)
    assert (recorded.advantage_estimator, recorded.rloo_n_min_group_size, recorded.seed) == ("rloo_n", 2, 5)
    assert (recorded.policy_mini_batch_size, recorded.tis_imp_ratio_cap, recorded.learning_rate) == (8, 2.0, 1e-4)
    assert recorded.other == {
        "kl_estimator_type": None,
        "warmup_steps": 0,
        "weight_decay": 0.0,
        "max_grad_norm": 1.0,
        "errors": "mask",
        "max_seq_len": 144,
        "world_size": 2,
        "objective": identity_digest(settings.algorithm, 2),
        "objective_code": code_digest(),
    }
