"""SkyRL's callbacks alone: the fork's and upstream's, called as their handlers call them."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace

import pytest

from ledger.client import Recorder
from ledger.client.recording.files import read_files
from ledger.client.testing import FakeLedger
from services.adapters.skyrl import MarinCallback, SkyRLCallback
from services.server.app import in_process
from services.server.settings import Settings
from tests.adapters.recorded import asked, declare, kinds, rewards, said
from tests.adapters.skyrl_trainers import Marin, Upstream


@pytest.fixture
def ledger():
    with FakeLedger() as made:
        yield made


def fork(folder, rec, **settings):
    trainer = Marin(folder, **settings)
    trainer.callback_handler.add_callback(MarinCallback(rec))
    return trainer


def upstream(folder, rec, **settings):
    trainer = Upstream(folder, **settings)
    trainer.build_models()
    trainer.add_callback(SkyRLCallback(rec))
    return trainer


BOTH = [fork, upstream]


def recorder(address, folder, **options):
    known = {"run": "arm", "spool": folder / "spool", "rank": 0, "strict": True}
    return Recorder(address, **{**known, **options})


def start(make, address, folder, *, options=None, **settings):
    with recorder(address, folder, **(options or {})) as rec:
        declare(rec)
        asyncio.run(make(folder, rec, **settings).train())


@pytest.mark.parametrize("make", BOTH)
def test_metrics_checkpoints_and_the_end_are_recorded_each_once(make, ledger, tmp_path):
    start(make, ledger.address, tmp_path)
    assert kinds(ledger)[:3] == ["run.declared", "attempt.started", "config.recorded"]
    assert [row[:2] for row in rewards(ledger)] == [(1, 1), (1, 2), (1, 3), (1, 4)]
    assert [(s["step"], s["last_update"]) for s in said(ledger, "checkpoint.committed")] == [(2, 2), (4, 4)]
    assert said(ledger, "attempt.ended")[0]["ending"] == "completed"
    assert kinds(ledger)[-1] == "attempt.ended"


@pytest.mark.parametrize("make", BOTH)
def test_metrics_are_those_that_are_logged_and_not_those_of_a_steps_end(make, ledger, tmp_path):
    start(make, ledger.address, tmp_path)
    assert all("timing/step" in s["steps"][0]["metrics"] for s in said(ledger, "steps.logged"))


@pytest.mark.parametrize("make", BOTH)
def test_a_resume_is_known_by_the_step_that_training_begins_with(make, ledger, tmp_path):
    with pytest.raises(RuntimeError):
        start(make, ledger.address, tmp_path, fails_at=("train", 4))
    start(make, ledger.address, tmp_path)
    assert said(ledger, "attempt.started")[1]["resumed_from"] == {"step": 2}
    assert [s["step"] for s in said(ledger, "checkpoint.loaded")] == [2]
    # No callback is told of an exception: the recorder's own block is.
    assert [s["ending"] for s in said(ledger, "attempt.ended")] == ["failed", "completed"]


def test_the_baseline_before_training_is_an_evaluation_and_no_step(ledger, tmp_path):
    start(upstream, ledger.address, tmp_path)
    assert [s["step"] for s in said(ledger, "eval.logged")] == [0, 2, 4]
    assert [s["steps"][0]["step"] for s in said(ledger, "steps.logged")] == [1, 2, 3, 4]


def test_what_only_the_wrapper_sees_is_missing_and_never_guessed(ledger, tmp_path):
    start(fork, ledger.address, tmp_path, hf_save_interval=2, ckpt_interval=3)
    assert not {"weights.synced", "export.started", "checkpoint.save_started"} & set(kinds(ledger))
    assert [s["step"] for s in said(ledger, "checkpoint.committed")] == [3]
    assert all("weight_version" not in s["steps"][0] for s in said(ledger, "steps.logged"))


def test_the_forks_ordinary_hooks_do_what_their_twins_do(ledger, tmp_path):
    trainer = Marin(tmp_path)
    trainer.global_step = 1
    trainer.save_checkpoints()
    state, control = SimpleNamespace(global_step=1), SimpleNamespace()
    with recorder(ledger.address, tmp_path) as rec:
        callback = MarinCallback(rec)
        callback.on_train_begin(SimpleNamespace(global_step=0), control, trainer=trainer)
        for hook in (callback.on_epoch_begin, callback.on_step_begin, callback.on_step_end, callback.on_epoch_end):
            assert hook(state, control, trainer=trainer) is None
        callback.on_save(state, control, trainer=trainer)
        callback.on_evaluate(state, control, metrics={"eval/math/avg_score": 0.5}, trainer=trainer)
        callback.on_log(state, control, logs={"trainer/global_step": 1, "reward/avg_raw_reward": 0.5}, trainer=trainer)
        callback.on_train_end(state, control, trainer=trainer)
    assert kinds(ledger) == [
        "attempt.started",
        "config.recorded",
        "checkpoint.committed",
        "eval.logged",
        "steps.logged",
        "attempt.ended",
    ]
    assert said(ledger, "checkpoint.committed")[0]["digest"] == read_files(tmp_path / "ckpt" / "global_step_1").digest


def test_hashing_in_the_background_gives_the_same_checkpoint(ledger, tmp_path):
    with recorder(ledger.address, tmp_path) as rec:
        trainer = Marin(tmp_path)
        trainer.callback_handler.add_callback(MarinCallback(rec, background=True))
        asyncio.run(trainer.train())
    digests = {s["step"]: s["digest"] for s in said(ledger, "checkpoint.committed")}
    assert digests == {s: read_files(tmp_path / "ckpt" / f"global_step_{s}").digest for s in (2, 4)}


@pytest.mark.parametrize("place", ["s3://bucket/run", "/nowhere"])
def test_a_checkpoint_that_cannot_be_read_here_stops_nothing(place, ledger, tmp_path, caplog):
    trainer = Marin(tmp_path)
    trainer.cfg.trainer.ckpt_path = place
    state = SimpleNamespace(global_step=1)
    with caplog.at_level(logging.WARNING), recorder(ledger.address, tmp_path, strict=False) as rec:
        MarinCallback(rec).on_save(state, None, trainer=trainer)
    saved = said(ledger, "checkpoint.committed")
    if place.startswith("s3"):
        assert (saved[0]["location"], saved[0].get("digest")) == ("s3://bucket/run/global_step_1", None)
    else:
        assert saved == []
        assert "/nowhere/global_step_1 cannot be read" in caplog.text


@pytest.mark.parametrize("hook", ["on_log", "on_save", "on_step_end", "on_train_start", "on_eval_end", "on_train_end"])
def test_no_exception_leaves_upstreams_hooks(hook, tmp_path, caplog):
    with caplog.at_level(logging.WARNING), recorder(None, tmp_path, strict=False) as rec:
        getattr(SkyRLCallback(rec), hook)(
            None, SimpleNamespace(global_step="odd", logs=3, metrics=3, ckpt_path=3), None
        )


@pytest.mark.parametrize("make", BOTH)
def test_the_ledger_knows_the_run_and_a_checkpoint_of_it_can_be_selected(make, tmp_path):
    with in_process(Settings(home=tmp_path / "home")) as address:
        with pytest.raises(RuntimeError):
            start(make, address, tmp_path, fails_at=("train", 4))
        start(make, address, tmp_path)
        with recorder(address, tmp_path, spool=tmp_path / "other", attempt=2) as rec:
            rule = {"id": "trailing-ema", "metric": "reward/avg_raw_reward", "interval": 2}
            rec.select(4, rule=rule, purpose="publication", attempt=2)
            assert rec.flush(20).refused == ()
        run, rows = asked(address, lineage_of_step=4)
    assert [a.attempt for a in run.attempts] == [1, 2]
    assert [s.step for s in run.selections] == [4]
    assert [(row.attempt, row.step) for row in rows] == [(1, 1), (1, 2), (2, 3), (2, 4)]
    assert {flag.code for flag in run.flags} == set()
