"""Harbor's trials as they finish: by the hooks of the program that runs them, and by a watcher of the job's folder."""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ledger.client import Recorder
from ledger.client.testing import FakeLedger
from services.adapters.backfill.harbor_jobs import Treatments
from services.adapters.harbor import Known, TrialHooks, Watcher, watch
from services.adapters.harbor.trials import MAX_TRIALS
from services.server.app import in_process
from services.server.settings import Settings
from tests.adapters.builders import archive, result, trial
from tests.adapters.recorded import asked, declare, said


@pytest.fixture
def ledger():
    with FakeLedger() as made:
        yield made


@pytest.fixture
def rec(ledger, tmp_path):
    with Recorder(ledger.address, run="arm", spool=tmp_path / "spool", rank=0, strict=True) as made:
        yield made


@pytest.fixture
def job(tmp_path):
    folder = tmp_path / "job"
    folder.mkdir()
    return folder


def found(rec, ledger) -> list[dict[str, Any]]:
    rec.flush(20)
    return said(ledger, "rollouts.summarised")


def trials(rec, ledger) -> list[dict[str, Any]]:
    return [one for summary in found(rec, ledger) for one in summary.get("trials", [])]


class Result(dict):
    """A trial's result as the runner's model gives it."""

    def model_dump_json(self, *, exclude: Any) -> str:
        return json.dumps({key: value for key, value in self.items() if exclude.get(key) is not True})


class Queue:
    """Where a runner takes hooks, and calls them one after another."""

    def __init__(self) -> None:
        self.start: list[Any] = []
        self.end: list[Any] = []

    def on_trial_started(self, hook):
        self.start.append(hook)

    def on_trial_ended(self, hook):
        self.end.append(hook)

    def run(self, name: str, *, ends: bool = True, during: Any = lambda: None, **fields: Any) -> None:
        said = Result(result(name, **{"id": f"id-{name}", **fields}))
        event = SimpleNamespace(
            trial_id=said["id"], trial_name=name, task_name=name.partition("__")[0], result=said, config={"secret": 1}
        )

        async def call():
            for hook in self.start:
                await hook(event)
            during()
            for hook in self.end if ends else []:
                await hook(event)

        asyncio.run(call())


class TestHooks:
    def test_a_trial_is_told_at_its_end_with_what_its_result_says(self, rec, ledger):
        queue = Queue()
        TrialHooks(rec).attach(queue)
        queue.run("solved__aaaaaaa", verifier_result={"rewards": {"reward": 1.0}})
        (summary,) = found(rec, ledger)
        assert (summary["started"], summary["finished"], summary["verified"]) == (1, 1, 1)
        assert summary["rewards"] == [{"reward": 1.0, "count": 1}]
        (one,) = summary["trials"]
        assert (one["trial_id"], one["task_name"], one["reward"]) == ("id-solved__aaaaaaa", "solved", 1.0)
        assert (one["input_tokens"], one["output_tokens"], one["seconds"]) == (1200, 80, 330.0)
        assert {"step", "weight_version", "group"}.isdisjoint(one)
        assert {"step", "consumed", "trained", "masked"}.isdisjoint(summary)

    def test_what_is_known_is_asked_when_a_trial_starts_and_not_later(self, rec, ledger):
        weights = [6]
        hooks = TrialHooks(rec, known=lambda _, task: Known(7, weights[0], group=task, phase="train"))
        queue = Queue()
        hooks.attach(queue)
        queue.run("a__1", during=lambda: weights.__setitem__(0, 7))
        (summary,) = found(rec, ledger)
        assert (summary["step"], summary["phase"]) == (7, "train")
        assert (summary["trials"][0]["weight_version"], summary["trials"][0]["group"]) == (6, "a")

    def test_a_trial_whose_start_was_not_seen_is_told_without_what_nobody_knows(self, rec, ledger):
        queue = Queue()
        queue.on_trial_ended(TrialHooks(rec, known=lambda *_: Known(7, 6)).on_end)
        queue.run("a__1")
        assert "weight_version" not in trials(rec, ledger)[0]

    def test_each_try_of_a_trial_is_told_once(self, rec, ledger):
        queue = Queue()
        TrialHooks(rec).attach(queue)
        error = {"exception_type": "AgentTimeoutError"}
        queue.run("a__1", id="first", exception_info=error)
        queue.run("a__1", id="second")
        queue.run("a__1", id="second")
        assert [one["trial_id"] for one in trials(rec, ledger)] == ["first", "second"]

    def test_the_treatment_of_an_exception_is_told_where_the_trainers_lists_are_given(self, rec, ledger):
        queue = Queue()
        TrialHooks(rec, treatments=Treatments({"AgentTimeoutError": "mask"}, "zero")).attach(queue)
        queue.run("a__1", exception_info={"exception_type": "AgentTimeoutError"})
        (summary,) = found(rec, ledger)
        assert summary["errors"] == [{"exception_type": "AgentTimeoutError", "treatment": "mask", "count": 1}]

    def test_trials_that_started_and_never_ended_are_counted_at_the_close(self, rec, ledger):
        queue, hooks = Queue(), TrialHooks(rec, known=lambda *_: Known(step=3))
        hooks.attach(queue)
        queue.run("a__1", ends=False)
        queue.run("b__2", ends=False)
        hooks.close()
        hooks.close()
        (summary,) = found(rec, ledger)
        assert (summary["step"], summary["started"], summary["finished"]) == (3, 2, 0)

    def test_a_fault_is_told_once_and_the_trial_goes_on_and_is_told(self, rec, ledger, caplog):
        queue = Queue()
        TrialHooks(rec, known=lambda *_: 1 / 0).attach(queue)
        with caplog.at_level(logging.WARNING):
            queue.run("a__1")
            queue.run("b__2")
        assert len([r for r in caplog.records if "ZeroDivisionError" in r.getMessage()]) == 1
        assert [one["trial_name"] for one in trials(rec, ledger)] == ["a__1", "b__2"]

    def test_names_are_hostile_and_secrets_are_replaced(self, rec, ledger):
        queue = Queue()
        TrialHooks(rec).attach(queue)
        queue.run("a\0b__1" + "x" * 600, exception_info={"exception_type": "sk-" + "a1B2" * 8})
        (one,) = trials(rec, ledger)
        assert (one["trial_name"][:6], len(one["trial_name"])) == ("a?b__1", 512)
        assert "a1B2" not in one["exception_type"]


class TestWatching:
    def watcher(self, job: Path, rec: Recorder, **options: Any) -> Watcher:
        return Watcher(job, rec, **{"memory": job.parent / "told", **options})

    def finish(self, job: Path, name: str, **fields: Any) -> None:
        said = result(name, **{"id": f"id-{name}", "verifier_result": {"rewards": {"reward": 1.0}}, **fields})
        trial(job, name, {"config.json": {}, "result.json": said})

    def test_trials_are_told_as_they_finish_and_each_once(self, job, rec, ledger):
        watcher = self.watcher(job, rec)
        trial(job, "a__1", {"config.json": {}})
        assert watcher.look() == 0
        self.finish(job, "a__1")
        self.finish(job, "b__2")
        assert [watcher.look(), watcher.look()] == [2, 0]
        (summary,) = found(rec, ledger)
        assert (summary["started"], summary["finished"], summary["verified"]) == (2, 2, 2)
        assert [one["trial_name"] for one in summary["trials"]] == ["a__1", "b__2"]

    def test_a_watcher_that_starts_again_tells_none_twice(self, job, rec, ledger):
        self.finish(job, "a__1")
        assert self.watcher(job, rec).look() == 1
        self.finish(job, "b__2")
        assert self.watcher(job, rec).look() == 1
        assert [one["trial_name"] for one in trials(rec, ledger)] == ["a__1", "b__2"]

    def test_a_result_that_is_half_written_is_waited_for(self, job, rec, ledger):
        watcher = self.watcher(job, rec)
        whole = json.dumps(result("a__1"))
        trial(job, "a__1", {"config.json": {}, "result.json": whole[:40]})
        assert watcher.look() == 0
        (job / "a__1" / "result.json").write_text(whole)
        assert watcher.look() == 1
        assert len(trials(rec, ledger)) == 1

    def test_a_result_that_says_no_end_is_waited_for(self, job, rec):
        self.finish(job, "a__1", finished_at=None)
        assert self.watcher(job, rec).look() == 0

    def test_a_retry_takes_the_folder_and_is_told_too(self, job, rec, ledger):
        watcher = self.watcher(job, rec)
        self.finish(job, "a__1", id="first", exception_info={"exception_type": "AgentTimeoutError"})
        watcher.look()
        shutil.rmtree(job / "a__1")
        watcher.look()
        self.finish(job, "a__1", id="second", finished_at="2026-07-29T10:09:30")
        watcher.look()
        assert [one["trial_id"] for one in trials(rec, ledger)] == ["first", "second"]

    def test_what_is_known_is_asked_of_a_running_trial_and_never_of_one_that_is_over(self, job, rec, ledger):
        weights = [6]
        watcher = self.watcher(job, rec, known=lambda _, task: Known(7, weights[0], group=task))
        trial(job, "late__1", {"config.json": {}})
        self.finish(job, "over__2")
        watcher.look()
        weights[0] = 7
        self.finish(job, "late__1")
        watcher.look()
        told = {one["trial_name"]: (one.get("step"), one.get("weight_version")) for one in trials(rec, ledger)}
        assert told == {"over__2": (None, None), "late__1": (7, 6)}

    def test_trials_that_were_packed_before_they_were_seen_are_told_with_the_archives_step(self, job, rec, ledger):
        watcher = self.watcher(job, rec)
        self.finish(job, "a__1")
        watcher.look()
        members = [(f"{n}/result.json", result(n, id=f"id-{n}")) for n in ("a__1", "b__2")]
        packed = archive(job / "trials_step9_20260729.tar.gz", members)
        shutil.rmtree(job / "a__1")
        assert [watcher.look(), watcher.look()] == [1, 0]
        assert [(one["trial_name"], one.get("step")) for one in trials(rec, ledger)] == [("a__1", None), ("b__2", 9)]
        assert packed.is_file()

    def test_an_archive_that_is_still_written_is_read_later(self, job, rec):
        watcher = self.watcher(job, rec)
        packed = archive(job / "trials_step9_x.tar.gz", [("b__2/result.json", result("b__2"))])
        whole = packed.read_bytes()
        packed.write_bytes(whole[:-30])
        assert watcher.look() == 0
        packed.write_bytes(whole)
        assert watcher.look() == 1

    def test_a_link_is_not_followed(self, job, rec, tmp_path):
        self.finish(tmp_path / "outside", "a__1")
        (job / "a__1").symlink_to(tmp_path / "outside" / "a__1")
        assert self.watcher(job, rec).look() == 0

    def test_many_trials_are_told_in_several_events(self, job, rec, ledger):
        for number in range(MAX_TRIALS + 1):
            self.finish(job, f"t__{number:04}")
        assert self.watcher(job, rec).look() == MAX_TRIALS + 1
        assert [one["started"] for one in found(rec, ledger)] == [MAX_TRIALS, 1]

    def test_watching_ends_with_the_job_and_counts_what_never_finished(self, job, rec, ledger):
        self.finish(job, "a__1")
        trial(job, "b__2", {"config.json": {}})
        (job / "result.json").write_text(json.dumps({"finished_at": None}))
        looks = []

        def stopped():
            looks.append(1)
            (job / "result.json").write_text(json.dumps({"finished_at": "2026-07-29T11:00:00"}))
            return len(looks) > 5

        assert watch(job, rec, memory=job.parent / "told", every=0.01, stopped=stopped) == 1
        assert len(looks) == 1
        assert [(s["started"], s["finished"]) for s in found(rec, ledger)] == [(1, 1), (1, 0)]

    def test_what_never_finished_is_counted_once_however_often_the_job_is_watched(self, job, rec, ledger):
        trial(job, "b__2", {"config.json": {}})
        (job / "result.json").write_text(json.dumps({"finished_at": "2026-07-29T11:00:00"}))
        for _ in range(2):
            assert watch(job, rec, memory=job.parent / "told", every=0.01) == 0
        assert [(s["started"], s["finished"]) for s in found(rec, ledger)] == [(1, 0)]

    def test_a_watcher_that_is_stopped_leaves_what_still_runs_to_the_next(self, job, rec, ledger):
        trial(job, "b__2", {"config.json": {}})
        assert watch(job, rec, memory=job.parent / "told", stopped=lambda: True) == 0
        assert found(rec, ledger) == []
        self.finish(job, "b__2")
        assert watch(job, rec, memory=job.parent / "told", stopped=lambda: True) == 1
        assert [(s["started"], s["finished"]) for s in found(rec, ledger)] == [(1, 1)]

    def test_trials_that_could_not_be_recorded_are_told_at_the_next_look(self, job, rec, ledger, caplog):
        rec.strict = False
        asked: list[str] = []

        def rollouts(*_: Any, **__: Any) -> None:
            asked.append("once")
            raise OSError("no space left")

        self.finish(job, "a__1")
        watcher = self.watcher(job, rec)
        rec.rollouts, own = rollouts, rec.rollouts
        with caplog.at_level(logging.WARNING):
            assert watcher.look() == 0
        rec.rollouts = own
        assert watcher.look() == 1
        assert asked == ["once"]

    def test_a_folder_that_is_not_there_yet_is_waited_for(self, tmp_path, rec):
        assert self.watcher(tmp_path / "later", rec).look() == 0
        assert not self.watcher(tmp_path / "later", rec).is_over()

    def test_by_default_it_is_remembered_in_the_users_state_folder(self, job, rec, ledger, tmp_path, monkeypatch):
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
        self.finish(job, "a__1")
        assert [Watcher(job, rec).look(), Watcher(job, rec).look()] == [1, 0]
        assert len(list((tmp_path / "state").rglob("trials/*"))) == 1


def test_the_ledger_adds_up_what_was_told_of_trials(tmp_path, job):
    with in_process(Settings(home=tmp_path / "home")) as address:
        with Recorder(address, run="arm", spool=tmp_path / "spool", rank=0, strict=True) as rec:
            declare(rec)
            rec.start_attempt()
            for step in (1, 2):
                rec.step(step, {"reward/avg_raw_reward": 0.5})
            rec.checkpoint(2, tmp_path / "spool" / "spool.json")
            watcher = Watcher(job, rec, memory=tmp_path / "told")
            for name in ("a__1", "b__2"):
                trial(job, name, {"result.json": result(name, id=name)})
                watcher.look()
            trial(job, "c__3", {"config.json": {}})
            watcher.look()
            watcher.close()
            assert rec.flush(20).refused == ()
        run, _ = asked(address, lineage_of_step=2)
    assert {flag.code for flag in run.flags} == set()
    assert (run.coverage.started, run.coverage.finished) == (3, 2)
