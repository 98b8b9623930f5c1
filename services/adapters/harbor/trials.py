"""Finished trials as events: a summary that names each, with what its runner's result says and nothing more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from ledger.client.recording import Recorder
from ledger.events.steps import Treatment
from services.adapters.backfill.clocks import LogClock
from services.adapters.backfill.documents import harmless_name
from services.adapters.backfill.harbor_jobs import Treatments
from services.adapters.backfill.harbor_trials import FoundTrial, read_trial, trial_fields

RESULT: Final = "result.json"
MAX_TRIALS: Final = 500
"""Of one event; of more there are several."""
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
    return {
        **trial_fields(trial, harmless_name, _CLOCK, _treatment(trial.exception_type, treatments)),
        "atlas_id": known.atlas_id,
        "group": known.group,
        "step": known.step,
        "weight_version": known.weight_version,
    }


def _treatment(error: str | None, treatments: Treatments | None) -> Treatment | None:
    return treatments.of(error) if treatments is not None and error is not None else None
