"""The adapters of SkyRL beside the published packages: upstream's own callback handler, and the loops of its trainers."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import AsyncMock, MagicMock

import pytest

pytest.importorskip("skyrl_train", reason="the environment of `.ci/set-up peers`", exc_type=ImportError)

from ledger.client import Recorder
from ledger.client.testing import FakeLedger
from services.adapters.skyrl import SkyRLCallback, record
from tests.adapters.recorded import kinds, rewards, said
from tests.adapters.skyrl_trainers import Group, Trainer, Upstream
from tests.peers.adapters.skyrl_sources import load, package, taken

pytestmark = pytest.mark.peers

NEW, OLD = package("skyrl"), package("skyrl-train")
CALLBACKS = load(NEW / "train/utils/callbacks.py")
LOOP = NEW / "train/trainer.py"
ASYNC_LOOP = NEW / "train/fully_async_trainer.py"


@pytest.fixture
def ledger():
    with FakeLedger() as made:
        yield made


class Published(Trainer):
    """What the published loops ask of themselves, as far as no model is needed for it."""

    def __init__(self, folder: Path, **fields):
        super().__init__(folder, **fields)
        settings = self.cfg.trainer
        settings.epochs, settings.max_training_steps, settings.eval_before_train = 1, None, True
        settings.update_ref_every_epoch, settings.dump_data_batch, settings.print_example_interval = False, False, 0
        settings.algorithm.use_kl_in_reward = False
        settings.algorithm.advantage_batch_normalize = False
        settings.algorithm.dynamic_sampling = SimpleNamespace(type=None)
        self.cfg.generator.step_wise_trajectories = False
        self.cfg.generator.backend = "vllm"
        self.cfg.generator.inference_engine = SimpleNamespace(backend="vllm")
        self.cfg.environment = SimpleNamespace(env_class="x")
        self.resume_mode, self.colocate_all, self.has_critic, self.ref_model = "latest", False, False, None
        self._vllm_metrics_scraper = self._ray_gpu_monitor = self.trajectory_logger = self.critic_model = None
        self._current_epoch, self._num_training_gpus = 0, 1
        self.train_dataloader = list(range(self.steps))
        self.inference_engine_client = MagicMock(
            pause_generation=AsyncMock(), resume_generation=AsyncMock(), sleep=AsyncMock()
        )
        self.policy_model = MagicMock(async_run_ray_method=lambda *_, **__: [], async_run_method=AsyncMock())
        self.all_metrics: dict = {}
        self.all_timings: dict = {}
        self.tokenizer = MagicMock()
        self.dispatch = MagicMock(
            save_weights_for_sampler=AsyncMock(), get_timing_metrics=dict, finalize_pending_saves=lambda _: None
        )

    def train_critic_and_policy(self, data):
        self.all_metrics |= {"reward/avg_raw_reward": self.global_step / 10, "policy/policy_entropy": 1.0}
        return super().train_critic_and_policy(data)

    def init_weight_sync_state(self): ...

    def _remove_tail_data(self, prompts):
        return prompts

    async def generate(self, request):
        return {"response_ids": [[1]], "rewards": [1.0]}

    def convert_to_training_input(self, output, uids):
        return MagicMock(uids=Counter(uids))

    def fwd_logprobs_values_reward(self, batch):
        return batch

    compute_advantages_and_returns = fwd_logprobs_values_reward

    async def eval(self, vllm_metrics_scraper=None):
        return await super().eval()

    def _profiler_start(self): ...

    _profiler_step = _profiler_stop = _profiler_start


class Synchronous(Published):
    """skyrl 0.4.0, `RayPPOTrainer`."""

    locals().update(
        taken(
            LOOP,
            "RayPPOTrainer",
            "train",
            "add_callback",
            "_build_callback_input",
            "_fire",
            CallbackInput=CALLBACKS.CallbackInput,
            tqdm=MagicMock(),
        )
    )

    def __init__(self, folder, **fields):
        super().__init__(folder, **fields)
        self._callback_handler = CALLBACKS.CallbackHandler()
        self._training_control = CALLBACKS.TrainingControl()

    def postprocess_generator_output(self, output, uids):
        return output, uids


class Older(Published):
    """skyrl-train 0.3.1, `RayPPOTrainer`: it has no callbacks, and trains in no event loop."""

    locals().update(taken(OLD / "trainer.py", "RayPPOTrainer", "train", "sync_policy_weights_to_inference_engines"))

    def postprocess_generator_output(self, output, uids):
        return output


class Queued(Published):
    """What both fully asynchronous loops ask of themselves."""

    def __init__(self, folder, **fields):
        super().__init__(folder, **fields)
        self.num_parallel_generation_workers, self.mini_batch_size, self.max_staleness_steps = 1, 2, 1
        self._gen_buffer_maxsize, self.sample_full_batch, self.num_steps_per_epoch = 4, False, self.steps
        self._phase_gauge = MagicMock()
        self._phase_gauge.timed_phase.return_value.__exit__.return_value = False
        self._loop_gauges = MagicMock()
        self.trained = 0
        self.async_train_dataloader = MagicMock(
            mark_consumed_uids=AsyncMock(side_effect=self.consume),
            reset_at_epoch_end=AsyncMock(),
            num_trained=lambda: self.trained,
            get_consumed_uids_list=lambda: list(range(self.trained)),
        )
        self._staleness_manager = MagicMock(notify_capacity_change=AsyncMock(), validate_state_at_epoch_end=AsyncMock())

    def load_checkpoints(self):
        step, place = super().load_checkpoints()
        self.trained = 2 * step
        return step, place

    def consume(self, uids):
        self.trained += len(uids)

    async def _run_generate_for_a_group_loop(self, queue):
        for number in range(2 * (self.global_step - 1), 2 * self.steps):
            group = Group(uid=f"task-{number}", generator_output={"response_ids": [[1], [2]]})
            await queue.put(group)

    def convert_generation_group_mini_batch_to_training_input(self, groups, dropped=None):
        return self.convert_to_training_input({}, [g.uid for g in groups for _ in range(2)])


class FullyAsync(Queued):
    """skyrl 0.4.0, `FullyAsyncRayPPOTrainer`."""

    locals().update(
        taken(
            ASYNC_LOOP,
            "FullyAsyncRayPPOTrainer",
            "train",
            "add_callback",
            "_run_training",
            "_collect_generation_mini_batch",
            tqdm=MagicMock(),
        )
    )

    def load_checkpoints(self):
        step, place = super().load_checkpoints()
        return step, place, set(range(self.trained)), set(), None


class OlderFullyAsync(Queued):
    """skyrl-train 0.3.1, `FullyAsyncRayPPOTrainer`."""

    locals().update(
        taken(
            OLD / "fully_async_trainer.py",
            "FullyAsyncRayPPOTrainer",
            "train",
            "_run_training",
            "async_sync_policy_weights_to_inference_engines",
            tqdm=MagicMock(),
        )
    )

    def load_checkpoints(self):
        step, place = super().load_checkpoints()
        return step, place, set(range(self.trained))


LOOPS = {Synchronous: {2: 2, 4: 4}, FullyAsync: {2: 2, 4: 4, 5: 4}, Older: {2: 2, 4: 4, 5: 4}}
LOOPS[OlderFullyAsync] = LOOPS[FullyAsync]


def start(kind, address, folder, **fields):
    with Recorder(address, run="arm", spool=folder / "spool", rank=0, strict=True) as rec:
        trainer = record(kind(folder, **fields), rec)
        ended = trainer.train()
        if ended is not None:
            asyncio.run(ended)


@pytest.mark.parametrize("kind", LOOPS)
def test_a_published_loop_is_recorded_whole(kind, ledger, tmp_path):
    start(kind, ledger.address, tmp_path)
    assert rewards(ledger) == [(1, step, step / 10) for step in (1, 2, 3, 4)]
    saved = said(ledger, "checkpoint.committed")
    assert {s["step"]: s["last_update"] for s in saved} == LOOPS[kind]
    assert [s["step"] for s in said(ledger, "weights.synced")] == [0, 1, 2, 3, 4]
    assert [s["step"] for s in said(ledger, "eval.logged")] == [0, 2, 4]
    assert kinds(ledger)[-1] == "attempt.ended"
    assert said(ledger, "attempt.ended")[0]["ending"] == "completed"
    logged = [s["steps"][0] for s in said(ledger, "steps.logged")]
    asynchronous = issubclass(kind, Queued)
    assert [one.get("weight_version") for one in logged] == ([None] * 4 if asynchronous else [0, 1, 2, 3])
    assert not [key for one in logged for key in one["metrics"] if key.startswith("eval/")]


@pytest.mark.parametrize("kind", LOOPS)
def test_a_published_loop_crashes_and_resumes(kind, ledger, tmp_path):
    with pytest.raises(RuntimeError, match="train of step 4"):
        start(kind, ledger.address, tmp_path, fails_at=("train", 4))
    start(kind, ledger.address, tmp_path)
    assert said(ledger, "attempt.started")[1]["resumed_from"] == {"step": 2}
    assert [s["ending"] for s in said(ledger, "attempt.ended")] == ["failed", "completed"]
    assert [row[:2] for row in rewards(ledger)][:4] == [(1, 1), (1, 2), (1, 3), (2, 3)]


def test_groups_of_a_published_asynchronous_loop_are_told_by_name(ledger, tmp_path):
    start(FullyAsync, ledger.address, tmp_path)
    told = [[g["group"] for g in s["groups"]] for s in said(ledger, "groups.disposed")]
    assert told == [[f"task-{2 * n}", f"task-{2 * n + 1}"] for n in range(4)]


def test_upstreams_handler_drives_the_callback(ledger, tmp_path):
    trainer = Upstream(tmp_path, handler=CALLBACKS.CallbackHandler())
    trainer.build_models()
    with Recorder(ledger.address, run="arm", spool=tmp_path / "spool", rank=0, strict=True) as rec:
        trainer.add_callback(SkyRLCallback(rec))
        asyncio.run(trainer.train())
    assert [row[:2] for row in rewards(ledger)] == [(1, 1), (1, 2), (1, 3), (1, 4)]
    assert [s["step"] for s in said(ledger, "checkpoint.committed")] == [2, 4]


def test_the_callback_answers_every_event_that_upstream_has():
    events = {name for name in vars(CALLBACKS.TrainingCallback) if name.startswith("on_")}
    assert events <= {name for name in vars(SkyRLCallback) if name.startswith("on_")}
