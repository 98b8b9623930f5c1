"""What a trial runner writes, read as far as it can be: a field of another form than expected is unknown, not an error.

Only what is counted or kept is named here. Nothing here says which treatment an exception had: the trainer's
configuration does.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

from ledger.core.strictjson import MAX_INT

T = TypeVar("T")


def _or_unknown(value: Any, read: ValidatorFunctionWrapHandler) -> Any:
    try:
        return read(value)
    except (ValidationError, ValueError):
        return None


Known = Annotated[T | None, WrapValidator(_or_unknown)]
Words = Annotated[str, AfterValidator(lambda text: text.encode("utf-8", "replace").decode())]
"""Text as an event can hold it: JSON allows halves of characters."""
Number = Annotated[int, Field(ge=0, le=MAX_INT)]


class Lenient(BaseModel):
    """Part of a file of somebody else's program."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Timing(Lenient):
    started_at: Known[Words] = None
    finished_at: Known[Words] = None


class AgentResult(Lenient):
    n_input_tokens: Known[Number] = None
    n_cache_tokens: Known[Number] = None
    n_output_tokens: Known[Number] = None
    cost_usd: Known[float] = None


class AgentModel(Lenient):
    name: Known[Words] = None
    provider: Known[Words] = None


class AgentInfo(Lenient):
    name: Known[Words] = None
    version: Known[Words] = None
    model_info: Known[AgentModel] = None


class VerifierResult(Lenient):
    rewards: Known[dict[str, Any]] = None


class ExceptionInfo(Lenient):
    exception_type: Known[Words] = None
    occurred_at: Known[Words] = None


class TrialResult(Lenient):
    """`result.json`, which is written when a trial is over."""

    id: Known[Words] = None
    trial_name: Known[Words] = None
    task_name: Known[Words] = None
    task_checksum: Known[Words] = None
    source: Known[Words] = None
    agent_info: Known[AgentInfo] = None
    agent_result: Known[AgentResult] = None
    verifier_result: Known[VerifierResult] = None
    exception_info: Known[ExceptionInfo] = None
    started_at: Known[Words] = None
    finished_at: Known[Words] = None
    environment_setup: Known[Timing] = None
    agent_setup: Known[Timing] = None
    agent_execution: Known[Timing] = None
    verifier: Known[Timing] = None


class Evals(Lenient):
    reward_stats: Known[dict[str, dict[str, list[Any]]]] = None
    """By the reward's name: trials by the value, which is a key and so a text."""


class JobStats(Lenient):
    n_trials: Known[Number] = None
    evals: Known[dict[str, Evals]] = None


class JobResult(Lenient):
    """`result.json` of a whole job."""

    finished_at: Known[Words] = None
    n_total_trials: Known[Number] = None
    stats: Known[JobStats] = None


def seconds(timing: Timing | TrialResult | None) -> float | None:
    """How long something took; None where one of its times is missing, or only one of them has a zone."""
    if timing is None or timing.started_at is None or timing.finished_at is None:
        return None
    try:
        start, end = datetime.fromisoformat(timing.started_at), datetime.fromisoformat(timing.finished_at)
        took = (end - start).total_seconds()
    except (ValueError, TypeError):  # a TypeError: one has a zone, the other has none
        return None
    return took if took >= 0 else None
