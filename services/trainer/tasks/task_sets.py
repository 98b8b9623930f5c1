"""What a set of tasks promises, wherever it comes from.

- The same settings give the same tasks, and `dataset_revision` is a digest over all of them.
- `verifier_revision` pins what grades: it changes when the verifier's code, package or settings do.
- A verifier that fails gives an error and no reward: an error is not a 0.
- No answer is ever executed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Task:
    """One question."""

    id: str
    """Unique in its set."""
    prompt: str
    """As the user's message."""
    answer: str


@dataclass(frozen=True)
class Score:
    """What a verifier says."""

    reward: float | None
    """Null: it failed."""
    error: str | None = None
    """The type of what went wrong."""


class TaskSet(Protocol):
    """Tasks and the verifier that grades them."""

    dataset_id: str
    dataset_revision: str
    verifier_revision: str
    atlas_id: str | None

    def __len__(self) -> int: ...

    def task(self, index: int) -> Task: ...

    def score(self, task: Task, text: str) -> Score:
        """Grades an answer."""
