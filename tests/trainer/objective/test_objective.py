"""The objective whole: its losses, gradients and metrics against plain Python, however a mini-batch is cut."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor

from ledger.core.errors import InvalidInput
from services.trainer.objective.batches import Samples
from services.trainer.objective.metrics import no_sums
from services.trainer.objective.objective import Objective
from services.trainer.settings import Algorithm
from tests.trainer.objective import reference
from tests.trainer.objective.batching import (
    REDUCTIONS,
    VOCABULARY,
    algorithm,
    filler,
    logits_of,
    micro_batch,
    numbers,
    row,
    rows_of,
    settings_of,
    trained,
)
from tests.trainer.objective.reference import Row

SHIFT = torch.linspace(-0.5, 0.5, VOCABULARY, dtype=torch.float64)


def shifted(rows: Sequence[Row], shift: Sequence[float]) -> list[Row]:
    return [replace(r, logits=[[x + d for x, d in zip(xs, shift, strict=True)] for xs in r.logits]) for r in rows]


def by_differences(rows: Sequence[Row], settings: Algorithm, step: float = 1e-6) -> list[float]:
    """The slope of the plain loss along each entry of the shift."""
    slopes = []
    for i in range(VOCABULARY):
        moved = [[x + sign * step * (i == j) for j, x in enumerate(SHIFT.tolist())] for sign in (1, -1)]
        high, low = (reference.mini_batch(shifted(rows, shift), settings)["policy/final_loss"] for shift in moved)
        slopes.append((high - low) / (2 * step))
    return slopes


def near_a_corner(rows: Sequence[Row], settings: Algorithm) -> bool:
    """A clip or a cap is so near that a small step crosses it: there is no slope there."""
    for r in shifted(rows, SHIFT.tolist()):
        for t, inside in enumerate(r.mask):
            if inside:
                new = math.log(reference.softmax(r.logits[t], settings.temperature)[r.tokens[t]])
                ratio = math.exp(new - r.old[t])
                edges = [
                    ratio - 1 + settings.eps_clip_low,
                    ratio - 1 - settings.eps_clip_high,
                    new - (r.reference or [])[t],
                ]
                if min(map(abs, edges)) < 1e-4:
                    return True
    return False


@given(rows_of(), settings_of)
def test_losses_and_metrics_are_those_of_plain_python(rows: list[Row], settings: Algorithm) -> None:
    _, sums = trained(settings, [[rows]], SHIFT)
    found = Objective(settings).finish(sums, updates=1)
    expected = reference.mini_batch(shifted(rows, SHIFT.tolist()), settings) | {"policy/policy_update_steps": 1.0}
    assert found == pytest.approx(expected, abs=1e-9)


@given(rows_of(), settings_of)
def test_gradients_are_the_slopes_of_the_plain_loss(rows: list[Row], settings: Algorithm) -> None:
    assume(not near_a_corner(rows, settings))
    gradient, _ = trained(settings, [[rows]], SHIFT)
    assert gradient.tolist() == pytest.approx(by_differences(rows, settings), abs=1e-5)


@st.composite
def cuts(draw: st.DrawFn, rows: list[Row]) -> list[list[list[Row]]]:
    """Rows over one to three processes, each in micro-batches of its own sizes, some of them filled up."""
    order = draw(st.permutations(rows))
    homes = draw(st.lists(st.integers(0, draw(st.integers(0, 2))), min_size=len(rows), max_size=len(rows)))
    processes = []
    for process in range(max(homes) + 1):
        mine = [r for r, home in zip(order, homes, strict=True) if home == process]
        micros = []
        while mine:
            size = draw(st.integers(1, len(mine)))
            micros.append(mine[:size] + [filler(mine[0])] * draw(st.integers(0, 1)))
            mine = mine[size:]
        processes.append(micros or [[filler(rows[0])]])
    return processes


@given(st.data(), rows_of(), settings_of)
def test_no_cut_into_micro_batches_and_processes_changes_gradients_or_metrics(
    data: st.DataObject, rows: list[Row], settings: Algorithm
) -> None:
    whole, sums = trained(settings, [[rows]], SHIFT)
    parts, part_sums = trained(settings, data.draw(cuts(rows)), SHIFT)
    assert parts.tolist() == pytest.approx(whole.tolist(), abs=1e-12)
    assert part_sums.tolist() == pytest.approx(sums.tolist(), abs=1e-12)


@pytest.mark.parametrize("kind", REDUCTIONS)
def test_in_float32_a_cut_changes_no_more_than_the_last_digits(kind: str) -> None:
    rng = random.Random(3)
    rows = [row(rng, 4, rng.randint(1, 4)) for _ in range(12)]
    settings, gradients = algorithm(loss_reduction=kind, use_entropy_loss=True), []
    for size in (1, 5, 12):
        parameter = SHIFT.float().requires_grad_()
        for at in range(0, 12, size):
            part = rows[at : at + size]
            micro = replace(micro_batch(part), old_logprobs=micro_batch(part).old_logprobs.float())
            Objective(settings).loss(micro, numbers(rows), logits=logits_of(part).float() + parameter).total.backward()
        assert parameter.grad is not None
        gradients.append(parameter.grad.tolist())
    assert gradients[1] == pytest.approx(gradients[0], rel=1e-4, abs=1e-7)
    assert gradients[2] == pytest.approx(gradients[0], rel=1e-4, abs=1e-7)


def rows_with(count: int = 3, **fields: Any) -> list[Row]:
    rng = random.Random(7)
    return [replace(row(rng, 4, 3, advantage=1.0), **fields) for _ in range(count)]


def metrics_of(settings: Algorithm, rows: Sequence[Row]) -> dict[str, float]:
    return Objective(settings).finish(trained(settings, [[rows]], SHIFT)[1], updates=1)


class TestSwitches:
    def test_with_both_switches_of_the_kl_off_no_kl_is_told(self) -> None:
        found = metrics_of(algorithm(), rows_with())
        assert not [key for key in found if "kl" in key]
        assert not Objective(algorithm()).needs_reference

    def test_with_the_kl_loss_on_a_kl_of_0_is_told_as_0(self) -> None:
        settings = algorithm(use_kl_loss=True)
        rows = rows_with()
        same = [replace(r, reference=logprobs) for r, logprobs in zip(rows, own_logprobs(rows), strict=True)]
        assert metrics_of(settings, same)["policy/policy_kl"] == pytest.approx(0, abs=1e-12)
        assert Objective(settings).needs_reference

    def test_a_kl_loss_needs_the_reference(self) -> None:
        micro = replace(micro_batch(rows_with()), reference_logprobs=None)
        with pytest.raises(InvalidInput, match="use_kl_loss"):
            Objective(algorithm(use_kl_loss=True)).loss(micro, numbers(rows_with()), logits=logits_of(rows_with()))

    def test_the_entropy_is_measured_always_and_moves_nothing_while_its_loss_is_off(self) -> None:
        rows = rows_with(advantage=0.0)
        gradient, sums = trained(algorithm(), [[rows]], SHIFT)
        assert gradient.tolist() == [0.0] * VOCABULARY
        assert Objective(algorithm()).finish(sums, updates=1)["policy/policy_entropy"] > 0.5

    def test_the_entropy_s_loss_has_a_gradient_that_raises_the_entropy(self) -> None:
        settings, rows = algorithm(use_entropy_loss=True, entropy_loss_coef=0.5), rows_with(advantage=0.0)
        gradient, sums = trained(settings, [[rows]], SHIFT)
        assert float(gradient.abs().max()) > 1e-3
        _, after = trained(settings, [[rows]], SHIFT - 0.1 * gradient)
        finish = Objective(settings).finish
        assert finish(after, updates=1)["policy/policy_entropy"] > finish(sums, updates=1)["policy/policy_entropy"]

    def test_the_policy_s_loss_is_told_apart_from_what_is_added_to_it(self) -> None:
        settings = algorithm(use_entropy_loss=True, entropy_loss_coef=0.5)
        found, bare = metrics_of(settings, rows_with()), metrics_of(algorithm(), rows_with())
        assert found["policy/policy_loss"] == bare["policy/policy_loss"] == bare["policy/final_loss"]
        assert found["policy/final_loss"] == pytest.approx(
            bare["policy/policy_loss"] - 0.5 * found["policy/policy_entropy"]
        )

    def test_coefficients_that_are_not_given_are_skyrl_s(self) -> None:
        found = metrics_of(algorithm(use_entropy_loss=True, use_kl_loss=True), rows_with())
        assert found["policy/final_loss"] == pytest.approx(
            found["policy/policy_loss"] + 1e-3 * found["policy/policy_kl"] - 1e-2 * found["policy/policy_entropy"]
        )


def own_logprobs(rows: Sequence[Row], temperature: float = 1.0) -> list[list[float]]:
    return [
        [math.log(reference.softmax(xs, temperature)[i]) for xs, i in zip(r.logits, r.tokens, strict=True)]
        for r in shifted(rows, SHIFT.tolist())
    ]


class TestFirstUpdate:
    """With one optimizer step a batch the policy is the one that the old log-probabilities are of."""

    settings = algorithm(eps_clip_low=0.0, eps_clip_high=0.0, temperature=0.7)

    def rows(self) -> list[Row]:
        rows = rows_with()
        return [replace(r, old=old) for r, old in zip(rows, own_logprobs(rows, 0.7), strict=True)]

    def test_nothing_is_clipped_even_without_room(self) -> None:
        logits = logits_of(self.rows()) + SHIFT
        micro = micro_batch(self.rows())
        old = Objective(self.settings).logprobs(logits, micro.tokens)
        loss = Objective(self.settings).loss(replace(micro, old_logprobs=old), numbers(self.rows()), logits=logits)
        found = Objective(self.settings).finish(loss.sums, updates=1)
        assert (found["policy/ppo_clip_ratio"], found["policy/log_ratio_abs_mean"]) == (0.0, 0.0)
        assert found["policy/policy_loss"] == pytest.approx(-1.0)

    def test_the_gradient_is_that_of_reinforce(self) -> None:
        parameter = SHIFT.clone().requires_grad_()
        micro = micro_batch(self.rows())
        logprobs = ((logits_of(self.rows()) + parameter) / 0.7).log_softmax(-1)
        chosen = logprobs.gather(-1, micro.tokens.unsqueeze(-1)).squeeze(-1)
        (-(chosen * micro.mask).sum() / micro.mask.sum()).backward()
        found, _ = trained(algorithm(temperature=0.7), [[self.rows()]], SHIFT)
        assert parameter.grad is not None
        assert found.tolist() == pytest.approx(parameter.grad.tolist(), abs=1e-12)


class TestImportance:
    settings = algorithm(use_tis=True, tis_imp_ratio_cap=2.0)

    def test_a_step_without_the_engine_s_log_probabilities_says_that_nothing_was_corrected(self) -> None:
        found = metrics_of(self.settings, rows_with(rollout=None))
        assert {key: value for key, value in found.items() if "tis/" in key} == {
            "tis/batch_skipped_no_logprobs": 1.0,
            "tis/skipped_fraction": 1.0,
            "policy/tis/applied_token_fraction": 0.0,
            "policy/tis/applied_sequence_fraction": 0.0,
        }
        assert found["policy/policy_loss"] == metrics_of(algorithm(), rows_with())["policy/policy_loss"]

    def test_the_skipped_fraction_is_over_the_run_s_steps(self) -> None:
        _, skipped = trained(self.settings, [[rows_with(rollout=None)]], SHIFT)
        _, applied = trained(self.settings, [[rows_with()]], SHIFT)
        finish = Objective(self.settings).finish
        assert finish(skipped, updates=1, steps_before=3, skipped_before=1)["tis/skipped_fraction"] == 0.5
        assert finish(applied, updates=1, steps_before=3, skipped_before=1)["tis/skipped_fraction"] == 0.25

    def test_while_it_is_off_nothing_is_told_of_it(self) -> None:
        assert not [key for key in metrics_of(algorithm(), rows_with()) if "tis" in key]
        assert not Objective(algorithm()).needs_rollout_logprobs
        assert Objective(self.settings).needs_rollout_logprobs

    def test_the_fractions_are_of_tokens_and_of_sequences(self) -> None:
        rng = random.Random(1)
        rows = [row(rng, 4, 1, known=False), row(rng, 4, 3), row(rng, 4, 0)]
        found = metrics_of(self.settings, rows)
        assert found["policy/tis/applied_token_fraction"] == 0.75
        assert found["policy/tis/applied_sequence_fraction"] == 0.5


class TestMetrics:
    def test_a_loss_is_the_mean_over_updates_and_an_entropy_the_mean_over_tokens(self) -> None:
        rng = random.Random(2)
        first, second = [row(rng, 4, 4), row(rng, 4, 4)], [row(rng, 4, 1)]
        sums = [trained(algorithm(), [[rows]], SHIFT)[1] for rows in (first, second)]
        finish = Objective(algorithm()).finish
        one, two = (finish(s, updates=1) for s in sums)
        both = finish(sums[0] + sums[1], updates=2)
        assert both["policy/policy_update_steps"] == 2.0
        assert both["policy/policy_loss"] == pytest.approx((one["policy/policy_loss"] + two["policy/policy_loss"]) / 2)
        assert both["policy/policy_entropy"] == pytest.approx(
            (8 * one["policy/policy_entropy"] + two["policy/policy_entropy"]) / 9
        )

    def test_a_step_without_an_update_tells_no_loss(self) -> None:
        assert Objective(algorithm()).finish(no_sums(), updates=0) == {"policy/policy_update_steps": 0.0}

    def test_a_metric_of_two_processes_is_not_multiplied(self) -> None:
        rows = rows_with(4)
        _, alone = trained(algorithm(), [[rows]], SHIFT)
        _, apart = trained(algorithm(), [[rows[:1]], [rows[1:]]], SHIFT)
        assert apart.tolist() == pytest.approx(alone.tolist())


def samples(**fields: Any) -> Samples:
    """Two prompts of two samples; the last sample failed."""
    base = {
        "rewards": torch.tensor([1.0, 0.0, 1.0, math.nan]),
        "groups": torch.tensor([0, 0, 1, 1]),
        "mask": torch.tensor([[1, 1, 0], [1, 0, 0], [1, 1, 1], [1, 1, 0]]),
        "excluded": torch.tensor([False, False, False, True]),
    }
    return Samples(**base | fields)


class TestAdvantages:
    rloo_n = Objective(algorithm(advantage_estimator="rloo_n"))

    def test_an_excluded_sample_is_in_no_baseline_and_in_no_loss(self) -> None:
        found = self.rloo_n.advantages(samples())
        assert found.values.tolist() == [1.0, -1.0, 0.0, 0.0]
        assert found.mask.tolist() == [[1, 1, 0], [1, 0, 0], [1, 1, 1], [0, 0, 0]]
        assert found.outcomes == {0: "trained", 1: "below_minimum"}
        assert found.scores.tolist()[:3] == [1.0, 0.0, 1.0]
        assert math.isnan(float(found.scores[3]))

    def test_metrics_are_over_samples_and_tokens_that_count(self) -> None:
        found = self.rloo_n.advantages(samples()).metrics
        assert found["loss/avg_final_rewards"] == pytest.approx(2 / 3)
        assert found["loss/avg_raw_advantages"] == pytest.approx((2 - 1) / 6)
        assert found["loss/avg_raw_advantages_abs"] == pytest.approx((2 + 1) / 6)
        assert found["rloo_n/samples_excluded"] == 1.0
        assert found["rloo_n/groups_below_minimum"] == 1.0
        assert not [key for key in found if "kl" in key]

    def test_where_all_are_excluded_no_mean_is_told(self) -> None:
        found = self.rloo_n.advantages(samples(excluded=torch.tensor([True] * 4)))
        assert found.values.tolist() == [0.0] * 4
        assert not [key for key in found.metrics if key.startswith("loss/")]

    def test_the_minimum_of_a_group_is_the_settings_and_2_without_one(self) -> None:
        three = {"rewards": torch.tensor([1.0, 0, 1, 0]), "groups": torch.zeros(4)}
        strict = Objective(algorithm(advantage_estimator="rloo_n", rloo_n_min_group_size=4))
        assert strict.advantages(samples(**three)).metrics["rloo_n/groups_below_minimum"] == 1.0
        assert self.rloo_n.advantages(samples(**three)).metrics["rloo_n/groups_trained"] == 1.0

    def test_rloo_refuses_what_it_cannot_leave_out(self) -> None:
        with pytest.raises(InvalidInput, match="1 are excluded"):
            Objective(algorithm()).advantages(samples())

    @pytest.mark.parametrize("reward", [math.nan, math.inf])
    def test_a_score_that_is_no_number_is_refused(self, reward: float) -> None:
        with pytest.raises(InvalidInput, match="the first of them at 2"):
            self.rloo_n.advantages(samples(rewards=torch.tensor([1.0, 0.0, reward, 0.0])))


class TestKlInTheReward:
    old = torch.tensor([[-1.0, -2.0, math.nan], [-1.0, math.nan, math.nan], [-1.0, -1.0, -1.0], [-1.0, -1.0, 0.0]])
    base = torch.tensor([[-2.0, -2.5, 0.0], [-1.0, 0.0, 0.0], [-1.0, -1.5, 0.0], [math.nan, 0.0, 0.0]])

    def objective(self, **settings: Any) -> Objective:
        return Objective(
            algorithm(use_kl_in_reward=True, kl_estimator_type="k1", advantage_estimator="rloo_n", **settings)
        )

    def test_each_token_s_kl_is_taken_off_the_reward(self) -> None:
        found = self.objective(kl_loss_coef=0.1).advantages(
            samples(old_logprobs=self.old, reference_logprobs=self.base)
        )
        assert found.scores[:3].tolist() == pytest.approx([1 - 0.15, 0.0, 1 + 0.05])
        assert found.values.tolist() == pytest.approx([0.85, -0.85, 0.0, 0.0])
        assert found.metrics["loss/avg_final_rewards"] == pytest.approx((0.85 + 0 + 1.05) / 3)

    def test_it_is_told_as_a_mean_over_samples_that_count(self) -> None:
        found = self.objective().advantages(samples(old_logprobs=self.old, reference_logprobs=self.base)).metrics
        assert found["loss/kl_loss_coef"] == 1e-3
        assert found["loss/avg_kl"] == pytest.approx((0.75 + 0 - 0.5 / 3) / 3)
        assert found["loss/avg_kl_max"] == pytest.approx((1 + 0 + 1) / 3)

    def test_it_is_no_part_of_the_loss(self) -> None:
        found = metrics_of(algorithm(use_kl_in_reward=True), rows_with())
        assert found == metrics_of(algorithm(), rows_with())

    @pytest.mark.parametrize("missing", ["old_logprobs", "reference_logprobs"])
    def test_it_needs_both_log_probabilities(self, missing: str) -> None:
        given_ = {"old_logprobs": self.old, "reference_logprobs": self.base} | {missing: None}
        with pytest.raises(InvalidInput, match="use_kl_in_reward"):
            self.objective().advantages(samples(**given_))


def test_garbage_outside_of_the_mask_reaches_neither_loss_nor_gradient() -> None:
    rows = [row(random.Random(4), 4, length) for length in (2, 1)]
    settings = algorithm(use_kl_loss=True, use_entropy_loss=True, use_tis=True, tis_imp_ratio_cap=2.0)
    gradient, sums = trained(settings, [[rows]], SHIFT)
    assert any(not math.isfinite(x) for r in rows for x in r.old), "else this case shows nothing"
    assert bool(gradient.isfinite().all())
    assert bool(sums.isfinite().all())


def test_log_probabilities_are_those_that_the_loss_reads() -> None:
    rows, settings = rows_with(), algorithm(temperature=0.7)
    found: Tensor = Objective(settings).logprobs(logits_of(rows) + SHIFT, micro_batch(rows).tokens)
    assert found.flatten().tolist() == pytest.approx([x for xs in own_logprobs(rows, 0.7) for x in xs])
