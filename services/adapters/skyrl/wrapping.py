"""A SkyRL trainer's own methods, wrapped on the instance: what callbacks are not told of is seen here.

    load_checkpoints                          the attempt begins, with a checkpoint or without
    train_critic_and_policy                   an update was made
    sync_policy_weights_to_inference_engines, dispatch.save_weights_for_sampler      weights were sent
    save_checkpoints, _cleanup_old_checkpoints, save_models                          saved, deleted, exported
    eval, tracker.log                         metrics; the tracker's only where the trainer takes no callback
    convert_…_to_training_input               groups that were there for a step, and those that were taken
    train                                     how it ended

A method that a trainer lacks is left out; of those that no record can do without, it is told.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from ledger.client.recording import Recorder
from services.adapters.shields import Shield
from services.adapters.skyrl.callbacks import MarinCallback, SkyRLCallback, Told
from services.adapters.skyrl.checkpoints import label_of, labels_in
from services.adapters.skyrl.lives import Life
from services.adapters.skyrl.settings import setting, snapshot
from services.adapters.skyrl.steps import STALE

T = TypeVar("T")
_WRAPPED: Final = "__wrapped_for_the_ledger__"
_NEEDED: Final = ("train", "load_checkpoints", "save_checkpoints", "train_critic_and_policy")
_IN_BACKGROUND: Final = "trainer.policy.megatron_config.async_dist_ckpt_save"


def record(trainer: T, recorder: Recorder, *, background: bool = False) -> T:
    """Has a trainer recorded, from its next call of `train` on; gives the same trainer.

    Args:
        trainer: An instance of `RayPPOTrainer` or of a class made from it, once it is made and before it trains.
        recorder: The run's. It stays yours: close it, or let the program's end do so.
        background: Checkpoints are hashed by a thread of the recorder's while training goes on. Only where nothing
            changes or deletes them meanwhile.
    """
    shield = Shield(recorder, f"run {recorder.run}")
    if getattr(getattr(trainer, "train", None), _WRAPPED, False) is True:
        shield.warn("twice", "the trainer is recorded already: the second recorder gets nothing")
    else:
        shield(_wrap, trainer, recorder, background=background)
    return trainer


def _wrap(trainer: Any, recorder: Recorder, *, background: bool) -> None:
    config = getattr(trainer, "cfg", None)
    is_async = any("Async" in kind.__name__ for kind in type(trainer).__mro__)
    life = Life(recorder, None if config is None else snapshot(config), asynchronous=is_async)
    told = Told(recorder, life, background=background)
    told.settles_on_save = not setting(config, _IN_BACKGROUND)
    for name in _NEEDED:
        if not callable(getattr(trainer, name, None)):
            told.shield.warn(name, f"the trainer has no method {name}: what it would tell is missing")
    _Watched(trainer, told).wrap()


@dataclass(frozen=True)
class _Hooks:
    """What is done around a method: each is given the method's own arguments."""

    before: Callable[..., None] | None = None
    after: Callable[..., None] | None = None
    """Its first argument is what the method gave."""
    failed: Callable[..., None] | None = None
    """Its only argument is what was raised."""


class _Watched:
    """One trainer and what is told of it."""

    def __init__(self, trainer: Any, told: Told) -> None:
        self._trainer = trainer
        self._told = told
        self._life, self._steps, self._saves = told.life, told.steps, told.saves
        self._label = 0
        """Of the save that goes on."""
        self._export: str | None = None
        self._kept_before: frozenset[int] = frozenset()
        self._sending = 0
        """Calls that send weights, one within the other."""
        self._groups: tuple[list[Any], list[Any]] | None = None
        self._taken: Counter[str] | None = None
        self._settles_at_once = not self._takes_callback()

    def wrap(self) -> None:
        trainer, sends = self._trainer, _Hooks(self._sends, self._sent, self._not_sent)
        for name, hooks in {
            "train": _Hooks(self._trains, self._trained, self._stopped),
            "init_weight_sync_state": _Hooks(after=lambda *_, **__: self._wrap_dispatch()),
            "load_checkpoints": _Hooks(after=self._loaded),
            "train_critic_and_policy": _Hooks(after=lambda *_, **__: self._life.updated(trainer.global_step)),
            "sync_policy_weights_to_inference_engines": sends,
            "async_sync_policy_weights_to_inference_engines": sends,
            "save_checkpoints": _Hooks(self._begins_save, self._wrote),
            "_cleanup_old_checkpoints": _Hooks(self._cleans, self._cleaned),
            "save_models": _Hooks(self._begins_export, self._exported, self._not_exported),
            "eval": _Hooks(after=lambda found, *_, **__: self._steps.evaluated(trainer.global_step, found or {})),
            "convert_generation_group_mini_batch_to_training_input": _Hooks(self._has_groups, self._disposed),
            "convert_to_training_input": _Hooks(self._takes),
        }.items():
            self._around(trainer, name, hooks)
        if self._settles_at_once:
            self._around(getattr(trainer, "tracker", None), "log", _Hooks(self._logs))
        self._wrap_dispatch()

    def _takes_callback(self) -> bool:
        """Adds the callback that the trainer takes, if it takes one."""
        recorder, trainer = self._life.recorder, self._trainer
        if callable(getattr(getattr(trainer, "callback_handler", None), "add_callback", None)):
            trainer.callback_handler.add_callback(MarinCallback(recorder, told=self._told))
            return True
        if callable(getattr(trainer, "add_callback", None)):
            try:
                trainer.add_callback(SkyRLCallback(recorder, told=self._told))
            except NotImplementedError:  # upstream's fully asynchronous trainer
                return False
            return True
        return False

    def _wrap_dispatch(self) -> None:
        """The part that sends weights and saves upstream, which is made after the trainer."""
        dispatch = getattr(self._trainer, "dispatch", None)
        sends = _Hooks(self._sends, self._sent, self._not_sent)
        self._around(dispatch, "save_weights_for_sampler", sends)
        self._around(dispatch, "finalize_pending_saves", _Hooks(after=lambda *_, **__: self._saves.settle()))

    def _around(self, owner: Any, name: str, hooks: _Hooks) -> None:
        method = getattr(owner, name, None)
        if not callable(method) or getattr(method, _WRAPPED, False):
            return
        wrapped = _wrapped(method, hooks, self._told.shield)
        setattr(wrapped, _WRAPPED, True)
        setattr(owner, name, wrapped)

    # The life

    def _trains(self, *_: Any, **__: Any) -> None:
        self._wrap_dispatch()

    def _loaded(self, found: Any, *_: Any, **__: Any) -> None:
        self._life.begin(int(found[0] if isinstance(found, tuple) else found or 0))

    def _trained(self, *_: Any, **__: Any) -> None:
        self._saves.settle()
        self._steps.let_go()
        self._life.end("completed")

    def _stopped(self, error: BaseException) -> None:
        if self._told.settles_on_save:
            self._saves.settle()
        self._steps.let_go()
        cancelled = isinstance(error, (KeyboardInterrupt, asyncio.CancelledError))
        self._life.end("cancelled" if cancelled else "failed", error)

    def _sends(self, *_: Any, **__: Any) -> None:
        self._sending += 1

    def _sent(self, *_: Any, **__: Any) -> None:
        self._sending -= 1
        if not self._sending:
            self._life.sent()

    def _not_sent(self, _: BaseException) -> None:
        self._sending -= 1

    # Metrics and groups

    def _logs(self, data: Any, step: int, commit: bool = False, **_: Any) -> None:  # noqa: FBT001, FBT002  # SkyRL's
        self._steps.logged(step, data, complete=commit)

    def _has_groups(self, groups: Any, dropped: Any = None, *_: Any, **__: Any) -> None:
        self._groups, self._taken = (list(groups), list(dropped or [])), None

    def _takes(self, _: Any, uids: Any, *__: Any, **___: Any) -> None:
        self._taken = Counter(map(str, uids))

    def _disposed(self, *_: Any, **__: Any) -> None:
        if self._groups is None or self._taken is None:
            return
        (there, dropped), taken = self._groups, self._taken
        kept = [
            {"group": name, "disposition": "consumed", "samples": taken[name]}
            if (name := str(group.uid)) in taken
            else {"group": name, "disposition": "discarded", "reason": STALE, "samples": _samples(group)}
            for group in there
        ]
        filtered = [
            {"group": str(g.uid), "disposition": "filtered", "reason": "no variance of rewards", "samples": _samples(g)}
            for g in dropped
        ]
        self._groups = self._taken = None
        self._steps.disposed(self._trainer.global_step, kept + filtered)

    # What is written

    def _begins_save(self, *_: Any, **__: Any) -> None:
        self._label = self._trainer.global_step
        self._saves.saving(self._label)

    def _wrote(self, place: Any, *_: Any, **__: Any) -> None:
        self._saves.settle()  # the one before: a trainer that saves in the background ends it before the next
        folder = setting(self._trainer.cfg, "trainer.ckpt_path")
        place = str(place) if isinstance(place, (str, Path)) else f"{folder}/global_step_{self._label}"
        label = label_of(place)
        self._saves.saved(self._label if label is None else label, place)
        if self._settles_at_once and self._told.settles_on_save:
            self._saves.settle()

    def _cleans(self, *_: Any, **__: Any) -> None:
        self._kept_before = self._kept()

    def _cleaned(self, *_: Any, **__: Any) -> None:
        self._saves.deleted(self._kept_before - self._kept())

    def _kept(self) -> frozenset[int]:
        return labels_in(str(setting(self._trainer.cfg, "trainer.ckpt_path")))

    def _begins_export(self, *_: Any, **__: Any) -> None:
        self._export = None
        self._label = self._trainer.global_step
        self._export = self._saves.exporting(self._label)

    def _exported(self, *_: Any, **__: Any) -> None:
        if self._export is not None:
            folder = setting(self._trainer.cfg, "trainer.export_path")
            self._saves.exported(self._export, f"{folder}/global_step_{self._label}/policy")

    def _not_exported(self, error: BaseException) -> None:
        if self._export is not None:
            self._saves.export_failed(self._export, error)


def _wrapped(method: Callable[..., Any], hooks: _Hooks, shield: Shield) -> Callable[..., Any]:
    """The method with its hooks, none of which changes what it takes, gives or raises."""

    def tell(hook: Callable[..., None] | None, *args: Any, **kwargs: Any) -> None:
        if hook is not None:
            shield(hook, *args, **kwargs)

    async def finish(started: Coroutine[Any, Any, Any], *args: Any, **kwargs: Any) -> Any:
        try:
            found = await started
        except BaseException as error:
            tell(hooks.failed, error)
            raise
        tell(hooks.after, found, *args, **kwargs)
        return found

    @functools.wraps(method)
    def around(*args: Any, **kwargs: Any) -> Any:
        tell(hooks.before, *args, **kwargs)
        try:
            found = method(*args, **kwargs)
        except BaseException as error:
            tell(hooks.failed, error)
            raise
        if inspect.iscoroutine(found):  # asked of what it gives: a decorator may hide that the method is asynchronous
            return finish(found, *args, **kwargs)
        tell(hooks.after, found, *args, **kwargs)
        return found

    return around


def _samples(group: Any) -> int | None:
    """How many samples a group had; None where it does not say."""
    output = getattr(group, "generator_output", None)
    return len(output["response_ids"]) if isinstance(output, dict) and "response_ids" in output else None
