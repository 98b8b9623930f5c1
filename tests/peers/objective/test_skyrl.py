"""The objective against SkyRL's own functions, older and newer."""

from __future__ import annotations

import random
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from services.trainer.objective.advantages import rloo
from services.trainer.objective.batches import MicroBatch, MiniBatch, Samples
from services.trainer.objective.importance import importance
from services.trainer.objective.losses import Divergence, clipped, divergences, ratios
from services.trainer.objective.objective import Objective
from services.trainer.objective.reductions import token_weights
from services.trainer.settings import Algorithm, Reduction
from tests.peers.objective import skyrl_modules

pytestmark = pytest.mark.peers

SEEDS = range(20)
COMMON: tuple[Reduction, ...] = ("token_mean", "sequence_mean", "seq_mean_token_sum_norm")
LENGTH = 144
SINGLE = 1e-6
"""SkyRL takes exponents in float32, whatever it is given."""


@pytest.fixture(scope="module")
def older() -> ModuleType:
    return skyrl_modules.older()


@pytest.fixture(scope="module")
def newer() -> SimpleNamespace:
    return skyrl_modules.newer()


class Case:
    """Random numbers for eight sequences of up to six tokens."""

    def __init__(self, seed: int) -> None:
        rng, numbers = random.Random(seed), torch.Generator().manual_seed(seed)
        self.mask = torch.tensor(
            [[1.0] * n + [0.0] * (6 - n) for n in (rng.randint(1, 6) for _ in range(8))], dtype=torch.float64
        )
        self.advantages = torch.tensor([rng.choice([-1.0, 0.0, 0.5, 2.0]) for _ in range(8)], dtype=torch.float64)
        self.logits, self.old, self.rollout = (
            torch.randn(shape, generator=numbers, dtype=torch.float64) for shape in ((8, 6, 5), (8, 6), (8, 6))
        )
        self.tokens = torch.randint(5, (8, 6), generator=numbers)
        self.new = self.logits.log_softmax(-1).gather(-1, self.tokens.unsqueeze(-1)).squeeze(-1)
        self.old, self.rollout = self.new + 0.3 * self.old, self.new + 0.5 * self.rollout
        self.spread = self.advantages.unsqueeze(1) * self.mask

    @property
    def mini(self) -> MiniBatch:
        return MiniBatch.of(self.mask, self.advantages)

    def ours(self, settings: Algorithm) -> tuple[dict[str, float], Tensor]:
        """Metrics, and the gradient of the logits."""
        micro = MicroBatch(
            tokens=self.tokens,
            mask=self.mask,
            advantages=self.advantages,
            old_logprobs=self.old,
            rollout_logprobs=self.rollout,
            reference_logprobs=self.rollout,
        )
        logits = self.logits.clone().requires_grad_()
        objective = Objective(settings)
        loss = objective.loss(micro, self.mini, logits=logits)
        loss.total.backward()
        assert logits.grad is not None
        return objective.finish(loss.sums, updates=1), logits.grad

    def theirs(self) -> tuple[Tensor, Tensor]:
        """Logits with a gradient, and the log-probabilities that they give."""
        logits = self.logits.clone().requires_grad_()
        return logits, logits.log_softmax(-1).gather(-1, self.tokens.unsqueeze(-1)).squeeze(-1)


@pytest.mark.parametrize("seed", SEEDS)
def test_leave_one_out_advantages(older: ModuleType, seed: int) -> None:
    rng = random.Random(seed)
    groups = [rng.randrange(3) for _ in range(12)]
    scores = torch.tensor([rng.choice([0.0, 0.25, 1.0]) for _ in groups], dtype=torch.float64)
    rewards = torch.zeros(12, 4, dtype=torch.float64)
    rewards[:, 2] = scores
    theirs, _ = older.compute_rloo_outcome_advantage(rewards, torch.ones(12, 4), np.array(groups))
    ours = rloo(scores, torch.tensor(groups)).values
    assert ours.tolist() == pytest.approx(theirs[:, 0].tolist(), abs=1e-12)


@pytest.mark.parametrize("kind", COMMON)
@pytest.mark.parametrize("seed", SEEDS)
def test_reductions_over_one_micro_batch(older: ModuleType, kind: Reduction, seed: int) -> None:
    case = Case(seed)
    theirs = older.reduce_loss(case.rollout, case.mask, kind, LENGTH)
    ours = (case.rollout * token_weights(kind, case.mask, case.mini, LENGTH)).sum()
    assert float(ours) == pytest.approx(float(theirs), abs=1e-12)


@pytest.mark.parametrize("kind", COMMON)
@pytest.mark.parametrize("micro", [1, 2, 8])
def test_reductions_over_a_mini_batch_whatever_the_micro_batch(
    newer: SimpleNamespace, kind: Reduction, micro: int
) -> None:
    case = Case(3)
    scaled = newer.ppo.apply_loss_reduction_to_advantages_minibatch(case.spread, case.mask, kind, micro, LENGTH)
    theirs = newer.ppo.reduce_loss(case.old * scaled, case.mask)
    ours = (case.old * case.spread * token_weights(kind, case.mask, case.mini, LENGTH)).sum()
    assert float(ours) == pytest.approx(float(theirs), abs=1e-12)


def test_their_legacy_form_is_neither_and_differs_from_size_to_size(newer: SimpleNamespace) -> None:
    case = Case(3)
    found = {}
    for micro in (1, 2, 8):
        scaled = newer.ppo.apply_loss_reduction_to_advantages_minibatch(
            case.spread, case.mask, "token_mean_legacy", micro, LENGTH
        )
        found[micro] = float((case.old * scaled * case.mask).sum())
    sequence_mean, token_mean = (
        float((case.old * case.spread * token_weights(kind, case.mask, case.mini, LENGTH)).sum())
        for kind in ("sequence_mean", "token_mean")
    )
    assert found[1] == pytest.approx(sequence_mean)
    assert found[8] == pytest.approx(token_mean)
    assert len({round(value, 9) for value in found.values()}) == 3


@pytest.mark.parametrize("kind", COMMON)
@pytest.mark.parametrize("cap", [None, 1.3])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_policy_s_loss_and_its_gradient(older: ModuleType, kind: Reduction, cap: float | None, seed: int) -> None:
    case = Case(seed)
    settings = Algorithm(loss_reduction=kind, eps_clip_high=0.05, use_tis=cap is not None, tis_imp_ratio_cap=cap)
    logits, new = case.theirs()
    config = SimpleNamespace(
        policy_loss_type="regular",
        loss_reduction=kind,
        eps_clip_low=0.2,
        eps_clip_high=0.05,
        use_tis=cap is not None,
        tis_imp_ratio_cap=cap,
        max_seq_len=LENGTH,
    )
    loss, clip_ratio = older.ppo_policy_loss(new, case.old, case.spread, config, case.mask, case.rollout)
    loss.backward()
    metrics, gradient = case.ours(settings)
    assert metrics["policy/policy_loss"] == pytest.approx(loss.item(), abs=SINGLE)
    assert metrics["policy/ppo_clip_ratio"] == pytest.approx(clip_ratio, abs=SINGLE)
    assert logits.grad is not None
    assert gradient.flatten().tolist() == pytest.approx(logits.grad.flatten().tolist(), abs=SINGLE)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_policy_s_loss_of_the_newer_package(newer: SimpleNamespace, seed: int) -> None:
    case = Case(seed)
    _, new = case.theirs()
    off = dict.fromkeys(
        ("sequence_mask_metric", "outlier_token_is_threshold_low", "outlier_token_is_threshold_high",
         "token_mask_is_threshold_low", "token_mask_is_threshold_high")
    )  # fmt: skip  # read as one list of what is off
    correction = SimpleNamespace(tis_ratio_type="token", token_tis_ratio_clip_high=1.3, **off)
    config = SimpleNamespace(
        policy_loss_type="regular", eps_clip_low=0.2, eps_clip_high=0.2, off_policy_correction=correction
    )
    scaled = newer.ppo.apply_loss_reduction_to_advantages_minibatch(case.spread, case.mask, "token_mean", 8, LENGTH)
    loss, theirs = newer.ppo.ppo_policy_loss(new, case.old, scaled, config, case.mask, case.rollout)
    ours, _ = case.ours(Algorithm(use_tis=True, tis_imp_ratio_cap=1.3))
    assert ours["policy/policy_loss"] == pytest.approx(loss.item(), abs=SINGLE)
    assert ours["policy/ppo_clip_ratio"] == pytest.approx(theirs["clip_ratio"], abs=SINGLE)


@pytest.mark.parametrize("seed", SEEDS)
def test_importance_weights(newer: SimpleNamespace, seed: int) -> None:
    case = Case(seed)
    config = SimpleNamespace(token_tis_ratio_clip_high=1.3)
    theirs, metrics = newer.correction.compute_tis_ratio(case.old, case.rollout, case.mask, "token", config)
    ours = importance(case.old, case.rollout, None, case.mask, 1.3)
    inside = case.mask.bool()
    assert ours.weights[inside].tolist() == pytest.approx(theirs[inside].tolist(), abs=SINGLE)
    assert float(ours.capped.sum() / inside.sum()) == pytest.approx(metrics["tis_token_clip_high_ratio"], abs=SINGLE)


@pytest.mark.parametrize("kind", ["k1", "k2", "k3", "abs"])
@pytest.mark.parametrize("scale", [0.1, 3.0, 30.0])
def test_divergences(older: ModuleType, newer: SimpleNamespace, kind: Divergence, scale: float) -> None:
    case = Case(4)
    new, base = case.old * scale, case.rollout * scale
    for package in (older, newer.ppo):
        theirs = package.compute_approx_kl(new, base, kl_estimator_type=kind)
        assert divergences(new, base, kind).flatten().tolist() == pytest.approx(theirs.flatten().tolist(), abs=1e-12)


def test_the_kl_s_loss(older: ModuleType) -> None:
    case = Case(5)
    theirs = older.compute_approx_kl(case.new, case.rollout, case.mask, "k3")
    theirs = older.masked_mean(theirs, case.mask, dim=-1).mean()
    ours, _ = case.ours(Algorithm(use_kl_loss=True))
    assert ours["policy/policy_kl"] == pytest.approx(float(theirs), abs=1e-12)


def test_ratios_far_away(older: ModuleType) -> None:
    far = torch.tensor([-100.0, -20.5, 0.0, 20.5, 100.0], dtype=torch.float64)
    theirs = older._safe_exp_delta(far, clip=20.0, out_dtype=far.dtype)
    assert ratios(far, torch.zeros_like(far)).tolist() == pytest.approx(theirs.tolist())
    assert clipped(ratios(far, torch.zeros_like(far)), torch.ones(5), 0.2, 0.2)[1].tolist() == [False] * 3 + [True] * 2


def test_the_metrics_of_advantages_are_means_over_tokens() -> None:
    mask = torch.tensor([[1, 1, 1], [1, 0, 0]])
    found = Objective(Algorithm()).advantages(
        Samples(rewards=torch.tensor([1.0, 0.0]), groups=torch.zeros(2), mask=mask)
    )
    spread: Any = found.values.unsqueeze(1).expand(2, 3)
    assert found.metrics["loss/avg_raw_advantages"] == pytest.approx(
        float(torch.masked_select(spread, mask.bool()).mean())
    )
