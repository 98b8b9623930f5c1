"""What one start of a SkyRL trainer is, in the recorder's words: each fact once, whichever hook tells of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ledger.client.recording import Recorder

MAX_REASON: Final = 2_000


class Life:
    """One attempt: how it began, which update the weights hold, how it ended.

    Whoever calls it shields the training from its faults.

    Args:
        recorder: What it is told to.
        settings: The configuration as it was before training.
        asynchronous: Rollouts of a step come from weights of several updates: none is named.
    """

    def __init__(
        self, recorder: Recorder, settings: Mapping[str, Any] | None = None, *, asynchronous: bool = False
    ) -> None:
        self.recorder = recorder
        self.settings = settings
        self.began: int | None = None
        """The step that it began with, once it began."""
        self.last_update: int | None = None
        """In the trainer's weights."""
        self.has_updated = False
        self._asynchronous = asynchronous
        self._sent: list[int] = []
        """The versions of weights that engines had: the last two."""
        self._ended = False

    @property
    def reruns(self) -> bool:
        """It began with a checkpoint and made no update: a job that exports, or that only finishes."""
        return bool(self.began) and not self.has_updated

    def begin(self, step: int = 0) -> None:
        """It begins, with a checkpoint unless the step is 0. What comes after the first time changes nothing."""
        if self.began is not None:
            return
        self.began = self.last_update = step
        self.recorder.start_attempt(resumed_from=step or None)
        if self.settings is not None:
            self.recorder.config(self.settings)
        if step:
            self.recorder.loaded(step, weight_version=step)

    def updated(self, step: int) -> None:
        """The update of a step was made."""
        self.begin()
        self.has_updated = True
        self.last_update = step

    def sent(self) -> None:
        """The weights were sent to the rollout engines."""
        self.begin()
        assert self.last_update is not None  # it began
        if self.last_update not in self._sent:
            self._sent = [*self._sent[-1:], self.last_update]
        self.recorder.record("weights.synced", {"step": self.last_update, "weight_version": self.last_update})

    def sampled_by(self, step: int) -> int | None:
        """The version of the weights that sampled a step's rollouts: the last one sent before its update."""
        before = [version for version in self._sent if version < step]
        return None if self._asynchronous or not before else before[-1]

    def end(self, ending: str, error: BaseException | None = None) -> None:
        """The trainer returned, or something ended it."""
        self.begin()
        if self._ended:
            return
        self._ended = True
        fields: dict[str, Any] = {"last_step": self.last_update} if self.has_updated else {}
        if error is not None:
            fields |= {"reason": str(error)[:MAX_REASON] or None, "error_type": type(error).__name__}
        self.recorder.end_attempt(ending, **fields)
