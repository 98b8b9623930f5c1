"""Finished trials as events: a summary that names each, with what its runner's result says and nothing more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from ledger.client.recording import Recorder
from services.adapters.backfill.clocks import LogClock, text_or_none
from services.adapters.backfill.documents import harmless_name
from services.adapters.backfill.harbor_jobs import Treatments
from services.adapters.backfill.harbor_models import AgentResult, TrialResult, seconds
from services.adapters.backfill.harbor_trials import FoundTrial, read_trial

RESULT: Final = "result.json"
MAX_TRIALS: Final = 500
"""Of one event; of more there are several."""
_CHECKSUM: Final = frozenset("0123456789abcdef")
_CLOCK: Final = LogClock(None)


@dataclass(frozen=True)
class Known:
    """What whoever starts a trial knows of it, and the trial does not. What is null is unknown."""

    step: int | None = None
    weight_version: int | None = None
    group: str | None = None
    phase: Literal["train", "eval"] | None = None
    atlas_id: str | None = None


Ask = Callable[[str, str], Known]
"""Given the names of a trial and of its task."""


def trial_of(name: str, said: bytes) -> FoundTrial:
    """A trial by its runner's result alone; one without a result where that is no JSON object."""
    return read_trial(name, {RESULT: said}.get, lambda *_: None)


def tell(recorder: Recorder, told: Iterable[tuple[FoundTrial, Known]], treatments: Treatments | None) -> None:
    """Records trials, those of one step and phase together."""
    by_place: dict[tuple[int | None, str | None], list[tuple[FoundTrial, Known]]] = {}
    for trial, known in told:
        by_place.setdefault((known.step, known.phase), []).append((trial, known))
    for (step, phase), there in by_place.items():
        for begin in range(0, len(there), MAX_TRIALS):
            part = there[begin : begin + MAX_TRIALS]
            recorder.rollouts(step, phase=phase, **_summary(part, treatments))


def _summary(part: Sequence[tuple[FoundTrial, Known]], treatments: Treatments | None) -> dict[str, Any]:
    trials = [trial for trial, _ in part]
    errors = Counter(t.exception_type for t in trials if t.exception_type is not None)
    rewards = Counter(t.reward for t in trials if t.reward is not None)
    return {
        "started": len(trials),
        "finished": sum(t.finished for t in trials),
        "verified": sum(t.verified for t in trials),
        "errors": [
            {"exception_type": harmless_name(e), "treatment": _treatment(e, treatments), "count": n}
            for e, n in sorted(errors.items())
        ],
        "rewards": [{"reward": r, "count": n} for r, n in sorted(rewards.items(), key=lambda counted: str(counted[0]))],
        "trials": [_trial(trial, known, treatments) for trial, known in part],
    }


def _trial(trial: FoundTrial, known: Known, treatments: Treatments | None) -> dict[str, Any]:
    result = trial.result or TrialResult()
    agent = result.agent_result or AgentResult()
    checksum = result.task_checksum or ""
    error = trial.exception_type
    return {
        "trial_name": harmless_name(trial.name),
        "trial_id": harmless_name(result.id) if result.id else None,
        "task_name": harmless_name(result.task_name or trial.name.rpartition("__")[0] or trial.name),
        "task_checksum": checksum if len(checksum) == 64 and set(checksum) <= _CHECKSUM else None,
        "atlas_id": known.atlas_id,
        "group": known.group,
        "step": known.step,
        "weight_version": known.weight_version,
        "input_tokens": agent.n_input_tokens,
        "output_tokens": agent.n_output_tokens,
        "reward": trial.reward,
        "exception_type": harmless_name(error) if error else None,
        "treatment": _treatment(error, treatments),
        "started_at": text_or_none(_CLOCK.stamp(result.started_at)),
        "finished_at": text_or_none(_CLOCK.stamp(result.finished_at)),
        "seconds": seconds(result),
        "environment_setup_seconds": seconds(result.environment_setup),
        "agent_setup_seconds": seconds(result.agent_setup),
        "agent_execution_seconds": seconds(result.agent_execution),
        "verifier_seconds": seconds(result.verifier),
    }


def _treatment(error: str | None, treatments: Treatments | None) -> str | None:
    return treatments.of(error) if treatments is not None and error is not None else None
