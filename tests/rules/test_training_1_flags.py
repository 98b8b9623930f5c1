"""Contradictions of runs: both facts are kept, and the flag names its numbers and its events."""

from __future__ import annotations

from typing import Any

import pytest

from .training_1_stories import CLAIMED, Story, metrics, selection, sha


def flagged(story: Story) -> dict[str, tuple[str, list[int]]]:
    return {flag["code"]: (flag["message"], flag["positions"]) for flag in story.dossier()["flags"]}


def begun(**fields: Any) -> Story:
    story = Story().declared(**fields)
    story.attempt()
    return story


def test_a_run_without_contradictions_has_no_flags():
    story = begun(planned_steps=4)
    story.series([0.1, 0.2])
    story.saved(2)
    story.add("attempt.ended", {"attempt": 1, "ending": "failed", "last_step": 2})
    story.attempt(2, {"step": 2, "attempt": 1, "digest": sha("1-2")})
    story.add("checkpoint.loaded", {"attempt": 2, "step": 2, "digest": sha("1-2")})
    story.series([0.3, 0.4], attempt=2, first=3)
    story.saved(4, attempt=2)
    story.ended(last_step=4)
    assert story.dossier()["flags"] == []
    assert story.shown()["summary"]["flags"] == 0


class TestSteps:
    def test_a_step_below_the_last_one_of_its_attempt(self):
        story = begun()
        story.step(5)
        back = story.step(3)
        assert flagged(story)["STEP_WENT_BACK"] == ("attempt 1 logged step 3 after step 5", [back])

    def test_a_step_that_is_logged_twice_with_another_value(self):
        story = begun()
        first, again = story.step(1, 0.5), story.step(1, 0.7)
        assert flagged(story)["STEP_LOGGED_TWICE"] == (
            "attempt 1 logged step 1 twice: reward 0.5, then 0.7",
            [first, again],
        )

    @pytest.mark.parametrize("again", [metrics(0.5), metrics(None, 0.4), {"timing/step": 3.0}])
    def test_a_step_of_which_more_is_logged_later_is_no_contradiction(self, again):
        story = begun()
        story.step(1, 0.5)
        story.add("steps.logged", {"attempt": 1, "steps": [{"step": 1, "metrics": again}]})
        assert story.dossier()["flags"] == []
        assert story.dossier()["attempts"][0]["steps"] == 1

    def test_a_step_that_is_no_number_both_times_is_no_contradiction(self):
        story = begun()
        story.step(1, "NaN")
        story.step(1, "NaN")
        assert story.dossier()["flags"] == []

    def test_many_contradictions_of_a_kind_are_one_flag_with_their_number(self):
        story = begun()
        for step in range(50, 0, -1):
            story.step(step)
        message, positions = flagged(story)["STEP_WENT_BACK"]
        assert message == "attempt 1 logged step 49 after step 50; and 48 more like it"
        assert len(positions) == 16

    def test_the_same_number_in_another_attempt_is_no_contradiction(self):
        story = begun()
        story.series([0.1, 0.2, 0.3])
        story.saved(1)
        story.attempt(2, 1)
        story.series([0.5, 0.6], attempt=2, first=2)
        assert story.dossier()["flags"] == []

    def test_weights_of_an_earlier_version_than_before(self):
        story = begun()
        for step, version in ((1, 5), (2, 4)):
            logged = {"step": step, "weight_version": version, "metrics": {}}
            pos = story.add("steps.logged", {"attempt": 1, "steps": [logged]})
        message = "step 2 of attempt 1 rolled out weights 4, after weights 5"
        assert flagged(story)["WEIGHT_VERSION_WENT_BACK"] == (message, [pos])


class TestAttempts:
    def test_one_that_begins_at_a_checkpoint_that_nobody_committed(self):
        story = begun()
        pos = story.attempt(2, {"step": 10, "attempt": 1})
        message = "attempt 2 began at the checkpoint at step 10 of attempt 1, which no earlier attempt committed"
        assert flagged(story)["RESUMED_FROM_UNKNOWN"] == (message, [pos])

    def test_one_that_begins_at_a_checkpoint_that_only_a_later_one_committed(self):
        story = begun()
        story.saved(10, attempt=3)
        story.attempt(2, 10)
        assert "RESUMED_FROM_UNKNOWN" in story.codes()

    def test_one_that_begins_at_a_checkpoint_that_was_deleted_before(self):
        story = begun()
        story.saved(10)
        deleted = story.add("checkpoint.deleted", {"step": 10})
        start = story.attempt(2, 10)
        assert flagged(story)["RESUMED_FROM_DELETED"][1] == [deleted, start]

    def test_one_that_begins_at_a_checkpoint_that_is_deleted_later_is_no_contradiction(self):
        story = begun()
        story.saved(10)
        story.attempt(2, 10)
        story.add("checkpoint.deleted", {"step": 10})
        assert story.codes() == []

    def test_one_that_begins_at_other_bytes(self):
        story = begun()
        saved = story.saved(10)
        start = story.attempt(2, {"step": 10, "digest": sha("other")})
        assert flagged(story)["RESUMED_FROM_OTHER_BYTES"][1] == [saved, start]

    def test_one_that_begins_with_weights_of_another_run_is_not_judged(self):
        story = begun()
        story.attempt(2, {"step": 10, "run_id": "another"})
        assert story.codes() == []

    def test_a_run_that_names_itself_names_no_other_run(self):
        story = begun()
        story.attempt(2, {"step": 10, "run_id": "arm-0"})
        assert story.codes() == ["RESUMED_FROM_UNKNOWN"]
        assert story.shown()["resumed_from_runs"] == []

    def test_a_number_that_is_not_new(self):
        story = begun()
        story.attempt(1)
        story.attempt(3)
        story.attempt(2)
        assert story.codes() == ["ATTEMPT_STARTED_AGAIN", "ATTEMPT_NUMBER_WENT_BACK"]

    @pytest.mark.parametrize(
        ("first", "code"), [(13, "STEPS_SKIPPED_AT_RESUME"), (1, "STEPS_NUMBERED_ANEW"), (11, None)]
    )
    def test_the_first_step_after_a_resume_is_the_next_one(self, first, code):
        story = begun()
        story.saved(10)
        story.attempt(2, 10)
        story.step(first, attempt=2)
        assert story.codes() == ([code] if code else [])


class TestEnds:
    def test_an_attempt_and_a_run_that_end_twice(self):
        story = begun()
        for _ in range(2):
            story.add("attempt.ended", {"attempt": 1, "ending": "failed"})
        story.ended("failed")
        story.ended("cancelled")
        found = flagged(story)
        assert found["ATTEMPT_ENDED_TWICE"][0] == "attempt 1 ended twice: failed, then failed"
        assert found["RUN_ENDED_TWICE"][0] == "the run ended twice: failed, then cancelled"

    def test_what_comes_after_the_end(self):
        story = begun()
        story.add("attempt.ended", {"attempt": 1, "ending": "failed"})
        story.ended("failed")
        story.step(1)
        story.attempt(2)
        story.saved(1)
        after = {"STEPS_AFTER_ATTEMPT_END", "STEPS_AFTER_RUN_END", "STARTED_AFTER_END", "SAVED_AFTER_END"}
        assert set(story.codes()) == after

    def test_steps_that_are_imported_after_live_ones_come_after_no_end(self):
        story = begun()
        story.step(1)
        story.add("attempt.ended", {"attempt": 1, "ending": "failed"})
        steps = [{"step": 2, "metrics": {}}]
        story.add("steps.logged", {"attempt": 1, "steps": steps, "basis": CLAIMED})
        assert story.codes() == []
        story.step(3)
        assert story.codes() == ["STEPS_AFTER_ATTEMPT_END"]

    def test_a_weight_version_is_held_against_the_highest_also_where_steps_between_name_none(self):
        story = begun()
        for step, version in ((1, 5), (2, None), (3, 4)):
            logged = {"step": step, "weight_version": version, "metrics": {}}
            story.add("steps.logged", {"attempt": 1, "steps": [logged]})
        (flag,) = story.dossier()["flags"]
        assert flag["code"] == "WEIGHT_VERSION_WENT_BACK"
        assert "rolled out weights 4, after weights 5" in flag["message"]

    def test_what_was_recorded_afterwards_may_come_in_any_order(self):
        story = Story().declared(basis=CLAIMED)
        story.ended("failed", basis=CLAIMED)
        story.add("attempt.ended", {"attempt": 1, "ending": "failed", "basis": CLAIMED})
        story.attempt(2, basis=CLAIMED)
        story.attempt(1, basis=CLAIMED)
        story.saved(1, basis=CLAIMED)
        story.add("steps.logged", {"attempt": 1, "steps": [{"step": 1, "metrics": {}}], "basis": CLAIMED})
        assert story.codes() == []

    def test_a_last_step_that_is_not_the_one_that_was_logged(self):
        story = begun()
        story.series([0.1] * 3)
        story.add("attempt.ended", {"attempt": 1, "ending": "failed", "last_step": 4})
        story.ended("failed", last_step=2)
        messages = [flag["message"] for flag in story.dossier()["flags"]]
        assert messages == [
            "attempt 1 is said to have ended at step 4, and logged up to step 3",
            "the run is said to have ended at step 2, and its last attempt logged up to step 3",
        ]

    def test_a_run_that_is_said_to_be_completed_before_its_plan(self):
        story = begun(planned_steps=80)
        story.series([0.1] * 3)
        story.ended("completed")
        assert flagged(story)["COMPLETED_BEFORE_PLAN"][0] == (
            "the run is said to be completed at step 3, and 80 steps were planned"
        )

    def test_a_run_that_is_cancelled_before_its_plan_is_no_contradiction(self):
        story = begun(planned_steps=80)
        story.ended("cancelled", last_step=70)
        assert story.codes() == []

    def test_steps_past_the_plan(self):
        story = begun(planned_steps=2)
        story.series([0.1] * 3)
        assert story.codes() == ["STEPS_PAST_PLAN"]


class TestCheckpoints:
    def test_one_that_an_export_job_saves_again(self):
        story = begun()
        first = story.saved(15)
        again = story.saved(15, "re-saved", attempt=2, saved_by="export_job")
        message, positions = flagged(story)["CHECKPOINT_SAVED_AGAIN"]
        assert "saved again by an export job" in message
        assert positions == [first, again]
        states = [(c["status"], c.get("replaced_pos")) for c in story.dossier()["checkpoints"]]
        assert states == [("replaced", again), ("committed", None)]

    def test_one_that_the_trainer_itself_saves_again(self):
        story = begun()
        story.saved(15)
        story.saved(15, "again", saved_by="trainer")
        story.saved(15, "and again")
        messages = [flag["message"] for flag in story.dossier()["flags"]]
        assert [message.partition(":")[0] for message in messages] == [
            "the checkpoint at step 15 of attempt 1 was saved again"
        ] * 2

    def test_one_that_is_saved_again_with_the_same_bytes_is_one_checkpoint(self):
        story = begun()
        story.saved(15)
        story.saved(15)
        assert story.codes() == []
        assert len(story.dossier()["checkpoints"]) == 1

    def test_one_that_another_attempt_made_again_elsewhere_replaces_nothing(self):
        story = begun()
        story.saved(15, location="a")
        story.saved(15, attempt=2, location="b")
        assert [c["status"] for c in story.dossier()["checkpoints"]] == ["committed", "committed"]

    def test_one_whose_label_is_ahead_of_its_weights(self):
        story = begun()
        story.saved(16, last_update=15)
        assert flagged(story)["LABEL_AHEAD_OF_WEIGHTS"][0] == (
            "the checkpoint at step 16 of attempt 1 holds the weights after update 15: its label is ahead of them"
        )
        (checkpoint,) = story.dossier()["checkpoints"]
        assert (checkpoint["off_by_one"], checkpoint["last_update"], checkpoint["scored_by_step"]) == (True, 15, 16)

    def test_one_whose_own_state_names_another_step(self):
        story = begun()
        story.saved(16, recorded_step=0)
        assert "names step 0" in flagged(story)["RECORDED_STEP_DIFFERS"][0]

    def test_one_that_was_loaded_with_other_bytes(self):
        story = begun()
        saved = story.saved(10)
        loaded = story.add("checkpoint.loaded", {"attempt": 2, "step": 10, "digest": sha("other")})
        assert flagged(story)["LOADED_OTHER_BYTES"][1] == [saved, loaded]

    def test_one_that_was_loaded_in_part(self):
        story = begun()
        story.saved(10, contents={"weights": True, "data_state": True})
        story.add("checkpoint.loaded", {"attempt": 2, "step": 10, "restored": {"weights": True, "data_state": False}})
        assert flagged(story)["RESTORED_IN_PART"][0] == "attempt 2 loaded step 10 without its data state"

    def test_data_that_goes_back_at_a_resume(self):
        story = begun()
        story.saved(10, data_state={"epoch": 1, "prompts_consumed": 640, "shuffle_seed": 1})
        state = {"epoch": 1, "prompts_consumed": 600, "shuffle_seed": 2}
        story.add("checkpoint.loaded", {"attempt": 2, "step": 10, "data_state": state})
        found = flagged(story)
        assert found["DATA_STATE_WENT_BACK"][0] == (
            "attempt 2 began with prompts consumed 600, and 640 when step 10 was saved"
        )
        assert found["SHUFFLE_SEED_CHANGED"][0] == "attempt 2 shuffles by seed 2, and by 1 at the save"

    def test_what_was_loaded_is_held_against_the_save_with_its_digest(self):
        story = begun()
        story.saved(10, data_state={"prompts_consumed": 640})
        story.saved(10, attempt=2, location="elsewhere", data_state={"prompts_consumed": 700})
        state = {"prompts_consumed": 640}
        story.add("checkpoint.loaded", {"attempt": 3, "step": 10, "digest": sha("1-10"), "data_state": state})
        assert story.codes() == []
        story.add("checkpoint.loaded", {"attempt": 3, "step": 10, "digest": sha("2-10"), "data_state": state})
        assert story.codes() == ["DATA_STATE_WENT_BACK"]

    def test_what_was_loaded_is_held_against_saves_of_its_own_step_alone(self):
        story = begun()
        story.saved(5, data_state={"prompts_consumed": 640})
        story.add(
            "checkpoint.loaded",
            {"attempt": 2, "step": 10, "digest": sha("1-10"), "data_state": {"prompts_consumed": 320}},
        )
        assert story.codes() == []

    def test_a_seed_that_is_known_on_one_side_alone_did_not_change(self):
        story = begun()
        story.saved(10, data_state={"shuffle_seed": 1})
        story.add("checkpoint.loaded", {"attempt": 2, "step": 10, "data_state": {"epoch": 1}})
        assert story.codes() == []

    def test_data_that_goes_on_where_it_was_is_no_contradiction(self):
        story = begun()
        state = {"epoch": 1, "prompts_consumed": 640, "shuffle_seed": 1}
        story.saved(10, data_state=state, contents={"optimizer": True})
        story.add(
            "checkpoint.loaded",
            {"attempt": 2, "step": 10, "data_state": state, "recorded_step": 10, "restored": {"optimizer": True}},
        )
        assert story.codes() == []

    def test_another_one_loaded_than_the_attempt_names(self):
        story = begun()
        story.saved(5)
        story.saved(10)
        story.attempt(2, 10)
        story.add("checkpoint.loaded", {"attempt": 2, "step": 5})
        assert story.codes() == ["LOADED_OTHER_STEP"]

    def test_more_are_kept_than_were_to_be(self):
        story = begun(max_checkpoints_kept=2)
        for step in (5, 10, 15):
            story.saved(step)
        assert story.codes() == []
        over = story.saved(20)
        message, positions = flagged(story)["CHECKPOINTS_OVER_LIMIT"]
        assert message == "3 checkpoints were kept when step 20 was saved, and at most 2 were to be"
        assert positions[-1] == over

    def test_room_that_is_made_after_each_save_is_no_contradiction(self):
        story = begun(max_checkpoints_kept=2)
        for step in (5, 10, 15, 20, 25):
            story.saved(step)
            if step > 10:
                story.add("checkpoint.deleted", {"step": step - 10})
        assert story.codes() == []

    def test_one_that_was_selected_and_then_deleted(self):
        story = begun()
        story.saved(10)
        chosen = story.add("checkpoint.selected", selection(10))
        deleted = story.add("checkpoint.deleted", {"step": 10})
        message, positions = flagged(story)["SELECTED_THEN_DELETED"]
        assert message == "the checkpoint at step 10 of attempt 1 was selected for export and then deleted"
        assert positions == [chosen, deleted]

    def test_a_deletion_of_what_was_never_there(self):
        story = begun()
        story.add("checkpoint.deleted", {"step": 10})
        assert story.codes() == ["DELETED_UNKNOWN_CHECKPOINT"]

    def test_a_save_that_was_begun_and_never_committed_leaves_its_trace(self):
        story = begun()
        story.add("checkpoint.save_started", {"attempt": 1, "step": 5})
        story.add("checkpoint.save_started", {"attempt": 1, "step": 10})
        story.saved(5)
        states = [(c["step"], c["status"]) for c in story.dossier()["checkpoints"]]
        assert states == [(10, "save_started"), (5, "committed")]


class TestDeclarations:
    def test_sources_that_are_declared_otherwise(self):
        story = Story().declared()
        other = {"atlas_id": "Example:words", "dataset_id": "example/words", "dataset_revision": "2" * 40}
        story.declared(sources=[other])
        message, positions = flagged(story)["SOURCES_DECLARED_OTHERWISE"]
        assert all(revision * 40 in message for revision in "12")
        assert story.dossier()["earlier_declarations"] == positions[:1]

    def test_a_declaration_that_says_the_same_again_is_no_contradiction(self):
        story = Story().declared().declared()
        assert (story.codes(), story.dossier()["earlier_declarations"]) == ([], [])

    def test_a_configuration_that_differs_at_a_resume(self):
        story = begun()
        for attempt, moment, digest in ((1, "start", "a"), (2, "resume", "b")):
            config = {"attempt": attempt, "moment": moment, "digest": sha(digest), "settings": {"trainer.seed": 1}}
            story.add("config.recorded", config)
        change = {"path": "trainer.seed", "before": "1", "after": None}
        drift = {"before_digest": sha("a"), "after_digest": sha("b"), "changes": [change]}
        story.add("config.drifted", {"attempt": 2, "moment": "resume", **drift})
        dossier = story.dossier()
        assert [flag["code"] for flag in dossier["flags"]] == ["CONFIG_DRIFTED"] * 2
        assert [config["drifted"] for config in dossier["configs"]] == [False, True]
        assert dossier["drifts"][0]["changes"] == [{"path": "trainer.seed", "before": "1"}]


class TestWork:
    @pytest.mark.parametrize(
        ("counts", "words"),
        [
            ({"started": 4, "finished": 5}, "5 finished rollouts, and only 4 started"),
            ({"finished": 4, "consumed": 5}, "5 consumed rollouts, and only 4 finished"),
            ({"consumed": 4, "trained": 5}, "5 trained rollouts, and only 4 consumed"),
        ],
    )
    def test_rollouts_that_do_not_add_up(self, counts, words):
        story = begun()
        pos = story.add("rollouts.summarised", {"attempt": 1, "step": 3, **counts})
        assert flagged(story)["ROLLOUTS_DO_NOT_ADD_UP"] == (f"the summary of step 3 counts {words}", [pos])

    @pytest.mark.parametrize("difference", [0.5, "NaN", "Infinity"])
    def test_engines_with_other_weights_than_the_trainer(self, difference):
        story = begun()
        synced = {"attempt": 1, "step": 3, "weight_version": 3, "probe_tolerance": 0.1}
        story.add("weights.synced", {**synced, "probe_difference": 0.01})
        pos = story.add("weights.synced", {**synced, "probe_difference": difference})
        assert flagged(story)["WEIGHTS_NOT_IN_ENGINES"][1] == [pos]
        assert story.dossier()["weight_syncs"] == {"count": 2, "probed": 2, "failed": 1, "failed_positions": [pos]}

    def test_a_weight_version_that_goes_back(self):
        story = begun()
        for version in (3, 2):
            story.add("weights.synced", {"attempt": 1, "step": 3, "weight_version": version})
        assert flagged(story)["WEIGHT_VERSION_WENT_BACK"][0] == (
            "attempt 1 sent weights 2 to the engines, after weights 3"
        )
