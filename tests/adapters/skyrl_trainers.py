"""Trainers of SkyRL's shapes without anything to train: they call what the real ones call, in the real ones' order.

The fork counts one too far after its loop, and its callbacks write into a checkpoint after it was saved. Upstream's
fully asynchronous trainer refuses callbacks, logs a step in two calls, and saves once more at its end.
"""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any


def spaces(value: Any) -> Any:
    """Mappings as objects with attributes, as the trainers' configurations are."""
    if isinstance(value, dict):
        return SimpleNamespace(**{key: spaces(item) for key, item in value.items()})
    return value


def config(folder: Path, **trainer: Any) -> Any:
    known = {
        "ckpt_path": str(folder / "ckpt"),
        "export_path": str(folder / "exports"),
        "ckpt_interval": 2,
        "hf_save_interval": -1,
        "eval_interval": 2,
        "max_ckpts_to_keep": -1,
        "train_batch_size": 8,
        "policy_mini_batch_size": 8,
        "micro_train_batch_size_per_gpu": 1,
        "strategy": "fsdp2",
        "placement": {"policy_num_nodes": 1, "policy_num_gpus_per_node": 4, "colocate_all": True},
        "policy": {"optimizer_config": {"lr": 8e-6}, "megatron_config": {"tensor_model_parallel_size": 1}},
        "algorithm": {
            "advantage_estimator": "rloo_n",
            "policy_loss_type": "regular",
            "loss_reduction": "token_mean",
            "eps_clip_low": 0.2,
            "eps_clip_high": 0.05,
            "use_kl_loss": False,
            "use_tis": False,
            "tis_imp_ratio_cap": -1.0,
        },
        "seed": 42,
    }
    generator = {"n_samples_per_prompt": 4, "max_input_length": 512, "num_inference_engines": 2}
    generator["sampling_params"] = {"temperature": 1.0, "max_generate_length": 128, "api_key": "sk-" + "a1B2" * 8}
    return spaces({"trainer": {**known, **trainer}, "generator": generator})


class Tracker:
    """What the trainers log to."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, dict[str, Any]]] = []

    def log(self, data: dict[str, Any], step: int, commit: bool = False) -> None:
        self.rows.append((step, dict(data)))

    def finish(self) -> None: ...


class Trainer:
    """What all of them have."""

    def __init__(self, folder: Path, *, steps: int = 4, fails_at: tuple[str, int] | None = None, **settings: Any):
        self.cfg = config(folder, **settings)
        self.steps = steps
        self.fails_at = fails_at
        self.tracker = Tracker()
        self.global_step = 0
        self.total_training_steps = steps

    def fail(self, where: str) -> None:
        if self.fails_at == (where, self.global_step):
            raise RuntimeError(f"{where} of step {self.global_step}")

    @property
    def ckpt(self) -> Path:
        return Path(self.cfg.trainer.ckpt_path)

    def load_checkpoints(self) -> tuple[int, str]:
        latest = self.ckpt / "latest_ckpt_global_step.txt"
        if not latest.is_file():
            return 0, ""
        step = int(latest.read_text())
        return step, str(self.ckpt / f"global_step_{step}")

    def train_critic_and_policy(self, data: Any) -> dict[str, float]:
        self.fail("train")
        self.cfg.trainer.algorithm.global_loss_denom = 123.0  # the fork writes into its configuration, too
        return {"policy_loss": 0.1}

    def save_checkpoints(self) -> str | None:
        self.fail("save")
        folder = self.ckpt / f"global_step_{self.global_step}"
        (folder / "policy").mkdir(parents=True, exist_ok=True)
        for kind in ("model", "optim", "extra_state"):
            (folder / "policy" / f"{kind}_world_size_1_rank_0.pt").write_text(f"{kind} {id(self)} {self.global_step}")
        (folder / "data.pt").write_text("state")
        (folder / "trainer_state.pt").write_text("state")
        (self.ckpt / "latest_ckpt_global_step.txt").write_text(str(self.global_step))
        self._cleanup_old_checkpoints()
        return str(folder)

    def _cleanup_old_checkpoints(self) -> None:
        most = self.cfg.trainer.max_ckpts_to_keep
        kept = sorted(self.ckpt.glob("global_step_*"), key=lambda path: int(path.name.rpartition("_")[2]))
        for path in kept[: max(0, len(kept) - most)] if most > 0 else []:
            shutil.rmtree(path)

    def save_models(self) -> None:
        self.fail("export")
        folder = Path(self.cfg.trainer.export_path) / f"global_step_{self.global_step}" / "policy"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "model.safetensors").write_text(f"weights {self.global_step}")

    async def eval(self) -> dict[str, float]:
        return {"eval/math/avg_score": self.global_step / 10, "eval/math/pass_at_1": 0.5, "eval/code/avg_score": 0.1}

    def metrics(self, **more: Any) -> dict[str, Any]:
        step = self.global_step
        known = {"reward/avg_raw_reward": 0.1 * step, "policy/policy_entropy": 1.0}
        return {**known, "trainer/epoch": 0, "trainer/global_step": step, **more}

    def is_due(self, interval: int) -> bool:
        return interval > 0 and self.global_step % interval == 0


class Handler:
    """The fork's, as far as it is called here."""

    def __init__(self) -> None:
        self.callbacks: list[Any] = []

    def add_callback(self, callback: Any) -> None:
        self.callbacks.append(callback)

    async def call_event_async(self, event: str, state: Any, control: Any, **kwargs: Any) -> Any:
        for callback in self.callbacks:
            await getattr(callback, f"{event}_async")(state, control, **kwargs)
        return control


class DataState:
    """One of the fork's own callbacks: it adds to a checkpoint after the save."""

    def __getattr__(self, name: str) -> Any:
        async def nothing(*_: Any, **__: Any) -> None: ...

        return nothing

    async def on_save_async(self, state: Any, control: Any, **kwargs: Any) -> None:
        folder = Path(kwargs["trainer"].cfg.trainer.ckpt_path) / f"global_step_{state.global_step}"
        (folder / "data_consumption_state.pt").write_text("consumed")


class Marin(Trainer):
    """The fork's synchronous trainer."""

    def __init__(self, folder: Path, **settings: Any):
        super().__init__(folder, **settings)
        self.callback_handler = Handler()
        self.callback_handler.add_callback(DataState())

    def sync_policy_weights_to_inference_engines(self) -> list[str]:
        return ["reference"]

    def save_checkpoints(self) -> None:  # the fork gives no path
        super().save_checkpoints()

    async def call(self, event: str, **kwargs: Any) -> None:
        names = ("global_step", "epoch", "total_steps", "num_steps_per_epoch")
        state = SimpleNamespace(**dict(zip(names, (self.global_step, 0, self.steps, self.steps), strict=True)))
        await self.callback_handler.call_event_async(event, state, SimpleNamespace(), trainer=self, **kwargs)

    async def train(self) -> None:
        self.global_step, _ = self.load_checkpoints()
        if self.global_step >= self.steps:
            self.sync_policy_weights_to_inference_engines()
            await self.call("on_train_end")
            if self.cfg.trainer.ckpt_interval > 0:  # an export job on the run's own folder saves over what it read
                self.save_checkpoints()
            self.save_models()
            return
        self.sync_policy_weights_to_inference_engines()
        await self.call("on_train_begin")
        if self.cfg.trainer.eval_interval > 0:
            self.tracker.log(await self.eval(), self.global_step)
        self.global_step += 1
        while self.global_step <= self.steps:
            await self.step()
            self.global_step += 1
        await self.call("on_train_end")
        if self.cfg.trainer.ckpt_interval > 0:
            self.save_checkpoints()
        if self.cfg.trainer.hf_save_interval > 0:
            self.save_models()

    async def step(self) -> None:
        settings = self.cfg.trainer
        self.fail("generate")
        self.train_critic_and_policy(None)
        self.sync_policy_weights_to_inference_engines()
        await self.call("on_step_end")
        if self.is_due(settings.ckpt_interval):
            self.save_checkpoints()
            await self.call("on_save")
        if self.is_due(settings.hf_save_interval):
            self.save_models()
        self.fail("log")
        logs = self.metrics(**{"timing/step": 1.5})
        if self.is_due(settings.eval_interval):
            found = await self.eval()
            logs |= found
            await self.call("on_evaluate", metrics=found)
        self.tracker.log(logs, self.global_step)
        await self.call("on_log", logs=logs)


class Dispatch:
    """Upstream's, which is made after the trainer."""

    async def save_weights_for_sampler(self) -> None: ...

    def finalize_pending_saves(self, model: str) -> None: ...


class Upstream(Trainer):
    """Upstream's synchronous trainer."""

    def __init__(self, folder: Path, *, handler: Any = None, **settings: Any):
        super().__init__(folder, **settings)
        self.handler = handler
        self.callbacks: list[Any] = []
        self.dispatch: Dispatch | None = None

    def add_callback(self, callback: Any) -> None:
        (self.callbacks.append if self.handler is None else self.handler.add)(callback)

    def build_models(self) -> None:
        self.dispatch = Dispatch()

    def fire(self, event: str, **fields: Any) -> None:
        known = {"batch": None, "metrics": None, "logs": None, "ckpt_path": None}
        said = SimpleNamespace(
            global_step=self.global_step, epoch=0, total_steps=self.steps, steps_per_epoch=4, **{**known, **fields}
        )
        for callback in self.callbacks if self.handler is None else [self.handler]:
            getattr(callback, event)(self, said, SimpleNamespace(should_save=False, should_evaluate=False))

    async def train(self) -> None:
        assert self.dispatch is not None
        self.global_step, _ = self.load_checkpoints()
        await self.dispatch.save_weights_for_sampler()
        self.fire("on_train_start")
        self.fire("on_eval_start")
        found = await self.eval()
        self.fire("on_eval_end", metrics=found)
        self.fire("on_log", logs=found)
        self.global_step += 1
        saved = False
        self.fire("on_epoch_start")
        while self.global_step <= self.steps:
            self.fire("on_step_start")
            self.fail("generate")
            status = self.train_critic_and_policy(None)
            self.fire("on_step_end", batch="batch", metrics=status)
            if saved := self.is_due(self.cfg.trainer.ckpt_interval):
                self.fire("on_save", ckpt_path=self.save_checkpoints())
            await self.dispatch.save_weights_for_sampler()
            logs = self.metrics(**{"timing/step": 1.5})
            if self.is_due(self.cfg.trainer.eval_interval):
                self.fire("on_eval_start")
                found = await self.eval()
                logs |= found
                self.fire("on_eval_end", metrics=found)
            self.fire("on_log", logs=logs)
            self.global_step += 1
        self.fire("on_epoch_end")
        self.global_step -= 1
        if not saved:
            self.fire("on_save", ckpt_path=self.save_checkpoints())
        self.dispatch.finalize_pending_saves("policy")
        self.fire("on_train_end")


class Group(SimpleNamespace):
    """One prompt's samples as they leave generation."""


class FullyAsyncTrainer(Upstream):
    """Upstream's fully asynchronous trainer; like the fork's it throws stale groups away."""

    def __init__(self, folder: Path, *, stale: tuple[int, ...] = (), **settings: Any):
        super().__init__(folder, **settings)
        self.stale = stale

    def add_callback(self, callback: Any) -> None:
        raise NotImplementedError("no callbacks here")

    def convert_to_training_input(self, generator_output: Any, uids: list[str]) -> Any:
        return SimpleNamespace(uids=Counter(uids))

    def convert_generation_group_mini_batch_to_training_input(self, groups: Any, dropped: Any = None) -> Any:
        kept = groups[1:] if self.global_step in self.stale else groups
        return self.convert_to_training_input({}, [g.uid for g in kept for _ in g.generator_output["response_ids"]])

    async def train(self) -> None:
        assert self.dispatch is not None
        self.global_step, *_ = self.load_checkpoints()
        await self.dispatch.save_weights_for_sampler()
        self.tracker.log(await self.eval(), self.global_step, commit=True)
        self.global_step += 1
        while self.global_step <= self.steps:
            answers = {"response_ids": [[1], [2]]}
            groups = [Group(uid=f"task-{self.global_step}-{i}", generator_output=answers) for i in range(3)]
            batch = await asyncio.to_thread(
                self.convert_generation_group_mini_batch_to_training_input, groups[:2], groups[2:]
            )
            await asyncio.to_thread(self.train_critic_and_policy, batch)
            await self.dispatch.save_weights_for_sampler()
            logs = self.metrics()
            if self.is_due(self.cfg.trainer.eval_interval):
                logs |= await self.eval()
            self.tracker.log(logs, self.global_step, commit=False)
            if self.is_due(self.cfg.trainer.ckpt_interval):
                await asyncio.to_thread(self.save_checkpoints)
            self.tracker.log({"timing/step": 2.0}, self.global_step, commit=True)
            self.global_step += 1
        await asyncio.to_thread(self.save_checkpoints)
        self.dispatch.finalize_pending_saves("policy")
