"""A series that is kept up step by step comes to what the whole series comes to, whatever it says."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.rules.training_1.episodes import QUIET, Sign, episodes
from ledger.rules.training_1.model import Run, Tail
from ledger.rules.training_1.signs import collapse, lost_reward, runaway, usual
from ledger.rules.training_1.tail import following, outcome, whole

from .training_1_series import point
from .training_1_stories import Story, metrics

HEALTHY = [(0.5, 0.4)] * 8
LOST = [(0.0, 0.4)] * 4
SPREAD = [(0.5, 4.0)] * 4
NARROW = [(0.5, 0.01)] * 4
BROKEN = [("NaN", "NaN")] * 4


def kept(run: Run) -> Tail:
    """The tail, which comes to what the whole series comes to."""
    assert run.series.tail is not None
    assert repr(outcome(run)) == repr(whole(run))  # a NaN is equal to itself in words alone
    return run.series.tail


def told(series: Iterable[tuple[Any, Any]]) -> Run:
    """A run whose tail is right after each of its steps."""
    story = Story()
    for step, (reward, entropy) in enumerate(series, 1):
        story.step(step, reward, entropy)
        kept(story.facts.run)
    return story.facts.run


@pytest.mark.parametrize(
    ("series", "kinds", "onset"),
    [
        (HEALTHY, (), None),
        (HEALTHY + LOST, ("reward_collapse",), 9),
        (HEALTHY + SPREAD, ("entropy_runaway",), 9),
        (HEALTHY + NARROW, ("entropy_collapse",), 9),
        (HEALTHY + BROKEN, ("non_finite",), 9),
        (HEALTHY + LOST + HEALTHY, ("reward_collapse",), None),
        (HEALTHY + SPREAD + HEALTHY + NARROW, ("entropy_runaway", "entropy_collapse"), 21),
        (HEALTHY + SPREAD + HEALTHY + SPREAD, ("entropy_runaway",), 21),
        (HEALTHY + LOST + SPREAD + HEALTHY + BROKEN, ("reward_collapse", "entropy_runaway", "non_finite"), 25),
        (HEALTHY + LOST[:2] + HEALTHY, (), None),
        ([(None, None), *HEALTHY, *LOST], ("reward_collapse",), 10),
    ],
    ids=str,
)
def test_a_series_is_kept_up_also_where_it_goes_wrong_and_where_it_recovers(series, kinds, onset):
    found = outcome(told(series))
    assert (found.kinds, found.onset) == (kinds, onset)


LEVELS = st.tuples(
    st.sampled_from([0.0, 0.05, 0.3, 0.8, -0.5, "NaN", "Infinity", None]),
    st.sampled_from([0.0, 0.001, 0.05, 0.14, 0.3, 0.5, 1.0, 2.0, 6.0, "NaN", "-Infinity", None]),
    st.integers(1, 6),
)
"""A reward and an entropy that hold for some steps: so series collapse, recover and waver."""


@given(levels=st.lists(LEVELS, max_size=9))
def test_whatever_a_series_says_the_tail_is_that_of_the_whole(levels):
    told([(reward, entropy) for reward, entropy, steps in levels for _ in range(steps)])


@given(values=st.lists(st.tuples(st.floats(0, 1), st.floats(0, 3)), max_size=40))
def test_the_tail_of_a_random_series_is_that_of_the_whole(values):
    told(values)


@given(
    logs=st.lists(
        st.lists(st.tuples(st.integers(1, 6), st.sampled_from([None, 0.0, 0.5, "NaN"])), min_size=1, max_size=4),
        max_size=8,
    )
)
def test_steps_that_come_in_any_order_and_several_at_once_come_to_what_the_whole_comes_to(logs):
    story = Story()
    for log in logs:
        steps = [{"step": step, "metrics": metrics(reward, 0.4)} for step, reward in log]
        story.add("steps.logged", {"attempt": 1, "steps": steps})
        assert repr(outcome(story.facts.run)) == repr(whole(story.facts.run))


def test_a_log_that_is_read_a_second_time_leaves_the_tail_as_it_was():
    story = Story().series([0.5, 0.6, 0.7], entropies=[0.4, 0.4, 0.4])
    before = kept(story.facts.run)
    for step, reward in ((1, 0.1), (2, None), (3, 0.7)):
        story.step(step, reward, 0.4)
        assert kept(story.facts.run).now == before.now
    story.step(4, 0.8)
    assert kept(story.facts.run).last.step == 4


def test_what_is_logged_later_of_an_earlier_step_is_read_with_the_whole_series():
    story = Story().series([0.5, 0.5, 0.5])
    story.step(2, None, 0.4)
    assert story.facts.run.series.tail is None
    story.step(4, 0.5)
    assert kept(story.facts.run).now.base == (0.4,)


@given(signs=st.lists(st.sampled_from([Sign(False, False), Sign(True, False), Sign(True, True), Sign(False, True)])))
def test_a_watch_says_at_each_place_what_the_episodes_up_to_there_say(signs):
    watch = QUIET
    for place, sign in enumerate(signs):
        watch = watch.after(place, sign)
        last = (episodes(signs[: place + 1]) or [None])[-1]
        lasting = None if last is None or last.over is not None else (last.onset, last.seen)
        assert (None if watch.seen is None else (watch.since, watch.seen)) == lasting


def test_more_that_is_logged_of_the_last_step_is_taken_in():
    story = Story()
    for step in range(1, 10):
        story.step(step, 0.5)
        story.step(step, None, 0.4)
        tail = kept(story.facts.run)
        assert (tail.last.step, tail.last.reward, tail.last.entropy) == (step, 0.5, 0.4)


def test_after_a_resume_the_tail_is_that_of_the_new_lineage():
    story = Story().declared()
    story.series([0.9, 0.9, 0.9])
    story.saved(1)
    story.attempt(2, 1)
    assert story.facts.run.series.tail is None
    story.series([0.3, 0.3], attempt=2, first=2)
    tail = story.facts.run.series.tail
    assert tail is not None
    assert tail.before.ema == pytest.approx(0.9 * 2 / 3 + 0.1)
    assert tail.now.ema == pytest.approx(0.7 * 2 / 3 + 0.1)


def test_only_a_later_or_the_same_step_of_the_same_attempt_continues_a_tail():
    tail = kept(Story().series([0.5, 0.6]).facts.run)
    after = following(tail, point(1, 3, 0.7))
    assert after is not None
    assert (after.before, after.last.step, after.now.reward) == (tail.now, 3, 0.7)
    same = following(tail, point(1, 2, 0.9, 0.4))
    assert same is not None
    assert (same.before, same.now.reward, same.now.base) == (tail.before, 0.6, (0.4,))
    assert following(tail, point(2, 3, 0.7)) is None
    assert following(tail, point(1, 1, 0.7)) is None
    assert following(None, point(1, 1, 0.7)) is None


def test_a_number_on_its_threshold_is_no_sign_yet():
    assert (lost_reward(0.25, 0.5), lost_reward(0.24, 0.5)) == (Sign(False, False), Sign(True, False))
    assert (runaway(1.0, (0.5, 0.5)), runaway(2.5, (0.5, 0.5))) == (Sign(False, False), Sign(True, False))
    assert (collapse(0.5, (1.0, 1.0)), collapse(0.15, (1.0, 1.0))) == (Sign(False, False), Sign(True, False))
    assert (usual([1.0, 0.5, 2.0, 2.0, 2.0]), usual([0.0, 1.0, 1.0, 1.0, 1.0])) == ((1.0, 2.0), None)
