"""Contradictions around a resume: what a checkpoint holds, what was loaded of it, and what the engines were sent."""

from __future__ import annotations

from typing import Any

import pytest

from .training_1_stories import Story, sha


def begun() -> Story:
    story = Story().declared()
    story.attempt()
    return story


def flags(story: Story) -> list[tuple[str, str, list[int]]]:
    return [(flag["code"], flag["message"], flag["positions"]) for flag in story.dossier()["flags"]]


def loaded(story: Story, step: int = 10, attempt: int = 2, **fields: Any) -> int:
    return story.add("checkpoint.loaded", {"attempt": attempt, "step": step, **fields})


def synced(story: Story, attempt: int, version: int) -> int:
    return story.add("weights.synced", {"attempt": attempt, "step": version, "weight_version": version})


class TestTheData:
    @pytest.mark.parametrize(
        ("counter", "words"),
        [("prompts_consumed", "prompts consumed"), ("prompts_trained", "prompts trained"), ("epoch", "epoch")],
    )
    def test_a_counter_that_a_load_finds_higher_than_it_was_saved_ran_ahead(self, counter, words):
        story = begun()
        saved = story.saved(10, data_state={counter: 736})
        load = loaded(story, data_state={counter: 997})
        message = f"attempt 2 began with {words} 997, and 736 when step 10 was saved"
        assert flags(story) == [("DATA_STATE_RAN_AHEAD", message, [saved, load])]

    def test_of_two_counters_one_may_run_ahead_and_one_go_back(self):
        story = begun()
        story.saved(10, data_state={"prompts_consumed": 736, "epoch": 2})
        loaded(story, data_state={"prompts_consumed": 997, "epoch": 1})
        assert sorted(story.codes()) == ["DATA_STATE_RAN_AHEAD", "DATA_STATE_WENT_BACK"]

    def test_other_consumed_ids_than_were_saved(self):
        story = begun()
        saved = story.saved(10, data_state={"prompts_consumed": 640, "consumed_digest": sha("a")})
        load = loaded(story, data_state={"prompts_consumed": 640, "consumed_digest": sha("b")})
        message = f"attempt 2 began with consumed ids {sha('b')[:12]}…, and {sha('a')[:12]}… were saved with step 10"
        assert flags(story) == [("CONSUMED_IDS_DIFFER", message, [saved, load])]

    @pytest.mark.parametrize(
        ("then", "now"), [(None, sha("b")), (sha("a"), None), (sha("a"), sha("a"))], ids=["then", "now", "same"]
    )
    def test_consumed_ids_that_are_the_same_or_known_on_one_side_alone_do_not_differ(self, then, now):
        story = begun()
        story.saved(10, data_state={"epoch": 1, "consumed_digest": then})
        loaded(story, data_state={"epoch": 1, "consumed_digest": now})
        assert flags(story) == []


class TestTheBytes:
    def test_a_checkpoint_that_says_it_holds_no_weights(self):
        story = begun()
        saved = story.saved(10, contents={"weights": False, "optimizer": True})
        message = "the checkpoint at step 10 of attempt 1 holds no weights"
        assert flags(story) == [("COMMITTED_WITHOUT_WEIGHTS", message, [saved])]

    @pytest.mark.parametrize("contents", [None, {"optimizer": True}, {"weights": True}])
    def test_a_checkpoint_that_holds_them_or_does_not_say_is_no_contradiction(self, contents):
        story = begun()
        story.saved(10, contents=contents)
        assert flags(story) == []

    def test_one_digest_under_two_steps(self):
        story = begun()
        first, second = story.saved(10, "bytes"), story.saved(15, "bytes")
        message = (
            "the checkpoint at step 15 of attempt 1 has the bytes of the checkpoint at step 10 of attempt 1: "
            "two steps claim one checkpoint"
        )
        assert flags(story) == [("CHECKPOINT_UNDER_TWO_STEPS", message, [first, second])]

    def test_one_digest_twice_at_one_step_is_one_checkpoint(self):
        story = begun()
        story.saved(10, "bytes")
        story.saved(10, "bytes", attempt=2)
        assert flags(story) == []

    def test_unknown_digests_are_equal_to_nothing(self):
        story = begun()
        for step in (10, 15):
            story.add("checkpoint.committed", {"attempt": 1, "step": step, "digest": None})
        assert flags(story) == []


class TestTheEngines:
    def test_a_resume_that_logs_steps_and_sends_no_weights(self):
        story = begun()
        synced(story, 1, 10)
        story.series([0.5] * 10)
        story.saved(10)
        start = story.attempt(2, 10)
        assert flags(story) == []
        step = story.step(11, 0.5, attempt=2)
        message = "attempt 2 began at step 10 and logged steps, and no weights were sent to the engines in it"
        assert flags(story) == [("NO_WEIGHTS_SENT_AFTER_RESUME", message, [start, step])]
        synced(story, 2, 11)
        assert flags(story) == []

    def test_of_a_run_that_never_recorded_a_transfer_nobody_can_say(self):
        story = begun()
        story.series([0.5] * 10)
        story.saved(10)
        story.attempt(2, 10)
        story.step(11, 0.5, attempt=2)
        assert flags(story) == []


class TestWhereAnAttemptBegan:
    """With what it loaded first, whatever it was to begin with."""

    def attempted(self, *loads: dict[str, Any]) -> tuple[int, int | None]:
        story = begun()
        story.series([0.5] * 10)
        story.saved(5)
        story.saved(10)
        story.attempt(2, {"step": 10, "attempt": 1})
        for load in loads:
            loaded(story, **load)
        story.step(11, 0.5, attempt=2)
        _, attempt = story.dossier()["attempts"]
        return attempt["resumed_from_step"], attempt.get("resumed_from_attempt")

    def test_it_began_at_the_step_that_it_names_where_nothing_else_was_loaded(self):
        assert self.attempted() == (10, 1)
        assert self.attempted({"step": 10}) == (10, 1)

    def test_it_began_at_the_step_that_was_loaded_where_another_is_named(self):
        assert self.attempted({"step": 5}) == (5, None)

    def test_the_digest_of_what_was_loaded_says_whose_checkpoint_it_was(self):
        assert self.attempted({"step": 5, "digest": sha("1-5")}) == (5, 1)

    def test_only_the_first_load_is_a_beginning(self):
        assert self.attempted({"step": 10}, {"step": 5}) == (10, 1)

    def test_a_load_from_another_run_does_not_take_back_what_is_named(self):
        assert self.attempted({"step": 5, "from_run_id": "warm-up"}) == (10, 1)

    def test_steps_after_the_one_that_was_loaded_were_lost(self):
        story = begun()
        story.series([0.5] * 10)
        story.saved(5)
        story.saved(10)
        story.attempt(2, 10)
        loaded(story, 5)
        story.step(6, 0.9, attempt=2)
        first, _ = story.dossier()["attempts"]
        assert (first["abandoned_steps"], story.codes()) == (5, ["LOADED_OTHER_STEP"])
