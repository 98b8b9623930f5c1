"""A set of tasks that was made whole when it was opened, graded by one function.

The digest over its tasks is its revision; that over the verifier's source, settings and packages is the verifier's. A
reward that is not a number from 0 to 1 is a fault of the verifier, and so is an exception: neither is a 0.
"""

from __future__ import annotations

import hashlib
import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from types import ModuleType
from typing import Any, Final

import orjson

from services.trainer.tasks.task_sets import Score, Task

COMMIT_LENGTH: Final = 40
"""Hexadecimal digits: 160 bits of the SHA-256."""
OUT_OF_RANGE: Final = "RewardOutOfRange"
"""The error of a verifier that gives no number from 0 to 1."""

Grade = Callable[[Task, str], float]


class FixedTasks:
    """Tasks in memory."""

    def __init__(
        self, dataset_id: str, verifier_revision: str, tasks: Sequence[Task], grade: Grade, *, atlas_id: str | None
    ) -> None:
        self.dataset_id = dataset_id
        self.dataset_revision = digest_of_tasks(tasks)
        self.verifier_revision = verifier_revision
        self.atlas_id = atlas_id
        self._tasks = tuple(tasks)
        self._grade = grade

    def __len__(self) -> int:
        return len(self._tasks)

    def task(self, index: int) -> Task:
        return self._tasks[index]

    def score(self, task: Task, text: str) -> Score:
        try:
            reward = self._grade(task, text)
        except Exception as error:  # noqa: BLE001  # whatever a verifier of others raises is told by its type
            return Score(None, type(error).__name__)
        if isinstance(reward, bool) or not isinstance(reward, (int, float)) or not _is_share(reward):
            return Score(None, OUT_OF_RANGE)
        return Score(float(reward))


def digest_of_tasks(tasks: Iterable[Task]) -> str:
    """SHA-256 over the tasks, a line of JSON each, with sorted keys."""
    digest = hashlib.sha256()
    for task in tasks:
        digest.update(orjson.dumps(asdict(task), option=orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE))
    return digest.hexdigest()


def digest_of_verifier(
    name: str, modules: Iterable[ModuleType], settings: Mapping[str, Any], packages: Mapping[str, str] | None = None
) -> str:
    """A digest over what decides a grade: the verifier's name, source, settings, and the packages that it rests on.

    It has a git commit's form, since the Atlas's review format names what graded by a commit and takes nothing longer.
    """
    whole = {
        "name": name,
        "source": [inspect.getsource(module) for module in modules],
        "settings": dict(settings),
        "packages": dict(packages or {}),
    }
    lines = orjson.dumps(whole, default=_in_order, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS)
    return hashlib.sha256(lines).hexdigest()[:COMMIT_LENGTH]


def _in_order(value: object) -> list[Any]:
    """A set as JSON has it, always alike."""
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    raise TypeError(f"{type(value).__name__} has no JSON")


def _is_share(reward: float) -> bool:
    return math.isfinite(reward) and 0 <= reward <= 1
