"""Homes: a command runs the ledger within itself, speaks to who holds the home, or is refused."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from services.cli.commands.database import _conclusion


def test_a_command_without_a_ledger_runs_one_in_its_home(run):
    assert run("source", "list", "--json").json == []
    assert Path(".ledger/ledger.db").exists()
    assert run("log", "fsck", "--json").json["ok"]
    assert run("log", "fsck").out.startswith("OK: ")
    assert run("db", "upgrade", "--json").json == []


def test_a_home_without_a_log_is_not_found_by_fsck(run):
    assert run("log", "fsck").code == 4


def test_a_log_whose_bytes_were_changed_fails_its_check(run):
    run("source", "list")
    with sqlite3.connect(".ledger/ledger.db") as database:
        for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            database.execute(f"DROP TRIGGER {name}")
        database.execute("UPDATE payload SET body = x'7b7d' WHERE pos = 1")
    database.close()
    got = run("log", "fsck", "--json")
    assert got.code == 3
    assert got.error["reason"] == "VERIFICATION_FAILED"
    assert "1" in got.error["problems"][0]["place"]


def test_the_demonstration_loads_once_and_changes_nothing_the_second_time(run):
    first = run("demo", "--once", "--json").json
    assert len(first) == 196
    assert Path(".ledger-demo/.demo").exists()
    second = run("demo", "--once")
    assert second.code == 0
    assert "0 events recorded by this run" in second.err
    assert "Where to look:" in second.err
    assert run("demo", "--once", "--json").json == first
    assert sum(s["sample"] for s in first) == 6


def test_the_demonstration_leaves_a_home_alone_that_it_did_not_make(run):
    run("source", "list", "--home", "mine")
    before = Path("mine/ledger.db").read_bytes()
    got = run("demo", "--once", "--home", "mine", "--json")
    assert got.code == 5
    assert got.error["reason"] == "WRONG_HOME"
    assert Path("mine/ledger.db").read_bytes() == before


def test_the_demonstration_ignores_a_home_and_a_database_that_files_or_variables_name(run, monkeypatch):
    Path("ledger.toml").write_text('home = "mine"\naddress = "127.0.0.1:9"\n')
    monkeypatch.setenv("LEDGER_DB", "postgresql://nowhere/x")
    assert run("demo", "--once", "--quiet").code == 0
    assert not Path("mine").exists()
    assert Path(".ledger-demo/ledger.db").exists()


@pytest.mark.parametrize("command", ["serve", "demo"])
def test_what_serves_takes_a_log_level(run, command):
    error = run(command, "--log-level", "loud", "--home", "h", "--json").error
    assert error["reason"] == "USAGE"
    assert "flag" in error["message"]
    assert not Path("h/ledger.db").exists()


def test_a_server_at_the_level_error_says_nothing_of_its_own_and_ends_with_0_when_interrupted(run):
    command = [sys.executable, "-m", "services.cli", "serve", "--home", "served", "--port", "0", "--json"]
    for level, spoken in (("error", []), ("info", ["made a new log", "listening", "stopping", "stopped"])):
        of_its_own = [*command, "--home", level, "--log-level", level]
        with subprocess.Popen(of_its_own, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            process.stdout.readline()
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=20)
        assert process.returncode == 0
        assert [json.loads(line)["event"] for line in said.splitlines()] == spoken


@pytest.fixture
def served(run):
    """A server of the home `served`, as its users start it."""
    command = [sys.executable, "-m", "services.cli", "serve", "--home", "served", "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        yield process, json.loads(process.stdout.readline())["address"]
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)
    assert process.returncode == 0


def test_a_held_home_is_spoken_to_and_not_served_twice(run, served):
    _, address = served
    got = run("source", "list", "--home", "served", "-v")
    assert got.code == 0
    assert f"Speaking to the ledger at {address}" in got.err
    again = run("serve", "--home", "served", "--port", "0", "--json")
    assert again.code == 5
    assert again.error["reason"] == "IN_USE"
    assert run("db", "upgrade", "--home", "served").code == 5


def test_a_server_that_comes_up_while_a_command_looks_for_it_is_spoken_to(run, served, monkeypatch):
    monkeypatch.setattr("services.server.home.server_address", lambda _home: None)
    got = run("source", "list", "--home", "served", "--json")
    assert (got.code, got.json) == (0, [])


def test_a_database_that_is_named_is_never_taken_for_the_holder_of_the_home(run, served):
    got = run("source", "list", "--home", "served", "--db", "postgresql://127.0.0.1:9/none", "--json")
    assert got.code == 6
    assert "127.0.0.1" in got.error["message"]


@pytest.mark.parametrize("command", [("source", "list"), ("db", "upgrade"), ("log", "fsck")], ids=" ".join)
def test_a_file_that_is_no_database_is_another_ones_home_and_stays_as_it_is(run, command):
    Path(".ledger").mkdir()
    Path(".ledger/ledger.db").write_bytes(b"no database" * 500)
    got = run(*command, "--json")
    assert (got.code, got.error["reason"]) == (5, "WRONG_HOME")
    assert "--home" in got.error["remedy"]
    assert Path(".ledger/ledger.db").read_bytes() == b"no database" * 500


@pytest.mark.parametrize("command", [("source", "list"), ("db", "upgrade"), ("log", "fsck")], ids=" ".join)
def test_the_database_of_another_program_is_not_touched(run, command):
    Path(".ledger").mkdir()
    with closing(sqlite3.connect(".ledger/ledger.db")) as database:
        database.execute("CREATE TABLE bookmarks (url TEXT)")
    before = Path(".ledger/ledger.db").read_bytes()
    got = run(*command, "--json")
    assert (got.code, got.error["reason"]) == (5, "WRONG_HOME")
    assert Path(".ledger/ledger.db").read_bytes() == before


@pytest.mark.parametrize("command", [("serve", "--port", "0"), ("source", "list"), ("db", "upgrade"), ("log", "fsck")])
def test_a_database_that_nobody_serves_is_unreachable(run, command):
    got = run(*command, "--db", "postgresql://me:hush@127.0.0.1:9/none", "--json")
    assert (got.code, got.error["reason"]) == (6, "UNAVAILABLE")
    assert "127.0.0.1" in got.error["message"]
    assert "--db" in got.error["remedy"]
    assert "hush" not in got.err


@pytest.mark.parametrize(("steps", "said"), [(["0001"], "1 step."), (["0001", "0002"], "2 steps.")])
def test_an_upgrade_counts_its_steps(steps, said):
    assert _conclusion(len(steps)) == said


def test_an_upgrade_says_what_it_did_and_then_that_nothing_is_left_to_do(run):
    first = run("db", "upgrade")
    assert first.err == f"{_conclusion(len(first.out.split()))}\n"
    assert "this release's" in run("db", "upgrade").err


def test_a_fault_of_the_program_is_one_error_and_its_place_is_shown_when_asked_for(run):
    run("source", "list")
    with closing(sqlite3.connect(".ledger/ledger.db")) as database:
        database.execute("DROP TABLE generation")
    got = run("source", "list", "--json")
    assert (got.code, got.error["reason"]) == (1, "INTERNAL")
    assert got.error["remedy"]
    assert "Traceback" not in got.err
    assert "Traceback" in run("source", "list", "-v").err


def test_without_the_servers_extra_a_client_works_and_the_rest_says_what_to_install(demo_address, tmp_path):
    bare = "import sys; sys.modules['sqlalchemy'] = None; from services.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", bare, "source", "list", "--json"]
    client = subprocess.run(
        [*command, "--address", demo_address], capture_output=True, cwd=tmp_path, check=False, timeout=60
    )
    assert len(json.loads(client.stdout)) == 196
    alone = subprocess.run(command, capture_output=True, cwd=tmp_path, check=False, timeout=60)
    assert alone.returncode == 2
    error = json.loads(alone.stderr)["error"]
    assert error["reason"] == "EXTRA_MISSING"
    assert "pip install 'atlas-ledger[server]'" in error["remedy"]
