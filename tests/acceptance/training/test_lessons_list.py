"""The domain's list of lessons is answered whole: each has a test that bears its number, or a reason for having none."""

from __future__ import annotations

import ast
import re
from pathlib import Path

LESSONS = range(1, 42)

WITHOUT_A_TEST = {
    32: "An entropy bonus without a gradient lies in a trainer's own loss: no event tells it from one that works. What "
    "the ledger says of it, a switch and a coefficient as they were declared, is part of an objective's identity "
    "(lesson 31). The trainer's own losses are tested with the trainer.",
}
"""What no event or flag of the ledger would have shown."""

DEMANDS = {
    "cancel queued retries before collecting": "a_queued_retry_that_started_after_the_run_had_ended",
    "an upload only adds": "an_old_shard_that_an_upload_left",
    "written by the run or consolidated later": "whether_the_run_wrote_it_or_somebody_consolidated_it",
    "completed steps that cannot be": "a_completed_run_that_cannot_be",
    "job-name prefixes collide": "a_run_whose_name_begins_another_ones_name",
    "times of one zone and of another": "a_time_without_its_zone_is_refused",
    "a missing job is not a failed job": "a_run_of_which_nothing_more_is_heard_is_open",
    "a retry's suffix in the task's id": "a_retrys_suffix_is_part_of_the_launchers_name",
}
"""The demands of lesson 41, each with what its test is called. One more, that a model is registered as fine-tuned
unless somebody says otherwise, has no place here: a run says what it is, and nothing is registered by default."""


def names() -> list[str]:
    """The functions of every test of a lesson."""
    files = Path(__file__).parent.glob("test_lessons_*.py")
    trees = [ast.parse(path.read_text("utf-8")) for path in files]
    return [node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]


def test_every_lesson_has_a_test_of_its_number_or_a_reason_for_having_none() -> None:
    tested = {int(found[1]) for name in names() if (found := re.match(r"test_lesson_(\d\d)_", name))}
    assert tested | WITHOUT_A_TEST.keys() == set(LESSONS)
    assert not tested & WITHOUT_A_TEST.keys()


def test_each_demand_of_the_last_lesson_has_a_test_of_its_own() -> None:
    last = [name for name in names() if name.startswith("test_lesson_41_")]
    for demand, called in DEMANDS.items():
        assert sum(called in name for name in last) == 1, demand
