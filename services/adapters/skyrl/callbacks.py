"""The two callbacks that SkyRL trainers take: the fork's and upstream's. Neither needs SkyRL to be imported.

The fork's calls `(state, control, **kwargs)`, with the trainer among the keywords, and awaits the `_async` twin where
there is one. Upstream's calls `(trainer, callback_input, control)`, and lets exceptions through: none leaves here.

Beside a wrapped trainer a callback tells only what the wrapper cannot know: that a step's metrics are complete, and
that a checkpoint is, since other callbacks add files to it.
"""

# ruff: noqa: ARG002  # the signatures are the trainers'

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from ledger.client.recording import Recorder
from services.adapters.shields import Shield
from services.adapters.skyrl.lives import Life
from services.adapters.skyrl.saves import Saves
from services.adapters.skyrl.settings import setting, snapshot
from services.adapters.skyrl.steps import Steps

Metrics = Mapping[str, Any]


class Told:
    """What callbacks and wrapper tell together: one life, its steps and its saves, behind one shield."""

    def __init__(self, recorder: Recorder, life: Life, *, background: bool = False) -> None:
        self.life = life
        self.steps = Steps(life)
        self.saves = Saves(life, background=background)
        self.shield = Shield(recorder, f"run {recorder.run}")
        self.settles_on_save = True
        """A checkpoint is whole once callbacks were called; not if the trainer writes on in the background."""


class _Callback:
    """What both callbacks do.

    Args:
        recorder: The run's.
        background: Checkpoints are hashed by a thread of the recorder's.
        told: Of the wrapper, if there is one.
    """

    def __init__(self, recorder: Recorder, *, background: bool = False, told: Told | None = None) -> None:
        self._alone = told is None
        self._told = told or Told(recorder, Life(recorder), background=background)
        self._shield = self._told.shield

    def _begin(self, step: int, config: Any) -> None:
        life = self._told.life
        if self._alone and life.began is None:
            life.settings = None if config is None else snapshot(config)
            life.begin(step)

    def _updated(self, step: int) -> None:
        if self._alone:
            self._told.life.updated(step)

    def _evaluated(self, step: int, metrics: Metrics) -> None:
        if self._alone:
            self._told.steps.evaluated(step, metrics)

    def _saved(self, step: int, place: str) -> None:
        if self._alone:
            self._told.saves.saved(step, place)
        if self._told.settles_on_save:
            self._told.saves.settle()

    def _logged(self, step: int, logs: Metrics) -> None:
        self._told.steps.logged(step, logs)

    def _ended(self) -> None:
        if self._alone:
            self._told.life.end("completed")


class MarinCallback(_Callback):
    """For the fork: `trainer.callback_handler.add_callback(MarinCallback(rec))`.

    Never name it in the configuration's `trainer.callbacks`: a list there replaces the trainer's own callbacks, those
    that save checkpoints among them. Alone it sees neither a failure nor the save after the loop.
    """

    error_behavior = "warn"

    def on_train_begin(self, state: Any, control: Any, **kwargs: Any) -> None:
        self._shield(self._begin, state.global_step, getattr(kwargs.get("trainer"), "cfg", None))

    def on_step_end(self, state: Any, control: Any, **kwargs: Any) -> None:
        self._shield(self._updated, state.global_step)

    def on_evaluate(self, state: Any, control: Any, metrics: Metrics | None = None, **kwargs: Any) -> None:
        self._shield(self._evaluated, state.global_step, metrics or {})

    def on_save(self, state: Any, control: Any, **kwargs: Any) -> None:
        folder = setting(getattr(kwargs.get("trainer"), "cfg", None), "trainer.ckpt_path")
        self._shield(self._saved, state.global_step, f"{folder}/global_step_{state.global_step}")

    def on_log(self, state: Any, control: Any, logs: Metrics | None = None, **kwargs: Any) -> None:
        self._shield(self._logged, state.global_step, logs or {})

    def on_train_end(self, state: Any, control: Any, **kwargs: Any) -> None:
        self._shield(self._ended)

    def on_epoch_begin(self, state: Any, control: Any, **kwargs: Any) -> None:
        """Says nothing here."""

    def on_epoch_end(self, state: Any, control: Any, **kwargs: Any) -> None:
        """Says nothing here."""

    def on_step_begin(self, state: Any, control: Any, **kwargs: Any) -> None:
        """Says nothing here: the fork never calls it."""

    # The twins work in a thread, so that the trainer's other tasks go on while a checkpoint is hashed.

    async def on_train_begin_async(self, state: Any, control: Any, **kwargs: Any) -> None:
        await asyncio.to_thread(self.on_train_begin, state, control, **kwargs)

    async def on_step_end_async(self, state: Any, control: Any, **kwargs: Any) -> None:
        await asyncio.to_thread(self.on_step_end, state, control, **kwargs)

    async def on_evaluate_async(self, state: Any, control: Any, **kwargs: Any) -> None:
        await asyncio.to_thread(self.on_evaluate, state, control, **kwargs)

    async def on_save_async(self, state: Any, control: Any, **kwargs: Any) -> None:
        await asyncio.to_thread(self.on_save, state, control, **kwargs)

    async def on_log_async(self, state: Any, control: Any, **kwargs: Any) -> None:
        await asyncio.to_thread(self.on_log, state, control, **kwargs)

    async def on_train_end_async(self, state: Any, control: Any, **kwargs: Any) -> None:
        await asyncio.to_thread(self.on_train_end, state, control, **kwargs)

    async def on_epoch_begin_async(self, state: Any, control: Any, **kwargs: Any) -> None:
        """Says nothing here."""

    async def on_epoch_end_async(self, state: Any, control: Any, **kwargs: Any) -> None:
        """Says nothing here."""

    async def on_step_begin_async(self, state: Any, control: Any, **kwargs: Any) -> None:
        """Says nothing here."""


class SkyRLCallback(_Callback):
    """For upstream: `trainer.add_callback(SkyRLCallback(rec))`.

    The fully asynchronous trainer refuses callbacks: `record` wraps it.
    """

    def on_train_start(self, trainer: Any, callback_input: Any, control: Any) -> None:
        self._shield(self._begin, callback_input.global_step, getattr(trainer, "cfg", None))

    def on_step_end(self, trainer: Any, callback_input: Any, control: Any) -> None:
        self._shield(self._updated, callback_input.global_step)

    def on_eval_end(self, trainer: Any, callback_input: Any, control: Any) -> None:
        self._shield(self._evaluated, callback_input.global_step, callback_input.metrics or {})

    def on_save(self, trainer: Any, callback_input: Any, control: Any) -> None:
        self._shield(self._saved, callback_input.global_step, str(callback_input.ckpt_path))

    def on_log(self, trainer: Any, callback_input: Any, control: Any) -> None:
        self._shield(self._logged, callback_input.global_step, callback_input.logs or {})

    def on_train_end(self, trainer: Any, callback_input: Any, control: Any) -> None:
        self._shield(self._ended)

    def on_epoch_start(self, trainer: Any, callback_input: Any, control: Any) -> None:
        """Says nothing here."""

    def on_epoch_end(self, trainer: Any, callback_input: Any, control: Any) -> None:
        """Says nothing here."""

    def on_step_start(self, trainer: Any, callback_input: Any, control: Any) -> None:
        """Says nothing here."""

    def on_eval_start(self, trainer: Any, callback_input: Any, control: Any) -> None:
        """Says nothing here."""
