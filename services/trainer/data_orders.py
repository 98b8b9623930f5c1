"""Which prompts a step trains on, so that a resume neither skips nor repeats any.

- All training sets are one pool. Each epoch shuffles it by (seed, epoch) alone, and a batch may reach into the next.
- What was consumed is kept by name, not by a place in the order: where a set of tasks changed between two attempts, the
  rest of the epoch is what is new and what was not consumed yet.
- Two sets may have tasks of one name: a prompt's name holds the set's place, its id and the task's.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ledger.core import strictjson
from ledger.core.errors import InvalidInput
from ledger.core.ids import sha256_hex
from services.trainer.tasks.task_sets import Task, TaskSet


@dataclass(frozen=True)
class Prompt:
    """A task to be sampled for."""

    group: str
    """Unique among the prompts of a step."""
    task: Task
    source: TaskSet


class DataOrder:
    """Gives prompts, and remembers which."""

    def __init__(self, sets: Sequence[TaskSet], seed: int) -> None:
        self._sets = sets
        self._seed = seed
        self._pool = [(i, j) for i, tasks in enumerate(sets) for j in range(len(tasks))]
        if not self._pool:
            raise InvalidInput("the training data holds no tasks", reason="NO_ROWS", remedy="Raise `data.count`.")
        self.epoch = 0
        self.prompts_consumed = 0
        self.prompts_trained = 0
        self._consumed: set[str] = set()
        self._rest = self._shuffled()

    def take(self, count: int) -> list[Prompt]:
        """The next prompts."""
        return [self._next() for _ in range(count)]

    def trained(self, groups: int) -> None:
        """So many of the prompts that were taken last had a say in an update."""
        self.prompts_trained += groups

    def state(self) -> dict[str, Any]:
        """As plain JSON."""
        return {
            "epoch": self.epoch,
            "shuffle_seed": self._seed,
            "prompts_consumed": self.prompts_consumed,
            "prompts_trained": self.prompts_trained,
            "consumed": sorted(self._consumed),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Goes on where a state was taken; in an order of this one's own seed."""
        self.epoch = int(state["epoch"])
        self.prompts_consumed = int(state["prompts_consumed"])
        self.prompts_trained = int(state["prompts_trained"])
        self._consumed = set(state["consumed"])
        self._rest = [place for place in self._shuffled() if self._name(place) not in self._consumed]

    def _next(self) -> Prompt:
        if not self._rest:
            self.epoch += 1
            self._consumed = set()
            self._rest = self._shuffled()
        place = self._rest.pop(0)
        name = self._name(place)
        self._consumed.add(name)
        self.prompts_consumed += 1
        tasks = self._sets[place[0]]
        return Prompt(f"{self.epoch}/{name}", tasks.task(place[1]), tasks)

    def _name(self, place: tuple[int, int]) -> str:
        tasks = self._sets[place[0]]
        return f"{place[0]}/{tasks.dataset_id}/{tasks.task(place[1]).id}"

    def _shuffled(self) -> list[tuple[int, int]]:
        order = list(self._pool)
        # By sorting: the shuffle of another Python may draw otherwise, and a resume must not.
        chance = random.Random(f"{self._seed}/{self.epoch}")  # noqa: S311  # an order, not a secret
        keys = [chance.random() for _ in order]
        return [place for _, place in sorted(zip(keys, order, strict=True))]


def recorded(state: Mapping[str, Any]) -> dict[str, Any]:
    """A state as events have it: of the consumed names only a digest."""
    told = {name: value for name, value in state.items() if name != "consumed"}
    return {**told, "consumed_digest": consumed_digest(state["consumed"])}


def consumed_digest(names: Iterable[str]) -> str:
    """SHA-256 over the sorted names as JSON."""
    return sha256_hex(strictjson.dumps(sorted(names)))
