"""The recorder's words for what every training loop does."""

from __future__ import annotations

import hashlib
import math
import subprocess
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import pytest

from ledger.client import LedgerError, Recorder
from ledger.client.recording.configs import Config, drift, flat
from ledger.client.recording.files import MAX_FILES, read_files
from ledger.client.testing import FakeLedger
from ledger.events.runs import RunDeclared


@pytest.fixture
def ledger():
    with FakeLedger() as made:
        yield made


@pytest.fixture
def rec(ledger, tmp_path):
    with Recorder(ledger.address, run="r1", spool=tmp_path / "spool", rank=0, strict=True) as made:
        yield made


def recorded(rec, ledger):
    """Type and payload of everything so far."""
    rec.flush(20)
    return [(e.type, e.payload) for e in ledger.events]


def test_a_whole_run_in_its_words(rec, ledger, tmp_path):
    (tmp_path / "w").write_bytes(b"weights")
    rec.declare_run(sources=[{"atlas_id": "O:taco", "dataset_id": "taco", "dataset_revision": "d1"}], purpose="try")
    rec.config({"lr": 1e-6})
    rec.start_attempt(launcher_job="job-1")
    rec.step(1, {"reward": 0.5}, weight_version=0)
    rec.evaluate(1, {"d": {"pass@1": math.nan}}, weight_version=1)
    rec.rollouts(1, started=8, verified=7)
    rec.saving(1)
    rec.checkpoint(1, tmp_path / "w", last_update=1)
    rec.loaded(1, weight_version=1)
    rec.select(1, rule={"id": "trailing-ema", "alpha": 1 / 3}, ema=0.5)
    rec.deleted(1, "room")
    rec.end_attempt("completed")
    rec.end_run("completed", planned_steps=1)
    found = recorded(rec, ledger)
    assert [kind for kind, _ in found] == [
        "run.declared",
        "config.recorded",
        "attempt.started",
        "steps.logged",
        "eval.logged",
        "rollouts.summarised",
        "checkpoint.save_started",
        "checkpoint.committed",
        "checkpoint.loaded",
        "checkpoint.selected",
        "checkpoint.deleted",
        "attempt.ended",
        "run.ended",
    ]
    said = dict(found)
    assert all(p["run_id"] == "r1" for p in said.values())
    assert said["attempt.started"] == {"run_id": "r1", "attempt": 1, "launcher_job": "job-1"}
    assert said["eval.logged"]["evaluations"] == [{"data_source": "d", "metrics": {"pass@1": "NaN"}}]
    assert said["checkpoint.selected"]["purpose"] == "export"
    assert said["attempt.ended"] == {"run_id": "r1", "attempt": 1, "ending": "completed", "last_step": 1}
    assert rec.report().refused == ()


def test_a_model_is_recorded_as_it_is(rec, ledger):
    rec.record("run.declared", RunDeclared(run_id="r1", rl_start=None, sources=[], planned_steps=5))
    assert recorded(rec, ledger) == [
        ("run.declared", {"run_id": "r1", "rl_start": None, "sources": [], "planned_steps": 5})
    ]


class Colour(Enum):
    RED = "red"


@dataclass
class Settings:
    path: Path
    colours: tuple[Colour, ...]


def test_a_configuration_of_python_objects_becomes_plain_json(rec, ledger):
    rec.config({"s": Settings(Path("/x"), (Colour.RED,)), "n": math.inf, "deep": {"a": {"b": [1, None]}}})
    ((_, said),) = recorded(rec, ledger)
    assert said["settings"] == {"s.path": "/x", "s.colours": ["red"], "n": "Infinity", "deep.a.b": [1, None]}


def test_the_digest_is_taken_before_anything_changes_the_configuration(rec, ledger):
    settings = {"a": 1, "nested": {"b": [1]}}
    meant = Config.of({"a": 1, "nested": {"b": [1]}}).digest
    assert rec.config(settings) == meant
    settings["nested"]["b"].append(2)
    rec.config(settings)
    (_, first), (kind, second) = recorded(rec, ledger)
    assert first["digest"] == meant
    assert (kind, second["moment"], second["before_digest"]) == ("config.drifted", "running", meant)
    assert second["changes"] == [{"path": "nested.b", "before": "[1]", "after": "[1,2]"}]


def test_a_configuration_that_did_not_change_is_recorded_once(rec, ledger):
    assert rec.config({"a": 1, "b": 2}) == rec.config({"b": 2, "a": 1})
    assert len(recorded(rec, ledger)) == 1


def test_a_resume_with_another_configuration_is_a_drift(ledger, tmp_path):
    for lr in (1e-6, 2e-6, 2e-6):
        with Recorder(ledger.address, run="r1", spool=tmp_path / "spool", rank=0) as rec:
            rec.start_attempt(resumed_from=None if rec.attempt == 1 else 10)
            rec.config({"lr": lr})
    recordings = [(p.payload["attempt"], p.payload["moment"]) for p in ledger.of_type("config.recorded")]
    assert recordings == [(1, "start"), (2, "resume"), (3, "resume")]
    (drifted,) = ledger.of_type("config.drifted")
    assert (drifted.payload["attempt"], drifted.payload["moment"]) == (2, "resume")
    assert drifted.payload["changes"] == [{"path": "lr", "before": "1e-6", "after": "2e-6"}]
    assert ledger.of_type("attempt.started")[1].payload["resumed_from"] == {"step": 10}


def test_absent_and_null_and_empty_are_not_the_same_setting():
    one = Config.of({"a": None, "c": {}})
    two = Config.of({"b": None, "c": {}})
    assert drift(one, two)["changes"] == [
        {"path": "a", "before": "null", "after": None},
        {"path": "b", "before": None, "after": "null"},
    ]
    assert flat({"a": {}, "b": {"c": 1}}) == {"a": {}, "b.c": 1}


def test_more_changes_than_an_event_names_are_counted():
    said = drift(Config.of({str(n): 1 for n in range(500)}), Config.of({}))
    assert (len(said["changes"]), said["changes_left_out"]) == (200, 300)


def test_a_large_configuration_is_recorded_by_its_digest_alone(rec, ledger):
    settings = {str(n): "v" * 1_000 for n in range(500)}
    digest = rec.config(settings)
    ((_, said),) = recorded(rec, ledger)
    assert said["digest"] == digest
    assert "settings" not in said


# Checkpoints


def folder_of(root, files):
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    return root


FILES = {"b/shard-1": b"one", "b/shard-0": b"", "Z": b"zett"}


@pytest.mark.parametrize("background", [False, True])
def test_a_checkpoint_is_known_by_the_digests_of_its_files(rec, ledger, tmp_path, background):
    folder = folder_of(tmp_path / "ck", FILES)
    assert rec.checkpoint(7, folder, background=background).result(20) is not None
    ((_, said),) = recorded(rec, ledger)
    assert [f["path"] for f in said["files"]] == ["Z", "b/shard-0", "b/shard-1"]
    assert [f["sha256"] for f in said["files"]] == [hashlib.sha256(FILES[f["path"]]).hexdigest() for f in said["files"]]
    assert (said["file_count"], said["total_bytes"], said["step"]) == (3, 7, 7)


def test_the_digest_of_a_checkpoint_is_what_sha256sum_prints_hashed(tmp_path):
    folder = folder_of(tmp_path / "ck", FILES)
    listing = subprocess.run(["sha256sum", *sorted(FILES)], cwd=folder, capture_output=True, check=True).stdout
    assert read_files(folder).digest == hashlib.sha256(listing).hexdigest()


def test_named_files_have_the_paths_of_their_folder(tmp_path):
    folder = folder_of(tmp_path / "ck", FILES)
    named = read_files([folder / name for name in FILES])
    assert named == read_files(folder)


def test_a_checkpoint_of_very_many_files_names_their_number_and_digest(tmp_path, monkeypatch):
    folder = folder_of(tmp_path / "ck", {str(n): b"" for n in range(5)})
    monkeypatch.setattr("ledger.client.recording.files.MAX_FILES", 4)
    said = read_files(folder).as_fields()
    assert (said["files"], said["file_count"]) == ([], 5)
    assert len(said["digest"]) == 64
    assert MAX_FILES > 1_000


def test_a_checkpoint_that_is_not_there_is_refused_and_kept_as_that(ledger, tmp_path):
    with Recorder(ledger.address, run="r1", spool=tmp_path / "spool", rank=0) as rec:
        assert rec.checkpoint(1, tmp_path / "none").result() is None
        (tmp_path / "empty").mkdir()
        assert rec.checkpoint(1, tmp_path / "empty", background=True).result(20) is None
    assert [r.reason for r in rec.report().refused] == ["INVALID_FILE", "INVALID_FILE"]


def test_closing_waits_for_the_checkpoint_that_is_being_hashed(ledger, tmp_path):
    folder = folder_of(tmp_path / "ck", {"w": bytes(50_000_000)})
    with Recorder(ledger.address, run="r1", spool=tmp_path / "spool", rank=0) as rec:
        rec.checkpoint(1, folder, background=True)
    assert len(ledger.of_type("checkpoint.committed")) == 1


# Ends


class CrashError(Exception):
    pass


def crash(ledger, tmp_path, error, before=lambda _rec: None):
    """A block that is left by an error."""
    with Recorder(ledger.address, run="r1", spool=tmp_path / "spool", rank=0) as rec:
        before(rec)
        raise error


@pytest.mark.parametrize(
    ("error", "ending"), [(CrashError("out of memory"), "failed"), (KeyboardInterrupt(), "cancelled")]
)
def test_an_exception_that_leaves_the_block_ends_the_attempt_and_is_raised_on(ledger, tmp_path, error, ending):
    with pytest.raises(type(error)):
        crash(ledger, tmp_path, error, lambda rec: rec.step(4, {"m": 1.0}))
    (said,) = ledger.of_type("attempt.ended")
    assert (said.payload["ending"], said.payload["error_type"]) == (ending, type(error).__name__)
    assert said.payload["last_step"] == 4
    assert said.payload.get("reason") == (str(error) or None)


def test_an_attempt_that_was_ended_is_not_ended_again(ledger, tmp_path):
    with pytest.raises(CrashError):
        crash(ledger, tmp_path, CrashError(), lambda rec: rec.end_attempt("preempted"))
    assert [e.payload["ending"] for e in ledger.of_type("attempt.ended")] == ["preempted"]


def test_a_quiet_exit_is_no_failure(ledger, tmp_path):
    with pytest.raises(SystemExit):
        crash(ledger, tmp_path, SystemExit(0))
    assert ledger.of_type("attempt.ended") == []


def test_an_error_that_names_a_secret_is_recorded_without_it(ledger, tmp_path):
    token = "hf_" + "a" * 30
    with pytest.raises(CrashError), Recorder(ledger.address, run="r1", spool=tmp_path / "spool", rank=0):
        raise CrashError(f"401 for {token}")
    (said,) = ledger.of_type("attempt.ended")
    assert said.payload["reason"] == "401 for <redacted:huggingface_token>"
    assert ledger.of_type("recording.reported")[0].payload["redactions"] == [{"shape": "huggingface_token", "count": 1}]


def test_a_word_that_is_given_a_field_too_many_says_which(rec):
    with pytest.raises(LedgerError, match="colour") as caught:
        rec.end_run("completed", colour="red")
    assert caught.value.reason == "INVALID_PAYLOAD"
