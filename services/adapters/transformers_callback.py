"""Trainers of transformers, and of TRL, which are made from it: recorded by one callback.

    from ledger.client import Recorder
    from services.adapters.transformers_callback import LedgerCallback, declaration

    with Recorder("127.0.0.1:7410", run="svamp-rloo-1") as rec:
        rec.declare_run(sources=[...], rl_start={...}, **declaration(args))
        RLOOTrainer(..., args=args, callbacks=[LedgerCallback(rec)]).train()

The block is not decoration: no callback is told of an exception, and the recorder ends the attempt where one leaves it.

Kept:

- Only the process of rank zero, as the trainer counts it, records; a fault here is told of once and stops nothing.
- A step is recorded when it is logged, and holds the means since the last time: log every step to have every step.
- What an evaluation logs is recorded as one, by data source; the summary at the end, which bears the last step's
  number, is no step. Its metrics are left out.
- A checkpoint is recorded with the digest of its folder, when the trainer says that it is saved. In a run of several
  processes the others may still be writing then: what each of them restores is theirs to check.
- Which weights sampled a step's rollouts the trainers do not say: no version is named.
- Arguments are recorded as they are when training begins, tokens and keys replaced.
"""

# ruff: noqa: ARG002  # the signatures are the trainers'

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ledger.client.recording import Recorder
from ledger.core.errors import LedgerError
from services.adapters.shields import Shield

try:
    from transformers import TrainerCallback
except ModuleNotFoundError as missing:
    raise LedgerError(
        "the callback is made from one of transformers, which is not installed",
        reason="EXTRA_MISSING",
        remedy="Install it where you train: `pip install 'atlas-ledger[train]'`, or transformers alone.",
        details={"extra": "train", "package": "transformers"},
    ) from missing

SERIES: Final[Mapping[str, str]] = {"reward": "reward", "entropy": "entropy", "grad_norm": "grad_norm"}
"""Under which keys TRL logs what a run is judged by."""
_EVALUATION: Final = "eval_"
_RUNTIME: Final = "_runtime"
_SUMMARY: Final = "train_runtime"
_FOLDER: Final = re.compile(r"checkpoint-(\d{1,15})", re.ASCII)
_PARTS: Final[Mapping[str, str]] = {
    "optimizer": r"optimizer(_\d+)?(\.pt|\.bin)?",
    "scheduler": r"scheduler\.pt",
    "rng": r"rng_state(_\d+)?\.pth",
    "weights": r"(pytorch_model|adapter_model|model)([-_].*)?(\.safetensors|\.bin)?",
}


class LedgerCallback(TrainerCallback):  # type: ignore[misc]  # transformers is skipped by the type checker: it is large
    """Give it to the trainer, or to `add_callback` before `train`.

    Args:
        recorder: The run's.
        background: Checkpoints are hashed by a thread of the recorder's. Only where none is deleted meanwhile.
    """

    def __init__(self, recorder: Recorder, *, background: bool = False) -> None:
        self._recorder = recorder
        self._background = background
        self._shield = Shield(recorder, f"run {recorder.run}")
        self._last_step = 0
        """The last step that was recorded, or that training began with."""
        self._evaluated: tuple[int, frozenset[str]] | None = None
        self._there: set[int] = set()
        """The checkpoints that lay in the folder when it was last looked at."""

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.is_world_process_zero:
            self._shield(self._begin, args, state.global_step, kwargs.get("model"))

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.is_world_process_zero and control.should_save:
            self._shield(self._recorder.saving, state.global_step)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        if state.is_world_process_zero:
            self._shield(self._logged, state.global_step, logs or {})

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any = None, **kwargs: Any) -> None:
        if state.is_world_process_zero:
            self._shield(self._evaluate, state.global_step, metrics or {})

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.is_world_process_zero:
            self._shield(self._saved, Path(args.output_dir), state.global_step)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.is_world_process_zero:
            self._shield(self._recorder.end_attempt, "completed", last_step=state.global_step)

    def _begin(self, args: Any, step: int, model: Any) -> None:
        recorder = self._recorder
        self._last_step = step
        self._there = _labels(Path(args.output_dir))
        recorder.start_attempt(resumed_from=step or None)
        settings = {"arguments": args.to_dict()}
        of_model = getattr(getattr(model, "config", None), "to_dict", None)
        if of_model is not None:
            settings["model"] = of_model()
        recorder.config(settings)
        if step:
            recorder.loaded(step)

    def _logged(self, step: int, logs: Mapping[str, Any]) -> None:
        if any(key.startswith(_EVALUATION) for key in logs):
            self._evaluate(step, logs)
        elif _SUMMARY not in logs and step > self._last_step:
            self._last_step = step
            self._recorder.step(step, logs, epoch=logs.get("epoch"))

    def _evaluate(self, step: int, metrics: Mapping[str, Any]) -> None:
        """An evaluation, which the trainer logs, with more metrics in TRL, before it tells that there was one."""
        own = {key: value for key, value in metrics.items() if key.startswith(_EVALUATION)}
        if own and self._evaluated is not None:
            before, keys = self._evaluated
            if before == step and keys >= own.keys():
                self._evaluated = None
                return
        if own:
            self._evaluated = (step, frozenset(own))
            self._recorder.evaluate(step, {_data_source(own): own})

    def _saved(self, output: Path, step: int) -> None:
        folder = output / f"checkpoint-{step}"
        fields = {"last_update": step, "saved_by": "trainer", "location": str(folder), **_looked_at(folder)}
        self._recorder.checkpoint(step, folder, background=self._background, **fields)
        # Older ones were deleted just before: no hook tells of it.
        there = _labels(output)
        for gone in sorted(self._there - there):
            self._recorder.deleted(gone, "older than as many as are kept")
        self._there = there


def declaration(args: Any) -> dict[str, Any]:
    """What a trainer's arguments say of the run that is declared: its objective, its plan, the keys of its series."""
    said = {
        "learning_rate": args.learning_rate,
        "micro_train_batch_size_per_gpu": args.per_device_train_batch_size,
        "seed": args.seed,
        "other": {"gradient_accumulation_steps": args.gradient_accumulation_steps},
    }
    for name, argument in _OF_TRL.items():
        if (value := getattr(args, argument, None)) is not None:
            said[name] = value
    estimator = next((name for kind, name in _ESTIMATORS.items() if type(args).__name__.startswith(kind)), None)
    if estimator is not None:
        said["advantage_estimator"] = estimator
    if getattr(args, "beta", None) is not None:
        # RLOO takes the KL off the reward; GRPO adds it to the loss.
        said["use_kl_in_reward" if estimator == "rloo" else "use_kl_loss"] = args.beta > 0
        said["kl_loss_coef"] = args.beta
    fields: dict[str, Any] = {"algorithm": said, "series": dict(SERIES)}
    if args.max_steps > 0:
        fields["planned_steps"] = args.max_steps
    if str(getattr(args.save_strategy, "value", args.save_strategy)) == "steps" and args.save_steps >= 1:
        fields["checkpoint_interval"] = int(args.save_steps)
    if args.save_total_limit:
        fields["max_checkpoints_kept"] = args.save_total_limit
    return fields


_ESTIMATORS: Final[Mapping[str, str]] = {"RLOO": "rloo", "GRPO": "grpo"}
_OF_TRL: Final[Mapping[str, str]] = {
    "n_samples_per_prompt": "num_generations",
    "temperature": "temperature",
    "eps_clip_low": "epsilon",
    "eps_clip_high": "epsilon_high",
    "loss_reduction": "loss_type",
    "update_epochs_per_batch": "num_iterations",
    "max_input_length": "max_prompt_length",
    "max_generate_length": "max_completion_length",
}


def _data_source(metrics: Mapping[str, Any]) -> str:
    """The data's name, by the metric that every evaluation has: `eval_NAME_runtime`; of one without a name, `eval`."""
    runtime = next((key for key in metrics if key.endswith(_RUNTIME)), "")
    return runtime.removesuffix(_RUNTIME).removeprefix(_EVALUATION) or "eval"


def _labels(output: Path) -> set[int]:
    """The numbers of the checkpoints in a folder."""
    names = [path.name for path in output.iterdir()] if output.is_dir() else []
    return {int(match[1]) for name in names if (match := _FOLDER.fullmatch(name))}


def _looked_at(folder: Path) -> dict[str, Any]:
    """What the checkpoint can restore, by the names of its files, and the step that its own state names."""
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    contents = {part: any(re.fullmatch(pattern, n) for n in names) for part, pattern in _PARTS.items()}
    fields: dict[str, Any] = {"contents": contents}
    if any(name.endswith(".safetensors") for name in names):
        fields["format"] = "safetensors"
    state = folder / "trainer_state.json"
    if state.is_file():
        fields["recorded_step"] = json.loads(state.read_bytes()).get("global_step")
    return fields
