"""What a loop may hand to a recorder by mistake: nothing of it stops the loop, and what can be kept is kept."""

from __future__ import annotations

import subprocess
import sys
import threading
from argparse import Namespace
from collections.abc import Sequence

import pytest

from ledger.client import Recorder
from ledger.client.connection import connect
from ledger.client.drafts import actor
from ledger.client.recording import files, folders
from ledger.client.recording.configs import Config
from ledger.client.recording.payloads import Cleaner
from ledger.client.recording.spool import Spool
from ledger.client.testing import FakeLedger
from ledger.core.errors import InvalidInput, Unavailable
from ledger.wire import log_pb2


@pytest.fixture
def ledger():
    with FakeLedger() as made:
        yield made


def recorder(ledger, tmp_path, **fields):
    return Recorder(ledger.address, run="r1", spool=tmp_path / "spool", rank=0, **fields)


def said(rec, ledger, type_):
    rec.flush(20)
    return [e.payload for e in ledger.of_type(type_)]


class Broken(dict):
    """A configuration with a value that is still to be filled in."""

    def items(self):
        raise RuntimeError("missing mandatory value: ???")


@pytest.mark.parametrize(
    ("type_", "word"),
    [
        ("config.recorded", lambda rec: rec.config(Broken(a=1))),
        ("config.recorded", lambda rec: rec.config(None)),
        ("steps.logged", lambda rec: rec.step(1, None)),
        ("eval.logged", lambda rec: rec.evaluate(1, None)),
        ("eval.logged", lambda rec: rec.evaluate(1, {"d": None})),
        ("checkpoint.selected", lambda rec: rec.select(1, rule="trailing-ema")),
        ("checkpoint.committed", lambda rec: rec.checkpoint(1, None).result()),
        ("checkpoint.committed", lambda rec: rec.checkpoint(1, None, background=True).result()),
        ("attempt.started", lambda rec: rec.start_attempt(-1)),
    ],
)
def test_no_mistake_leaves_a_word_as_an_exception(ledger, tmp_path, type_, word):
    with recorder(ledger, tmp_path) as rec:
        assert word(rec) is None
        assert [(r.type, bool(r.message), bool(r.remedy)) for r in rec.report().refused] == [(type_, True, True)]
        assert rec.step(2, {"a": 1.0}) is not None
    assert [e.type for e in ledger.events] == ["steps.logged", "recording.reported"]
    assert ledger.events[0].payload["attempt"] == 1


def test_a_checkpoint_whose_folder_may_not_be_read_is_refused_and_stops_nothing(ledger, tmp_path, monkeypatch):
    def forbidden(_named):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(files, "_paths", forbidden)
    with recorder(ledger, tmp_path) as rec:
        assert rec.checkpoint(1, tmp_path).result() is None
        assert "Permission denied" in rec.report().refused[0].message


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"weight_version": -1}, {}),
        ({"weight_version": 1.5}, {}),
        ({"weight_version": True}, {}),
        ({"epoch": float("nan")}, {}),
        ({"weight_version": -1, "epoch": 0.5}, {"epoch": 0.5}),
        ({"weight_version": 3, "epoch": 2}, {"weight_version": 3, "epoch": 2}),
    ],
)
def test_a_step_is_recorded_without_a_weight_version_or_an_epoch_that_cannot_be_one(ledger, tmp_path, given, kept):
    with recorder(ledger, tmp_path) as rec:
        rec.step(0, {"a": 1.0}, **given)
        assert said(rec, ledger, "steps.logged")[0]["steps"] == [{"step": 0, **kept, "metrics": {"a": 1.0}}]
        assert rec.report().left_out == len(given) - len(kept)
        assert rec.report().refused == ()


def test_a_strict_recorder_raises_for_a_weight_version_that_cannot_be_one(ledger, tmp_path):
    with (
        recorder(ledger, tmp_path, strict=True) as rec,
        pytest.raises(InvalidInput, match="'weight_version': cannot be"),
    ):
        rec.step(0, {"a": 1.0}, weight_version=-1)


class Listed(Sequence):
    """A list that is no `list`, as OmegaConf's."""

    def __init__(self, *items):
        self._items = items

    def __getitem__(self, index):
        return self._items[index]

    def __len__(self):
        return len(self._items)


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        ({"betas": Listed(0.9, Listed("x"))}, {"betas": [0.9, ["x"]]}),
        ({"seed": 2**63}, {"seed": "9223372036854775808"}),
        ({"seed": -(2**53) + 1}, {"seed": -9007199254740991}),
        (Namespace(lr=1e-6, nested=Namespace(a=1)), {"lr": 1e-6, "nested.a": 1}),
    ],
)
def test_a_configuration_as_frameworks_hold_it_is_recorded(ledger, tmp_path, settings, kept):
    with recorder(ledger, tmp_path) as rec:
        rec.config(settings)
        assert said(rec, ledger, "config.recorded")[0]["settings"] == kept


def test_bytes_are_no_list_of_numbers():
    with pytest.raises(InvalidInput, match="is a bytes"):
        Cleaner().plain({"a": b"weights"})


def test_a_set_has_the_same_digest_at_every_start_of_a_program():
    code = (
        "from ledger.client.recording.configs import Config;"
        "from ledger.client.recording.payloads import Cleaner;"
        "print(Config.of(Cleaner().plain({'callbacks': {'a', 'b', 'c', 'd', 'e'}})).digest)"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout.strip()
        for seed in ("1", "2", "3")
    }
    assert digests == {Config.of({"callbacks": ["a", "b", "c", "d", "e"]}).digest}


@pytest.mark.parametrize(
    "wrong", [{"attempt": 0}, {"attempt": -1}, {"rank": -1}, {"ranks": "first"}, {"max_bytes": 0}], ids=str
)
def test_an_argument_that_can_never_work_is_refused_at_once(tmp_path, wrong):
    with pytest.raises(InvalidInput) as refused:
        Recorder(None, run="r1", spool=tmp_path / "spool", **wrong)
    assert refused.value.reason == "USAGE"
    assert refused.value.remedy
    assert not (tmp_path / "spool").exists()


def test_no_two_runs_have_the_same_folder_and_none_has_one_outside(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    runs = [".", "..", "a", ".a", "%2Ea", "..a", "a/b", "a%2Fb", "n" * 300 + "1", "n" * 300 + "2"]
    found = [folders.default_folder(run) for run in runs]
    assert len(set(found)) == len(runs)
    assert {f.parent for f in found} == {folders.default_root()}
    assert all(0 < len(f.name) <= 200 and not f.name.startswith(".") for f in found)


def test_a_selection_or_a_deletion_names_no_attempt_that_did_not_save_the_checkpoint(ledger, tmp_path):
    (tmp_path / "w").write_bytes(b"weights")
    with recorder(ledger, tmp_path, attempt=1) as rec:
        rec.checkpoint(4, tmp_path / "w")
    with recorder(ledger, tmp_path, attempt=2) as rec:
        rec.start_attempt(resumed_from=4)
        rec.checkpoint(6, tmp_path / "w")
        rec.select(4, rule={"id": "by-hand"})
        rec.select(6, rule={"id": "by-hand"})
        rec.select(4, rule={"id": "by-hand"}, attempt=1)
        rec.deleted(4)
        rec.deleted(6)
    assert [e.payload.get("attempt") for e in ledger.of_type("checkpoint.selected")] == [None, 2, 1]
    assert [e.payload.get("attempt") for e in ledger.of_type("checkpoint.deleted")] == [None, None]


def test_a_checkpoint_that_is_hashed_while_another_attempt_begins_is_of_the_one_that_saved_it(
    ledger, tmp_path, monkeypatch
):
    (tmp_path / "w").write_bytes(b"weights")
    may_go_on = threading.Event()
    real = files._paths

    def slow(named):
        may_go_on.wait(10)
        return real(named)

    monkeypatch.setattr(files, "_paths", slow)
    with recorder(ledger, tmp_path) as rec:
        saved = rec.checkpoint(4, tmp_path / "w", background=True)
        rec.start_attempt(2)
        may_go_on.set()
        assert saved.result(10) is not None
    assert ledger.of_type("checkpoint.committed")[0].payload["attempt"] == 1


def test_a_disk_that_takes_no_small_file_does_not_keep_what_is_durable_from_being_sent(ledger, tmp_path, monkeypatch):
    real = folders.write

    def full(file, value, *, durable=False):
        if file.name == "epoch.json" and not durable:
            raise OSError(28, "No space left on device")
        real(file, value, durable=durable)

    with recorder(ledger, tmp_path) as rec:
        monkeypatch.setattr("ledger.client.recording.folders.write", full)
        for step in range(1, 4):
            rec.record("no.such_type", {})  # something to keep count of, each time
            rec.step(step, {"a": 1.0})
            assert rec.flush(20).waiting == 0
        monkeypatch.undo()
    assert [e.payload["steps"][0]["step"] for e in ledger.of_type("steps.logged")] == [1, 2, 3]


def test_counts_that_could_not_be_kept_are_kept_when_there_is_room_again(tmp_path, monkeypatch):
    (tmp_path / "s").mkdir()
    spool = Spool(tmp_path / "s", "r1", actor("trainer"))
    real, broken = folders.write, True

    def sometimes(file, value, *, durable=False):
        if broken:
            raise OSError(28, "No space left on device")
        real(file, value, durable=durable)

    monkeypatch.setattr("ledger.client.recording.folders.write", sometimes)
    spool.skip()
    spool.settle()
    assert folders.read(spool.folder / "epoch.json")["tally"]["refused"] == 0
    broken = False
    spool.settle()
    assert folders.read(spool.folder / "epoch.json")["tally"]["refused"] == 1
    spool.close()


def test_nobody_answers_for_a_ledger_that_is_away(ledger):
    connection = connect(ledger.address)
    assert connection.call(connection.log.GetInfo, log_pb2.GetInfoRequest()).origin == "fake"
    ledger.away = True
    with pytest.raises(Unavailable):
        connection.call(connection.log.GetInfo, log_pb2.GetInfoRequest())
    connection.close()


@pytest.mark.parametrize(
    ("attempt", "resumed", "warned"),
    [(None, 4, True), (2, 4, False), (None, None, False), (None, {"run_id": "other", "step": 4}, False)],
)
def test_a_first_attempt_that_begins_with_its_own_checkpoint_is_warned_of(tmp_path, caplog, attempt, resumed, warned):
    with Recorder(None, run="r1", spool=tmp_path / "spool", rank=0, attempt=attempt) as rec:
        rec.start_attempt(resumed_from=resumed)
        assert rec.report().refused == ()
    assert ("give `attempt`" in caplog.text) is warned


def test_a_claim_stands_in_the_stream_of_what_it_is_about(ledger, tmp_path):
    basis = {"kind": "claimed", "note": "a page"}
    about = [("run", "r1"), ("checkpoint", "r1"), ("model", "e1"), ("export", "e1"), ("campaign", "c1")]
    with recorder(ledger, tmp_path) as rec:
        for kind, name in about:
            claim = {"subject": {"kind": kind, "id": name}, "topic": "benchmark", "statement": "none", "basis": basis}
            rec.record("claim.recorded", claim)
        rec.flush(20)
        streams = [event.stream for event in ledger.of_type("claim.recorded")]
    assert streams == ["run/r1", "run/r1", "export/e1", "export/e1", "campaign/c1"]
