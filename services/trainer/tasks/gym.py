"""Tasks that the package reasoning-gym generates: the same version, settings, size and seed give the same ones.

- Graded by the package's own verifier, or by the rule `last-number` where each answer is a number.
- Its own verifiers get the answer without white space around it, since several give part of the marks for a line feed.
- Those that execute an answer, or that nobody can rely on, are refused: `unsound` lists them.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from types import ModuleType
from typing import Any, Final, Protocol

from ledger.core.errors import LedgerError
from services.trainer.settings import Data
from services.trainer.tasks import verifiers
from services.trainer.tasks.fixed_sets import FixedTasks, digest_of_verifier
from services.trainer.tasks.refusals import refused
from services.trainer.tasks.task_sets import Task
from services.trainer.tasks.unsound import NEVER, REASONS, UNSOUND

PACKAGE: Final = "reasoning-gym"
OURS: Final = frozenset({"size", "seed"})
"""Settings of the generator that have keys of their own in [data]."""


class Generator(Protocol):
    """A data set of the package's."""

    config: Any

    def __getitem__(self, index: int) -> Mapping[str, Any]: ...

    def score_answer(self, answer: str, entry: Mapping[str, Any]) -> float: ...


def generated(data: Data) -> FixedTasks:
    """The tasks of one of the package's generators.

    Raises:
        LedgerError: reason EXTRA_MISSING, if the package is not there.
        InvalidInput: reason INVALID_FILE, if there is no such task, its settings are wrong, or it is not trained on.
    """
    name = data.name or ""
    _is_sound(name, data)
    generator = _generator(name, data)
    entries = [generator[i] for i in range(data.count)]
    tasks = [_task(f"{name}-{i:06d}", entry, data) for i, entry in enumerate(entries)]
    by_id = {task.id: entry for task, entry in zip(tasks, entries, strict=True)}
    if data.verifier == "last-number":
        _have_numbers(tasks, data)

    def grade(task: Task, text: str) -> float:
        if data.verifier == "last-number":
            return verifiers.last_number(task.answer, text)
        return generator.score_answer(text.strip(), by_id[task.id])

    revision = _verifier_revision(generator, data)
    return FixedTasks(f"{PACKAGE}/{name}", revision, tasks, grade, atlas_id=data.atlas_id)


def _is_sound(name: str, data: Data) -> None:
    why = UNSOUND.get(name)
    if why is None or (data.verifier == "last-number" and why not in NEVER):
        return
    raise refused("name", data, REASONS[why], "Name another task, or another verifier where its answers are numbers.")


def _generator(name: str, data: Data) -> Generator:
    create, known = _package()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise refused("name", data, f"reasoning-gym has no such task{hint}", "Name one that it has.")
    if taken := sorted(OURS & set(data.settings)):
        raise refused(f"settings.{taken[0]}", data, "it has a key of its own", "Write `count` and `seed` in [data].")
    try:
        made: Generator = create(name, size=data.count, seed=data.seed, **data.settings)
    except Exception as error:  # noqa: BLE001  # each generator checks its settings in its own way, some by assert
        why = f"the generator refuses: {type(error).__name__}: {error}".partition("\n")[0]
        raise refused("settings", data, why, "See the task's configuration in reasoning-gym.") from None
    return made


def _package() -> tuple[Any, Sequence[str]]:
    try:
        import reasoning_gym  # noqa: PLC0415  # of an extra
        from reasoning_gym.factory import DATASETS  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise LedgerError(
            f"the tasks of reasoning-gym need the package {error.name}, which is not installed",
            reason="EXTRA_MISSING",
            remedy="Run `pip install 'atlas-ledger[tasks]'`.",
            details={"extra": "tasks", "package": error.name or ""},
        ) from None
    return reasoning_gym.create_dataset, sorted(DATASETS)


def _task(task_id: str, entry: Mapping[str, Any], data: Data) -> Task:
    if not isinstance(entry["answer"], str):
        raise refused("name", data, f"{task_id}: {REASONS['no-answer']}", "Name another task.")
    return Task(task_id, (data.prompt or "{question}").replace("{question}", entry["question"]), entry["answer"])


def _have_numbers(tasks: Sequence[Task], data: Data) -> None:
    odd = next((task for task in tasks if not verifiers.is_number(task.answer)), None)
    if odd is not None:
        why = f"last-number grades numbers, and the answer of {odd.id} is {odd.answer[:40]!r}"
        raise refused("verifier", data, why, 'Write verifier = "own", or name a task whose answers are numbers.')


def _verifier_revision(generator: Generator, data: Data) -> str:
    if data.verifier == "last-number":
        return digest_of_verifier("last-number", [verifiers], {})
    modules = [_module_of(kind) for kind in type(generator).__mro__ if kind.__module__.startswith("reasoning_gym.")]
    settings = asdict(generator.config)
    return digest_of_verifier(f"{PACKAGE}/{data.name}", modules, settings, {PACKAGE: version(PACKAGE)})


def _module_of(kind: type) -> ModuleType:
    module = inspect.getmodule(kind)
    if module is None:
        raise TypeError(f"{kind} has no module")
    return module
