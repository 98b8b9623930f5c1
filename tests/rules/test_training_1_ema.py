"""The trailing EMA, against its closed form in exact fractions."""

from __future__ import annotations

from fractions import Fraction
from math import inf, isclose, isfinite, isnan, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.rules.training_1.ema import ALPHA, implied_previous, trailing_ema

from .training_1_series import exact_ema, goldens

REWARDS = st.lists(st.none() | st.floats(-2, 2), max_size=60)
ONE_ATTEMPT = {name: golden for name, golden in goldens().items() if len(golden.resumes) == 1}
ANYTHING = st.lists(st.none() | st.floats(), max_size=40)


def weight_of_the_first(steps: int) -> float | None:
    return trailing_ema([1.0] + [0.0] * (steps - 1))[-1]


class TestDefinition:
    def test_the_first_reward_is_the_first_ema(self):
        assert trailing_ema([0.25]) == [0.25]

    def test_a_trailing_5_ema_weighs_a_third_and_is_no_mean_of_five(self):
        values = [0.1, 0.2, 0.3, 0.4, 0.5]

        assert trailing_ema(values)[-1] == pytest.approx(float(exact_ema(values)[-1]))
        assert trailing_ema(values)[-1] != pytest.approx(sum(values) / 5)
        assert pytest.approx(2 / (5 + 1)) == ALPHA

    @pytest.mark.parametrize("steps", [5, 15])
    def test_the_first_reward_keeps_two_thirds_to_the_power_of_the_steps_after_it(self, steps):
        assert weight_of_the_first(steps) == pytest.approx((2 / 3) ** (steps - 1), rel=1e-12)

    def test_the_first_reward_still_weighs_a_fifth_at_step_5_and_a_third_of_a_percent_at_15(self):
        assert weight_of_the_first(5) == pytest.approx(0.1975, abs=5e-5)
        assert weight_of_the_first(15) == pytest.approx(0.0034, abs=5e-5)

    @given(REWARDS)
    def test_every_ema_is_the_exactly_weighted_sum(self, values):
        for computed, exact in zip(trailing_ema(values), exact_ema(values), strict=True):
            assert (computed is None) == (exact is None)
            assert computed is None or isclose(computed, float(exact or 0), rel_tol=1e-9, abs_tol=1e-12)

    def test_another_factor_can_be_named(self):
        assert trailing_ema([1.0, 0.0, 0.0], alpha=0.5) == [1.0, 0.5, 0.25]

    @pytest.mark.parametrize("golden", ONE_ATTEMPT.values(), ids=ONE_ATTEMPT)
    def test_a_golden_series_has_its_emas(self, golden):
        computed = trailing_ema([each.reward for each in golden.points])

        assert {step: computed[int(step) - 1] for step in golden.expect["ema"]} == pytest.approx(golden.expect["ema"])


class TestWhatIsMissing:
    def test_a_step_that_logged_no_reward_carries_the_ema_on(self):
        assert trailing_ema([None, 0.6, None, None, 0.3]) == [None, 0.6, 0.6, 0.6, pytest.approx(0.5)]

    def test_a_gap_does_not_weigh(self):
        assert trailing_ema([0.6, None, None, 0.3])[-1] == trailing_ema([0.6, 0.3])[-1]

    @pytest.mark.parametrize("odd", [nan, inf, -inf])
    def test_a_reward_that_is_not_finite_is_left_out(self, odd):
        assert trailing_ema([0.6, odd, 0.3]) == [0.6, 0.6, pytest.approx(0.5)]

    @pytest.mark.parametrize("odd", [nan, inf, -inf])
    def test_a_reward_that_is_not_finite_seeds_nothing(self, odd):
        assert trailing_ema([odd, 0.6]) == [None, 0.6]


class TestArithmetic:
    @given(st.floats(allow_nan=False, allow_infinity=False), st.integers(1, 60))
    def test_a_constant_series_keeps_its_value_to_the_last_bit(self, value, steps):
        assert trailing_ema([value] * steps) == [value] * steps

    @given(ANYTHING)
    def test_an_ema_lies_between_the_rewards_that_were_seen(self, values):
        seen: list[float] = []
        for value, average in zip(values, trailing_ema(values), strict=True):
            seen += [value] if value is not None and isfinite(value) else []
            assert average is None if not seen else min(seen) <= (average or 0.0) <= max(seen)

    @given(ANYTHING, ANYTHING)
    def test_later_rewards_change_no_earlier_ema(self, earlier, later):
        assert trailing_ema(earlier + later)[: len(earlier)] == trailing_ema(earlier)


class TestTheEmaBefore:
    def test_the_published_numbers_imply_a_higher_ema_one_step_earlier(self):
        exact = (Fraction("0.8639") - Fraction("0.8418") / 3) * Fraction(3, 2)

        assert implied_previous(0.8639, 0.8418) == pytest.approx(float(exact))
        assert implied_previous(0.8639, 0.8418) == pytest.approx(0.8750, abs=1e-4)

    @given(st.lists(st.floats(0, 1), min_size=2, max_size=30))
    def test_it_undoes_the_last_step(self, values):
        averages = trailing_ema(values)

        assert averages[-1] is not None
        assert implied_previous(averages[-1], values[-1]) == pytest.approx(averages[-2], abs=1e-9)

    @pytest.mark.parametrize(
        ("ema", "reward", "alpha"),
        [
            (nan, 0.5, ALPHA),
            (0.5, inf, ALPHA),
            (0.5, 0.5, 1.0),
            (0.5, 0.5, 0.0),
            (0.5, 0.5, nan),
            (1.7e308, -1.7e308, 0.9),
        ],
    )
    def test_nothing_is_concluded_from_what_is_no_number(self, ema, reward, alpha):
        assert implied_previous(ema, reward, alpha) is None

    @given(st.floats(), st.floats(), st.floats())
    def test_it_never_raises_and_never_gives_what_is_not_finite(self, ema, reward, alpha):
        previous = implied_previous(ema, reward, alpha)

        assert previous is None or not isnan(previous)
