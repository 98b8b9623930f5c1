"""A recorded selection against what the rule gives, with a series and without one."""

from __future__ import annotations

from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ledger.rules.training_1.ema import trailing_ema
from ledger.rules.training_1.recomputing import Selected, recompute
from ledger.rules.training_1.selection import Saved
from ledger.rules.training_1.series import Resume

from .training_1_series import goldens, point, rewards, saves, stories

FRESH = {1: None}
PUBLISHED = Selected(15, ema=0.8639, reward=0.8418)
"""The numbers of a published page, whose series nobody has."""
RISING = [0.1 * step for step in range(1, 31)]
FALLING_AT_15 = [0.5] * 9 + [0.9] * 5 + [0.6] + [0.5] * 15
"""The EMA is highest at step 14, and of the multiples of 5 at step 15."""


def against(selected, values=(), saved=(), **terms):
    return recompute(selected, list(saved), rewards(values), FRESH, **terms)


def ema_at(values, step):
    return trailing_ema(values)[step - 1]


class TestWithoutASeries:
    def test_the_published_numbers_imply_a_higher_ema_one_step_earlier(self):
        told = against(PUBLISHED)

        assert told.recomputed == "no_series"
        assert told.implied_previous_ema == pytest.approx(0.8750, abs=1e-4)
        assert told.best == "among_eligible_steps"
        assert (told.computed_step, told.computed_ema, told.best_ema_of_all) == (None, None, None)

    def test_the_notes_say_where_it_was_higher_what_the_reward_scores_and_which_intervals_allow_the_step(self):
        assert against(PUBLISHED).notes == (
            "the EMA was higher at step 14 (0.8750), which is no saved step",
            "no interval is recorded; step 15 can be chosen with one of 1, 3, 5",
            "the reward at step 15 scores the weights before update 15",
        )

    def test_an_eligible_save_one_step_earlier_makes_the_choice_not_the_best(self):
        told = against(PUBLISHED, saved=saves(14, 15), interval=1)

        assert told.best == "not_best"
        assert "which is an eligible checkpoint" in told.notes[0]

    def test_a_save_one_step_earlier_that_could_not_be_chosen_leaves_the_choice_the_best_of_the_eligible(self):
        told = against(PUBLISHED, saved=saves(14, 15), interval=5)

        assert told.best == "among_eligible_steps"
        assert told.notes[0].endswith(
            "where the checkpoint could not be chosen: step 14 is no multiple of the interval 5"
        )

    def test_a_rising_ema_says_nothing_of_the_best(self):
        told = against(Selected(15, ema=0.8639, reward=0.9))

        assert told.best == "unknown"
        assert told.implied_previous_ema is not None

    def test_a_difference_within_the_rounding_of_four_decimals_says_nothing_either(self):
        assert against(Selected(15, ema=0.8639, reward=0.8637)).best == "unknown"

    @pytest.mark.parametrize(
        "selected",
        [Selected(15), Selected(15, ema=0.5), Selected(15, reward=0.5), Selected(15, ema=nan, reward=0.5)],
    )
    def test_without_both_numbers_nothing_is_implied(self, selected):
        told = against(selected)

        assert (told.implied_previous_ema, told.best, told.recomputed) == (None, "unknown", "no_series")

    def test_before_the_first_step_there_is_no_ema(self):
        assert against(Selected(1, ema=0.6, reward=0.3), interval=1).implied_previous_ema is None

    def test_a_step_that_is_no_multiple_of_the_interval_could_not_be_chosen(self):
        told = against(PUBLISHED, saved=saves(15), interval=20)

        assert "step 15 could not be chosen: step 15 is no multiple of the interval 20" in told.notes
        assert "step 15 is no multiple of the interval 20" in told.not_eligible_because

    def test_the_interval_that_the_rule_names_counts_before_the_runs_own(self):
        assert against(replace(PUBLISHED, interval=5), saved=saves(15), interval=20).not_eligible_because == ()

    def test_too_early_a_step_says_why_it_could_not_be_chosen(self):
        assert (
            "step 5 could not be chosen: step 5 is before step 10, the first eligible one"
            in against(Selected(5), saved=saves(5), interval=5).notes
        )

    def test_a_step_that_no_interval_allows_or_that_is_huge_lists_none(self):
        assert not any("interval" in note for note in against(Selected(0)).notes)
        assert not any("interval" in note for note in against(Selected(2**53)).notes)


class TestWithASeries:
    def test_what_the_rule_gives_agrees(self):
        selected = Selected(15, ema=ema_at(FALLING_AT_15, 15), reward=0.6, eligible_steps=(10, 15, 20, 25, 30))
        told = against(selected, FALLING_AT_15, saves(5, 10, 15, 20, 25, 30), interval=5)

        assert (told.recomputed, told.computed_step, told.computed_reward) == ("agrees", 15, 0.6)
        assert told.computed_ema == ema_at(FALLING_AT_15, 15)
        assert told.eligible_steps == (10, 15, 20, 25, 30)
        assert told.not_eligible_because == ()

    def test_the_best_of_the_eligible_is_told_from_the_best_of_all(self):
        told = against(Selected(15), FALLING_AT_15, saves(10, 15, 20), interval=5)

        assert told.best == "among_eligible_steps"
        assert (told.best_step_of_all, told.best_ema_of_all) == (14, ema_at(FALLING_AT_15, 14))
        assert told.notes == (
            "the EMA was higher at step 14 (0.8473), which is no saved step",
            "the reward at step 15 scores the weights before update 15",
        )

    def test_the_best_of_all_steps_is_called_so(self):
        told = against(Selected(30), RISING, saves(10, 20, 30), interval=10)

        assert (told.best, told.best_step_of_all, told.recomputed) == ("among_all_steps", 30, "agrees")
        assert told.notes == ("the reward at step 30 scores the weights before update 30",)

    def test_of_steps_that_are_equally_good_the_first_is_called_the_best_of_all(self):
        told = against(Selected(10), [0.5] * 20, saves(10, 20), interval=5)

        assert (told.best, told.best_step_of_all) == ("among_all_steps", 1)

    def test_a_better_eligible_save_is_named(self):
        told = against(Selected(20), RISING, saves(20, 30), interval=10)

        assert (told.recomputed, told.best, told.computed_step) == ("differs", "not_best", 30)
        assert (
            told.notes[0]
            == f"the rule gives step 30 ({ema_at(RISING, 30):.4f}), not step 20 ({ema_at(RISING, 20):.4f})"
        )

    @pytest.mark.parametrize(
        ("change", "note"),
        [
            ({"ema": 0.7}, "the recorded EMA is 0.7000, the computed one 0.7649"),
            ({"reward": 0.61}, "the recorded reward is 0.6100, the computed one 0.6000"),
            ({"ema": nan}, "the recorded EMA is nan, the computed one 0.7649"),
        ],
    )
    def test_a_recorded_number_that_the_series_contradicts_differs(self, change, note):
        told = against(replace(Selected(15), **change), FALLING_AT_15, saves(10, 15, 20), interval=5)

        assert told.recomputed == "differs"
        assert note in told.notes

    def test_a_recorded_number_within_its_rounding_agrees(self):
        selected = Selected(15, ema=round(ema_at(FALLING_AT_15, 15), 3), reward=0.6)

        assert against(selected, FALLING_AT_15, saves(15), interval=5).recomputed == "agrees"

    def test_an_ineligible_choice_is_not_the_best_even_if_no_eligible_one_is_better(self):
        told = against(Selected(13), FALLING_AT_15, saves(10, 13), interval=5)

        assert (told.best, told.computed_step, told.recomputed) == ("not_best", 10, "differs")
        assert "step 13 could not be chosen: step 13 is no multiple of the interval 5" in told.notes

    def test_a_choice_that_stands_in_for_the_rule_is_told_as_such(self):
        told = against(Selected(5), RISING, saves(5, 7), interval=5)

        assert (told.computed_step, told.recomputed, told.eligible_steps) == (5, "agrees", ())
        assert "step 5 could not be chosen: step 5 is before step 10, the first eligible one" in told.notes

        other = against(Selected(7), RISING, saves(5, 7), interval=5)
        assert other.recomputed == "differs"
        assert other.notes[0].startswith(
            "no save is eligible, so the rule did not apply: step 5 is the largest multiple"
        )

    def test_a_choice_where_the_rule_gives_none_differs(self):
        told = against(Selected(7), RISING, saves(7), interval=5)

        assert (told.recomputed, told.computed_step) == ("differs", None)
        assert told.notes[0] == "no save is eligible, and none can stand in for one"

    def test_the_recorded_cap_and_first_eligible_step_are_kept_to(self):
        told = against(Selected(5, first_eligible=5, cap_step=20), RISING, saves(5, 10, 20, 25), interval=5)

        assert (told.eligible_steps, told.computed_step) == ((5, 10, 20), 20)

    def test_another_smoothing_factor_is_computed_as_it_was_named(self):
        told = against(Selected(15, alpha=0.5), FALLING_AT_15, saves(15), interval=5)

        assert told.computed_ema == trailing_ema(FALLING_AT_15, 0.5)[14]

    def test_recorded_eligible_steps_that_are_none_are_named(self):
        told = against(Selected(15, eligible_steps=(5, 13)), FALLING_AT_15, saves(5, 13, 15), interval=5)

        assert "recorded as eligible, though not by the rule: 5, 13" in told.notes
        assert "step 15 is not among the steps recorded as eligible" in told.notes

    @pytest.mark.parametrize("golden", goldens().values(), ids=goldens())
    def test_the_choice_of_a_golden_series_agrees_and_its_best_of_all_is_known(self, golden):
        step = golden.expect["chosen"]
        selected = Selected(step, ema=round(golden.expect["ema"][str(step)], 4))
        told = recompute(selected, golden.saved, golden.points, golden.resumes, interval=golden.interval)

        assert (told.recomputed, told.computed_step) == ("agrees", step)
        assert told.best in {"among_all_steps", "among_eligible_steps"}
        if "best_step_of_all" in golden.expect:
            assert told.best_step_of_all == golden.expect["best_step_of_all"]
            assert told.best_ema_of_all == pytest.approx(golden.expect["best_ema_of_all"])

    def test_the_published_numbers_with_a_series_that_ends_in_them(self):
        golden = goldens()["optimal-among-eligible-saves-only"]
        told = recompute(PUBLISHED, golden.saved, golden.points, golden.resumes, interval=5)

        assert (told.recomputed, told.best) == ("agrees", "among_eligible_steps")
        assert told.notes[0] == "the EMA was higher at step 14 (0.8750), which is no saved step"


class TestTheSaveThatIsMeant:
    def test_it_is_judged_as_it_was_when_it_was_chosen_though_it_was_deleted_since(self):
        told = against(Selected(15), FALLING_AT_15, [*saves(10), Saved(1, 15, deleted=True)], interval=5)

        assert (told.recomputed, told.not_eligible_because) == ("agrees", ())

    def test_of_two_saves_of_a_step_the_digest_tells_which(self):
        resumes = {1: None, 2: Resume(1, 10)}
        points = rewards([0.5] * 15) + rewards([0.9] * 5, attempt=2, first=11)
        both = [Saved(1, 15, "a" * 64), Saved(2, 15, "b" * 64)]
        first = recompute(Selected(15, digest="a" * 64), both, points, resumes, interval=5)
        second = recompute(Selected(15, digest="b" * 64), both, points, resumes, interval=5)

        assert first.computed_reward == 0.5
        assert second.computed_reward == 0.9
        assert first.notes[0] == "the rule gives step 15 of attempt 2"
        assert second.recomputed == "agrees"

    def test_a_save_of_other_bytes_is_not_meant(self):
        other = Saved(1, 15, "a" * 64, last_update=14)

        assert not any("holds update" in note for note in against(Selected(15, digest="b" * 64), saved=[other]).notes)
        assert any("holds update" in note for note in against(Selected(15, digest="a" * 64), saved=[other]).notes)

    def test_without_a_digest_it_is_the_latest_attempts(self):
        resumes = {1: None, 2: Resume(1, 10)}
        points = rewards([0.5] * 15) + rewards([0.9] * 5, attempt=2, first=11)

        assert recompute(Selected(15), [*saves(15, attempt=2), *saves(15)], points, resumes).computed_reward == 0.9

    def test_a_save_that_nobody_recorded_is_judged_by_its_label(self):
        assert against(Selected(15, ema=0.9), FALLING_AT_15, interval=5).computed_reward == 0.6

    def test_a_label_that_is_one_too_high_is_told(self):
        golden = goldens()["the-last-label-is-one-too-high"]
        told = recompute(Selected(21), golden.saved, golden.points, golden.resumes, interval=1)

        assert "the checkpoint labelled 21 holds update 20" in told.notes


class TestWhatIsNotFinite:
    GOLDEN = "a-reward-that-is-not-finite"

    def told(self, selected):
        golden = goldens()[self.GOLDEN]
        return recompute(selected, golden.saved, golden.points, golden.resumes, interval=golden.interval)

    def test_rewards_that_were_left_out_are_counted(self):
        note = "rewards up to step 20 that are not finite were left out: 1, the first at step 12"

        assert note in self.told(Selected(20)).notes
        assert not any("left out" in each for each in self.told(Selected(10)).notes)

    def test_a_recorded_ema_that_carried_them_on_is_recognised(self):
        told = self.told(Selected(20, ema=nan))

        assert told.recomputed == "differs"
        assert "the recorded EMA carried on the reward of step 12, which is not finite" in told.notes


class TestOtherRules:
    @pytest.mark.parametrize(
        "selected",
        [
            Selected(15, rule="highest-reward"),
            Selected(15, metric="reward/avg_pass_at_8"),
            Selected(15, alpha=0.0),
            Selected(15, alpha=nan),
            Selected(15, alpha=1.5),
        ],
    )
    def test_they_are_not_judged_and_the_reason_is_told(self, selected):
        told = against(selected, FALLING_AT_15, saves(10, 15, 20), interval=5)

        assert (told.recomputed, told.best, told.computed_step, told.eligible_steps) == (
            "other_rule",
            "unknown",
            None,
            (),
        )
        assert told.notes[0]
        assert told.computed_ema == ema_at(FALLING_AT_15, 15)

    def test_the_usual_metric_by_its_name_is_no_other_rule(self):
        assert against(Selected(15, metric="reward/avg_raw_reward"), FALLING_AT_15, saves(15)).recomputed == "agrees"


class TestProperties:
    @given(
        stories(),
        st.lists(
            st.builds(Saved, st.none() | st.integers(1, 4), st.integers(0, 12), deleted=st.booleans()), max_size=6
        ),
        st.builds(
            Selected,
            st.integers(0, 15),
            attempt=st.none() | st.integers(1, 5),
            alpha=st.none() | st.floats(),
            interval=st.none() | st.integers(0, 5),
            ema=st.none() | st.floats(),
            reward=st.none() | st.floats(),
            eligible_steps=st.none() | st.lists(st.integers(0, 12), max_size=3).map(tuple),
        ),
        st.none() | st.integers(0, 5),
    )
    def test_nothing_makes_it_raise_and_its_verdicts_fit_together(self, story, saved, selected, interval):
        points, resumes = story
        told = recompute(selected, saved, points, resumes, interval=interval)

        assert told.recomputed in {"agrees", "differs", "no_series", "other_rule"}
        assert told.best in {"among_all_steps", "among_eligible_steps", "not_best", "unknown"}
        assert (told.best_ema_of_all is not None) == (told.recomputed in {"agrees", "differs"})
        if told.best == "among_all_steps":
            assert told.computed_ema == told.best_ema_of_all
        if told.best_ema_of_all is not None and told.best != "among_all_steps":
            assert told.computed_ema < told.best_ema_of_all

    @given(st.lists(st.floats(0, 1), min_size=10, max_size=40), st.integers(1, 4))
    def test_what_the_rule_gives_is_never_called_less_than_the_best_of_the_eligible(self, values, interval):
        saved = saves(*range(interval, len(values) + 1, interval))
        wanted = against(Selected(saved[-1].step), values, saved, interval=interval).computed_step
        told = against(Selected(wanted, ema=ema_at(values, wanted)), values, saved, interval=interval)

        assert told.recomputed == "agrees"
        assert told.best in {"among_all_steps", "among_eligible_steps"}

    def test_an_infinite_reward_leaves_the_numbers_finite(self):
        told = recompute(Selected(2), saves(2), [point(1, 1, inf), point(1, 2, 0.5)], FRESH, interval=1)

        assert told.computed_ema == 0.5
