"""A wrapped SkyRL trainer: what a training loop does, and what of it is recorded."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from ledger.client import Recorder
from ledger.client.recording.files import read_files
from ledger.client.testing import FakeLedger
from ledger.core.errors import InvalidInput
from services.adapters.skyrl import declaration, record
from services.server.app import in_process
from services.server.settings import Settings
from tests.adapters.recorded import asked, declare, kinds, rewards, said
from tests.adapters.skyrl_trainers import FullyAsyncTrainer, Marin, Trainer, Upstream

KINDS = [Marin, Upstream, FullyAsyncTrainer]


@pytest.fixture
def ledger():
    with FakeLedger() as made:
        yield made


def start(trainer: Trainer, address: str, folder: Path, **options):
    """One start of the program: the trainer is recorded, its models are built, it trains."""
    known = {"run": "arm", "spool": folder / "spool", "rank": 0, "strict": True}
    with Recorder(address, **{**known, **options}) as rec:
        declare(rec)
        record(trainer, rec)
        getattr(trainer, "build_models", lambda: None)()
        asyncio.run(trainer.train())


@pytest.mark.parametrize("kind", KINDS)
def test_a_whole_run_is_recorded_and_each_fact_once(kind, ledger, tmp_path):
    start(kind(tmp_path), ledger.address, tmp_path)
    found = kinds(ledger)
    assert found[:4] == ["run.declared", "attempt.started", "config.recorded", "weights.synced"]
    assert found[-1] == "attempt.ended"
    assert rewards(ledger) == [(1, step, pytest.approx(step / 10)) for step in (1, 2, 3, 4)]
    assert [s["step"] for s in said(ledger, "eval.logged")] == [0, 2, 4]
    assert [s["weight_version"] for s in said(ledger, "weights.synced")] == [0, 1, 2, 3, 4]
    assert said(ledger, "attempt.ended")[0] | {"ended_at": None} == {
        "run_id": "arm",
        "attempt": 1,
        "ending": "completed",
        "last_step": 4,
        "ended_at": None,
    }


@pytest.mark.parametrize("kind", KINDS)
def test_evaluations_are_told_by_data_source_and_not_among_the_steps(kind, ledger, tmp_path):
    start(kind(tmp_path), ledger.address, tmp_path)
    last = said(ledger, "eval.logged")[-1]
    assert {one["data_source"]: one["metrics"] for one in last["evaluations"]} == {
        "math": {"eval/math/avg_score": 0.4, "eval/math/pass_at_1": 0.5},
        "code": {"eval/code/avg_score": 0.1},
    }
    logged = [key for s in said(ledger, "steps.logged") for one in s["steps"] for key in one["metrics"]]
    assert not [key for key in logged if key.startswith("eval/")]
    assert logged.count("timing/step") == 4


@pytest.mark.parametrize("kind", KINDS)
def test_a_baseline_is_no_step_whatever_it_logs(kind, ledger, tmp_path):
    trainer = kind(tmp_path)
    baseline = trainer.eval

    async def more():
        return {**await baseline(), "environment/turns": 3.0}

    trainer.eval = more
    start(trainer, ledger.address, tmp_path)
    assert [row[:2] for row in rewards(ledger)] == [(1, 1), (1, 2), (1, 3), (1, 4)]


@pytest.mark.parametrize(
    ("kind", "labels"),
    [(Marin, {2: 2, 4: 4, 5: 4}), (Upstream, {2: 2, 4: 4}), (FullyAsyncTrainer, {2: 2, 4: 4, 5: 4})],
)
def test_a_checkpoint_is_told_with_its_label_and_with_the_update_that_is_in_it(kind, labels, ledger, tmp_path):
    start(kind(tmp_path), ledger.address, tmp_path)
    saved = said(ledger, "checkpoint.committed")
    assert {s["step"]: s["last_update"] for s in saved} == labels
    assert [s["step"] for s in said(ledger, "checkpoint.save_started")] == sorted(labels)
    for one in saved:
        assert one["digest"] == read_files(tmp_path / "ckpt" / f"global_step_{one['step']}").digest
        assert (one["format"], one["world_size"]) == ("fsdp_shards", 1)
        assert one["contents"] == dict.fromkeys(("weights", "optimizer", "scheduler", "rng", "data_state"), True)


def test_a_checkpoint_is_hashed_with_what_other_callbacks_add_to_it(ledger, tmp_path):
    start(Marin(tmp_path), ledger.address, tmp_path)
    periodic = said(ledger, "checkpoint.committed")[0]
    assert "data_consumption_state.pt" in [f["path"] for f in periodic["files"]]


def test_the_weights_that_sampled_a_step_are_told_of_synchronous_trainers_alone(ledger, tmp_path):
    start(Marin(tmp_path), ledger.address, tmp_path)
    assert [s["steps"][0]["weight_version"] for s in said(ledger, "steps.logged")] == [0, 1, 2, 3]


def test_a_fully_asynchronous_trainer_names_no_version_for_a_step(ledger, tmp_path):
    start(FullyAsyncTrainer(tmp_path), ledger.address, tmp_path)
    assert all("weight_version" not in s["steps"][0] for s in said(ledger, "steps.logged"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_resume_begins_an_attempt_at_the_checkpoint_and_redone_steps_are_its_own(kind, ledger, tmp_path):
    with pytest.raises(RuntimeError, match="train of step 4"):
        start(kind(tmp_path, fails_at=("train", 4)), ledger.address, tmp_path)
    start(kind(tmp_path), ledger.address, tmp_path)
    first, second = said(ledger, "attempt.started")
    assert "resumed_from" not in first
    assert (second["attempt"], second["resumed_from"]["step"]) == (2, 2)
    assert [(s["attempt"], s["step"]) for s in said(ledger, "checkpoint.loaded")] == [(2, 2)]
    assert [row[:2] for row in rewards(ledger)] == [(1, 1), (1, 2), (1, 3), (2, 3), (2, 4)]
    assert [s["weight_version"] for s in said(ledger, "weights.synced") if s["attempt"] == 2] == [2, 3, 4]


@pytest.mark.parametrize("kind", KINDS)
def test_an_exception_ends_the_attempt_and_goes_on_its_way(kind, ledger, tmp_path):
    with pytest.raises(RuntimeError, match="train of step 3"):
        start(kind(tmp_path, fails_at=("train", 3)), ledger.address, tmp_path)
    (ended,) = said(ledger, "attempt.ended")
    assert (ended["ending"], ended["error_type"], ended["reason"]) == ("failed", "RuntimeError", "train of step 3")
    assert ended["last_step"] == 2


def test_a_failure_before_anything_was_loaded_is_an_attempt_too(ledger, tmp_path):
    trainer = Marin(tmp_path)
    trainer.load_checkpoints = lambda: 1 / 0
    with pytest.raises(ZeroDivisionError):
        start(trainer, ledger.address, tmp_path)
    assert kinds(ledger)[1:] == ["attempt.started", "config.recorded", "attempt.ended"]


def test_cancelled_and_interrupted_are_not_failed(ledger, tmp_path):
    for attempt, error in enumerate((KeyboardInterrupt(), asyncio.CancelledError()), start=1):
        trainer = Marin(tmp_path / str(attempt))

        async def stopped(error=error):
            raise error

        trainer.train = stopped
        with pytest.raises(type(error)):
            start(trainer, ledger.address, tmp_path)
    assert [s["ending"] for s in said(ledger, "attempt.ended")] == ["cancelled", "cancelled"]


def test_a_save_that_fails_leaves_its_begin_as_its_trace(ledger, tmp_path):
    with pytest.raises(RuntimeError, match="save of step 2"):
        start(Marin(tmp_path, fails_at=("save", 2)), ledger.address, tmp_path)
    assert [s["step"] for s in said(ledger, "checkpoint.save_started")] == [2]
    assert said(ledger, "checkpoint.committed") == []


def test_a_crash_between_a_save_and_its_metrics_leaves_a_checkpoint_without_metrics(ledger, tmp_path):
    with pytest.raises(RuntimeError, match="log of step 2"):
        start(Marin(tmp_path, fails_at=("log", 2)), ledger.address, tmp_path)
    start(Marin(tmp_path), ledger.address, tmp_path)
    assert [row[:2] for row in rewards(ledger)] == [(1, 1), (2, 3), (2, 4)]
    assert said(ledger, "checkpoint.committed")[0]["step"] == 2
    assert said(ledger, "attempt.ended")[0]["last_step"] == 2


def test_metrics_that_were_waiting_for_their_timings_are_not_lost_in_a_crash(ledger, tmp_path):
    with pytest.raises(RuntimeError, match="save of step 2"):
        start(FullyAsyncTrainer(tmp_path, fails_at=("save", 2)), ledger.address, tmp_path)
    assert [row[:2] for row in rewards(ledger)] == [(1, 1), (1, 2)]


@pytest.mark.parametrize("kind", KINDS)
def test_checkpoints_that_are_deleted_for_room_are_told(kind, ledger, tmp_path):
    start(kind(tmp_path, ckpt_interval=1, max_ckpts_to_keep=2), ledger.address, tmp_path)
    there = {int(path.name.rpartition("_")[2]) for path in (tmp_path / "ckpt").glob("global_step_*")}
    saved = {s["step"] for s in said(ledger, "checkpoint.committed")}
    assert [s["step"] for s in said(ledger, "checkpoint.deleted")] == sorted(saved - there)
    assert len(there) == 2


def test_an_export_in_the_trainer_is_told_with_its_files_and_the_update_in_it(ledger, tmp_path):
    start(Marin(tmp_path, hf_save_interval=2), ledger.address, tmp_path)
    started, completed = said(ledger, "export.started"), said(ledger, "export.completed")
    assert [(s["checkpoint"]["step"], s["route"]) for s in started] == [(s, "in_trainer") for s in (2, 4, 5)]
    assert [s["export_id"] for s in started] == [s["export_id"] for s in completed]
    assert [s.get("route_note") for s in started][-1] == "labelled 5; the weights are those after update 4"
    folder = tmp_path / "exports" / "global_step_4" / "policy"
    assert completed[1]["digest"] == read_files(folder).digest


def test_an_export_that_fails_is_told_with_the_reason(ledger, tmp_path):
    with pytest.raises(RuntimeError, match="export of step 2"):
        start(Marin(tmp_path, hf_save_interval=2, fails_at=("export", 2)), ledger.address, tmp_path)
    (failed,) = said(ledger, "export.failed")
    assert (failed["stage"], failed["reason"]) == ("write", "RuntimeError: export of step 2")


def test_a_job_that_only_exports_a_checkpoint_is_a_rerun_with_no_step(ledger, tmp_path):
    start(Marin(tmp_path, ckpt_interval=4), ledger.address, tmp_path)
    (tmp_path / "ckpt" / "latest_ckpt_global_step.txt").write_text("4")
    start(Marin(tmp_path, ckpt_interval=-1), ledger.address, tmp_path)
    (export,) = said(ledger, "export.started")
    assert (export["route"], export["checkpoint"]) == ("rerun", {"run_id": "arm", "step": 4})
    assert [row[0] for row in rewards(ledger)] == [1, 1, 1, 1]


def test_an_export_job_that_saves_over_its_checkpoint_is_found_out_by_the_digest(tmp_path):
    with in_process(Settings(home=tmp_path / "home")) as address:
        start(Marin(tmp_path, ckpt_interval=4), address, tmp_path)
        (tmp_path / "ckpt" / "latest_ckpt_global_step.txt").write_text("4")
        start(Marin(tmp_path), address, tmp_path)
        run, _ = asked(address, lineage_of_step=4)
    again = [flag for flag in run.flags if flag.code == "CHECKPOINT_SAVED_AGAIN"]
    assert ["by an export job" in flag.message for flag in again] == [True]


def test_groups_that_were_thrown_away_are_told_by_name(ledger, tmp_path):
    start(FullyAsyncTrainer(tmp_path, stale=(3,)), ledger.address, tmp_path)
    third = said(ledger, "groups.disposed")[2]
    assert [(g["group"], g["disposition"], g.get("reason"), g["samples"]) for g in third["groups"]] == [
        ("task-3-0", "discarded", "stale", 2),
        ("task-3-1", "consumed", None, 2),
        ("task-3-2", "filtered", "no variance of rewards", 2),
    ]


def test_groups_that_are_only_counted_are_told_as_a_count(ledger, tmp_path):
    trainer = Marin(tmp_path, steps=1)
    counted = trainer.metrics
    trainer.metrics = lambda **more: counted(**more, **{"async/discarded_count": 3.0})
    start(trainer, ledger.address, tmp_path)
    (groups,) = said(ledger, "groups.disposed")
    assert groups["counts"] == [{"disposition": "discarded", "reason": "stale", "groups": 3}]


class WritesOn(Upstream):
    """It saves in the background: the last shard is there once the save is finalized, at the next save at the latest."""

    def __init__(self, folder: Path):
        super().__init__(folder)
        self.cfg.trainer.policy.megatron_config.async_dist_ckpt_save = True
        self.written: list[Path] = []

    def finalize(self, _model: str = "policy") -> None:
        while self.written:
            (self.written.pop() / "policy" / "late.distcp").write_text("late")

    def save_checkpoints(self) -> str:
        self.finalize()
        self.written.append(Path(super().save_checkpoints()))
        return str(self.written[-1])

    def build_models(self) -> None:
        super().build_models()
        self.dispatch.finalize_pending_saves = self.finalize


def test_a_checkpoint_written_in_the_background_is_hashed_once_it_is_whole(ledger, tmp_path):
    start(WritesOn(tmp_path), ledger.address, tmp_path)
    saved = said(ledger, "checkpoint.committed")
    assert [(s["step"], s["last_update"]) for s in saved] == [(2, 2), (4, 4)]
    assert all("policy/late.distcp" in [f["path"] for f in s["files"]] for s in saved)


def test_the_configuration_is_that_before_the_trainer_changed_it_and_holds_no_secret(ledger, tmp_path):
    start(Marin(tmp_path), ledger.address, tmp_path)
    (recorded,) = said(ledger, "config.recorded")
    assert recorded["settings"]["trainer.algorithm.advantage_estimator"] == "rloo_n"
    assert "trainer.algorithm.global_loss_denom" not in recorded["settings"]
    assert "a1B2" not in str(recorded["settings"]["generator.sampling_params.api_key"])
    assert recorded["redactions"]


def test_a_declaration_says_what_the_configuration_says_and_leaves_out_what_is_unset(tmp_path):
    fields = declaration(Marin(tmp_path, max_ckpts_to_keep=-1).cfg, planned_steps=80)
    algorithm = fields["algorithm"]
    assert (algorithm["eps_clip_high"], algorithm["learning_rate"], algorithm["use_kl_loss"]) == (0.05, 8e-6, False)
    assert (algorithm["max_input_length"], algorithm["max_generate_length"]) == (512, 128)
    assert "tis_imp_ratio_cap" not in algorithm
    assert fields["parallelism"] == {"strategy": "fsdp2", "nodes": 1, "devices_per_node": 4, "rollout_engines": 2}
    assert (fields["planned_steps"], fields["checkpoint_interval"]) == (80, 2)
    assert "max_checkpoints_kept" not in fields


def test_a_declaration_of_megatron_tells_how_the_model_is_split(tmp_path):
    cfg = Marin(tmp_path, strategy="megatron").cfg
    assert declaration(cfg)["parallelism"]["tensor"] == 1
    assert "tensor" not in declaration(Marin(tmp_path).cfg)["parallelism"]


def test_a_declaration_is_one_that_the_ledger_takes(ledger, tmp_path):
    with Recorder(ledger.address, run="arm", spool=tmp_path / "spool", rank=0, strict=True) as rec:
        declare(rec, **{**declaration(Marin(tmp_path).cfg), "planned_steps": 80})
    assert said(ledger, "run.declared")[0]["algorithm"]["advantage_estimator"] == "rloo_n"


def test_a_fault_of_the_adapter_is_told_once_and_stops_nothing(ledger, tmp_path, caplog):
    trainer = Marin(tmp_path)

    async def odd():
        return {3: "a key that is no text"}

    trainer.eval = odd
    with caplog.at_level(logging.WARNING):
        start(trainer, ledger.address, tmp_path, strict=False)
    warned = [record.getMessage() for record in caplog.records if record.name == "ledger.adapters"]
    assert len(warned) == 1
    assert "what it was to record is missing" in warned[0]
    assert said(ledger, "eval.logged") == []
    assert [row[:2] for row in rewards(ledger)] == [(1, 1), (1, 2), (1, 3), (1, 4)]
    assert said(ledger, "attempt.ended")[0]["ending"] == "completed"


def test_only_a_strict_recorder_lets_its_refusals_through(ledger, tmp_path):
    trainer = Marin(tmp_path)
    trainer.metrics = lambda **_: {"trainer/global_step": 1, "reward": "high"}
    with pytest.raises(InvalidInput, match="'reward': is no number"):
        start(trainer, ledger.address, tmp_path)


def test_a_trainer_without_the_methods_is_told_of_and_trains(ledger, tmp_path, caplog):
    class Own:
        trained = False

        async def train(self):
            self.trained = True

    own = Own()
    with caplog.at_level(logging.WARNING), Recorder(ledger.address, run="own", spool=tmp_path / "s", rank=0) as rec:
        asyncio.run(record(own, rec).train())
    assert own.trained
    assert "the trainer has no method save_checkpoints" in caplog.text
    assert kinds(ledger) == ["attempt.started", "attempt.ended"]


def test_what_is_wrapped_gives_what_it_gave(ledger, tmp_path):
    trainer = Upstream(tmp_path)
    with Recorder(ledger.address, run="arm", spool=tmp_path / "spool", rank=0) as rec:
        assert record(trainer, rec) is trainer
        assert trainer.load_checkpoints() == (0, "")
        assert asyncio.run(trainer.eval())["eval/math/pass_at_1"] == 0.5
        trainer.global_step = 3
        assert trainer.save_checkpoints() == str(tmp_path / "ckpt" / "global_step_3")


def test_a_trainer_that_is_recorded_already_is_left_to_its_first_recorder(ledger, tmp_path, caplog):
    trainer = Marin(tmp_path)
    other = Recorder(ledger.address, run="other", spool=tmp_path / "other", rank=0, strict=True)
    first = Recorder(ledger.address, run="arm", spool=tmp_path / "spool", rank=0, strict=True)
    with caplog.at_level(logging.WARNING), other, first:
        record(record(trainer, first), other)
        asyncio.run(trainer.train())
    assert {event.stream for event in ledger.events if event.type != "recording.reported"} == {"run/arm"}
    assert "is recorded already" in caplog.text


def test_a_trainer_that_trains_in_no_event_loop_is_recorded_too(ledger, tmp_path):
    """As the published trainers before callbacks: `train` is an ordinary method that runs loops of its own."""

    class Older(Trainer):
        def sync_policy_weights_to_inference_engines(self):
            return []

        def train(self):
            self.global_step, _ = self.load_checkpoints()
            self.sync_policy_weights_to_inference_engines()
            self.global_step += 1
            while self.global_step <= self.steps:
                self.train_critic_and_policy(None)
                if self.is_due(2):
                    self.save_checkpoints()
                self.sync_policy_weights_to_inference_engines()
                found = asyncio.run(self.eval())
                self.tracker.log(self.metrics(**found, **{"timing/step": 1.0}), step=self.global_step, commit=True)
                self.global_step += 1
            self.save_checkpoints()

    with Recorder(ledger.address, run="arm", spool=tmp_path / "spool", rank=0, strict=True) as rec:
        record(Older(tmp_path), rec).train()
    assert [row[:2] for row in rewards(ledger)] == [(1, 1), (1, 2), (1, 3), (1, 4)]
    assert {s["step"]: s["last_update"] for s in said(ledger, "checkpoint.committed")} == {2: 2, 4: 4, 5: 4}
    assert [s["steps"][0]["weight_version"] for s in said(ledger, "steps.logged")] == [0, 1, 2, 3]


@pytest.mark.parametrize("kind", KINDS)
def test_the_ledger_knows_the_run_and_a_checkpoint_of_it_can_be_selected(kind, tmp_path):
    with in_process(Settings(home=tmp_path / "home")) as address:
        with pytest.raises(RuntimeError):
            start(kind(tmp_path, fails_at=("train", 4)), address, tmp_path)
        start(kind(tmp_path), address, tmp_path)
        with Recorder(address, run="arm", spool=tmp_path / "other", attempt=2, rank=0, strict=True) as rec:
            rule = {"id": "trailing-ema", "metric": "reward/avg_raw_reward", "interval": 2}
            rec.select(4, rule=rule, purpose="publication", attempt=2)
            rec.end_run("completed", planned_steps=4)
            assert rec.flush(20).refused == ()
        run, steps = asked(address, lineage_of_step=4)
    assert [a.attempt for a in run.attempts] == [1, 2]
    assert [s.step for s in run.selections] == [4]
    assert [(p.attempt, p.step) for p in steps] == [(1, 1), (1, 2), (2, 3), (2, 4)]
    allowed = {"LABEL_AHEAD_OF_WEIGHTS"} if kind is not Upstream else set()
    assert {flag.code for flag in run.flags} == allowed
