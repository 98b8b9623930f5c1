"""Rollouts as a trainer keeps them: one JSON line each, with what joins it to a training step.

Published trace datasets lack the step, the weights that sampled it, the group, and whether it was used at all. Here
each line has them. A file holds one step of one attempt, appears whole, and is named so:

    rollouts/attempt_0001/step_000015.jsonl

What is null is unknown or does not apply: it is never a guess.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ledger.client.whole import whole
from ledger.core.errors import InvalidInput
from ledger.events.fields import AnyText, Count, Metric, Name, Revision, SourceId, Timestamp

MAX_LINE: Final = 64 << 20
"""Bytes."""


class Kept(BaseModel):
    """Part of a line: frozen, and holding nothing that is not named."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")


class Message(Kept):
    role: Literal["system", "user", "assistant", "tool"]
    content: AnyText


class Rollout(Kept):
    """One sample of one prompt."""

    run_id: Name
    attempt: Annotated[int, Field(ge=1)]
    step: Count
    weight_version: Count | None = None
    """Of the weights that sampled it, by the trainer's count."""
    phase: Literal["train", "eval"] = "train"
    trial_id: Name
    """Unique in the run."""
    group: Name
    """The prompt's: samples of one group in one step are compared with one another."""
    sample: Count
    task_id: Name
    dataset_id: Name
    dataset_revision: Revision | None = None
    verifier_revision: Revision | None = None
    atlas_id: SourceId | None = None
    messages: list[Message]
    """The prompt's, and the answer as the last one; of a rollout that failed only the prompt's."""
    prompt_token_ids: list[int] = []
    completion_token_ids: list[int] = []
    logprobs: list[Metric] | None = None
    """Of the completion's tokens, as the engine sampled them; null: it gave none."""
    reward: Metric | None = None
    """As the objective took it; null: there is none, since it failed before."""
    finish_reason: Literal["stop", "length", "error"] | None = None
    exception_type: Name | None = None
    consumed: bool
    """It was taken into the step's batch."""
    masked: bool
    """It was left out of the baseline and of the loss."""
    trained: bool
    """It had a say in an update: consumed, not masked, and its advantage is not 0."""
    advantage: Metric | None = None
    started_at: Timestamp | None = None
    finished_at: Timestamp | None = None


def path_of(folder: Path, attempt: int, step: int, phase: str = "train") -> Path:
    """Where the rollouts of a step lie below a run's folder."""
    name = f"step_{step:06d}.jsonl" if phase == "train" else f"{phase}_{step:06d}.jsonl"
    return folder / "rollouts" / f"attempt_{attempt:04d}" / name


def write_rollouts(path: Path, rollouts: Iterable[Rollout]) -> int:
    """Writes a file that is there whole or not at all; gives the number of lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    count = 0
    with whole(path) as file:
        for rollout in rollouts:
            file.write(rollout.model_dump_json().encode() + b"\n")
            count += 1
    return count


def read_rollouts(path: Path) -> Iterator[Rollout]:
    """The rollouts of a file, in its order.

    Raises:
        InvalidInput: reason INVALID_FILE, with the line, if one is no rollout.
    """
    try:
        with path.open("rb") as file:
            for number, line in enumerate(iter(lambda: file.readline(MAX_LINE + 1), b""), start=1):
                yield _parsed(path, number, line)
    except OSError as error:
        raise _bad(path, error.strerror or str(error)) from None


def _parsed(path: Path, number: int, line: bytes) -> Rollout:
    if len(line) > MAX_LINE:
        raise _bad(path, f"line {number} has more than {MAX_LINE:,} bytes")
    try:
        return Rollout.model_validate_json(line)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the line"
        raise _bad(path, f"line {number}: {where}: {first['msg']}") from None


def _bad(path: Path, why: str) -> InvalidInput:
    return InvalidInput(
        f"{path} holds no rollouts: {why}",
        reason="INVALID_FILE",
        remedy="Name a file that a trainer wrote below rollouts/.",
        details={"file": str(path)},
    )
