"""What goes wrong when training resumes, and how the ledger shows it: counters, cursors, seeds, and steps made again.

A test bears the number of the lesson in the domain's list.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from tests.acceptance.training.trained import REWARD, Trained, checkpoint, sha
from tests.adapters.builders import log, mirror

REWARDS = {step: 0.3 + step / 50 for step in range(1, 11)}


@pytest.fixture
def saved(arm: Trained) -> Trained:
    """A run whose first attempt made ten steps, saved after the tenth with its place in the data, and was killed."""
    with arm.recorder() as rec:
        arm.declare(rec)
        rec.start_attempt()
        arm.steps(rec, REWARDS)
        arm.save(
            rec,
            10,
            contents={"weights": True, "optimizer": True, "scheduler": True, "rng": True, "data_state": True},
            data_state={
                "epoch": 1,
                "prompts_consumed": 80,
                "prompts_trained": 64,
                "shuffle_seed": 7,
                "consumed_digest": sha("eighty prompts"),
            },
            recorded_step=10,
            weight_version=10,
        )
        rec.end_attempt("preempted")
    return arm


def resume(trained: Trained, *, first: int = 11, count: int = 3, **loaded: object) -> None:
    """A second attempt that loads the checkpoint of step 10 and goes on, as the keywords say that it came back."""
    with trained.recorder() as rec:
        rec.start_attempt(resumed_from={"step": 10, "attempt": 1})
        rec.loaded(10, **loaded)
        trained.steps(rec, dict.fromkeys(range(first, first + count), 0.5))
        rec.end_attempt("completed")


def test_a_resume_that_brings_everything_back_is_flagged_with_nothing(saved: Trained) -> None:
    """The control of all tests here."""
    resume(
        saved,
        restored={"weights": True, "optimizer": True, "scheduler": True, "rng": True, "data_state": True},
        data_state={"epoch": 1, "prompts_consumed": 80, "shuffle_seed": 7, "consumed_digest": sha("eighty prompts")},
        recorded_step=10,
        weight_version=10,
    )
    run = saved.run()
    assert saved.codes() == []
    assert [(a.attempt, a.first_step, a.last_step, a.abandoned_steps) for a in run.attempts] == [
        (1, 1, 10, 0),
        (2, 11, 13, 0),
    ]
    assert (run.completeness.verdict, run.summary.last_step) == ("complete", 13), run.completeness


def test_lesson_01_an_epoch_that_went_back_on_resume_is_flagged_since_the_place_in_the_data_is_stored(
    saved: Trained,
) -> None:
    resume(saved, data_state={"epoch": 0, "prompts_consumed": 80})
    assert saved.flagged("DATA_STATE_WENT_BACK") == "attempt 2 began with epoch 0, and 1 when step 10 was saved"


def test_lesson_01_other_consumed_ids_are_flagged_though_every_counter_agrees(saved: Trained) -> None:
    resume(saved, data_state={"epoch": 1, "prompts_consumed": 80, "consumed_digest": sha("eighty others")})
    message = saved.flagged("CONSUMED_IDS_DIFFER")
    assert message.startswith("attempt 2 began with consumed ids ")


def test_lesson_02_a_resume_that_counts_a_step_twice_is_flagged(saved: Trained) -> None:
    resume(saved, first=12)
    message = saved.flagged("STEPS_SKIPPED_AT_RESUME")
    assert message == "attempt 2 began at step 10, and the first step that it logged is 12"


def test_lesson_02_a_label_that_is_one_ahead_of_its_weights_is_shown_as_such(arm: Trained) -> None:
    with arm.recorder() as rec:
        arm.declare(rec, planned_steps=10)
        rec.start_attempt()
        arm.steps(rec, REWARDS)
        arm.save(rec, 11, last_update=10)
        rec.end_run("completed")
    final = checkpoint(arm.run(), 11)
    assert (final.last_update, final.off_by_one, final.scored_by_step) == (10, True, 11)
    assert "holds the weights after update 10: its label is ahead of them" in arm.flagged("LABEL_AHEAD_OF_WEIGHTS")


def test_lesson_03_steps_that_are_numbered_anew_are_flagged_and_the_weights_keep_their_own_count(
    saved: Trained,
) -> None:
    with saved.recorder() as rec:
        rec.start_attempt(resumed_from={"step": 10, "attempt": 1})
        rec.loaded(10, weight_version=10)
        for step in (1, 2, 3):
            rec.step(step, {REWARD: 0.5}, weight_version=9 + step)
    assert saved.flagged("STEPS_NUMBERED_ANEW") == (
        "attempt 2 began at step 10, and the first step that it logged is 1"
    )
    later = [(row.step, row.weight_version) for row in saved.rows() if row.attempt == 2]
    assert later == [(1, 10), (2, 11), (3, 12)]


def test_lesson_04_steps_that_are_made_again_stay_beside_those_that_were_left_behind(
    saved: Trained, nobodys_settings: Path
) -> None:
    with saved.recorder() as rec:
        rec.start_attempt(resumed_from=5)
        saved.steps(rec, dict.fromkeys(range(6, 12), 0.9))
    rows = {(row.attempt, row.step): (row.metrics[REWARD], row.abandoned) for row in saved.rows()}
    assert len(rows) == 16
    assert [rows[1, step] for step in (5, 6, 10)] == [(0.4, False), (0.42, True), (0.5, True)]
    assert [rows[2, step] for step in (6, 10, 11)] == [(0.9, False)] * 3
    assert saved.run().attempts[0].abandoned_steps == 5
    told = saved.doors.tell("logs", saved.id, "--to", "logs", "--no-plots")
    with (nobodys_settings / "logs" / "metrics.csv").open(newline="") as file:
        steps = [int(row["global_step"]) for row in csv.DictReader(file)]
    assert sorted(steps) == sorted([*range(1, 11), *range(6, 12)]), told


def test_lesson_04_a_step_that_goes_back_within_an_attempt_is_kept_and_flagged(arm: Trained) -> None:
    with arm.recorder() as rec:
        arm.declare(rec)
        rec.start_attempt()
        arm.steps(rec, {1: 0.1, 2: 0.2, 4: 0.4, 3: 0.3})
        arm.steps(rec, {2: 0.8})
    assert arm.flagged("STEP_WENT_BACK") == "attempt 1 logged step 3 after step 4"
    assert arm.flagged("STEP_LOGGED_TWICE") == "attempt 1 logged step 2 twice: reward 0.2, then 0.8"
    kept = [(row.step, row.metrics[REWARD]) for row in arm.rows()]
    assert sorted(kept) == [(1, 0.1), (2, 0.2), (2, 0.8), (3, 0.3), (4, 0.4)]


def test_lesson_05_a_resume_that_began_at_step_1_is_flagged(saved: Trained) -> None:
    resume(saved, first=1)
    assert "STEPS_NUMBERED_ANEW" in saved.codes()


def test_lesson_05_an_attempt_that_began_anew_leaves_all_that_was_before_it_behind(saved: Trained) -> None:
    with saved.recorder() as rec:
        rec.start_attempt()
        saved.steps(rec, dict.fromkeys(range(1, 11), 0.9))
        saved.save(rec, 10)
    run = saved.run()
    first, second = checkpoint(run, 10, 1), checkpoint(run, 10, 2)
    assert run.attempts[0].abandoned_steps == 10
    assert [(p.attempt, p.first_step, p.last_step) for p in second.lineage] == [(2, 1, 10)]
    assert second.ema == pytest.approx(0.9)
    assert first.ema < second.ema


def test_lesson_06_what_was_generated_and_what_was_trained_on_are_two_counts(saved: Trained) -> None:
    with saved.recorder() as rec:
        rec.rollouts(10, started=96, finished=96, consumed=80, trained=64, masked=16)
    (committed,) = saved.payloads("checkpoint.committed")
    state = committed["data_state"]
    assert (state["prompts_consumed"], state["prompts_trained"]) == (80, 64)
    coverage = saved.run().coverage
    assert (coverage.started, coverage.consumed, coverage.trained, coverage.masked) == (96, 80, 64, 16)


def test_lesson_06_a_cursor_that_counts_what_was_generated_is_flagged_when_it_is_loaded(saved: Trained) -> None:
    resume(saved, data_state={"epoch": 1, "prompts_consumed": 96})
    message = saved.flagged("DATA_STATE_RAN_AHEAD")
    assert message == "attempt 2 began with prompts consumed 96, and 80 when step 10 was saved"


def test_lesson_07_prompts_that_a_resume_passes_over_are_flagged_with_both_counts(arm: Trained) -> None:
    with arm.recorder() as rec:
        arm.declare(rec)
        rec.start_attempt()
        arm.steps(rec, REWARDS)
        arm.save(rec, 10, data_state={"epoch": 1, "prompts_consumed": 736})
    resume(arm, data_state={"epoch": 1, "prompts_consumed": 997})
    assert "997, and 736 when step 10 was saved" in arm.flagged("DATA_STATE_RAN_AHEAD")


def test_lesson_08_another_shuffle_seed_after_a_resume_is_flagged(saved: Trained) -> None:
    resume(saved, data_state={"epoch": 1, "prompts_consumed": 80, "shuffle_seed": 11})
    assert saved.flagged("SHUFFLE_SEED_CHANGED") == "attempt 2 shuffles by seed 11, and by 7 at the save"


def test_lesson_09_what_a_checkpoint_held_and_a_resume_did_not_restore_is_named(saved: Trained) -> None:
    resume(saved, restored={"weights": True, "optimizer": True, "scheduler": False, "data_state": False})
    assert saved.flagged("RESTORED_IN_PART") == "attempt 2 loaded step 10 without its scheduler, data state"


@pytest.mark.parametrize("when", ["saved", "loaded"])
def test_lesson_10_a_checkpoint_whose_own_state_names_another_step_is_flagged(saved: Trained, when: str) -> None:
    if when == "loaded":
        resume(saved, recorded_step=0)
        expected = "attempt 2 loaded step 10, whose own state names step 0"
    else:
        with saved.recorder() as rec:
            rec.start_attempt(resumed_from=10)
            saved.steps(rec, dict.fromkeys(range(11, 16), 0.5))
            saved.save(rec, 15, recorded_step=0)
        expected = "the checkpoint at step 15 of attempt 2 names step 0 in its own state"
    assert saved.flagged("RECORDED_STEP_DIFFERS") == expected


def test_a_log_that_was_read_afterwards_keeps_the_steps_of_both_its_files_too(arm: Trained, tmp_path: Path) -> None:
    first = log(tmp_path / "first.log", *[mirror(step) for step in range(1, 6)])
    again = log(tmp_path / "again.log", *[mirror(step, extra=1.0) for step in range(4, 8)])
    arm.doors.tell("backfill", "skyrl", first, again, "--run", arm.id, "--attempt-order", "given")
    assert sorted((row.attempt, row.step) for row in arm.rows()) == [
        *((1, step) for step in range(1, 6)),
        *((2, step) for step in range(4, 8)),
    ]
