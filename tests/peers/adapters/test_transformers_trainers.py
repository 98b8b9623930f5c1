"""The callback in real trainers: transformers' own on a few steps, and TRL's RLOO, on a model made in code."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("trl", reason="the environment of `.ci/set-up peers`")

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    PreTrainedTokenizerFast,
    Qwen3Config,
    Qwen3ForCausalLM,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)
from trl import RLOOConfig, RLOOTrainer

from ledger.client import Recorder
from ledger.client.recording.files import read_files
from ledger.client.testing import FakeLedger
from services.adapters.transformers_callback import LedgerCallback, declaration
from services.server.app import in_process
from services.server.settings import Settings
from tests.adapters.recorded import asked, declare, kinds, rewards, said

pytestmark = [
    pytest.mark.peers,
    pytest.mark.filterwarnings("ignore"),  # what the trainers warn of is theirs
]


@pytest.fixture
def ledger():
    with FakeLedger() as made:
        yield made


def tiny_model():
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=16,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    return Qwen3ForCausalLM(config)


def tiny_tokenizer():
    words = ["<pad>", "<s>", "</s>", "<unk>", *(f"w{i}" for i in range(60))]
    made = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )


def supervised(folder: Path, callback, **fields):
    rows = [{"input_ids": torch.arange(3, 11), "labels": torch.arange(3, 11)} for _ in range(16)]
    known = {"max_steps": 4, "logging_steps": 1, "save_steps": 2, "eval_strategy": "steps", "eval_steps": 2}
    args = TrainingArguments(
        output_dir=str(folder / "out"),
        per_device_train_batch_size=2,
        use_cpu=True,
        report_to=[],
        disable_tqdm=True,
        hub_token="hf_" + "a1B2" * 8,
        **{**known, **fields},
    )
    return Trainer(model=tiny_model(), args=args, train_dataset=rows, eval_dataset=rows[:2], callbacks=[callback])


def start(address, folder, *, resume=None, stops_at=None, run="arm", **fields):
    class Stop(TrainerCallback):
        def on_step_begin(self, args, state, control, **kwargs):
            if state.global_step + 1 == stops_at:
                raise RuntimeError("out of memory")

    with Recorder(address, run=run, spool=folder / "spool", rank=0, strict=True) as rec:
        trainer = supervised(folder, LedgerCallback(rec), **fields)
        trainer.add_callback(Stop())
        declare(rec, **declaration(trainer.args))
        trainer.train(resume_from_checkpoint=resume)


def test_transformers_trainer_crashes_and_resumes(ledger, tmp_path):
    with pytest.raises(RuntimeError, match="out of memory"):
        start(ledger.address, tmp_path, stops_at=4)
    start(ledger.address, tmp_path, resume=True)
    assert rewards(ledger, "loss")[0][:2] == (1, 1)
    assert [row[:2] for row in rewards(ledger, "loss")] == [(1, 1), (1, 2), (1, 3), (2, 3), (2, 4)]
    assert said(ledger, "attempt.started")[1]["resumed_from"] == {"step": 2}
    assert [s["ending"] for s in said(ledger, "attempt.ended")] == ["failed", "completed"]
    assert [s["step"] for s in said(ledger, "eval.logged")] == [2, 4]
    saved = said(ledger, "checkpoint.committed")
    assert [(s["attempt"], s["step"], s["recorded_step"]) for s in saved] == [(1, 2, 2), (2, 4, 4)]
    assert saved[1]["digest"] == read_files(tmp_path / "out" / "checkpoint-4").digest
    assert saved[1]["contents"] == dict.fromkeys(("weights", "optimizer", "scheduler", "rng"), True)


def test_transformers_trainer_deletes_old_checkpoints_and_its_arguments_hold_no_secret(ledger, tmp_path):
    start(ledger.address, tmp_path, save_steps=1, save_total_limit=2)
    assert [s["step"] for s in said(ledger, "checkpoint.deleted")] == [1, 2]
    assert "a1B2" not in str(said(ledger, "config.recorded"))


def test_the_ledger_knows_a_run_of_transformers_trainer(tmp_path):
    with in_process(Settings(home=tmp_path / "home")) as address:
        with pytest.raises(RuntimeError):
            start(address, tmp_path, stops_at=4)
        start(address, tmp_path, resume=True)
        run, rows = asked(address, lineage_of_step=4)
    assert [(row.attempt, row.step) for row in rows] == [(1, 1), (1, 2), (2, 3), (2, 4)]
    assert {flag.code for flag in run.flags} == set()


def test_trls_rloo_trainer_is_recorded_with_its_reward(ledger, tmp_path):
    args = RLOOConfig(
        output_dir=str(tmp_path / "out"),
        use_cpu=True,
        report_to=[],
        beta=0.0,
        num_generations=4,
        per_device_train_batch_size=4,
        max_completion_length=6,
        max_steps=2,
        logging_steps=1,
        save_steps=2,
        disable_tqdm=True,
    )
    prompts = Dataset.from_list([{"prompt": f"w{i} w{i + 1}"} for i in range(8)])
    with Recorder(ledger.address, run="rloo", spool=tmp_path / "spool", rank=0, strict=True) as rec:
        trainer = RLOOTrainer(
            model=tiny_model(),
            processing_class=tiny_tokenizer(),
            reward_funcs=lambda completions, **_: [float("w1" in text) for text in completions],
            args=args,
            train_dataset=prompts,
            callbacks=[LedgerCallback(rec)],
        )
        rec.declare_run(sources=[{"atlas_id": None, "dataset_id": "made"}], **declaration(args))
        trainer.train()
    declared = said(ledger, "run.declared")[0]
    assert declared["series"] == {"reward": "reward", "entropy": "entropy", "grad_norm": "grad_norm"}
    assert declared["algorithm"]["advantage_estimator"] == "rloo"
    logged = [s["steps"][0] for s in said(ledger, "steps.logged")]
    assert [one["step"] for one in logged] == [1, 2]
    assert all({"reward", "entropy", "grad_norm"} <= one["metrics"].keys() for one in logged)
    assert [s["step"] for s in said(ledger, "checkpoint.committed")] == [2]
    assert kinds(ledger)[-1] == "attempt.ended"
