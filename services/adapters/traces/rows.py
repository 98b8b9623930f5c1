"""What a row of a trace dataset holds: the public format's columns first, then what that format lacks.

A row is one trial. What is null is unknown or does not apply; nothing is derived from a name. Rows stand in the order
of attempt, step, group and sample, those that do not know them behind; what is still equal is ordered by its content,
so that the same trials give the same rows wherever they were found first.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final, Literal

import msgspec

Role = Literal["system", "user", "assistant", "tool"]
MAX_TOKEN_ID: Final = 2**31 - 1


class Turn(msgspec.Struct, frozen=True):
    """One message of a conversation."""

    role: Role
    content: str


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One trial. The names are those of the columns."""

    conversations: list[Turn]
    agent: str | None = None
    model: str | None = None
    model_provider: str | None = None
    date: str | None = None
    task: str | None = None
    episode: str | None = None
    run_id: str | None = None
    trial_name: str | None = None
    result: str | None = None
    instruction: str | None = None
    verifier_output: str | None = None
    prompt_token_ids: list[list[int]] | None = None
    completion_token_ids: list[list[int]] | None = None
    logprobs: list[list[float]] | None = None
    attempt: int | None = None
    step: int | None = None
    weight_version: int | None = None
    group: str | None = None
    sample: int | None = None
    phase: str | None = None
    consumed: bool | None = None
    masked: bool | None = None
    trained: bool | None = None
    abandoned: bool | None = None
    finished: bool | None = None
    advantage: float | None = None
    reward: float | None = None
    finish_reason: str | None = None
    exception_type: str | None = None
    segment: int | None = None
    segments: int | None = None
    complete: bool | None = None
    subagents: int | None = None
    dataset_id: str | None = None
    dataset_revision: str | None = None
    verifier_revision: str | None = None
    atlas_id: str | None = None
    task_checksum: str | None = None
    trial_id: str | None = None


COLUMNS: Final[tuple[str, ...]] = Row.__struct_fields__

MEANINGS: Final[dict[str, str]] = {
    "conversations": "the last episode's messages, role and content",
    "agent": "the harness that drove the model",
    "model": "the model's name as the trial has it: often an alias that it was served under",
    "model_provider": "who served it, as the trial has it",
    "date": "when the trial started, as it was written",
    "task": "the task's name or id",
    "episode": "`episode-K` for the K-th answer of the conversation, from 0; null: the model gave none",
    "run_id": "the training run",
    "trial_name": "the trial's name, unique in its job or run",
    "result": "the reward as text, or else the exception's name",
    "instruction": "the first message of a user in the trial",
    "verifier_output": "what the verifier printed, its errors behind",
    "prompt_token_ids": "a list a turn, as sampled; null where unknown, and where a secret was taken out of the text",
    "completion_token_ids": "as `prompt_token_ids`",
    "logprobs": "of the completion's tokens, as the engine sampled them; a list a turn",
    "attempt": "the attempt of the run, from 1",
    "step": "the training step that the trial was sampled for",
    "weight_version": "of the weights that sampled it, by the trainer's count",
    "group": "the prompt's: samples of one group in one step are compared with one another",
    "sample": "its number in the group",
    "phase": "`train` or `eval`",
    "consumed": "it was taken into the step's batch",
    "masked": "it was left out of the baseline and of the loss",
    "trained": "it had a say in an update",
    "abandoned": "a later attempt went on from before this step, so that what it changed was given up",
    "finished": "the trial came to its end",
    "advantage": "as the objective took it; may be NaN",
    "reward": "as a number; may be NaN",
    "finish_reason": "why the model stopped",
    "exception_type": "what the trial failed with",
    "segment": "which part of the trial's conversation this is, from 1: a new one begins when a context is summarised",
    "segments": "how many parts there are; null: the last one that is named cannot be read",
    "complete": "nothing of the conversation is missing: there is one part, and all of it is text",
    "subagents": "conversations of other agents that it refers to; they are in no row",
    "dataset_id": "the dataset that the task is from",
    "dataset_revision": "its revision",
    "verifier_revision": "the revision of the verifier",
    "atlas_id": "the source's id in the Atlas",
    "task_checksum": "the digest of the task's files",
    "trial_id": "the trial's id, unique in its run",
}


def order_of(row: Row, written: bytes) -> tuple[Any, ...]:
    """The place of a row among others: by what it says, at last by its content, as it was written."""
    known = (row.attempt, row.step, row.group, row.sample, row.phase, row.run_id, row.trial_name, row.trial_id)
    placed = tuple((value is None, value if value is not None else 0) for value in known)
    return (*placed, hashlib.sha256(written).digest())
