"""The metrics of steps and evaluations, and what became of groups: each recorded once it is complete.

- Trainers log a step in one call or in two, the timings last. Between the two the first part is held back.
- Metrics of an evaluation are recorded with it and left out of the step: one trainer logs them with the step after.
- What is logged before the first update, or after the last, is an evaluation's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from services.adapters.backfill.skyrl import by_data_source
from services.adapters.skyrl.lives import Life

STALE: Final = "stale"
_EVALUATION: Final = "eval/"
_TIMING: Final = "timing/"
_DISCARDED: Final = "async/discarded_count"


class Steps:
    """The steps of one life."""

    def __init__(self, life: Life) -> None:
        self._life = life
        self._last: int | None = None
        """The last step that was recorded."""
        self._held: tuple[int, dict[str, Any]] | None = None
        self._disposed: int | None = None
        """The last step whose groups were told by name."""

    def logged(self, step: int, metrics: Mapping[str, Any], *, complete: bool = True) -> None:
        """Metrics of a step, or further ones of the same."""
        self._life.begin()
        done = max(self._life.began or 0, self._last or 0)
        own = {str(key): value for key, value in metrics.items() if not str(key).startswith(_EVALUATION)}
        if step <= done or not own:
            return
        if self._held is not None and self._held[0] != step:
            self.let_go()
        self._held = (step, {**(self._held[1] if self._held is not None else {}), **own})
        if complete or any(key.startswith(_TIMING) for key in own):
            self.let_go()

    def let_go(self) -> None:
        """Records the metrics that were held back."""
        if self._held is None:
            return
        (step, metrics), self._held = self._held, None
        self._last = step
        life = self._life
        life.recorder.step(step, metrics, weight_version=life.sampled_by(step), epoch=metrics.get("trainer/epoch"))
        if metrics.get(_DISCARDED) and step != self._disposed:
            count = {"disposition": "discarded", "reason": STALE, "groups": int(metrics[_DISCARDED])}
            life.recorder.record("groups.disposed", {"step": step, "counts": [count]})

    def evaluated(self, step: int, metrics: Mapping[str, Any]) -> None:
        """An evaluation of the weights after a step."""
        life = self._life
        life.begin()
        life.recorder.evaluate(step, by_data_source(dict(metrics)), weight_version=life.last_update)

    def disposed(self, step: int, groups: list[dict[str, Any]]) -> None:
        """What became of the groups that were there for a step, by name."""
        self._life.begin()
        self._disposed = step
        self._life.recorder.record("groups.disposed", {"step": step, "groups": groups})
