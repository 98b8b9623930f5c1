"""What a trainer writes: checkpoints, from the begin of a save to their deletion, and exported models.

A checkpoint is recorded when it is whole. Callbacks of the fork add the state of its data after the trainer's own save,
and a save in the background goes on after it: what was written then waits until somebody says that it is settled.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ledger.client.recording.files import read_files
from services.adapters.skyrl.checkpoints import is_remote, looked_at
from services.adapters.skyrl.lives import MAX_REASON, Life


class Saves:
    """The checkpoints and exports of one life.

    Args:
        life: Whose they are.
        background: Checkpoints are hashed by a thread of the recorder's. A deletion may then come before the hash.
    """

    def __init__(self, life: Life, *, background: bool = False) -> None:
        self._life = life
        self._recorder = life.recorder
        self._background = background
        self._written: tuple[int, str, dict[str, Any]] | None = None
        self._committed: set[int] = set()
        self._exports = 0

    def saving(self, step: int) -> None:
        """A save begins, under this label."""
        self._life.begin()
        self._recorder.saving(step)

    def saved(self, step: int, place: str) -> None:
        """The trainer has written a checkpoint, of the weights that it has now."""
        life = self._life
        life.begin()
        self._written = (
            step,
            place,
            {
                "last_update": life.last_update,
                "weight_version": life.last_update,
                "saved_by": "export_job" if life.reruns else "trainer",
                "location": place,
            },
        )

    def settle(self) -> None:
        """The checkpoint that was written is whole."""
        if self._written is None:
            return
        (step, place, fields), self._written = self._written, None
        self._committed.add(step)
        if is_remote(place):
            self._recorder.record("checkpoint.committed", {"step": step, **fields})
        else:
            fields |= looked_at(Path(place))
            self._recorder.checkpoint(step, place, background=self._background, **fields)

    def deleted(self, steps: Iterable[int]) -> None:
        """Checkpoints were deleted, to make room."""
        for step in sorted(steps):
            self._recorder.deleted(step, "older than as many as are kept")

    def exporting(self, step: int) -> str:
        """The trainer begins to write a model, under this label; gives the export's id."""
        life = self._life
        life.begin()
        self._exports += 1
        export = f"{self._recorder.run}.attempt{self._recorder.attempt}.export{self._exports}"
        checkpoint: dict[str, Any] = {"run_id": self._recorder.run, "step": step}
        if step in self._committed:
            checkpoint["attempt"] = self._recorder.attempt
        said = {"export_id": export, "checkpoint": checkpoint, "route": "rerun" if life.reruns else "in_trainer"}
        if life.last_update != step:
            said["route_note"] = f"labelled {step}; the weights are those after update {life.last_update}"
        self._recorder.record("export.started", said)
        return export

    def exported(self, export: str, place: str) -> None:
        """It is written."""
        fields: dict[str, Any] = {"export_id": export, "location": place}
        if not is_remote(place):
            found = read_files(place).as_fields()
            fields |= {"digest": found["digest"], "files": found["files"]}
        self._recorder.record("export.completed", fields)

    def export_failed(self, export: str, error: BaseException) -> None:
        """Writing it failed."""
        said = f"{type(error).__name__}: {error}"[:MAX_REASON]
        self._recorder.record("export.failed", {"export_id": export, "stage": "write", "reason": said})
