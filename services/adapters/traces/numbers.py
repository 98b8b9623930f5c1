"""Numbers as files of rollouts have them, into those that a column holds: what does not fit is unknown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ledger.events.fields import Metric
from services.adapters.backfill import metrics
from services.adapters.traces.rows import MAX_TOKEN_ID


def as_float(value: Metric | None) -> float | None:
    """A metric as a double: one that is not finite by its name."""
    return None if value is None else float(value)


def reward_text(value: Metric | None) -> str | None:
    """A reward as the public format writes it: 1.0, or NaN."""
    return None if value is None else str(value)


def token_ids(value: Any) -> list[int] | None:
    """Ids of tokens; None for anything else."""
    if not isinstance(value, list) or not all(type(one) is int and 0 <= one <= MAX_TOKEN_ID for one in value):
        return None
    return value


def logprobs(value: Any) -> list[float] | None:
    """Log-probabilities; None if one of them is no number."""
    if not isinstance(value, list):
        return None
    read = [metrics.number(one) for one in value]
    return None if any(one is None for one in read) else [float(one) for one in read if one is not None]


class Turns:
    """The tokens of a conversation, a list a turn; a column of which one turn is not known is not known."""

    def __init__(self) -> None:
        self.prompt: list[list[int] | None] = []
        self.completion: list[list[int] | None] = []
        self.logprobs: list[list[float] | None] = []

    def add(self, prompt: Any, completion: Any, logprobs_: Any) -> None:
        ids, probabilities = token_ids(completion), logprobs(logprobs_)
        self.prompt.append(token_ids(prompt))
        self.completion.append(ids)
        fit = ids is not None and probabilities is not None and len(ids) == len(probabilities)
        self.logprobs.append(probabilities if fit else None)

    @property
    def columns(self) -> dict[str, Any]:
        return {
            "prompt_token_ids": _all_known(self.prompt),
            "completion_token_ids": _all_known(self.completion),
            "logprobs": _all_known(self.logprobs),
        }


def _all_known(turns: Sequence[Any]) -> list[Any] | None:
    return list(turns) if turns and all(turn is not None for turn in turns) else None
