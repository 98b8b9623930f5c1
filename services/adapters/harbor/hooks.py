"""Hooks of Harbor's trials. Only at the end has a trial a result; what started and never ended is told at the close.

A cancelled trial comes to its end too, with the exception that cancelled it: it is told then, once.
"""

from __future__ import annotations

from typing import Any, Final

from ledger.client.recording import Recorder
from services.adapters.backfill.harbor_jobs import Treatments
from services.adapters.harbor.trials import Ask, Known, tell, trial_of
from services.adapters.shields import Shield

_EVENTS: Final = ("on_trial_started", "on_trial_ended")


class TrialHooks:
    """Records the trials of jobs in this program.

    Args:
        recorder: The run's.
        known: Asked when a trial starts for what it does not know itself.
        treatments: What the trainer does with each exception.
    """

    def __init__(self, recorder: Recorder, *, known: Ask | None = None, treatments: Treatments | None = None) -> None:
        self._recorder = recorder
        self._ask = known
        self._treatments = treatments
        self._shield = Shield(recorder, f"trials of run {recorder.run}")
        self._running: dict[str, Known] = {}
        self._told: set[str] = set()

    def attach(self, job: Any) -> None:
        """Registers the hooks with a `Job` or a `TrialQueue`; they never raise into it."""
        for register, hook in zip(_EVENTS, (self.on_start, self.on_end), strict=True):
            getattr(job, register)(hook)

    async def on_start(self, event: Any) -> None:
        """A hook for `TrialEvent.START`."""
        self._shield(self._started, event)

    async def on_end(self, event: Any) -> None:
        """A hook for `TrialEvent.END`."""
        self._shield(self._ended, event)

    def close(self) -> None:
        """Tells how many trials started and never came to an end."""
        left, self._running = self._running, {}
        by_place: dict[tuple[int | None, str | None], int] = {}
        for known in left.values():
            by_place[known.step, known.phase] = by_place.get((known.step, known.phase), 0) + 1
        for (step, phase), count in by_place.items():
            self._shield(self._recorder.rollouts, step, phase=phase, started=count, finished=0, verified=0)

    def _started(self, event: Any) -> None:
        id_ = str(event.trial_id)
        self._running[id_] = Known()  # also if nobody can be asked
        if self._ask is not None:
            self._running[id_] = self._ask(str(event.trial_name), str(event.task_name))

    def _ended(self, event: Any) -> None:
        id_ = str(event.trial_id)
        known = self._running.pop(id_, Known())  # not asked now: the weights may be others than at its start
        if id_ in self._told:
            return
        self._told.add(id_)
        # Tokens of every turn and the configuration are much, and nothing of them is recorded.
        left_out = {"config": True, "agent_result": {"rollout_details": True}}
        said = event.result.model_dump_json(exclude=left_out).encode()
        tell(self._recorder, [(trial_of(str(event.trial_name), said), known)], self._treatments)
