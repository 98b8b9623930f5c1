"""The command as a process: its exit codes, pipes, interruption, and several of them on one home."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from services.cli.demo_plan import INVENTORY
from tests.acceptance.conftest import copied
from tests.acceptance.doors import ledger

ROOT = Path(__file__).parents[2]
SUSPECT = ("defect", "suspect", "MarinSkyRL:svamp", "--kind", "verifier", "--summary", "may refuse a unit", "--json")
SECONDS = 60

Process = subprocess.Popen[str]


def start(*arguments: object) -> Process:
    """Starts the command as its users do."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LEDGER_")}
    return subprocess.Popen(
        [sys.executable, "-m", "services.cli", *map(str, arguments)],
        env=environment | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(process: Process) -> tuple[int, str, str]:
    """The exit code and what was printed."""
    with process:
        out, err = process.communicate(timeout=SECONDS)
    return process.returncode, out, err


def serving(home: Path) -> tuple[Process, str]:
    """A server of the home, and the address that it says."""
    process = start("serve", "--home", home, "--port", 0, "--json")
    assert process.stdout is not None
    return process, json.loads(process.stdout.readline())["address"]


@pytest.fixture
def home(imported: Path, tmp_path: Path) -> Path:
    """A home that lists the real inventory and that nobody serves."""
    return copied(imported, tmp_path)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A home that is served, and where its server listens."""
    folder = tmp_path_factory.mktemp("served") / "home"
    process, address = serving(folder)
    yield folder, address
    process.terminate()
    code, _, err = finished(process)
    assert code == 0, err


@pytest.fixture
def tampered(home: Path) -> Path:
    """A home in which somebody changed a stored payload."""
    with closing(sqlite3.connect(home / "ledger.db")) as database:
        for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            database.execute(f"DROP TRIGGER {name}")
        database.execute("UPDATE payload SET body = replace(body, 'math-answer', 'math-errors') WHERE pos = 9")
        database.commit()
    return home


class TestExitCodes:
    """Each once, as the table of the README has them."""

    def check(self, code: int, reason: str, *arguments: object) -> dict[str, Any]:
        ran = ledger(*arguments, "--json")
        assert (ran.code, ran.error["reason"]) == (code, reason)
        assert ran.error["remedy"]
        return ran.error

    def test_0_done(self, home: Path) -> None:
        ran = ledger("source", "list", "--search", "svamp", "--home", home, "--json")
        assert (ran.code, ran.err) == (0, "")
        assert [s["id"] for s in ran.json] == ["MarinSkyRL:svamp"]

    def test_1_failed(self) -> None:
        self.check(1, "INVALID_FILE", "catalogue", "import", "absent.jsonl")

    def test_2_usage(self) -> None:
        self.check(2, "USAGE", "source", "list", "--quality", "splendid")

    def test_3_verification_failed(self, tampered: Path) -> None:
        error = self.check(3, "VERIFICATION_FAILED", "log", "fsck", "--home", tampered)
        assert any("9" in problem["place"] for problem in error["problems"])

    def test_4_not_found(self, home: Path) -> None:
        self.check(4, "NOT_FOUND", "source", "show", "MarinSkyRL:nobody", "--home", home)

    def test_5_conflict(self, home: Path) -> None:
        self.check(5, "REFUSED_BY_RULES", "defect", "reopen", "MarinSkyRL:svamp", "d0", "--reason", "r", "--home", home)

    def test_6_unreachable(self) -> None:
        self.check(6, "UNAVAILABLE", "source", "list", "--address", "127.0.0.1:9")

    def test_130_interrupted(self, served: tuple[Path, str]) -> None:
        follower = start("log", "tail", "-n", 1, "--follow", "--json", "--address", served[1])
        assert follower.stdout is not None
        assert json.loads(follower.stdout.readline())["pos"] >= 0
        follower.send_signal(signal.SIGINT)
        code, out, err = finished(follower)
        assert (code, out) == (130, "")
        assert json.loads(err)["error"]["reason"] == "INTERRUPTED"


class TestTheServer:
    def test_a_command_on_a_served_home_speaks_to_the_server(self, served: tuple[Path, str]) -> None:
        home, address = served
        ran = ledger(*SUSPECT, "--home", home, "-v")
        assert address in ran.err
        assert ran.json["recorded"] == 1

    @pytest.mark.parametrize("command", [("serve", "--port", 0), ("db", "upgrade")], ids=["serve", "upgrade"])
    def test_a_served_home_is_neither_served_nor_upgraded_by_another(
        self, served: tuple[Path, str], command: tuple[object, ...]
    ) -> None:
        home, address = served
        ran = ledger(*command, "--home", home, "--json")
        assert (ran.code, ran.error["reason"]) == (5, "IN_USE")
        assert address in ran.error["message"]

    def test_the_log_is_checked_while_it_is_served(self, served: tuple[Path, str]) -> None:
        ran = ledger("log", "fsck", "--home", served[0])
        assert (ran.code, ran.out[:2]) == (0, "OK")

    def test_ctrl_c_ends_it_in_good_order_and_what_was_recorded_stays(self, tmp_path: Path) -> None:
        home = tmp_path / "home"
        process, address = serving(home)
        (event,) = ledger(*SUSPECT, "--address", address).json["events"]

        process.send_signal(signal.SIGINT)
        code, _, err = finished(process)

        assert code == 0, err
        assert "Traceback" not in err
        assert ledger("event", "show", event["id"], "--home", home, "--json").json["pos"] == event["pos"]
        assert ledger("log", "fsck", "--home", home).code == 0


class TestOneHome:
    def test_two_commands_at_once_both_record(self, home: Path) -> None:
        both = [start(*SUSPECT, "--home", home) for _ in range(2)]

        answers = [finished(process) for process in both]

        assert [code for code, _, _ in answers] == [0, 0], answers
        positions = sorted(json.loads(out)["events"][0]["pos"] for _, out, _ in answers)
        assert positions[1] == positions[0] + 1
        assert ledger("log", "fsck", "--home", home).code == 0


class TestPipes:
    def test_a_reader_that_has_enough_ends_the_command_without_noise(self, home: Path) -> None:
        process = start("source", "list", "--json", "--home", home)
        assert process.stdout is not None
        assert process.stderr is not None
        with process:
            process.stdout.read(10)
            process.stdout.close()
            assert process.stderr.read() == ""
            assert process.wait(SECONDS) == 1

    def test_a_piped_table_is_plain_and_uncut(self, home: Path) -> None:
        out = ledger("source", "list", "--home", home).out
        assert "\x1b" not in out
        lines = out.splitlines()
        assert len(lines) == 197
        longest = max((json.loads(line)["id"] for line in INVENTORY.read_text().splitlines()), key=len)
        assert any(line.startswith(longest) for line in lines)
