"""What tools around a training get wrong: parsers, uploads, job names, clocks. Each demand has a test of its own.

A test bears the number of the lesson in the domain's list; the last lesson is a list of demands itself.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger.client.reader import coordinates
from ledger.core.errors import InvalidInput
from ledger.wire import runs_pb2
from tests.acceptance.training.trained import CHECKS, Trained, codes_of, export_of, exported, numbers, sha
from tests.adapters.builders import log, mirror


def test_lesson_40_a_long_log_without_a_row_fails_and_appends_nothing(arm: Trained, tmp_path: Path) -> None:
    """The same lines under a name that the parser does not know."""
    lines = [mirror(step).replace("WANDB_MIRROR", "METRICS_V2") for step in range(1, 400)]
    path = log(tmp_path / "train.log", *lines)
    error = arm.doors.refused("backfill", "skyrl", path, "--run", arm.id, code=1, reason="NO_ROWS")
    assert error["message"] == "399 lines in 1 file, and not one of them holds the metrics of a step"
    assert "format" in error["remedy"]


def test_lesson_40_the_same_lines_under_the_known_name_are_all_read(arm: Trained, tmp_path: Path) -> None:
    """The control."""
    path = log(tmp_path / "train.log", *[mirror(step) for step in range(1, 400)])
    arm.doors.tell("backfill", "skyrl", path, "--run", arm.id)
    assert len(arm.rows()) == 399


def test_lesson_40_lines_that_look_like_metrics_and_are_none_are_counted_in_what_is_complete(
    arm: Trained, tmp_path: Path
) -> None:
    path = log(tmp_path / "train.log", mirror(1), "WANDB_MIRROR kind=train step=2 metrics={broken", mirror(3))
    arm.doors.tell("backfill", "skyrl", path, "--run", arm.id)
    completeness = arm.run().completeness
    assert completeness.verdict == "complete_except"
    assert any("could not read 1 line of its log" in exception for exception in completeness.exceptions)


def ended(arm: Trained, ending: str, reason: str | None = None, *, last: int = 10) -> None:
    """Ten steps, and an end."""
    with arm.recorder() as rec:
        arm.declare(rec)
        rec.start_attempt(launcher_job="train-e2egit:1")
        arm.steps(rec, dict.fromkeys(range(1, 11), 0.5))
        rec.end_attempt(ending)
        rec.end_run(ending, reason, last_step=last)


def test_lesson_41_a_queued_retry_that_started_after_the_run_had_ended_is_flagged(arm: Trained) -> None:
    ended(arm, "cancelled")
    with arm.recorder() as rec:
        rec.start_attempt(launcher_job="train-e2egit:2")
        arm.steps(rec, {1: 0.1})
    assert arm.flagged("STARTED_AFTER_END") == "attempt 2 was started after the run had ended (cancelled)"
    assert arm.flagged("STEPS_AFTER_RUN_END") == "steps were logged after the run had ended (cancelled)"


def test_lesson_41_an_old_shard_that_an_upload_left_in_the_repository_is_flagged(arm: Trained) -> None:
    with arm.recorder() as rec:
        arm.declare(rec)
    export = f"{arm.id}-e"
    files = exported(arm, export, ("model-00001-of-00001.safetensors", "new"), ("config.json", "c"))
    one = numbers(shard_files=1, shards_named=1, shards_in_names=1)
    arm.tell("export.verified", export_id=export, digest=sha(export), numbers=one, checks=CHECKS, files=files)
    old = {"path": "model-00001-of-00002.safetensors", "sha256": sha("old")}
    published = [*files, old, {"path": "README.md", "sha256": sha("a card")}]
    arm.tell("model.published", export_id=export, repository="org/m", commit="c" * 40, files=published)
    found = export_of(arm.answer(), export)
    assert (codes_of(found.flags), found.models[0].files_agree) == (["PUBLISHED_OTHER_FILES"], False)
    assert found.flags[0].message.endswith("model-00001-of-00002.safetensors was not among the files checked")


@pytest.mark.parametrize(
    ("route", "words"),
    [
        ("in_trainer", "by the trainer, as it ran"),
        ("rerun", "by the trainer's own export path in a job of its own, without an update"),
        ("offline", "by a conversion of files"),
    ],
)
def test_lesson_41_an_artefact_says_whether_the_run_wrote_it_or_somebody_consolidated_it_later(
    arm: Trained, route: str, words: str
) -> None:
    with arm.recorder() as rec:
        arm.declare(rec)
        rec.start_attempt()
        arm.steps(rec, dict.fromkeys(range(1, 11), 0.5))
        arm.save(rec, 10)
    export = f"{arm.id}-e"
    arm.tell("export.started", export_id=export, checkpoint={"run_id": arm.id, "step": 10}, route=route)
    assert export_of(arm.answer(), export).route == route
    assert words in arm.card()


def test_lesson_41_a_completed_run_that_cannot_be_is_flagged(arm: Trained) -> None:
    ended(arm, "completed", last=80)
    assert arm.flagged("COMPLETED_BEFORE_PLAN") == (
        "the run is said to be completed at step 10, and 80 steps were planned"
    )
    assert arm.flagged("LAST_STEP_DIFFERS") == (
        "the run is said to have ended at step 80, and its last attempt logged up to step 10"
    )
    assert arm.run().summary.last_step == 10


def test_lesson_41_a_run_whose_name_begins_another_ones_name_is_not_taken_for_it(arm: Trained) -> None:
    longer = Trained(arm.doors, f"{arm.id}0", arm.folder)
    for trained, step in ((arm, 1), (longer, 7)):
        with trained.recorder() as rec:
            trained.declare(rec, campaign_id=f"names-{trained.id}")
            rec.start_attempt()
            trained.steps(rec, {step: 0.5})
    assert ([row.step for row in arm.rows()], [row.step for row in longer.rows()]) == ([1], [7])
    where = coordinates(min_size=arm.doors.size)
    asked = runs_pb2.RunFilter(campaigns=[f"names-{arm.id}"])
    assert [run.id for page in arm.runs.list(asked, where) for run in page.runs] == [arm.id]


def test_lesson_41_a_time_without_its_zone_is_refused(arm: Trained) -> None:
    with arm.recorder() as rec:
        arm.declare(rec)
        with pytest.raises(InvalidInput, match="/started_at"):
            rec.start_attempt(started_at="2026-07-29T10:00:00")
        rec.start_attempt(started_at="2026-07-29T12:00:00+02:00")
    (started,) = arm.payloads("attempt.started")
    assert started["started_at"] == "2026-07-29T12:00:00+02:00"


def test_lesson_41_the_times_of_a_log_without_a_zone_stay_unknown_until_somebody_names_it(
    arm: Trained, other_arm: Trained, tmp_path: Path
) -> None:
    stamped = "2026-07-29 12:00:00.500 | INFO | trainer:log:1 - "
    path = log(tmp_path / "train.log", *[stamped + mirror(step) for step in range(1, 4)])
    arm.doors.tell("backfill", "skyrl", path, "--run", arm.id)
    arm.doors.tell("backfill", "skyrl", path, "--run", other_arm.id, "--timezone", "Europe/Berlin")
    assert {row.logged_at for row in arm.rows()} == {""}
    assert {row.logged_at for row in other_arm.rows()} == {"2026-07-29T10:00:00.500000Z"}


def test_lesson_41_a_run_of_which_nothing_more_is_heard_is_open_and_never_failed(arm: Trained) -> None:
    with arm.recorder() as rec:
        arm.declare(rec)
        rec.start_attempt()
        arm.steps(rec, {1: 0.5})
    run = arm.run()
    assert (run.summary.status, run.attempts[0].status) == ("open", "open")
    assert not run.summary.HasField("reason")


def test_lesson_41_a_job_that_cannot_be_found_any_more_ended_unknown(arm: Trained) -> None:
    ended(arm, "unknown", "the job is not listed any more")
    assert (arm.run().summary.status, arm.run().summary.reason) == ("unknown", "the job is not listed any more")


def test_lesson_41_a_retrys_suffix_is_part_of_the_launchers_name_and_never_of_the_runs(arm: Trained) -> None:
    with arm.recorder() as rec:
        arm.declare(rec)
        rec.start_attempt(launcher_job="train-e2egit:1")
        arm.steps(rec, {1: 0.5})
        rec.end_attempt("preempted")
        rec.start_attempt(2, launcher_job="train-e2egit:2")
        arm.steps(rec, {1: 0.6})
    run = arm.run()
    assert (run.summary.attempts, [a.attempt for a in run.attempts]) == (2, [1, 2])
    jobs = {start["attempt"]: start["launcher_job"] for start in arm.payloads("attempt.started")}
    assert jobs == {1: "train-e2egit:1", 2: "train-e2egit:2"}
    asked = runs_pb2.RunFilter(search="e2egit")
    where = coordinates(min_size=arm.doors.size)
    assert not [run for page in arm.runs.list(asked, where) for run in page.runs if run.id == arm.id]
