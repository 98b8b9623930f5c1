"""What a verifier's answer becomes: a reward from 0 to 1, or an error."""

from __future__ import annotations

import hashlib
import math
import types

import pytest

from services.trainer.tasks import verifiers
from services.trainer.tasks.fixed_sets import FixedTasks, digest_of_tasks, digest_of_verifier
from services.trainer.tasks.task_sets import Score, Task

TASK = Task("t-0", "How much?", "1")


def graded(grade: object) -> Score:
    return FixedTasks("made/up", "v", [TASK], lambda _task, _text: grade, atlas_id=None).score(TASK, "1")


@pytest.mark.parametrize("reward", [0, 0.0, 0.25, 1, 1.0])
def test_a_share_is_a_reward(reward: float) -> None:
    assert graded(reward) == Score(float(reward))


@pytest.mark.parametrize("reward", [-0.01, 1.01, math.nan, math.inf, -math.inf, None, "1", True])
def test_anything_else_is_an_error_and_no_reward(reward: object) -> None:
    assert graded(reward) == Score(None, "RewardOutOfRange")


def test_a_verifier_that_raises_is_an_error_and_no_zero() -> None:
    def grade(task: Task, text: str) -> float:
        return float("what?")

    assert FixedTasks("made/up", "v", [TASK], grade, atlas_id=None).score(TASK, "1") == Score(None, "ValueError")


def test_a_stop_is_not_taken_for_a_verifiers_fault() -> None:
    def grade(task: Task, text: str) -> float:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        FixedTasks("made/up", "v", [TASK], grade, atlas_id=None).score(TASK, "1")


def test_the_revision_of_tasks_is_that_of_their_lines() -> None:
    line = b'{"answer":"1","id":"t-0","prompt":"How much?"}\n'
    assert digest_of_tasks([TASK, TASK]) == hashlib.sha256(line * 2).hexdigest()


def test_a_verifiers_revision_follows_all_that_decides_a_grade() -> None:
    base = digest_of_verifier("v", [verifiers], {"a": 1}, {"p": "1"})
    others = [
        digest_of_verifier("w", [verifiers], {"a": 1}, {"p": "1"}),
        digest_of_verifier("v", [types], {"a": 1}, {"p": "1"}),
        digest_of_verifier("v", [verifiers], {"a": 2}, {"p": "1"}),
        digest_of_verifier("v", [verifiers], {"a": 1}, {"p": "2"}),
    ]
    assert base not in others
    assert len(set(others)) == 4


def test_a_set_among_the_settings_has_one_order() -> None:
    assert digest_of_verifier("v", [], {"a": {"x", "y", "z"}}) == digest_of_verifier("v", [], {"a": {"z", "y", "x"}})


def test_settings_that_have_no_json_are_refused() -> None:
    with pytest.raises(TypeError):
        digest_of_verifier("v", [], {"a": object()})
