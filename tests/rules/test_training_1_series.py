"""Lineages: which attempt's steps lie behind which weights."""

from __future__ import annotations

from math import nan

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from ledger.rules.training_1.series import Part, Point, Resume, abandoned, final_lineage, lineage, on_lineage

from .training_1_series import point, rewards, stories

RESUMED = {1: None, 2: Resume(1, 15)}
"""Attempt 1 logged 1 to 17 and was lost; attempt 2 began with its checkpoint 15."""
TWICE = rewards([0.1] * 17) + rewards([0.9] * 5, attempt=2, first=16)


def walked_back(resumes, attempt, step):
    """Attempt and step of each update behind the weights, one by one from the last to the first."""
    behind = set()
    while step >= 1:
        start = resumes[attempt]
        if start is not None and step <= start.step:
            attempt = start.attempt
        else:
            behind.add((attempt, step))
            step -= 1
    return behind


def pairs(parts):
    return {(part.attempt, step) for part in parts for step in range(part.first_step, part.last_step + 1)}


class TestALineage:
    def test_a_first_attempt_is_its_own_lineage(self):
        assert lineage({1: None}, rewards([0.1] * 5), 1, 3) == (Part(1, 1, 3),)

    def test_a_resumed_attempt_stands_on_the_steps_before_its_checkpoint(self):
        assert lineage(RESUMED, TWICE, 2, 18) == (Part(1, 1, 15), Part(2, 16, 18))

    def test_an_attempt_that_was_left_behind_keeps_its_own_lineage(self):
        assert lineage(RESUMED, TWICE, 1, 17) == (Part(1, 1, 17),)

    def test_without_an_attempt_the_latest_that_has_the_step_is_meant(self):
        assert lineage(RESUMED, TWICE, None, 16) == (Part(1, 1, 15), Part(2, 16, 16))
        assert lineage(RESUMED, TWICE, None, 12) == (Part(1, 1, 12),)

    def test_a_chain_of_resumes_is_followed_to_the_rl_start(self):
        resumes = {1: None, 2: Resume(1, 10), 3: Resume(2, 12), 4: Resume(3, 20)}

        assert lineage(resumes, [], 4, 25) == (Part(1, 1, 10), Part(2, 11, 12), Part(3, 13, 20), Part(4, 21, 25))

    def test_an_attempt_that_nobody_recorded_has_no_part_in_it(self):
        resumes = {3: Resume(2, 10)}

        assert lineage(resumes, rewards([0.1] * 2, attempt=3, first=11), 3, 12) == (Part(3, 11, 12),)
        assert lineage({1: None}, rewards([0.1] * 5), 7, 3) == ()
        assert lineage({}, [], 2, 3, committed={(2, 3)}) == (Part(2, 1, 3),)

    def test_a_resume_before_the_parents_own_start_skips_the_parent(self):
        resumes = {1: None, 2: Resume(1, 10), 3: Resume(2, 8)}

        assert lineage(resumes, [], 3, 9) == (Part(1, 1, 8), Part(3, 9, 9))

    def test_a_step_before_an_attempts_start_belongs_to_the_attempt_that_it_began_with(self):
        assert lineage(RESUMED, TWICE, 2, 15) == (Part(1, 1, 15),)

    def test_an_attempt_from_the_rl_start_owes_nothing_to_earlier_ones(self):
        assert lineage({1: None, 2: None}, TWICE, 2, 3) == (Part(2, 1, 3),)

    def test_a_label_after_the_last_step_lies_on_the_lineage_too(self):
        assert lineage({1: None}, rewards([0.1] * 20), None, 21) == (Part(1, 1, 21),)

    def test_a_trainer_that_counts_from_0_has_its_step_0(self):
        assert lineage({1: None}, rewards([0.1] * 3, first=0), 1, 2) == (Part(1, 0, 2),)

    def test_nobody_made_a_step_of_an_empty_run(self):
        assert lineage({}, [], None, 3) == ()


class TestWhereABeginningIsNotSaid:
    def test_the_latest_attempt_that_committed_the_step_counts_before_one_that_only_logged_it(self):
        points = rewards([0.1] * 10) + rewards([0.2] * 10, attempt=2)
        resumes = {1: None, 2: None, 3: Resume(None, 5)}

        assert lineage(resumes, points, 3, 6, committed={(1, 5)}) == (Part(1, 1, 5), Part(3, 6, 6))
        assert lineage(resumes, points, 3, 6) == (Part(2, 1, 5), Part(3, 6, 6))

    def test_an_attempt_that_never_reported_its_start_begins_with_its_first_logged_step(self):
        assert lineage({1: None}, TWICE, 2, 18) == (Part(1, 1, 15), Part(2, 16, 18))

    def test_a_checkpoint_whose_step_nobody_logged_is_of_the_attempt_that_came_nearest(self):
        points = rewards([0.1] * 10) + rewards([0.2] * 4, attempt=2)

        assert lineage({1: None, 2: None, 3: Resume(None, 11)}, points, 3, 12) == (Part(1, 1, 11), Part(3, 12, 12))

    def test_a_checkpoint_of_elsewhere_begins_the_lineage(self):
        assert lineage({1: Resume(None, 40)}, rewards([0.1] * 3, first=41), 1, 43) == (Part(1, 41, 43),)

    def test_an_attempt_cannot_begin_with_itself_or_a_later_one(self):
        for odd in (2, 3):
            assert lineage({1: None, 2: Resume(odd, 15)}, TWICE, 2, 16) == (Part(1, 1, 15), Part(2, 16, 16))


class TestPointsOnALineage:
    def test_a_redone_step_has_the_reward_of_the_attempt_that_counts(self):
        series = on_lineage(TWICE, lineage(RESUMED, TWICE, 2, 20))

        assert [each.step for each in series] == list(range(1, 21))
        assert [each.reward for each in series] == [0.1] * 15 + [0.9] * 5

    def test_a_step_that_was_logged_twice_in_one_attempt_keeps_what_came_first(self):
        points = [point(1, 1, 0.5, pos=9), point(1, 1, 0.7, pos=4)]

        assert [each.reward for each in on_lineage(points, [Part(1, 1, 1)])] == [0.7]

    def test_what_was_logged_later_only_adds_what_was_missing(self):
        points = [point(1, 1, 0.5, 0.3, pos=4), point(1, 1, None, 0.9, 2.5, not_finite=3, pos=9)]
        points += [point(1, 2, None, None, 2.5, pos=4), point(1, 2, 0.7, 0.9, 9.5, pos=9)]

        assert on_lineage(points, [Part(1, 1, 2)]) == [
            point(1, 1, 0.5, 0.3, 2.5, not_finite=3, pos=4),
            point(1, 2, 0.7, 0.9, 2.5, pos=4),
        ]

    def test_lost_steps_leave_a_hole_and_nothing_else(self):
        points = [point(1, 1, 0.1), point(1, 4, 0.4)]

        assert [each.step for each in on_lineage(points, [Part(1, 1, 4)])] == [1, 4]


class TestAbandoned:
    def test_steps_that_a_later_attempt_made_again_are_abandoned(self):
        assert abandoned(TWICE, RESUMED) == {(1, 16), (1, 17)}

    def test_steps_that_a_later_attempt_has_not_reached_are_left_behind(self):
        points = rewards([0.1] * 20) + rewards([0.9], attempt=2, first=16)

        assert abandoned(points, RESUMED) == {(1, step) for step in range(16, 21)}

    def test_an_attempt_that_made_no_step_leaves_nothing_behind(self):
        assert abandoned(rewards([0.1] * 17), RESUMED) == set()

    def test_a_whole_attempt_can_be_left_behind(self):
        resumes = {1: None, 2: Resume(1, 10), 3: Resume(1, 10)}
        points = rewards([0.1] * 10) + rewards([0.2] * 3, attempt=2, first=11) + rewards([0.3], attempt=3, first=11)

        assert abandoned(points, resumes) == {(2, 11), (2, 12), (2, 13)}

    def test_the_latest_attempt_leaves_none_of_its_own_steps_behind(self):
        points = [*TWICE, point(2, 10, 0.9)]

        assert abandoned(points, RESUMED) == {(1, 16), (1, 17)}

    def test_an_empty_run_has_nothing_to_leave(self):
        assert abandoned([], {}) == set()


class TestProperties:
    @given(stories(), st.integers(0, 40))
    def test_attempts_strictly_increase_along_a_lineage_and_no_step_is_on_it_twice(self, story, step):
        points, resumes = story
        parts = lineage(resumes, points, None, step)
        steps = [each for part in parts for each in range(part.first_step, part.last_step + 1)]

        assert [part.attempt for part in parts] == sorted({part.attempt for part in parts})
        assert steps == sorted(set(steps))
        assert not steps or steps[-1] <= step
        assert steps == list(range(steps[0], steps[0] + len(steps))) if steps else parts == ()

    @given(st.data())
    def test_a_lineage_is_what_walking_back_step_by_step_gives(self, data):
        resumes: dict[int, Resume | None] = {1: None}
        for attempt in range(2, 6):
            resumes[attempt] = Resume(data.draw(st.integers(1, attempt - 1)), data.draw(st.integers(0, 12)))
        attempt, step = data.draw(st.integers(1, 5)), data.draw(st.integers(0, 14))

        assert pairs(lineage(resumes, [], attempt, step)) == walked_back(resumes, attempt, step)

    @given(stories(), st.integers(1, 4), st.integers(0, 40), st.integers(0, 40))
    def test_the_lineage_of_an_earlier_step_is_the_beginning_of_a_later_ones(self, story, attempt, one, other):
        points, resumes = story
        early, late = sorted((one, other))
        cut = {pair for pair in pairs(lineage(resumes, points, attempt, late)) if pair[1] <= early}

        assert pairs(lineage(resumes, points, attempt, early)) == cut

    @given(stories())
    def test_no_abandoned_step_is_on_the_final_lineage_and_every_other_one_of_an_earlier_attempt_is(self, story):
        points, resumes = story
        kept = pairs(final_lineage(resumes, points))
        lost = abandoned(points, resumes)
        last = max((each.attempt for each in points), default=0)

        assert not kept & lost
        assert {(each.attempt, each.step) for each in points if each.attempt < last} - kept == lost

    @given(stories())
    def test_the_series_does_not_depend_on_the_order_in_which_points_are_given(self, story):
        points, resumes = story
        parts = final_lineage(resumes, points)
        series, again = on_lineage(points, parts), on_lineage(list(reversed(points)), parts)

        assert [(each.attempt, each.step, each.pos) for each in series] == [(e.attempt, e.step, e.pos) for e in again]
        assert [each.step for each in series] == sorted({each.step for each in series})

    def test_a_point_is_written_as_an_array_and_nan_survives(self):
        written = msgspec.msgpack.encode(point(2, 7, nan, 0.5))
        read = msgspec.msgpack.decode(written, type=Point)

        assert msgspec.msgpack.decode(written)[:2] == [2, 7]
        assert read.reward != read.reward
        assert (read.entropy, read.grad_norm) == (0.5, None)
