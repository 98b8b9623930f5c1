"""Reductions: against their formulas, and the trap of the micro-batch."""

from __future__ import annotations

import math
import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from services.trainer.objective.batches import MiniBatch
from services.trainer.objective.reductions import token_weights
from services.trainer.settings import Reduction
from tests.trainer.objective import reference
from tests.trainer.objective.batching import REDUCTIONS, algorithm, numbers, row, rows_of, trained
from tests.trainer.objective.reference import Row


@given(rows_of(), st.sampled_from(REDUCTIONS), st.integers(0, 2**32))
def test_weighted_losses_add_up_to_the_formula(rows: list[Row], kind: Reduction, seed: int) -> None:
    rng = random.Random(seed)
    losses = [[rng.gauss(0, 1) for _ in r.mask] for r in rows]
    weights = token_weights(kind, torch.tensor([r.mask for r in rows]), numbers(rows), 7)
    found = float((torch.tensor(losses, dtype=torch.float64) * weights).sum())
    assert found == pytest.approx(reference.reduced(losses, rows, kind, 7), abs=1e-12)


@pytest.mark.parametrize("kind", REDUCTIONS)
def test_a_mini_batch_without_a_token_has_no_weight_and_no_nan(kind: Reduction) -> None:
    mask = torch.zeros(2, 3)
    assert token_weights(kind, mask, MiniBatch.of(mask, torch.ones(2)), 7).tolist() == [[0.0] * 3] * 2


@pytest.mark.parametrize(
    ("kind", "weights"),
    [
        ("token_mean", [[1 / 4, 0, 0], [1 / 4, 1 / 4, 1 / 4]]),
        ("sequence_mean", [[1 / 2, 0, 0], [1 / 6, 1 / 6, 1 / 6]]),
        ("seq_mean_token_sum_norm", [[1 / 20, 0, 0], [1 / 20, 1 / 20, 1 / 20]]),
        ("seq_mean_token_sum_norm_global", [[1 / 10, 0, 0], [1 / 10, 1 / 10, 1 / 10]]),
    ],
)
def test_the_weights_of_a_short_and_a_long_sequence(kind: Reduction, weights: list[list[float]]) -> None:
    mask = torch.tensor([[1, 0, 0], [1, 1, 1]])
    mini = MiniBatch.of(mask, torch.tensor([0.0, 1.0]))
    assert token_weights(kind, mask, mini, 10) == pytest.approx(torch.tensor(weights, dtype=torch.float64))


def legacy_token_mean(losses: Tensor, mask: Tensor, micro: int) -> float:
    """The mean of the micro-batches' token means, as older trainers have it under the name token_mean."""
    parts = zip(losses.split(micro), mask.split(micro), strict=True)
    means = [float((x * m).sum() / m.sum()) for x, m in parts]
    return math.fsum(means) / len(means)


class TestTrapOfTheMicroBatch:
    mask = torch.tensor([[1, 0, 0, 0], [1, 1, 1, 1], [1, 1, 0, 0], [1, 1, 1, 1]])
    losses = torch.tensor([[4.0, 9, 9, 9], [1, 1, 1, 1], [2, 0, 9, 9], [0, 3, 0, 1]], dtype=torch.float64)

    def ours(self, kind: Reduction, micro: int) -> float:
        mini = MiniBatch.of(self.mask, torch.ones(4))
        parts = zip(self.losses.split(micro), self.mask.split(micro), strict=True)
        return math.fsum(float((x * token_weights(kind, m, mini, 7)).sum()) for x, m in parts)

    def test_means_of_means_make_one_number_of_two_reductions(self) -> None:
        assert legacy_token_mean(self.losses, self.mask, 1) == pytest.approx(self.ours("sequence_mean", 1))

    def test_means_of_means_differ_from_size_to_size(self) -> None:
        assert len({round(legacy_token_mean(self.losses, self.mask, n), 9) for n in (1, 2, 4)}) == 3

    @pytest.mark.parametrize("micro", [1, 2, 4])
    def test_weights_give_one_number_for_all_sizes(self, micro: int) -> None:
        assert self.ours("token_mean", micro) == pytest.approx(14 / 11)
        assert self.ours("sequence_mean", micro) == pytest.approx((4 + 1 + 1 + 1) / 4)


class TestNumbersOfAMiniBatch:
    def test_a_sequence_without_a_token_counts_as_a_sequence_and_is_not_active(self) -> None:
        mini = MiniBatch.of(torch.tensor([[1, 1], [0, 0], [1, 0]]), torch.tensor([1.0, 1.0, 0.0]))
        assert mini == MiniBatch(tokens=3, sequences=3, active=1)

    def test_counts_can_be_added_over_processes(self) -> None:
        mask, values = torch.tensor([[1, 1], [0, 0], [1, 0]]), torch.tensor([1.0, 1.0, 0.0])
        parts = MiniBatch.of(mask[:1], values[:1]).counts() + MiniBatch.of(mask[1:], values[1:]).counts()
        assert MiniBatch.from_counts(parts) == MiniBatch.of(mask, values)


@pytest.mark.parametrize("kind", REDUCTIONS)
def test_the_mean_over_processes_is_undone(kind: Reduction) -> None:
    rng = random.Random(1)
    rows = [row(rng, 4, length) for length in (1, 4, 2, 3)]
    settings, shift = algorithm(loss_reduction=kind), torch.zeros(5, dtype=torch.float64)
    alone, _ = trained(settings, [[rows]], shift)
    apart, _ = trained(settings, [[rows[:1]], [rows[1:]]], shift)
    assert float(alone.abs().max()) > 1e-3, "else this case shows nothing"
    assert apart.tolist() == pytest.approx(alone.tolist(), abs=1e-12)
