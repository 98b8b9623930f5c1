"""Each switch of the algorithm in the real loop: what it measures is there, and what is off is absent and not 0."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ledger.client.rollouts import path_of, read_rollouts
from ledger.client.testing import FakeLedger
from services.trainer.attempts import Opening
from services.trainer.models import LoadedModel
from services.trainer.rollouts.engines import Completion, Sampling
from services.trainer.rollouts.transformers_engine import TransformersEngine
from services.trainer.settings import Settings
from tests.trainer.runs import settings, train

KL_LOSS = {"policy/policy_kl"}
KL_REWARD = {"loss/avg_kl", "loss/avg_kl_max", "loss/kl_loss_coef"}
TIS = {
    "tis/batch_skipped_no_logprobs",
    "tis/skipped_fraction",
    "policy/tis/applied_token_fraction",
    "policy/tis/applied_sequence_fraction",
    "policy/tis/imp_ratio_mean",
    "policy/tis/imp_ratio_capped_fraction",
    "policy/tis/log_ratio_abs_mean",
}
OPTIONAL = KL_LOSS | KL_REWARD | TIS


def metrics_of(folder: Path, steps: int = 2, **algorithm: Any) -> list[Mapping[str, float]]:
    with FakeLedger() as ledger:
        train(settings(folder, run={"steps": steps}, algorithm=algorithm), address=ledger.address)
    return [event.payload["steps"][0]["metrics"] for event in ledger.of_type("steps.logged")]


@pytest.mark.parametrize(
    ("algorithm", "measured"),
    [
        ({}, set()),
        ({"use_kl_loss": True}, KL_LOSS),
        ({"use_kl_in_reward": True}, KL_REWARD),
        ({"use_entropy_loss": True, "entropy_loss_coef": 0.1}, set()),
        ({"use_tis": True, "tis_imp_ratio_cap": 2.0}, TIS),
    ],
    ids=["plain", "kl loss", "kl in reward", "entropy loss", "tis"],
)
def test_what_is_measured_is_finite_and_what_is_off_is_absent(tmp_path, algorithm, measured):
    for metrics in metrics_of(tmp_path, **algorithm):
        assert OPTIONAL & metrics.keys() == measured
        assert all(isinstance(value, (int, float)) and math.isfinite(value) for value in metrics.values())
        assert metrics["policy/policy_entropy"] > 0


def test_an_entropy_loss_is_in_the_final_loss_and_changes_the_weights(tmp_path):
    plain = metrics_of(tmp_path / "plain")
    added = metrics_of(tmp_path / "added", use_entropy_loss=True, entropy_loss_coef=0.1)
    first = added[0]
    assert first["policy/policy_entropy"] == plain[0]["policy/policy_entropy"]
    expected = first["policy/policy_loss"] - 0.1 * first["policy/policy_entropy"]
    assert first["policy/final_loss"] == pytest.approx(expected, rel=1e-6)
    assert added[1]["policy/policy_entropy"] > plain[1]["policy/policy_entropy"]


def test_importance_weights_of_an_engine_that_agrees_are_one_and_a_cap_below_binds_on_all(tmp_path):
    for metrics in metrics_of(tmp_path / "agrees", use_tis=True, tis_imp_ratio_cap=2.0):
        assert metrics["policy/tis/imp_ratio_mean"] == pytest.approx(1.0, abs=1e-4)
        assert metrics["policy/tis/imp_ratio_capped_fraction"] == 0
        assert metrics["policy/tis/applied_token_fraction"] == 1
        assert metrics["tis/skipped_fraction"] == 0
    [plain], [held] = (
        metrics_of(tmp_path / "plain", 1),
        metrics_of(tmp_path / "held", 1, use_tis=True, tis_imp_ratio_cap=0.5),
    )
    assert held["policy/tis/imp_ratio_capped_fraction"] == 1
    assert held["policy/raw_grad_norm"] == pytest.approx(plain["policy/raw_grad_norm"] / 2, rel=1e-4)


def test_a_kl_that_costs_reward_moves_the_scores_and_never_the_reward_that_is_told(tmp_path):
    """At the start the policy is the reference, and nothing is taken off."""
    first, *_, last = metrics_of(tmp_path, 4, use_kl_in_reward=True, kl_loss_coef=10.0)
    assert first["loss/avg_final_rewards"] == pytest.approx(first["reward/avg_raw_reward"], abs=1e-5)
    assert last["loss/avg_kl_max"] > 1e-3
    assert last["loss/avg_final_rewards"] < last["reward/avg_raw_reward"] - 1e-3


def test_more_epochs_over_a_batch_make_more_updates_and_clip(tmp_path):
    once = metrics_of(tmp_path / "once")
    often = metrics_of(tmp_path / "often", update_epochs_per_batch=4, policy_mini_batch_size=2, eps_clip_high=0.02)
    assert [m["policy/policy_update_steps"] for m in once] == [1, 1]
    assert [m["policy/policy_update_steps"] for m in often] == [8, 8]
    assert all(m["policy/ppo_clip_ratio"] == 0 for m in once)
    assert any(m["policy/ppo_clip_ratio"] > 0 for m in often)
    assert any(m["policy/log_ratio_abs_mean"] > 0 for m in often)


class FailsFrom(TransformersEngine):
    """From its second batch on it answers nothing."""

    batches = 0

    def generate(self, prompts: Sequence[Sequence[int]], sampling: Sampling) -> list[list[Completion]]:
        self.batches += 1
        if self.batches == 1:
            return super().generate(prompts, sampling)
        return [[Completion((), None, "error", "Broken")] * sampling.n for _ in prompts]


def failing() -> Opening:
    def opened(_: Settings, loaded: LoadedModel) -> TransformersEngine:
        return FailsFrom(loaded.model.config, dtype=loaded.model.dtype, device=loaded.device, ends=loaded.stop_ids)

    return opened


def test_a_step_of_which_every_rollout_failed_makes_no_update(tmp_path):
    """Neither momentum nor weight decay moves the weights: nothing was learnt."""
    algorithm = {"advantage_estimator": "rloo_n", "weight_decay": 0.1, "use_tis": True, "tis_imp_ratio_cap": 2.0}
    with FakeLedger() as ledger:
        ran = train(
            settings(tmp_path, run={"steps": 2, "checkpoint_interval": 1}, algorithm=algorithm),
            address=ledger.address,
            opening=failing(),
        )
    first, second = (event.payload["steps"][0]["metrics"] for event in ledger.of_type("steps.logged"))
    assert first["policy/updates_left_out"] == 0
    assert second["policy/updates_left_out"] == 1
    assert ran.weights(1) == ran.weights(2)
    assert "reward/avg_raw_reward" not in second
    assert "policy/policy_entropy" not in second
    assert second["rloo_n/groups_all_excluded"] == 4
    assert second["tis/batch_skipped_no_logprobs"] == 1
    assert second["tis/skipped_fraction"] == 0.5
    assert {g["disposition"] for g in ledger.of_type("groups.disposed")[1].payload["groups"]} == {"masked"}
    assert all(r.masked and not r.trained and r.advantage is None for r in read_rollouts(path_of(tmp_path, 1, 2)))


def test_with_rloo_failures_count_as_zero_and_the_step_is_made(tmp_path):
    with FakeLedger() as ledger:
        train(settings(tmp_path, run={"steps": 2}), address=ledger.address, opening=failing())
    second = ledger.of_type("steps.logged")[1].payload["steps"][0]["metrics"]
    assert second["reward/avg_raw_reward"] == 0
    assert second["rloo/groups_tied"] == 4
