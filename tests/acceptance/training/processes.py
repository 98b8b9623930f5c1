"""Processes that a test may stop, kill and start again: a server on one home, and a trainer that only records."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from ledger.client import Reader, connect
from tests.acceptance.training.simulated import Asked

SECONDS: Final = 60
"""Until something that must come is given up."""

_ROOT: Final = Path(__file__).parents[3]


@dataclass
class Server:
    """The command on one home, always at the same address."""

    home: Path
    db: str | None = None
    address: str = ""
    _process: subprocess.Popen[str] | None = None

    def __post_init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.address = f"127.0.0.1:{free.getsockname()[1]}"

    def start(self) -> None:
        port = self.address.partition(":")[2]
        where = ["--home", str(self.home), "--port", port, *(["--db", self.db] if self.db else [])]
        self._process = run_python("-m", "services.cli", "serve", *where, "--json")
        assert self._process.stdout is not None
        said = self._process.stdout.readline()
        assert said, "the server did not start"
        assert json.loads(said)["address"] == self.address

    def wait_for(self, events: int) -> None:
        """Until the log holds so many: then some of what was recorded is there, and more is on its way."""
        with connect(self.address) as connection:
            deadline = time.monotonic() + SECONDS
            while Reader(connection).info().size < events:
                assert time.monotonic() < deadline, f"no {events} events came"
                time.sleep(0.02)

    def freeze(self) -> None:
        """It keeps its connections and answers nothing."""
        self._signal(signal.SIGSTOP)

    def kill(self) -> None:
        """As a power cut would end it."""
        self._signal(signal.SIGKILL)
        assert self._process is not None
        end(self._process)
        self._process = None

    def stop(self) -> None:
        """Whatever state it is in."""
        if self._process is not None:
            self.kill()

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)


@dataclass
class Trainer:
    """One process of the trainer, which makes the steps that it is granted."""

    asked: Asked
    made: dict[tuple[int, int], int] = field(default_factory=dict)
    """Attempt and step of those that ended, with the calls that could wait."""
    end_report: dict[str, int] | None = None

    def __post_init__(self) -> None:
        module = "tests.acceptance.training.simulated"
        self._process = run_python("-m", module, json.dumps(asdict(self.asked)))

    def go_to(self, step: int, *, until: int | None = None) -> None:
        """Grants steps, and returns when one has ended: the last of them, or the one that is named."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{step}\n")
        self._process.stdin.flush()
        while self._next() < (until or step):
            pass

    def kill(self) -> None:
        """At whatever it is doing; what it had said before still counts."""
        self._process.kill()
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._take(line)
        end(self._process)

    def finish(self) -> dict[str, int]:
        """Lets it end by itself; gives what its recorder reported last."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._take(line)
        assert end(self._process) == 0
        assert self.end_report is not None
        return self.end_report

    def stop(self) -> None:
        """Whatever state it is in."""
        if self._process.poll() is None:
            self._process.kill()
            end(self._process)

    def _next(self) -> int:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the trainer ended by itself"
        return self._take(line)

    def _take(self, line: str) -> int:
        if not line.endswith("\n"):  # its death cut the last word off
            return 0
        said = json.loads(line)
        if "step" not in said:
            self.end_report = said
            return 0
        self.made[said["attempt"], said["step"]] = said["waits"]
        return int(said["step"])


def run_python(*arguments: str) -> subprocess.Popen[str]:
    """A process of this project, without anybody's settings."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LEDGER_")}
    return subprocess.Popen(
        [sys.executable, *arguments],
        cwd=_ROOT,
        env=environment | {"PYTHONPATH": str(_ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def end(process: subprocess.Popen[str]) -> int:
    """Waits for a process that ends, and closes its pipes."""
    code = process.wait(SECONDS)
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    return code
