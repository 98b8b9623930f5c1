"""Anomalies: what is diagnosed, at which step, dated from where, and what is not."""

from __future__ import annotations

from math import inf, isfinite, isnan, nan
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.rules.training_1.anomalies import anomalies, onset
from ledger.rules.training_1.episodes import Episode, Sign, episodes
from ledger.rules.training_1.series import Part, final_lineage, on_lineage
from ledger.rules.training_1.thresholds import HELD_FOR

from .training_1_series import entropies, exact_ema, goldens, point, rewards, stories

USUAL = [0.3, 0.31, 0.29, 0.3, 0.3]
RISING = [*USUAL, 0.5, 0.7, 1.0, 1.6, 1.7, 1.8, 2.5]
"""Twice the first from step 7 on, five times from step 9 on."""
FALLING = [0.5, 0.6, 0.7, 0.8, 0.8, 0.8, 0.36, 0.14, 0.0, 0.0, 0.0]
"""Below half of the highest EMA from step 7 on, below a fifth of it from step 8 on."""
CALM, NEAR, FAR = Sign(near=False, far=False), Sign(near=True, far=False), Sign(near=True, far=True)


def kinds(points):
    return [each.kind for each in anomalies(points)]


def only(points):
    (found,) = anomalies(points)
    return found


def numbers(found):
    return dict(found.numbers)


def slow_entropy(values, *, up):
    """Onset and seen of the first episode, by the words of the definition and nothing shared."""
    known = [(step, value) for step, value in enumerate(values, 1) if value is not None and isfinite(value)]
    base = [value for _, value in known[:5]]
    if len(base) < 5 or base[0] <= 0 or median(base) <= 0:
        return None

    def ratios(value):
        return value / base[0], value / median(base)

    def far(value):
        return min(ratios(value)) > 5 if up else max(ratios(value)) < 0.2 and value < 0.15

    def near(value):
        return min(ratios(value)) > 2 if up else max(ratios(value)) < 0.5

    for place in range(7, len(known)):
        if all(far(value) for _, value in known[place - 2 : place + 1]):
            start = place
            while start > 5 and near(known[start - 1][1]):
                start -= 1
            return known[start][0], known[place][0]
    return None


def slow_reward(values):
    """As above, with the EMA by exact fractions."""
    known = [(step, value) for step, value in enumerate(values, 1) if value is not None and isfinite(value)]
    averages = exact_ema([value for _, value in known])

    def height(place):
        return max(averages[: place + 1])

    def below(place, fraction):
        return float(height(place)) >= 0.1 and known[place][1] < fraction * float(height(place))

    for place in range(2, len(known)):
        if all(below(each, 0.2) for each in range(place - 2, place + 1)):
            start = place
            while start > 0 and below(start - 1, 0.5):
                start -= 1
            return known[start][0], known[place][0]
    return None


class TestEntropyRunaway:
    def test_five_times_the_usual_for_three_steps_is_diagnosed_and_dated_from_where_it_doubled(self):
        found = only(entropies(RISING))

        assert (found.kind, found.onset_step, found.seen_at_step) == ("entropy_runaway", 7, 11)
        assert found.rule == "training-1/entropy-runaway"
        assert found.lasted_from == 7

    def test_its_numbers_are_those_that_decide(self):
        told = numbers(only(entropies(RISING)))

        assert told["entropy_first"] == 0.3
        assert told["entropy_median_5"] == 0.3
        assert told["entropy_then"] == 1.8
        assert told["ratio"] == pytest.approx(6)
        assert told["ratio_max"] == told["ratio_last"] == pytest.approx(2.5 / 0.3)
        assert told["entropy_max_step"] == 12
        assert (told["threshold"], told["onset_threshold"]) == (5, 2)

    def test_its_words_say_when_it_was_diagnosed_and_predict_nothing(self):
        assert only(entropies(RISING)).statement == (
            "diagnosed at step 11: policy entropy was 1.8, 6 times its value at step 1 (0.3) and 6 times the median of "
            "the first 5 steps; it began at step 7"
        )

    def test_its_positions_are_of_the_first_the_onset_the_diagnosis_and_the_last_step(self):
        assert only(entropies(RISING)).positions == (1001, 1007, 1011, 1012)

    def test_two_steps_are_noise(self):
        assert kinds(entropies([*USUAL, 2.0, 2.0, 0.3, 2.0, 2.0])) == []

    def test_an_outlier_at_step_1_is_weighed_by_the_median(self):
        assert kinds(entropies([0.03, *USUAL, 0.3, 0.3, 0.3, 0.3])) == []

    def test_a_high_median_is_weighed_by_step_1(self):
        assert kinds(entropies([1.0, 0.1, 0.1, 0.1, 0.1, 0.9, 0.9, 0.9, 0.9])) == []

    def test_four_steps_are_too_few_to_know_what_is_usual(self):
        assert kinds(entropies([0.3, 3, 6, 9])) == []

    def test_the_first_five_steps_themselves_diagnose_nothing(self):
        assert kinds(entropies([0.1, 9, 9, 9, 0.1, 0.1, 0.1])) == []

    def test_a_run_that_recovers_says_since_when(self):
        found = only(entropies([*RISING, 0.4, 0.4, 0.4, 0.4]))

        assert found.lasted_from is None
        assert numbers(found)["recovered_at_step"] == 13
        assert found.statement.endswith("; over at step 13")

    def test_of_many_episodes_the_first_and_the_last_are_told_with_their_count(self):
        bump = [2.0] * 3 + [0.3] * 3
        found = anomalies(entropies([*USUAL, *bump * 4]))

        assert [(each.onset_step, numbers(each)["episodes"]) for each in found] == [(6, 4), (24, 4)]

    def test_entropy_that_is_not_positive_at_first_gives_no_ratio(self):
        assert kinds(entropies([0.0, *USUAL, 9, 9, 9])) == []
        assert kinds(entropies([-0.1, -0.1, -0.1, *USUAL, 9, 9, 9])) == []

    def test_the_gradient_norm_is_told_beside_it_where_it_was_logged(self):
        points = [point(1, step, None, value, 1.0 if step < 9 else 7.0) for step, value in enumerate(RISING, 1)]

        assert numbers(only(points))["grad_norm_ratio"] == 7
        assert "grad_norm_ratio" not in numbers(only(entropies(RISING)))

    @given(st.lists(st.none() | st.sampled_from([0.1, 0.3, 0.7, 1.4, 2.0, 9.0, nan]), max_size=25))
    def test_it_is_what_the_definition_gives(self, values):
        found = [each for each in anomalies(entropies(values)) if each.kind == "entropy_runaway"]
        expected = slow_entropy(values, up=True)

        assert [(each.onset_step, each.seen_at_step) for each in found[:1]] == ([expected] if expected else [])


class TestEntropyCollapse:
    def test_a_fifth_of_the_usual_and_below_the_floor_is_diagnosed(self):
        found = only(entropies([0.5] * 5 + [0.3, 0.24, 0.2, 0.09, 0.08, 0.07, 0.06]))

        assert (found.kind, found.onset_step, found.seen_at_step) == ("entropy_collapse", 7, 11)
        assert numbers(found)["ratio"] == pytest.approx(0.14)
        assert numbers(found)["entropy_min"] == 0.06
        assert numbers(found)["floor"] == 0.15

    def test_entropy_that_came_far_down_but_still_spreads_is_none(self):
        assert kinds(entropies([2.0] * 5 + [0.16] * 9)) == []

    def test_entropy_that_was_always_low_is_none(self):
        assert kinds(entropies([0.1] * 20)) == []

    def test_a_run_can_have_both_signs(self):
        values = USUAL + [2.0] * 3 + [0.3] * 3 + [0.01] * 3

        assert kinds(entropies(values)) == ["entropy_runaway", "entropy_collapse"]

    @given(st.lists(st.none() | st.sampled_from([0.01, 0.04, 0.1, 0.3, 0.7, 1.4, 2.0, -inf]), max_size=25))
    def test_it_is_what_the_definition_gives(self, values):
        found = [each for each in anomalies(entropies(values)) if each.kind == "entropy_collapse"]
        expected = slow_entropy(values, up=False)

        assert [(each.onset_step, each.seen_at_step) for each in found[:1]] == ([expected] if expected else [])


class TestRewardCollapse:
    def test_a_fifth_of_the_highest_ema_for_three_steps_is_diagnosed_and_dated_from_half_of_it(self):
        found = only(rewards(FALLING))

        assert (found.kind, found.onset_step, found.seen_at_step) == ("reward_collapse", 7, 10)
        assert numbers(found)["reward_max"] == 0.8
        assert numbers(found)["reward_max_step"] == 4
        assert numbers(found)["reward_then"] == 0
        assert numbers(found)["zero_steps"] == 3
        assert numbers(found)["ema_drawdown"] > 0.5

    def test_a_plateau_is_none(self):
        assert kinds(rewards([0.5, 0.9, *[0.6] * 40])) == []

    def test_a_run_that_never_learned_has_nothing_to_lose(self):
        assert kinds(rewards([0.09] * 5 + [0.0] * 20)) == []

    def test_one_lucky_batch_does_not_make_its_neighbours_a_collapse(self):
        assert kinds(rewards([0.1] * 9 + [0.9] + [0.1] * 9)) == []

    def test_two_batches_without_reward_are_noise(self):
        assert kinds(rewards([0.8] * 9 + [0.0, 0.0] + [0.8] * 3)) == []

    def test_negative_rewards_do_not_pass_for_a_height_to_fall_from(self):
        assert kinds(rewards([-9.0] * 5 + [0.2] + [-9.0] * 5)) == []

    @given(st.lists(st.none() | st.sampled_from([0.0, 0.02, 0.05, 0.1, 0.3, 0.8, 1.0, -0.5, nan]), max_size=30))
    def test_it_is_what_the_definition_gives(self, values):
        found = [each for each in anomalies(rewards(values)) if each.kind == "reward_collapse"]
        expected = slow_reward(values)

        assert [(each.onset_step, each.seen_at_step) for each in found[:1]] == ([expected] if expected else [])

    @given(st.lists(st.floats(0, 1), max_size=40))
    def test_the_ema_has_lost_more_than_half_by_then(self, values):
        for found in anomalies(rewards(values)):
            assert numbers(found)["ema_drawdown"] > 0.5
            assert numbers(found)["reward_then"] < 0.2 * numbers(found)["reward_max"]

    def test_the_entropy_ratio_then_is_told_beside_it(self):
        points = [point(1, step, value, 0.3 if step < 7 else 1.2) for step, value in enumerate(FALLING, 1)]

        assert numbers(only(points))["entropy_ratio"] == pytest.approx(4)


class TestNotFinite:
    def test_any_metric_that_is_not_finite_is_found_and_counted(self):
        found = only([point(1, 1, 0.5), point(1, 2, 0.5, not_finite=3), point(1, 3, 0.5), point(1, 4, nan, 0.3)])

        assert (found.kind, found.onset_step, found.rule) == ("non_finite", 2, "training-1/non-finite")
        assert numbers(found) == {
            "steps": 2,
            "values": 4,
            "last_step": 4,
            "reward_steps": 1,
            "entropy_steps": 0,
            "grad_norm_steps": 0,
        }

    def test_it_is_the_end_of_a_run_only_where_what_trains_stayed_so(self):
        broken = [
            point(1, 1, 0.5),
            point(1, 2, 0.5, not_finite=1),
            point(1, 3, nan),
            point(1, 4),
            point(1, 5, 0.1, inf),
        ]

        assert onset(anomalies(broken)) == 3
        assert onset(anomalies([*broken, point(1, 6, 0.5)])) is None

    def test_it_says_on_how_many_of_all_steps_and_which_was_the_last(self):
        (one,) = anomalies([point(1, 1, 0.5), point(1, 2, 0.5, not_finite=1), point(1, 3, 0.5)])
        assert one.statement == "diagnosed at step 2: 1 value not finite, on 1 of 3 steps, the last of them step 2"
        (two,) = anomalies([point(1, 1, nan), point(1, 2, 0.5, not_finite=2), point(1, 3, 0.5)])
        assert two.statement == "diagnosed at step 1: 3 values not finite, on 2 of 3 steps, the last of them step 2"

    def test_a_metric_beside_what_trains_ends_nothing(self):
        assert onset(anomalies([point(1, 1, 0.5), point(1, 2, 0.5, not_finite=1)])) is None

    def test_what_is_not_finite_neither_begins_an_episode_nor_ends_one(self):
        values = [*USUAL, 2.0, nan, 2.0, None, 2.0, inf]
        found = {each.kind: each for each in anomalies(entropies(values))}

        assert (found["entropy_runaway"].onset_step, found["entropy_runaway"].seen_at_step) == (6, 10)
        assert found["entropy_runaway"].lasted_from == 6


class TestOnset:
    def test_it_is_where_the_failure_began_that_lasted(self):
        recovered = USUAL + [2.0] * 3 + [0.3] * 3
        assert onset(anomalies(entropies(recovered))) is None
        assert onset(anomalies(entropies(recovered + [2.0] * 3))) == 12

    def test_of_two_that_lasted_the_earlier_counts(self):
        entropy = [*RISING, 2.5, 2.5, 2.5]
        reward = [0.5] * 10 + [0.0] * 5
        points = [point(1, step, *both) for step, both in enumerate(zip(reward, entropy, strict=True), 1)]

        assert [(each.kind, each.onset_step) for each in anomalies(points)] == [
            ("entropy_runaway", 7),
            ("reward_collapse", 11),
        ]
        assert onset(anomalies(points)) == 7

    def test_without_an_anomaly_there_is_none(self):
        assert onset(()) is None


class TestEpisodes:
    def test_an_episode_ends_when_the_sign_stayed_back_as_long_as_it_took_to_diagnose(self):
        signs = [NEAR, *[FAR] * HELD_FOR, CALM, CALM, NEAR, *[CALM] * HELD_FOR]

        assert episodes(signs) == [Episode(onset=0, seen=3, over=7)]

    def test_a_break_before_the_diagnosis_moves_the_onset(self):
        assert episodes([NEAR, CALM, NEAR, *[FAR] * HELD_FOR]) == [Episode(onset=2, seen=5, over=None)]

    @given(st.lists(st.sampled_from([CALM, NEAR, FAR]), max_size=40))
    def test_episodes_are_in_order_and_apart_and_only_the_last_can_last(self, signs):
        found = episodes(signs)
        ends = [len(signs) if each.over is None else each.over for each in found]

        assert all(
            each.onset <= each.seen - HELD_FOR + 1 and each.seen < end for each, end in zip(found, ends, strict=True)
        )
        assert all(end <= later.onset for end, later in zip(ends, found[1:], strict=False))
        assert all(each.over is not None for each in found[:-1])


class TestGoldenSeries:
    @pytest.mark.parametrize("golden", goldens().values(), ids=goldens())
    def test_exactly_its_anomalies_are_found(self, golden):
        series = on_lineage(golden.points, final_lineage(golden.resumes, golden.points))
        found = anomalies(series)

        assert [[each.kind, each.onset_step, each.seen_at_step] for each in found] == golden.expect["anomalies"]
        assert onset(found) == golden.expect.get("onset")

    def test_a_runaway_to_thirty_times_is_found_with_nine_steps_to_go(self):
        golden = goldens()["runaway-with-reward-collapse"]
        runaway = next(each for each in anomalies(golden.points) if each.kind == "entropy_runaway")

        assert numbers(runaway)["ratio_last"] == pytest.approx(30, rel=0.05)
        assert runaway.seen_at_step == golden.points[-1].step - 9


class TestProperties:
    @given(stories())
    def test_no_series_makes_it_raise_and_every_number_is_a_number(self, story):
        points, resumes = story
        series = on_lineage(points, final_lineage(resumes, points))
        steps = {each.step for each in series}

        for found in anomalies(series):
            assert {found.onset_step, found.seen_at_step} <= steps
            assert found.onset_step <= found.seen_at_step
            assert set(found.positions) <= {each.pos for each in points}
            assert all(isinstance(value, float) and not isnan(value) for _, value in found.numbers)

    @given(st.lists(st.sampled_from([0.0, 0.1, 0.3, 0.8, 2.0, nan]), min_size=1, max_size=40), st.integers(0, 40))
    def test_what_was_diagnosed_does_not_change_as_the_run_goes_on(self, values, cut):
        series = [point(1, step, value, value) for step, value in enumerate(values, 1)]
        early = {each.kind: (each.onset_step, each.seen_at_step) for each in reversed(anomalies(series[:cut]))}
        late = {each.kind: (each.onset_step, each.seen_at_step) for each in reversed(anomalies(series))}

        assert early.items() <= late.items()

    def test_only_the_lineage_that_is_given_counts(self):
        points = entropies(RISING)

        assert anomalies(on_lineage(points, [Part(1, 1, 6)])) == ()
