"""What goes wrong with checkpoints, and how the ledger shows it: saves without content, labels, and forgotten bests.

A test bears the number of the lesson in the domain's list.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger.core.errors import InvalidInput
from tests.acceptance.training.trained import RULE, Trained, checkpoint, problems, sha
from tests.adapters.builders import checkpoint as saved_folder

FSDP = ("model_world_size_1_rank_0.pt", "optim_world_size_1_rank_0.pt", "extra_state_world_size_1_rank_0.pt")


@pytest.fixture
def training(arm: Trained) -> Trained:
    """A run that made fifteen steps, rising, and saved at 5, 10 and 15."""
    with arm.recorder() as rec:
        arm.declare(rec)
        rec.start_attempt()
        for first in (1, 6, 11):
            arm.steps(rec, {step: step / 20 for step in range(first, first + 5)})
            arm.save(rec, first + 4)
    return arm


def select(trained: Trained, step: int, attempt: int = 1, **fields: object) -> int:
    said = {"run_id": trained.id, "attempt": attempt, "step": step, "purpose": "export", "rule": RULE, **fields}
    return trained.tell("checkpoint.selected", **said)


def test_lesson_11_a_checkpoint_without_files_is_never_committed(arm: Trained, tmp_path: Path) -> None:
    (tmp_path / "global_step_5" / "policy").mkdir(parents=True)
    with arm.recorder() as rec:
        arm.declare(rec)
        rec.start_attempt()
        arm.steps(rec, {5: 0.5})
        rec.saving(5)
        with pytest.raises(InvalidInput, match="no file in"):
            rec.checkpoint(5, tmp_path / "global_step_5").result()
    assert checkpoint(arm.run(), 5).status == "save_started"


def test_lesson_11_a_checkpoint_that_was_committed_without_weights_is_flagged_and_cannot_be_chosen(
    training: Trained,
) -> None:
    with training.recorder(attempt=1) as rec:
        training.steps(rec, dict.fromkeys(range(16, 21), 0.9))
        digest = training.save(rec, 20, contents={"weights": False, "optimizer": True})
    assert training.flagged("COMMITTED_WITHOUT_WEIGHTS") == "the checkpoint at step 20 of attempt 1 holds no weights"
    said = {"run_id": training.id, "attempt": 1, "step": 20, "digest": digest, "purpose": "resume"}
    error = training.refused("checkpoint.selected", **said, rule={"id": "latest"})
    assert "holds no weights" in problems(error)["/step"]


def test_lesson_11_a_marker_ahead_of_its_content_commits_nothing(arm: Trained, tmp_path: Path) -> None:
    """The marker says step 10, whose weights were never written: only step 5 is there."""
    saved_folder(tmp_path / "ckpts", 5, FSDP)
    saved_folder(tmp_path / "ckpts", 10, FSDP[1:])
    (tmp_path / "ckpts" / "latest_ckpt_global_step.txt").write_text("10")
    arm.doors.tell("backfill", "checkpoints", tmp_path / "ckpts", "--run", arm.id, "--attempt", 1)
    run = arm.run()
    assert [(c.step, c.status) for c in run.checkpoints] == [(5, "committed"), (10, "save_started")]
    assert run.summary.last_durable_step == 5


def test_lesson_12_a_resume_from_what_was_not_the_latest_is_shown_with_what_it_left_behind(training: Trained) -> None:
    with training.recorder() as rec:
        rec.start_attempt(resumed_from={"step": 10, "attempt": 1})
        rec.loaded(5)
        training.steps(rec, dict.fromkeys(range(6, 11), 0.9))
        training.save(rec, 10)
    assert training.flagged("LOADED_OTHER_STEP") == "attempt 2 was to begin at step 10, and loaded step 5"
    run = training.run()
    assert run.attempts[0].abandoned_steps == 10, "what was loaded is what the attempt went on from"
    assert [(p.attempt, p.first_step, p.last_step) for p in checkpoint(run, 10, 2).lineage] == [(1, 1, 5), (2, 6, 10)]
    assert run.summary.last_durable_step == 15


def test_lesson_12_stale_bytes_that_a_resume_picked_up_are_flagged_by_their_digest(training: Trained) -> None:
    with training.recorder() as rec:
        rec.start_attempt(resumed_from={"step": 15, "attempt": 1, "digest": sha("an older save")})
        rec.loaded(15, digest=sha("an older save"))
        training.steps(rec, {16: 0.9})
    assert "and another one was committed" in training.flagged("RESUMED_FROM_OTHER_BYTES")
    assert "was committed" in training.flagged("LOADED_OTHER_BYTES")


def test_lesson_12_a_folder_ahead_of_the_latest_marker_is_no_committed_checkpoint(arm: Trained, tmp_path: Path) -> None:
    saved_folder(tmp_path / "ckpts", 5, FSDP)
    saved_folder(tmp_path / "ckpts", 10, FSDP)
    (tmp_path / "ckpts" / "latest_ckpt_global_step.txt").write_text("5")
    arm.doors.tell("backfill", "checkpoints", tmp_path / "ckpts", "--run", arm.id, "--attempt", 1)
    assert {c.step: c.status for c in arm.run().checkpoints} == {5: "committed", 10: "save_started"}


def test_lesson_13_a_resume_from_a_save_that_was_never_finished_is_flagged(training: Trained) -> None:
    with training.recorder(attempt=1) as rec:
        rec.saving(20)
    with training.recorder() as rec:
        rec.start_attempt(attempt=2, resumed_from={"step": 20, "attempt": 1})
        training.steps(rec, {21: 0.9})
    assert checkpoint(training.run(), 20).status == "save_started"
    assert training.flagged("RESUMED_FROM_UNKNOWN") == (
        "attempt 2 began at the checkpoint at step 20 of attempt 1, which no earlier attempt committed"
    )


def test_lesson_13_a_half_written_folder_is_told_from_a_whole_one_without_opening_its_pickles(
    arm: Trained, tmp_path: Path
) -> None:
    saved_folder(tmp_path / "ckpts", 5, [".metadata", "__0_0.distcp"])
    saved_folder(tmp_path / "ckpts", 10, ["__0_0.distcp"])
    arm.doors.tell("backfill", "checkpoints", tmp_path / "ckpts", "--run", arm.id, "--attempt", 1)
    assert {c.step: c.status for c in arm.run().checkpoints} == {5: "committed", 10: "save_started"}


def test_lesson_14_two_steps_that_claim_one_checkpoint_are_flagged(training: Trained) -> None:
    """The save of step 15, finished in the background, is logged under step 16 once more."""
    digest = checkpoint(training.run(), 15).digest
    training.tell("checkpoint.committed", run_id=training.id, attempt=1, step=16, digest=digest)
    message = training.flagged("CHECKPOINT_UNDER_TWO_STEPS")
    assert message.startswith("the checkpoint at step 16 of attempt 1 has the bytes of the checkpoint at step 15 of")


def test_the_same_bytes_committed_once_more_under_their_own_step_contradict_nothing(training: Trained) -> None:
    """The control: a late answer, or an import of what was recorded as it happened."""
    digest = checkpoint(training.run(), 15).digest
    training.tell("checkpoint.committed", run_id=training.id, attempt=1, step=15, digest=digest)
    assert training.codes() == []
    assert [c.step for c in training.run().checkpoints] == [5, 10, 15]


def test_lesson_14_a_late_save_that_says_which_update_it_holds_is_told_from_its_label(training: Trained) -> None:
    with training.recorder(attempt=1) as rec:
        training.save(rec, 17, last_update=15)
    late = checkpoint(training.run(), 17)
    assert (late.last_update, late.scored_by_step) == (15, 16)
    assert "holds the weights after update 15" in training.flagged("LABEL_AHEAD_OF_WEIGHTS")


def test_lesson_15_a_run_whose_last_steps_were_never_saved_shows_how_far_its_weights_go(training: Trained) -> None:
    with training.recorder(attempt=1) as rec:
        training.steps(rec, {16: 0.9, 17: 0.9, 18: 0.9})
        rec.end_attempt("completed")
        rec.end_run("completed")
    summary = training.run().summary
    assert (summary.last_step, summary.last_durable_step) == (18, 15)
    assert "The last checkpoint that stands is that of step 15" in training.card()


@pytest.fixture
def resumed(training: Trained) -> Trained:
    """The best reward came before the resume; what came after it is worse, and its own trainer forgot the best."""
    with training.recorder() as rec:
        rec.start_attempt(resumed_from={"step": 15, "attempt": 1})
        training.steps(rec, dict.fromkeys(range(16, 26), 0.2))
        training.save(rec, 20)
        training.save(rec, 25)
    return training


def test_lesson_16_the_best_from_before_a_resume_is_still_known_and_a_worse_one_is_refused_in_its_place(
    resumed: Trained,
) -> None:
    emas = {c.step: c.ema for c in resumed.run().checkpoints}
    assert emas[15] == max(emas.values())
    later = checkpoint(resumed.run(), 25, 2)
    assert [(p.attempt, p.first_step, p.last_step) for p in later.lineage] == [(1, 1, 15), (2, 16, 25)]

    said = {"run_id": resumed.id, "attempt": 2, "step": 25, "purpose": "export", "rule": RULE}
    error = resumed.refused("checkpoint.selected", **said)

    assert error.reason == "REFUSED_BY_RULES"
    assert "is not what the rule gives" in problems(error)["/step"]
    select(resumed, 15)
    (selection,) = resumed.run().selections
    assert (selection.recomputed, selection.computed_step, selection.best) == ("agrees", 15, "among_all_steps")


def test_lesson_16_a_best_that_was_deleted_before_it_was_chosen_cannot_be_chosen_any_more(resumed: Trained) -> None:
    with resumed.recorder(attempt=2) as rec:
        rec.deleted(15, "only the two newest are kept", attempt=1)
    said = {"run_id": resumed.id, "attempt": 1, "step": 15, "purpose": "export", "rule": RULE}
    error = resumed.refused("checkpoint.selected", **said)
    assert "was deleted at position" in problems(error)["/step"]
    assert checkpoint(resumed.run(), 15).not_eligible_because == ["it was deleted"]


def test_lesson_16_a_chosen_one_that_is_deleted_afterwards_is_flagged(resumed: Trained) -> None:
    select(resumed, 15)
    with resumed.recorder(attempt=2) as rec:
        rec.deleted(15, "only the two newest are kept", attempt=1)
    assert resumed.flagged("SELECTED_THEN_DELETED").endswith("was selected for export and then deleted")


def crash_while_saving(training: Trained) -> None:
    with training.recorder(attempt=1) as rec:
        training.steps(rec, dict.fromkeys(range(16, 21), 0.9))
        rec.saving(20)
        raise OSError("No space left on device")


def test_lesson_17_a_save_that_crashed_leaves_its_trace_and_the_reason_of_the_end(training: Trained) -> None:
    with pytest.raises(OSError, match="No space left"):
        crash_while_saving(training)
    run = training.run()
    crashed = checkpoint(run, 20)
    assert (crashed.status, list(crashed.not_eligible_because)) == ("save_started", ["it was never committed"])
    assert (run.attempts[0].status, run.attempts[0].error_type) == ("failed", "OSError")
    assert run.summary.last_durable_step == 15


def test_an_export_job_that_saves_over_the_checkpoint_is_flagged_with_both_digests(training: Trained) -> None:
    training.tell(
        "checkpoint.committed", run_id=training.id, attempt=1, step=15, digest=sha("saved again"), saved_by="export_job"
    )
    run = training.run()
    assert [c.status for c in run.checkpoints if c.step == 15] == ["replaced", "committed"]
    assert "was saved again by an export job" in training.flagged("CHECKPOINT_SAVED_AGAIN")
