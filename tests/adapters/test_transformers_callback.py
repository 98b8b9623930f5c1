"""The callback for trainers of transformers, called by transformers' own handler in its trainer's order.

A real trainer, and one of TRL's, run it in tests/peers/adapters.
"""

from __future__ import annotations

import json
import logging
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from transformers.trainer_callback import (
    CallbackHandler,
    DefaultFlowCallback,
    TrainerCallback,
    TrainerControl,
    TrainerState,
)

from ledger.client import Recorder
from ledger.client.recording.files import read_files
from ledger.client.testing import FakeLedger
from services.adapters.transformers_callback import LedgerCallback, declaration
from services.server.app import in_process
from services.server.settings import Settings
from tests.adapters.recorded import asked, declare, kinds, rewards, said


@pytest.fixture
def ledger():
    with FakeLedger() as made:
        yield made


class Arguments(SimpleNamespace):
    """As far as the handler's flow and the callback read them."""

    def __init__(self, folder: Path, **fields):
        known = {
            "output_dir": str(folder / "out"),
            "logging_first_step": False,
            "logging_strategy": "steps",
            "eval_strategy": "steps",
            "save_strategy": "steps",
            "save_steps": 2,
            "save_total_limit": None,
            "eval_delay": 0,
            "max_steps": 4,
            "learning_rate": 1e-5,
            "per_device_train_batch_size": 2,
            "gradient_accumulation_steps": 4,
            "seed": 7,
            "hub_token": "hf_" + "a1B2" * 8,
        }
        super().__init__(**{**known, **fields})

    def to_dict(self):
        return dict(vars(self))


class Loop:
    """What `Trainer` does around its updates, in its order, with transformers' own handler, state and control."""

    def __init__(self, args, callback, *, fails_at=None, rank_zero=True):
        self.args, self.fails_at = args, fails_at
        self.control = TrainerControl()
        self.state = TrainerState(
            max_steps=args.max_steps, logging_steps=1, eval_steps=2, save_steps=args.save_steps, epoch=0.0
        )
        self.state.is_world_process_zero = rank_zero
        config = SimpleNamespace(to_dict=lambda: {"model_type": "tiny", "vocab_size": 32})
        model = SimpleNamespace(config=config)
        self.handler = CallbackHandler([DefaultFlowCallback(), callback], model, None, None, None)

    def train(self, *, resume=False):
        if resume:
            self.state.global_step = max(int(p.name.rpartition("-")[2]) for p in self.out.glob("checkpoint-*"))
        self.tell("on_train_begin")
        while self.state.global_step < self.args.max_steps:
            self.tell("on_step_begin")
            if self.state.global_step + 1 == self.fails_at:
                raise RuntimeError("out of memory")
            self.state.global_step += 1
            self.tell("on_step_end")
            self.maybe_log_save_evaluate()
        self.log({"train_runtime": 1.0, "train_loss": 0.3})
        self.tell("on_train_end")

    def maybe_log_save_evaluate(self):
        if self.control.should_log:
            self.log({"loss": 0.5, "reward": 0.1 * self.state.global_step, "grad_norm": 0.2, "epoch": 0.5})
        if self.control.should_evaluate:
            metrics = {"eval_loss": 0.4, "eval_runtime": 0.1}
            self.log({**metrics, "eval_reward": 0.9, "epoch": 0.5})  # TRL adds its own to what is logged
            self.tell("on_evaluate", metrics)
        if self.control.should_save:
            self.save()
            self.tell("on_save")

    @property
    def out(self) -> Path:
        return Path(self.args.output_dir)

    def log(self, logs):
        self.control = self.handler.on_log(self.args, self.state, self.control, logs)

    def tell(self, event, *more):
        self.control = getattr(self.handler, event)(self.args, self.state, self.control, *more)

    def save(self):
        folder = self.out / f"checkpoint-{self.state.global_step}"
        folder.mkdir(parents=True)
        for name in ("model.safetensors", "optimizer.pt", "scheduler.pt", "rng_state.pth"):
            (folder / name).write_text(f"{name} {self.state.global_step} {id(self)}")
        (folder / "trainer_state.json").write_text(json.dumps({"global_step": self.state.global_step}))
        limit = self.args.save_total_limit
        kept = sorted(self.out.glob("checkpoint-*"), key=lambda path: int(path.name.rpartition("-")[2]))
        for path in kept[: max(0, len(kept) - limit)] if limit else []:
            shutil.rmtree(path)


def start(address, folder, *, resume=False, fails_at=None, rank_zero=True, options=None, **arguments):
    known = {"run": "arm", "spool": folder / "spool", "rank": 0, "strict": True}
    args = Arguments(folder, **arguments)
    with Recorder(address, **{**known, **(options or {})}) as rec:
        declare(rec, **declaration(args))
        Loop(args, LedgerCallback(rec), fails_at=fails_at, rank_zero=rank_zero).train(resume=resume)


def test_it_is_one_of_the_trainers_own_callbacks():
    assert issubclass(LedgerCallback, TrainerCallback)


def test_a_whole_run_is_recorded_and_each_fact_once(ledger, tmp_path):
    start(ledger.address, tmp_path)
    assert kinds(ledger) == [
        "run.declared",
        "attempt.started",
        "config.recorded",
        "steps.logged",
        "checkpoint.save_started",
        "steps.logged",
        "eval.logged",
        "checkpoint.committed",
        "steps.logged",
        "checkpoint.save_started",
        "steps.logged",
        "eval.logged",
        "checkpoint.committed",
        "attempt.ended",
    ]
    assert [row[:2] for row in rewards(ledger, "reward")] == [(1, 1), (1, 2), (1, 3), (1, 4)]
    assert said(ledger, "attempt.ended")[0]["last_step"] == 4


def test_the_summary_of_a_training_is_no_step(ledger, tmp_path):
    start(ledger.address, tmp_path)
    assert not [s for s in said(ledger, "steps.logged") if "train_runtime" in s["steps"][0]["metrics"]]


def test_an_evaluation_holds_what_was_logged_of_it(ledger, tmp_path):
    start(ledger.address, tmp_path)
    first = said(ledger, "eval.logged")[0]
    assert first["step"] == 2
    metrics = {"eval_loss": 0.4, "eval_runtime": 0.1, "eval_reward": 0.9}
    assert first["evaluations"] == [{"data_source": "eval", "metrics": metrics}]


@pytest.mark.parametrize(
    ("metrics", "source"),
    [({"eval_math_loss": 1.0, "eval_math_runtime": 2.0}, "math"), ({"eval_loss": 1.0}, "eval")],
)
def test_an_evaluation_that_is_only_told_is_recorded_by_the_name_of_its_data(metrics, source, ledger, tmp_path):
    with Recorder(ledger.address, run="arm", spool=tmp_path / "spool", rank=0, strict=True) as rec:
        loop = Loop(Arguments(tmp_path), LedgerCallback(rec))
        loop.tell("on_evaluate", metrics)
    (found,) = said(ledger, "eval.logged")
    assert found["evaluations"] == [{"data_source": source, "metrics": metrics}]


def test_a_checkpoint_is_recorded_with_its_folders_digest_and_what_it_restores(ledger, tmp_path):
    start(ledger.address, tmp_path)
    for one in said(ledger, "checkpoint.committed"):
        assert one["digest"] == read_files(tmp_path / "out" / f"checkpoint-{one['step']}").digest
        assert one["contents"] == dict.fromkeys(("weights", "optimizer", "scheduler", "rng"), True)
        assert (one["recorded_step"], one["last_update"], one["format"]) == (one["step"], one["step"], "safetensors")


def test_a_resume_begins_an_attempt_at_the_checkpoint(ledger, tmp_path):
    with pytest.raises(RuntimeError):
        start(ledger.address, tmp_path, fails_at=4)
    start(ledger.address, tmp_path, resume=True)
    assert said(ledger, "attempt.started")[1]["resumed_from"] == {"step": 2}
    assert [(s["attempt"], s["step"]) for s in said(ledger, "checkpoint.loaded")] == [(2, 2)]
    assert [row[:2] for row in rewards(ledger, "reward")] == [(1, 1), (1, 2), (1, 3), (2, 3), (2, 4)]
    ended = said(ledger, "attempt.ended")
    assert [(s["ending"], s.get("reason")) for s in ended] == [("failed", "out of memory"), ("completed", None)]


def test_checkpoints_that_are_deleted_for_room_are_told(ledger, tmp_path):
    start(ledger.address, tmp_path, save_steps=1, save_total_limit=2)
    assert [s["step"] for s in said(ledger, "checkpoint.deleted")] == [1, 2]


def test_a_save_that_fails_leaves_its_begin_as_its_trace(ledger, tmp_path):
    (tmp_path / "out" / "checkpoint-2").mkdir(parents=True)  # the loop cannot make it
    with pytest.raises(FileExistsError):
        start(ledger.address, tmp_path)
    assert [s["step"] for s in said(ledger, "checkpoint.save_started")] == [2]
    assert said(ledger, "checkpoint.committed") == []


def test_other_processes_record_nothing(ledger, tmp_path):
    start(ledger.address, tmp_path, rank_zero=False)
    assert kinds(ledger) == ["run.declared"]


def test_arguments_are_recorded_without_their_secrets(ledger, tmp_path):
    start(ledger.address, tmp_path)
    (found,) = said(ledger, "config.recorded")
    assert found["settings"]["arguments.learning_rate"] == 1e-5
    assert found["settings"]["model.model_type"] == "tiny"
    assert "a1B2" not in json.dumps(found)
    assert found["redactions"]


def test_a_declaration_names_the_keys_of_the_series_and_the_objective(tmp_path):
    class RLOOConfig(Arguments):
        pass

    args = RLOOConfig(tmp_path, num_generations=4, beta=0.05, epsilon=0.2, epsilon_high=None, max_completion_length=64)
    fields = declaration(args)
    assert fields["series"] == {"reward": "reward", "entropy": "entropy", "grad_norm": "grad_norm"}
    algorithm = fields["algorithm"]
    assert (algorithm["advantage_estimator"], algorithm["n_samples_per_prompt"]) == ("rloo", 4)
    assert (algorithm["use_kl_in_reward"], algorithm["kl_loss_coef"]) == (True, 0.05)
    assert "eps_clip_high" not in algorithm
    assert (fields["planned_steps"], fields["checkpoint_interval"]) == (4, 2)
    assert "max_checkpoints_kept" not in fields
    assert declaration(RLOOConfig(tmp_path, beta=0.0))["algorithm"]["use_kl_in_reward"] is False


def test_a_fault_of_the_callback_is_told_once_and_stops_nothing(ledger, tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        start(ledger.address, tmp_path, options={"strict": False}, to_dict="no method", save_steps=100)
    warned = [record.getMessage() for record in caplog.records if record.name == "ledger.adapters"]
    assert len(warned) == 1
    assert "_begin failed" in warned[0]
    assert [row[:2] for row in rewards(ledger, "reward")] == [(1, 1), (1, 2), (1, 3), (1, 4)]


def test_without_transformers_it_says_which_extra_is_missing():
    code = (
        "import sys; sys.modules['transformers'] = None\n"
        "from ledger.core.errors import LedgerError\n"
        "try: import services.adapters.transformers_callback\n"
        "except LedgerError as error: print(error.reason, error.details['extra'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "EXTRA_MISSING train\n"


def test_the_ledger_judges_the_run_by_the_declared_keys_and_a_checkpoint_can_be_selected(tmp_path):
    with in_process(Settings(home=tmp_path / "home")) as address:
        with pytest.raises(RuntimeError):
            start(address, tmp_path, fails_at=4)
        start(address, tmp_path, resume=True)
        with Recorder(address, run="arm", spool=tmp_path / "other", attempt=2, rank=0, strict=True) as rec:
            rec.select(4, rule={"id": "trailing-ema", "metric": "reward", "interval": 2}, attempt=2)
            assert rec.flush(20).refused == ()
        run, rows = asked(address, lineage_of_step=4)
    assert run.reward.metric == "reward"
    assert [(row.attempt, row.step) for row in rows] == [(1, 1), (1, 2), (2, 3), (2, 4)]
    assert [s.step for s in run.selections] == [4]
    assert {flag.code for flag in run.flags} == set()
