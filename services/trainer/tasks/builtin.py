"""Tasks that are made here: small enough for a tiny model, or for one of a hundred million parameters.

`digits`   the prompt is a digit, and the answer is that digit, or the one that lies `add` further on
`sums`     an addition of two numbers from 0 to `largest`

Each is drawn without putting back until all have been drawn, and then anew, so that no answer pays more than another.
The order comes from `random.random` alone, whose numbers for a seed are promised never to change.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import product
from typing import Annotated, Final, TypeVar

from pydantic import Field

from services.trainer.settings import Data, Part
from services.trainer.tasks import verifiers
from services.trainer.tasks.fixed_sets import FixedTasks, Grade, digest_of_verifier
from services.trainer.tasks.refusals import checked
from services.trainer.tasks.task_sets import Task

DIGITS_PROMPT: Final = "{question}"
SUMS_PROMPT: Final = "What is {question}? Answer with the number only."
RULES: Final[dict[str, Grade]] = {
    "first-digit": lambda task, text: verifiers.first_digit(task.answer, text),
    "last-number": lambda task, text: verifiers.last_number(task.answer, text),
}

T = TypeVar("T")


class DigitsSettings(Part):
    """Of [data.settings] for digits."""

    add: Annotated[int, Field(ge=0, le=9)] = 0


class SumsSettings(Part):
    """Of [data.settings] for sums."""

    largest: Annotated[int, Field(ge=1, le=999)] = 9


def digits(data: Data) -> FixedTasks:
    """The digit asked for."""
    further = checked(DigitsSettings, data).add
    prompt = data.prompt or DIGITS_PROMPT
    asked = _drawn(range(10), data.count, f"digits/{data.seed}")
    tasks = [
        Task(f"digits-{i:06d}", prompt.replace("{question}", str(d)), str((d + further) % 10))
        for i, d in enumerate(asked)
    ]
    return _set("builtin/digits", tasks, data, "first-digit" if data.verifier == "own" else data.verifier)


def sums(data: Data) -> FixedTasks:
    """Additions."""
    numbers = range(checked(SumsSettings, data).largest + 1)
    prompt = data.prompt or SUMS_PROMPT
    asked = _drawn(list(product(numbers, numbers)), data.count, f"sums/{data.seed}")
    tasks = [
        Task(f"sums-{i:06d}", prompt.replace("{question}", f"{a} + {b}"), str(a + b)) for i, (a, b) in enumerate(asked)
    ]
    return _set("builtin/sums", tasks, data, "last-number")


def _set(dataset_id: str, tasks: Sequence[Task], data: Data, rule: str) -> FixedTasks:
    revision = digest_of_verifier(rule, [verifiers], {})
    return FixedTasks(dataset_id, revision, tasks, RULES[rule], atlas_id=data.atlas_id)


def _drawn(kinds: Sequence[T], count: int, seed: str) -> list[T]:
    """`count` of the kinds, in rounds that hold each once."""
    chance = random.Random(seed)  # noqa: S311  # an order, not a secret
    found: list[T] = []
    while len(found) < count:
        found += sorted(kinds, key=lambda _: chance.random())
    return found[:count]
