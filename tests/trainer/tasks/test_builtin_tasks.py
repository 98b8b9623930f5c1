"""The tasks that are made here."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.core.errors import InvalidInput
from services.trainer.settings import Data
from services.trainer.tasks.opening import open_task_set
from services.trainer.tasks.task_sets import Score, TaskSet


def tasks_of(tasks: TaskSet) -> list[tuple[str, str]]:
    return [(tasks.task(i).prompt, tasks.task(i).answer) for i in range(len(tasks))]


def test_a_digit_is_asked_for_and_answered() -> None:
    digits = open_task_set(Data(kind="digits", count=20))
    assert digits.dataset_id == "builtin/digits"
    assert all(prompt == answer for prompt, answer in tasks_of(digits))


def test_each_digit_is_asked_for_equally_often() -> None:
    asked = [prompt for prompt, _ in tasks_of(open_task_set(Data(kind="digits", count=30, seed=4)))]
    assert sorted(asked[:10]) == sorted(asked[10:20]) == sorted("0123456789")
    assert asked[:10] != asked[10:20]


def test_the_answer_may_lie_further_on() -> None:
    digits = open_task_set(Data(kind="digits", count=10, settings={"add": 3}))
    assert all(int(answer) == (int(prompt) + 3) % 10 for prompt, answer in tasks_of(digits))


def test_sums_are_right_and_graded_by_the_last_number() -> None:
    sums = open_task_set(Data(kind="sums", count=100))
    asked = tasks_of(sums)
    assert len(set(asked)) == 100
    for prompt, answer in asked:
        first, second = prompt.removeprefix("What is ").removesuffix("? Answer with the number only.").split(" + ")
        assert int(first) + int(second) == int(answer)
    task = sums.task(0)
    assert sums.score(task, f"{task.prompt} {task.answer}.") == Score(1.0)
    assert sums.score(task, f"{task.answer} or 99") == Score(0.0)


def test_a_prompt_of_ones_own_holds_the_question() -> None:
    digits = open_task_set(Data(kind="digits", count=1, prompt="Say {question}, {not} more."))
    assert digits.task(0).prompt == f"Say {digits.task(0).answer}, {{not}} more."


def test_ids_are_unique() -> None:
    digits = open_task_set(Data(kind="digits", count=50))
    assert len({digits.task(i).id for i in range(50)}) == 50


@given(st.sampled_from(["digits", "sums"]), st.integers(0, 2**40), st.integers(1, 40))
def test_the_same_settings_give_the_same_tasks_and_revisions(kind: str, seed: int, count: int) -> None:
    first, again = (open_task_set(Data(kind=kind, seed=seed, count=count)) for _ in range(2))
    assert len(first) == count
    assert tasks_of(first) == tasks_of(again)
    assert (first.dataset_revision, first.verifier_revision) == (again.dataset_revision, again.verifier_revision)


def test_a_seed_gives_these_tasks_on_every_machine() -> None:
    assert "".join(p for p, _ in tasks_of(open_task_set(Data(kind="digits", count=12)))) == "539204617861"


@pytest.mark.parametrize("change", [{"seed": 1}, {"count": 9}, {"settings": {"add": 1}}, {"prompt": "Say {question}"}])
def test_other_tasks_have_another_revision(change: dict[str, object]) -> None:
    base = {"kind": "digits", "count": 8}
    assert open_task_set(Data(**base)).dataset_revision != open_task_set(Data(**{**base, **change})).dataset_revision


def test_another_rule_has_another_revision_over_the_same_tasks() -> None:
    own, last = (open_task_set(Data(kind="digits", verifier=v)) for v in ("own", "last-number"))
    assert own.verifier_revision != last.verifier_revision
    assert own.dataset_revision == last.dataset_revision
    assert own.score(own.task(0), f"{own.task(0).answer} then x1") == Score(1.0)
    assert last.score(own.task(0), f"{own.task(0).answer} then 11") == Score(0.0)


def test_the_atlas_id_is_the_one_that_was_given() -> None:
    assert open_task_set(Data(kind="digits", atlas_id="MarinSkyRL:digits")).atlas_id == "MarinSkyRL:digits"
    assert open_task_set(Data(kind="digits")).atlas_id is None


@pytest.mark.parametrize(
    ("kind", "settings", "place", "why"),
    [
        ("digits", {"ad": 1}, "data.settings.ad", "did you mean add?"),
        ("digits", {"add": 10}, "data.settings.add", "less than or equal to 9"),
        ("sums", {"largest": 0}, "data.settings.largest", "greater than or equal to 1"),
        ("sums", {"add": 1}, "data.settings.add", "no such key"),
    ],
)
def test_settings_of_tasks_are_refused_with_their_place(
    kind: str, settings: dict[str, int], place: str, why: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        open_task_set(Data(kind=kind, settings=settings))
    assert caught.value.problems[0].place == place
    assert why in caught.value.problems[0].message
