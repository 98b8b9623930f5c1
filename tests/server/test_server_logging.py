"""The server's own log: on stderr, one JSON object a line, and silent within a command."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest
import structlog

from ledger.core.errors import LedgerError
from services.server.logging import configure
from tests.server.doors import alias, failure, opened
from tests.server.process import server_process


def test_a_server_says_where_it_listens_and_that_it_stops_in_json_lines(tmp_path: Path) -> None:
    with server_process(tmp_path / "home") as server:
        address = server.address
        assert server.stop() == 0
    lines = [json.loads(line) for line in server.said.read_text().splitlines()]
    assert [line["event"] for line in lines] == ["made a new log", "listening", "stopping", "stopped"]
    assert {"timestamp", "level"} <= lines[0].keys()
    assert lines[1]["address"] == address


def test_a_level_leaves_out_what_is_below_it(tmp_path: Path) -> None:
    with server_process(tmp_path / "home", level="warning") as server:
        assert server.stop() == 0
    assert server.said.read_text() == ""


def test_a_refused_call_is_logged_at_the_level_debug_without_what_was_sent(tmp_path: Path) -> None:
    with server_process(tmp_path / "home", level="debug") as server, opened(server.address) as doors:
        secret = alias()
        secret.payload = b'{"alias": "a private name"}'
        failure(lambda: doors.append(secret))
        server.stop()
    lines = [json.loads(line) for line in server.said.read_text().splitlines()]
    (refused,) = [line for line in lines if line["event"] == "refused"]
    assert (refused["level"], refused["reason"], refused["call"]) == ("debug", "INVALID_PAYLOAD", "Append")
    assert "private" not in server.said.read_text()


def test_a_ledger_within_a_command_says_nothing(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from services.server.app import in_process;"
        "from services.server.settings import Settings\n"
        "with in_process(Settings(Path(sys.argv[1]))) as address: pass"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "home"], capture_output=True, timeout=60, check=True)
    assert (done.stdout, done.stderr) == (b"", b"")


def test_a_level_that_is_none_is_refused_with_the_levels_there_are() -> None:
    with pytest.raises(LedgerError) as refused:
        configure("loud")
    assert refused.value.reason == "USAGE"
    assert "warning" in refused.value.remedy


def test_what_is_run_last_in_a_process_decides_the_level() -> None:
    configure("error")
    assert not structlog.get_logger().is_enabled_for(logging.INFO)
    configure("info")
    assert structlog.get_logger().is_enabled_for(logging.INFO)
