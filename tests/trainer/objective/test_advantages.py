"""What samples are worth: against fractions, and the traps of groups."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from services.trainer.objective.advantages import rloo, rloo_n
from tests.trainer.objective import reference

scores_of = st.integers(-16, 16).map(lambda n: Fraction(n, 8))
samples_of = st.lists(st.tuples(scores_of, st.integers(0, 4), st.booleans()), min_size=1, max_size=20)


def tensors(samples: list[tuple[Fraction, int, bool]]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    scores = torch.tensor([float(s) for s, _, _ in samples])
    return scores, torch.tensor([g for _, g, _ in samples]), torch.tensor([e for _, _, e in samples])


@given(samples_of, st.integers(1, 5))
def test_neutral_exclusion_gives_what_fractions_give(samples: list[tuple[Fraction, int, bool]], minimum: int) -> None:
    expected, outcomes = reference.advantages(*map(list, zip(*samples, strict=True)), minimum)
    found = rloo_n(*tensors(samples), minimum)
    assert found.values.tolist() == pytest.approx([float(v) for v in expected], abs=1e-12)
    assert [v != 0 for v in found.values.tolist()] == [v != 0 for v in expected]
    assert found.outcomes == outcomes
    kinds = ("all_excluded", "below_minimum", "tied", "trained")
    assert [getattr(found.counts, f"groups_{kind}") for kind in kinds] == list(map([*outcomes.values()].count, kinds))
    assert found.counts.groups == len(outcomes)
    assert found.counts.samples_excluded == sum(e for _, _, e in samples)
    assert found.counts.samples == len(samples)


@given(samples_of)
def test_leave_one_out_gives_what_fractions_give(samples: list[tuple[Fraction, int, bool]]) -> None:
    scores, groups, _ = tensors(samples)
    expected, _ = reference.advantages([s for s, _, _ in samples], groups.tolist(), [False] * len(samples), 2)
    assert rloo(scores, groups).values.tolist() == pytest.approx([float(v) for v in expected], abs=1e-12)


@given(samples_of, st.integers(1, 5), st.sampled_from([float("nan"), float("inf"), 1e30]))
def test_the_score_of_an_excluded_sample_is_not_read(
    samples: list[tuple[Fraction, int, bool]], minimum: int, score: float
) -> None:
    scores, groups, excluded = tensors(samples)
    spoilt = torch.where(excluded, score, scores)
    assert rloo_n(spoilt, groups, excluded, minimum).values.equal(rloo_n(scores, groups, excluded, minimum).values)


@given(samples_of, st.randoms(use_true_random=False))
def test_the_order_of_samples_and_the_names_of_groups_change_nothing(
    samples: list[tuple[Fraction, int, bool]], rng: st.DataObject
) -> None:
    order = list(range(len(samples)))
    rng.shuffle(order)  # type: ignore[attr-defined]  # a random.Random, for which Hypothesis has no name
    moved = [(samples[i][0], 100 - samples[i][1], samples[i][2]) for i in order]
    found, again = rloo_n(*tensors(samples), 2), rloo_n(*tensors(moved), 2)
    assert found.values[order].tolist() == pytest.approx(again.values.tolist(), abs=1e-12)
    assert found.counts == again.counts


@given(samples_of)
def test_the_advantages_of_a_group_add_up_to_nothing(samples: list[tuple[Fraction, int, bool]]) -> None:
    scores, groups, excluded = tensors(samples)
    values = rloo_n(scores, groups, excluded, 2).values
    for group in groups.unique():
        assert float(values[groups == group].sum()) == pytest.approx(0, abs=1e-12)


def test_a_group_whose_mean_is_rounded_is_tied_all_the_same() -> None:
    scores, groups = torch.full((3,), 0.1, dtype=torch.float64), torch.zeros(3, dtype=torch.int64)
    assert float((scores - scores.sum() / 3).abs().max()) > 0, "else this case shows nothing"
    found = rloo(scores, groups)
    assert found.values.tolist() == [0.0, 0.0, 0.0]
    assert found.counts.groups_tied == 1


@pytest.mark.parametrize("failed", range(3))
def test_a_failure_among_equal_scores_leaves_them_tied(failed: int) -> None:
    scores, excluded = torch.ones(3), torch.arange(3) == failed
    found = rloo_n(scores, torch.zeros(3), excluded, 2)
    assert found.values.tolist() == [0.0, 0.0, 0.0]
    assert (found.counts.groups_tied, found.counts.groups_trained) == (1, 0)


def test_a_group_of_ones_is_as_tied_as_a_group_of_zeros() -> None:
    found = rloo(torch.tensor([1.0, 1.0, 0.0, 0.0, 1.0, 0.0]), torch.tensor([7, 7, 8, 8, 9, 9]))
    assert found.values.tolist() == [0.0, 0.0, 0.0, 0.0, 1.0, -1.0]
    assert (found.counts.groups_tied, found.counts.groups_trained) == (2, 1)


def test_a_lone_sample_has_nothing_to_compare_with() -> None:
    found = rloo(torch.tensor([5.0]), torch.tensor([0]))
    assert found.values.tolist() == [0.0]
    assert found.counts.groups_below_minimum == 1


def test_a_failure_that_is_excluded_moves_no_other_sample_and_one_that_is_worth_0_does() -> None:
    scores, groups = torch.tensor([1.0, 0.0, 1.0, 0.0]), torch.zeros(4, dtype=torch.int64)
    excluded = torch.tensor([False, False, False, True])
    assert rloo_n(scores, groups, excluded, 2).values.tolist() == pytest.approx([0.5, -1.0, 0.5, 0.0])
    assert rloo(scores, groups).values.tolist() == pytest.approx([2 / 3, -2 / 3, 2 / 3, -2 / 3])


def test_a_group_below_the_minimum_is_silent() -> None:
    scores, groups = torch.tensor([1.0, 0.0, 1.0, 0.0]), torch.zeros(4, dtype=torch.int64)
    excluded = torch.tensor([False, False, False, True])
    assert rloo_n(scores, groups, excluded, 3).counts.groups_trained == 1
    assert rloo_n(scores, groups, excluded, 4).values.tolist() == [0.0] * 4
    assert rloo_n(scores, groups, excluded, 4).counts.groups_below_minimum == 1


def test_counts_are_metrics_by_the_estimator_s_name() -> None:
    scores, groups = torch.tensor([1.0, 0.0, 1.0, 1.0, 1.0]), torch.tensor([0, 0, 1, 1, 2])
    counts = rloo_n(scores, groups, torch.tensor([False] * 4 + [True]), 2).counts
    assert counts.metrics("rloo_n") == {
        "rloo_n/samples": 5.0,
        "rloo_n/samples_excluded": 1.0,
        "rloo_n/groups": 3.0,
        "rloo_n/groups_all_excluded": 1.0,
        "rloo_n/groups_below_minimum": 0.0,
        "rloo_n/groups_tied": 1.0,
        "rloo_n/groups_trained": 1.0,
    }
