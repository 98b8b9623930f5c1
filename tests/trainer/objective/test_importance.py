"""Importance weights: their cap, and the sequences that have none."""

from __future__ import annotations

import math

import pytest
import torch

from services.trainer.objective.importance import importance

OLD = torch.tensor([[-1.0, -1.0, -1.0], [-1.0, -2.0, -1.0]], dtype=torch.float64)
ROLLOUT = torch.tensor([[-1.0, -2.0, -0.5], [-3.0, -1.0, math.nan]], dtype=torch.float64)
MASK = torch.tensor([[1, 1, 1], [1, 1, 0]])


def test_a_weight_is_capped_above_and_not_below() -> None:
    found = importance(OLD, ROLLOUT, None, MASK, 2.0)
    assert found.weights[0].tolist() == pytest.approx([1.0, 2.0, math.exp(-0.5)])
    assert found.weights[1].tolist() == pytest.approx([2.0, math.exp(-1), 1.0])
    assert found.capped.tolist() == [[False, True, False], [True, False, False]]
    assert found.ratio[0].tolist() == pytest.approx([1.0, math.e, math.exp(-0.5)])


def test_a_sequence_without_log_probabilities_has_the_weight_1_and_counts_as_not_applied() -> None:
    found = importance(OLD, ROLLOUT, torch.tensor([True, False]), MASK, 2.0)
    assert found.weights[1].tolist() == [1.0, 1.0, 1.0]
    assert found.applied.tolist() == [[True, True, True], [False, False, False]]


def test_a_probability_of_1_in_their_place_would_be_a_correction() -> None:
    filled = importance(OLD, torch.zeros_like(OLD), None, MASK, 2.0)
    assert filled.weights[0].tolist() == pytest.approx([math.exp(-1)] * 3)


def test_without_any_log_probabilities_nothing_is_applied() -> None:
    found = importance(OLD, None, None, MASK, 0.5)
    assert found.weights.tolist() == [[1.0] * 3] * 2
    assert not bool(found.applied.any())


def test_a_cap_below_1_leaves_what_is_not_applied_alone() -> None:
    found = importance(OLD, ROLLOUT, torch.tensor([True, False]), MASK, 0.5)
    assert found.weights.tolist() == [[0.5, 0.5, 0.5], [1.0, 1.0, 1.0]]


def test_what_stands_outside_of_the_mask_is_not_read() -> None:
    assert bool(importance(OLD, ROLLOUT, None, MASK, 2.0).weights.isfinite().all())
    assert not bool(importance(OLD, ROLLOUT, None, torch.ones(2, 3), 2.0).weights.isfinite().all())


def test_an_exponent_is_clamped_and_the_difference_is_told_as_it_is() -> None:
    found = importance(torch.zeros(1, 1), torch.full((1, 1), -50.0), None, torch.ones(1, 1), 1e20)
    assert float(found.weights) == pytest.approx(math.exp(20))
    assert float(found.log_ratio) == 50.0


def test_weights_have_no_gradient() -> None:
    old = OLD.clone().requires_grad_()
    assert not importance(old, ROLLOUT, None, MASK, 2.0).weights.requires_grad
