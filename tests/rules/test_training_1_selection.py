"""The rule `trailing-ema`: which saves are eligible, which one is chosen, which were there before a collapse."""

from __future__ import annotations

from math import inf, isfinite, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ledger.rules.training_1.ema import trailing_ema
from ledger.rules.training_1.selection import (
    Saved,
    before_collapse,
    choose,
    eligible,
    last_update,
    pre_collapse,
    scored_by_step,
)
from ledger.rules.training_1.series import Part, Resume, lineage, on_lineage

from .training_1_series import exact_ema, goldens, point, rewards, saves, stories

FRESH = {1: None}
FALLING = [1.0 - 0.05 * step for step in range(15)]
ROUGH = st.none() | st.sampled_from([0.0, 0.25, 0.5, 0.5, 0.75, 1.0, nan, inf])


def judged(saved, points, resumes=FRESH, **terms):
    return {each.saved.step: each for each in eligible(saved, points, resumes, **terms)}


def reasons(saved, points, resumes=FRESH, **terms):
    return {step: each.reasons for step, each in judged(saved, points, resumes, **terms).items()}


def chosen(saved, points, resumes=FRESH, *, interval=5, **terms):
    choice = choose(eligible(saved, points, resumes, interval=interval, **terms), interval)
    return choice.candidate.saved if choice.candidate else None


def drawn_saves(data):
    steps = st.integers(0, 12)
    made = st.builds(
        Saved,
        attempt=st.none() | st.integers(1, 4),
        step=steps,
        deleted=st.booleans(),
        committed_pos=st.integers(0, 99),
        last_update=st.none() | steps,
        replaced=st.booleans(),
    )
    return data.draw(st.lists(made, max_size=8))


def slow_choice(saved, points, resumes, interval):
    """The definition: over each save its own lineage, walked anew, with exact fractions."""
    best = None
    committed = {(save.attempt, save.step) for save in saved if save.attempt is not None}
    for save in saved:
        parts = lineage(resumes, points, save.attempt, save.step, committed=committed)
        series = on_lineage(points, parts)
        averages = exact_ema([each.reward for each in series])
        at = [each.step for each in series]
        if save.deleted or save.replaced or save.step % interval or save.step < 2 * interval or save.step not in at:
            continue
        reward = series[at.index(save.step)].reward
        if reward is None or not isfinite(reward):
            continue
        if best is None or averages[at.index(save.step)] > best:
            best = averages[at.index(save.step)]
    return best


class TestEligibility:
    def test_only_multiples_of_the_interval_from_twice_the_interval_up_to_the_cap_are_eligible(self):
        told = reasons(saves(5, 10, 13, 20, 25), rewards([0.5] * 30), interval=5, cap=20)

        assert told == {
            5: ("step 5 is before step 10, the first eligible one",),
            10: (),
            13: ("step 13 is no multiple of the interval 5",),
            20: (),
            25: ("step 25 is after the cap at step 20",),
        }

    def test_the_first_eligible_step_can_be_named(self):
        assert reasons(saves(5), rewards([0.5] * 5), interval=5, first=5) == {5: ()}

    def test_without_an_interval_any_step_can_be_chosen(self):
        assert reasons(saves(1, 13), rewards([0.5] * 13), interval=None) == {1: (), 13: ()}

    def test_every_reason_is_told(self):
        gone = [Saved(1, 3, deleted=True, replaced=True)]

        assert reasons(gone, [], interval=5) == {
            3: (
                "step 3 is no multiple of the interval 5",
                "step 3 is before step 10, the first eligible one",
                "it was deleted",
                "it was saved again with another digest",
            )
        }

    @pytest.mark.parametrize(
        ("reward", "reason"),
        [(None, "no reward was logged at step 10"), (nan, "the reward at step 10 is not finite")],
    )
    def test_a_save_whose_step_has_no_reward_cannot_be_chosen_for_it(self, reward, reason):
        points = [*rewards([0.5] * 9), point(1, 10, reward)]

        assert reasons(saves(10), points, interval=5) == {10: (reason,)}
        assert reasons(saves(10), rewards([0.5] * 9), interval=5) == {10: ("no reward was logged at step 10",)}

    def test_without_any_series_rewards_are_no_reason_against_a_save(self):
        told = judged(saves(10), [point(1, 10, None, 0.3)], interval=5)[10]

        assert (told.eligible, told.ema, told.reward) == (True, None, None)

    def test_the_numbers_of_a_save_are_those_at_its_label(self):
        told = judged(saves(10), rewards([0.1 * step for step in range(1, 21)]), interval=5)[10]

        assert told.reward == pytest.approx(1.0)
        assert told.ema == trailing_ema([0.1 * step for step in range(1, 11)])[-1]
        assert told.parts == (Part(1, 1, 10),)

    def test_a_save_whose_metrics_were_lost_shows_the_ema_of_the_last_step_before_it(self):
        points = [each for each in rewards(FALLING) if each.step != 10]
        told = judged(saves(10, 15), points, interval=5)

        assert told[10].ema == trailing_ema(FALLING[:9])[-1]
        assert told[10].reward is None
        assert not told[10].eligible

    def test_the_last_label_that_is_one_too_high_shows_the_ema_of_its_last_update_and_is_not_chosen(self):
        golden = goldens()["the-last-label-is-one-too-high"]
        told = judged(golden.saved, golden.points, interval=1)

        assert told[21].ema == told[20].ema
        assert told[21].reasons == ("no reward was logged at step 21",)
        assert (last_update(told[21].saved), scored_by_step(told[21].saved)) == (20, 21)


class TestTheSavesOwnLineage:
    def test_a_save_is_judged_by_the_rewards_of_the_attempts_behind_it(self):
        resumes = {1: None, 2: Resume(1, 5)}
        points = rewards([0.2] * 10) + rewards([0.8] * 5, attempt=2, first=6)
        both = [*saves(10), *saves(10, attempt=2)]
        first, second = eligible(both, points, resumes, interval=5)

        assert first.ema == pytest.approx(0.2)
        assert second.ema == trailing_ema([0.2] * 5 + [0.8] * 5)[-1]
        assert second.parts == (Part(1, 1, 5), Part(2, 6, 10))

    def test_taking_each_step_from_the_first_attempt_that_logged_it_would_choose_another(self):
        golden = goldens()["naive-and-lineage-choose-different-steps"]
        first_seen = {}
        for each in golden.points:
            first_seen.setdefault(each.step, replace(each, attempt=1))
        naive = chosen([replace(save, attempt=1) for save in golden.saved], list(first_seen.values()))

        assert naive.step == golden.expect["chosen_if_first_seen_wins"]
        assert chosen(golden.saved, golden.points, golden.resumes).step == golden.expect["chosen"] != naive.step

    def test_a_save_of_an_unnamed_attempt_is_of_the_latest_that_has_the_step(self):
        resumes = {1: None, 2: Resume(1, 5)}
        points = rewards([0.2] * 10) + rewards([0.8] * 5, attempt=2, first=6)

        assert judged([Saved(None, 10)], points, resumes, interval=5)[10].parts == (Part(1, 1, 5), Part(2, 6, 10))


class TestTheChoice:
    def test_the_highest_ema_is_chosen_and_not_the_highest_reward(self):
        values = [0.5] * 10 + [0.9] * 5 + [0.1] * 4 + [1.0]

        assert chosen(saves(5, 10, 15, 20), rewards(values)).step == 15

    def test_of_equal_emas_the_lowest_step_is_chosen(self):
        assert chosen(saves(20, 15, 10), rewards([0.1] * 20)).step == 10

    def test_of_one_step_saved_twice_the_latest_attempt_is_chosen(self):
        both = [*saves(10, attempt=2), *saves(10)]

        assert chosen(both, rewards([0.5] * 10) + rewards([0.5] * 10, attempt=2), {1: None, 2: None}).attempt == 2

    def test_nothing_eligible_falls_back_to_the_largest_saved_multiple_and_says_that_the_rule_did_not_apply(self):
        choice = choose(eligible(saves(5, 7), rewards([0.5] * 9), FRESH, interval=5), 5)

        assert (choice.candidate.saved.step, choice.by_rule) == (5, False)
        assert choice.reason == (
            "no save is eligible, so the rule did not apply: step 5 is the largest multiple that was saved"
        )

    def test_the_fallback_takes_no_save_that_is_gone(self):
        gone = [Saved(1, 5), Saved(1, 10, deleted=True), Saved(1, 15, replaced=True)]

        assert chosen(gone, []).step == 5

    def test_eligible_saves_without_a_series_are_no_choice_by_the_rule(self):
        choice = choose(eligible(saves(10, 15), [], FRESH, interval=5), 5)

        assert (choice.candidate.saved.step, choice.by_rule) == (15, False)
        assert choice.reason.startswith("no eligible checkpoint has an EMA")

    def test_where_nothing_can_stand_in_there_is_no_choice(self):
        choice = choose(eligible(saves(3), [], FRESH, interval=5), 5)

        assert (choice.candidate, choice.by_rule) == (None, False)
        assert choice.reason == "no save is eligible, and none can stand in for one"

    @pytest.mark.parametrize("golden", goldens().values(), ids=goldens())
    def test_a_golden_series_has_its_choice_and_its_eligible_steps(self, golden):
        told = judged(golden.saved, golden.points, golden.resumes, interval=golden.interval)
        emas = {str(step): each.ema for step, each in told.items() if each.eligible}

        assert [step for step, each in told.items() if each.eligible] == golden.expect["eligible"]
        assert emas == pytest.approx(golden.expect["ema"])
        assert (
            chosen(golden.saved, golden.points, golden.resumes, interval=golden.interval).step
            == (golden.expect["chosen"])
        )


class TestBeforeACollapse:
    def test_the_last_save_that_was_scored_before_the_onset_is_the_snapshot(self):
        assert pre_collapse(saves(5, 10, 15, 20, 25), 21).step == 15

    def test_the_onsets_own_metrics_are_of_the_weights_before_it(self):
        assert not before_collapse(Saved(1, 20), 21)
        assert before_collapse(Saved(1, 19), 21)

    def test_a_label_that_is_one_too_high_counts_by_its_last_update(self):
        assert before_collapse(Saved(1, 20, last_update=19), 21)

    def test_a_save_that_is_gone_is_no_snapshot(self):
        assert pre_collapse([Saved(1, 10), Saved(1, 15, deleted=True), Saved(1, 14, replaced=True)], 21).step == 10

    def test_without_a_collapse_there_is_no_snapshot(self):
        assert pre_collapse(saves(5, 10), None) is None
        assert pre_collapse(saves(5, 10), 4) is None

    @pytest.mark.parametrize(
        "golden",
        [each for each in goldens().values() if "pre_collapse" in each.expect],
        ids=lambda each: each.expect["onset"],
    )
    def test_a_golden_series_has_its_snapshot(self, golden):
        assert pre_collapse(golden.saved, golden.expect["onset"]).step == golden.expect["pre_collapse"]


class TestProperties:
    @given(stories(ROUGH), st.data(), st.integers(1, 4))
    def test_the_choice_is_the_best_that_the_definition_finds(self, story, data, interval):
        points, resumes = story
        saved = drawn_saves(data)
        choice = choose(eligible(saved, points, resumes, interval=interval), interval)
        best = slow_choice(saved, points, resumes, interval)

        assert choice.by_rule == (best is not None)
        if best is not None:
            assert choice.candidate.ema == pytest.approx(float(best), abs=1e-12)

    @given(stories(ROUGH), st.data(), st.integers(1, 4))
    def test_the_choice_is_a_maximum_over_the_eligible_and_the_lowest_of_equal_ones(self, story, data, interval):
        points, resumes = story
        candidates = eligible(drawn_saves(data), points, resumes, interval=interval)
        choice = choose(candidates, interval)
        rivals = [each for each in candidates if each.eligible and each.ema is not None]

        assert choice.by_rule == bool(rivals)
        for rival in rivals:
            assert rival.ema <= choice.candidate.ema
            assert rival.ema < choice.candidate.ema or rival.saved.step >= choice.candidate.saved.step

    @given(stories(ROUGH), st.data(), st.integers(1, 4))
    def test_the_order_in_which_saves_are_given_does_not_matter(self, story, data, interval):
        points, resumes = story
        saved = drawn_saves(data)
        one, other = (
            choose(eligible(each, points, resumes, interval=interval), interval) for each in (saved, saved[::-1])
        )

        assert one.by_rule == other.by_rule
        assert (one.candidate is None) == (other.candidate is None)
        assert one.candidate is None or one.candidate.ema == other.candidate.ema
        assert one.candidate is None or one.candidate.saved.step == other.candidate.saved.step

    @given(stories(ROUGH), st.data(), st.integers(1, 4))
    def test_a_save_that_was_deleted_never_changes_the_choice(self, story, data, interval):
        # Everyone says where they began: who does not is taken to go on from a save, deleted since or not.
        points, begun = story
        resumes = {attempt: begun.get(attempt) and Resume(1, begun[attempt].step) for attempt in range(1, 5)}
        saved = [replace(save, attempt=save.attempt or 1) for save in drawn_saves(data)]
        gone = Saved(data.draw(st.integers(1, 4)), data.draw(st.integers(0, 12)), deleted=True)

        assert chosen([*saved, gone], points, resumes, interval=interval) == chosen(
            saved, points, resumes, interval=interval
        )

    @given(stories(ROUGH), st.data(), st.integers(1, 4))
    def test_a_save_that_is_not_eligible_never_changes_the_choice_of_the_rule(self, story, data, interval):
        points, resumes = story
        saved = drawn_saves(data)
        candidates = eligible(saved, points, resumes, interval=interval)
        choice = choose(candidates, interval)

        assert not choice.by_rule or choose([each for each in candidates if each.eligible], interval) == choice

    @given(
        stories(),
        st.data(),
        st.none() | st.integers(0, 4),
        st.none() | st.integers(0, 9),
        st.none() | st.integers(0, 9),
    )
    def test_nothing_makes_it_raise(self, story, data, interval, first, cap):
        points, resumes = story
        candidates = eligible(drawn_saves(data), points, resumes, interval=interval, first=first, cap=cap)

        assert choose(candidates, interval).reason
        assert pre_collapse([each.saved for each in candidates], cap) is None or cap is not None
