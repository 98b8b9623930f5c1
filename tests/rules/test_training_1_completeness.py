"""Whether everything is here: complete, complete except for what is named, or unknown."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.rules.training_1.counting import joined, missing, size

from .training_1_stories import Story

SAMPLE = {"engine": "0", "sampled_at": "2026-07-27T08:20:00Z", "metrics": {}}


def recorded(story: Story, *seqs: int, epoch: int = 1, producer: str = "rank-0") -> Story:
    for seq in seqs:
        payload = {"attempt": 1, "steps": [{"step": epoch * 100 + seq, "metrics": {}}]}
        story.add("steps.logged", payload, producer=(producer, epoch, seq))
    return story


def reported(story: Story, last: int, *, epoch: int = 1, closed: bool = True, **fields: Any) -> Story:
    said = {"producer": "rank-0", "epoch": epoch, "last_seq": last, "closed": closed, **fields}
    story.add("recording.reported", said, producer=("rank-0", epoch, last + 1))
    return story


def said(story: Story) -> tuple[str, list[str]]:
    completeness = story.dossier()["completeness"]
    assert completeness["verdict"] == story.shown()["summary"]["completeness"]
    return completeness["verdict"], completeness["exceptions"]


def test_nobody_can_say_where_nobody_counted():
    assert said(Story().declared()) == ("unknown", ["no event bears a producer's count"])


def test_an_epoch_that_is_reported_closed_and_whole_is_complete():
    assert said(reported(recorded(Story(), 1, 2, 3), 3)) == ("complete", [])


def test_numbers_may_come_in_any_order_and_twice():
    assert said(reported(recorded(Story(), 3, 1, 2, 3), 3)) == ("complete", [])


def test_samples_of_engines_count_though_they_show_nothing():
    story = recorded(Story(), 1)
    story.add("engine.sampled", {"attempt": 1, "samples": [SAMPLE]}, producer=("rank-0", 1, 2))
    assert said(reported(story, 2)) == ("complete", [])


def test_a_number_that_nobody_saw_is_named():
    verdict, (exception,) = said(reported(recorded(Story(), 1, 4, 5), 7))
    assert verdict == "complete_except"
    assert exception == "epoch 1 of rank-0 lacks 4 events by number: 2-3, 6-7"


def test_what_was_dropped_is_named_with_its_steps():
    story = reported(recorded(Story(), 1, 4), 4, dropped=2, dropped_steps=[{"first": 2, "last": 3}])
    assert said(story) == ("complete_except", ["epoch 1 of rank-0 dropped 2 events, of steps 2-3"])


def test_what_was_refused_is_named():
    story = reported(recorded(Story(), 1, 3), 3, refused=1)
    assert said(story) == ("complete_except", ["epoch 1 of rank-0 had 1 event refused"])


def test_what_was_refused_and_then_sent_again_is_not_missing():
    assert said(reported(recorded(Story(), 1, 2, 3), 3, refused=1)) == ("complete", [])


def test_what_was_dropped_and_refused_is_told_apart():
    story = reported(recorded(Story(), 1), 4, dropped=1, refused=2)
    assert said(story)[1] == ["epoch 1 of rank-0 dropped 1 event", "epoch 1 of rank-0 had 2 events refused"]


def test_holes_beyond_what_is_reported_are_told_apart():
    story = reported(recorded(Story(), 1), 4, dropped=1)
    assert said(story)[1][-1] == "epoch 1 of rank-0 lacks 3 events by number: 2-4, 1 of them reported"


def test_a_report_of_more_than_is_missing_is_told():
    story = reported(recorded(Story(), 1, 2), 2, dropped=1)
    assert said(story)[1][-1] == "epoch 1 of rank-0 reports 1 event dropped, and 0 are missing by number"


def test_an_epoch_without_a_report_may_still_be_recording():
    verdict, exceptions = said(recorded(Story(), 1, 2))
    assert (verdict, exceptions) == ("unknown", ["epoch 1 of rank-0 has no report: it may still be recording"])


def test_an_epoch_that_the_next_one_counted_is_complete():
    story = reported(recorded(Story(), 1, 2), 2, closed=False)
    assert said(reported(recorded(story, 1, epoch=2), 1, epoch=2)) == ("complete", [])


def test_a_last_epoch_that_was_not_closed_is_no_complete_one():
    verdict, (exception,) = said(reported(recorded(Story(), 1, 2), 2, closed=False))
    assert (verdict, exception) == ("complete_except", "epoch 1 of rank-0 was not closed: it was counted afterwards")


def test_an_epoch_between_of_which_nothing_was_seen_is_named():
    story = reported(recorded(Story(), 1), 1)
    verdict, (exception,) = said(reported(recorded(story, 1, epoch=3), 1, epoch=3))
    assert (verdict, exception) == ("complete_except", "nothing was seen of epoch 2 of rank-0")


def test_an_epoch_before_without_a_report_leaves_it_unknown():
    story = reported(recorded(recorded(Story(), 1), 1, epoch=2), 1, epoch=2)
    assert said(story) == ("unknown", ["epoch 1 of rank-0 has no report: nobody counted what it left"])


def test_each_producer_is_judged():
    story = reported(recorded(recorded(Story(), 1), 1, producer="rank-1"), 1)
    assert said(story) == ("unknown", ["epoch 1 of rank-1 has no report: it may still be recording"])


def test_steps_without_a_number_beside_counted_ones_are_named():
    story = Story()
    story.step(1)
    assert said(reported(recorded(story, 1), 1)) == (
        "complete_except",
        ["no producer's count on 1 event with steps"],
    )


def test_events_after_the_report_are_named():
    story = recorded(reported(recorded(Story(), 1), 1), 5)
    assert said(story)[1] == ["epoch 1 of rank-0 goes on to 5, and its report counts up to 1"]


@pytest.mark.parametrize(
    ("fields", "words"),
    [({"unreadable_bytes": 7}, "left 7 bytes that could not be read"), ({"malformed_lines": 1}, "1 line of its log")],
)
def test_what_could_not_be_read_is_named(fields, words):
    verdict, (exception,) = said(reported(recorded(Story(), 1), 1, **fields))
    assert verdict == "complete_except"
    assert words in exception


def test_a_later_report_of_an_epoch_replaces_the_earlier():
    story = reported(recorded(Story(), 1, 2), 2, refused=1)
    story.add("recording.reported", {"producer": "rank-0", "epoch": 1, "last_seq": 2, "closed": True})
    assert said(story) == ("complete", [])


@given(numbers=st.lists(st.integers(1, 30)), last=st.integers(0, 30))
def test_merged_ranges_hold_exactly_the_numbers_seen(numbers: list[int], last: int) -> None:
    ranges: tuple[tuple[int, int], ...] = ()
    for number in numbers:
        ranges = joined(ranges, number)
    assert [n for low, high in ranges for n in range(low, high + 1)] == sorted(set(numbers))
    assert all(after[0] > before[1] + 1 for before, after in pairwise(ranges))
    assert size(ranges) == len(set(numbers))
    holes = [n for low, high in missing(ranges, last) for n in range(low, high + 1)]
    assert holes == [n for n in range(1, last + 1) if n not in numbers]
