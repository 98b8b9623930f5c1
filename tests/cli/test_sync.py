"""ledger sync: sends what recorders left, says what became of it, and exits as the error table has it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from ledger.client import Recorder
from ledger.client.recording import segments
from ledger.client.testing import FakeLedger

NAMES = {"spool", "run", "sent", "known", "refused", "left", "recording"}


def spooled(folder, count=3, run="r1"):
    """A spool of a recorder that had no ledger."""
    with Recorder(None, run=run, spool=folder, rank=0) as rec:
        for step in range(1, count + 1):
            rec.step(step, {"m": float(step)})
    return folder


@pytest.fixture
def ledger():
    with FakeLedger() as made:
        yield made


@pytest.fixture
def on_it(run, ledger):
    return lambda *arguments: run("sync", *arguments, "--address", ledger.address)


def test_a_spool_is_sent_and_its_counts_are_told(on_it, ledger, tmp_path):
    spool = spooled(tmp_path / "spool")
    (told,) = on_it(spool, "--json").json
    assert told == {
        "spool": str(spool), "run": "r1", "sent": 4, "known": 0, "refused": [], "left": 0, "recording": False,
    }  # fmt: skip
    assert [e.type for e in ledger.events] == ["steps.logged"] * 3 + ["recording.reported"]
    assert segments.numbers(spool) == []


def test_what_was_sent_is_not_sent_again(on_it, ledger, tmp_path):
    spool = spooled(tmp_path / "spool")
    on_it(spool)
    (told,) = on_it(spool, "--json").json
    assert (told["sent"], told["known"]) == (0, 0)
    assert len(ledger.events) == 4


def test_for_people_a_line_a_spool(on_it, tmp_path):
    ran = on_it(spooled(tmp_path / "spool"))
    assert ran.code == 0
    heading, line = ran.out.splitlines()
    assert heading.split()[:2] == ["run", "sent"]
    assert line.split() == ["r1", "4", "0", "0", "0", "no", str(tmp_path / "spool")]


def test_a_folder_of_spools_is_all_of_them(on_it, tmp_path):
    spooled(tmp_path / "all" / "b", run="b")
    spooled(tmp_path / "all" / "a", run="a")
    assert [one["run"] for one in on_it(tmp_path / "all", "--json").json] == ["a", "b"]


def test_without_a_folder_the_users_own_spools_are_sent(on_it, ledger, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert on_it("--json").json == []
    with Recorder(None, run="mine", rank=0) as rec:
        rec.step(1, {"m": 1.0})
    assert [one["run"] for one in on_it("--json").json] == ["mine"]
    assert len(ledger.events) == 2


def test_what_the_ledger_refuses_is_named_and_the_exit_code_says_so(run, tmp_path):
    spool = spooled(tmp_path / "spool")
    with Recorder(None, run="r1", spool=spool, rank=0) as rec:
        rec.select(1, rule={"id": "trailing-ema"})
        rec.step(9, {"m": 1.0})
    with FakeLedger(refused=frozenset({"checkpoint.selected"})) as ledger:
        ran = run("sync", spool, "--json", "--address", ledger.address)
        assert ran.code == 5
        assert (ran.error["reason"], ran.error["details"]["sent"]) == ("REFUSED_BY_RULES", "6")
        (problem,) = ran.error["problems"]
        assert problem["place"].startswith("checkpoint.selected ")
        assert str(spool / "refused") in problem["message"]
        assert ledger.of_type("steps.logged")[-1].payload["steps"][0]["step"] == 9

        again = run("sync", spool, "--address", ledger.address)
        assert again.code == 0
        assert "refused: checkpoint.selected" in again.err


def test_a_folder_that_is_no_spool_is_a_wrong_file(on_it, tmp_path):
    ran = on_it(tmp_path, "--json")
    assert ran.code == 1
    assert ran.error["reason"] == "INVALID_FILE"


def test_nobody_there_is_unreachable_and_all_of_it_stays(run, tmp_path, monkeypatch):
    monkeypatch.setattr("services.cli.commands.sync.PATIENCE_SECONDS", 0.2)
    spool = spooled(tmp_path / "spool")
    ran = run("sync", spool, "--address", "127.0.0.1:9", "--json")
    assert ran.code == 6
    with FakeLedger() as ledger:
        assert run("sync", spool, "--address", ledger.address, "--json").json[0]["sent"] == 4


def test_a_spool_that_its_recorder_sends_is_left_to_it(on_it, ledger, tmp_path):
    with Recorder(ledger.address, run="r1", spool=tmp_path / "spool", rank=0):
        ran = on_it(tmp_path / "spool", "--json")
    assert ran.json == []
    assert "its recorder sends it" in ran.err


def test_hostile_text_of_a_refusal_cannot_steer_a_terminal(run, tmp_path):
    spool = tmp_path / "spool"
    with Recorder(None, run="r1", spool=spool, rank=0) as rec:
        rec.record("no.such\x1b[31m", {})
    with FakeLedger() as ledger:
        ran = run("sync", spool, "--address", ledger.address)
    assert "no.such" in ran.err
    assert "\x1b" not in ran.out + ran.err


def test_watching_sends_what_is_recorded_meanwhile_until_it_is_interrupted(ledger, tmp_path):
    command = [sys.executable, "-m", "services.cli", "sync", str(tmp_path / "spool"), "--watch", "--json"]
    with Recorder(None, run="r1", spool=tmp_path / "spool", rank=0) as rec:
        rec.step(1, {"m": 1.0})
        watching = subprocess.Popen(
            [*command, "--address", ledger.address],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={k: v for k, v in os.environ.items() if not k.startswith("LEDGER_")},
        )
        first = json.loads(watching.stdout.readline())
        rec.step(2, {"m": 2.0})
        second = json.loads(watching.stdout.readline())
    assert (first["sent"], first["recording"], second["sent"]) == (1, True, 1)
    assert set(first) == NAMES
    until = time.monotonic() + 20
    while not ledger.of_type("recording.reported") and time.monotonic() < until:
        time.sleep(0.05)
    watching.send_signal(signal.SIGINT)
    _, said = watching.communicate(timeout=30)
    assert watching.returncode == 130, said
    assert [e.type for e in ledger.events] == ["steps.logged", "steps.logged", "recording.reported"]
