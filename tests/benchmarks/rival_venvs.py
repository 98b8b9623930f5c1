"""Rivals run in environments of their own, made on first use and kept, and answer over a pipe.

A driver is a module of this folder, run by the rival's Python. It reads one question a line, an object, and answers with
one. What it prints on stderr is for people.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from tests.benchmarks.contestants import Cell, Key

PATIENCE: Final = 30.0
ROOT: Final = Path(__file__).resolve().parents[2]
REQUIREMENTS: Final = {
    "umadb": ("umadb==0.7.8", "uuid-utils>=1.0,<2"),
    "eventsourcing": ("eventsourcing[postgres]==9.5.6", "psycopg[binary]==3.3.9", "uuid-utils>=1.0,<2"),
}


def rival_python(venvs: Path, rival: str) -> Path:
    """The Python of a rival's environment, which is made if it is not there or holds other versions."""
    home = venvs / rival
    python = home / "bin" / "python"
    stamp = home / "requirements.txt"
    wanted = "\n".join(REQUIREMENTS[rival])
    if not stamp.exists() or stamp.read_text() != wanted:
        print(f"Making the environment of {rival} in {home} …", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", home], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *REQUIREMENTS[rival]], check=True)
        stamp.write_text(wanted)
    return python


@dataclass
class Driver:
    """A rival's process, and what to call it."""

    name: str
    process: subprocess.Popen[str]

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"{self.name}: the driver ended with exit code {self.process.wait()} at {question}")
        found: dict[str, Any] = json.loads(answer)
        return found


@dataclass
class Rival:
    """A contestant behind a driver's pipe."""

    name: str
    driver: Driver
    cells: frozenset[Key]

    def takes(self, cell: Cell) -> bool:
        return cell.key in self.cells

    def seconds(self, cell: Cell) -> float:
        return float(self.driver.ask(asdict(cell))["seconds"])

    def rest(self) -> None:
        """It answers when it is done."""


@contextlib.contextmanager
def rival(name: str, module: str, python: Path, arguments: list[str], cells: set[Key]) -> Iterator[Rival]:
    """A contestant, whose driver is stopped at the end."""
    with driver(name, module, python, arguments) as started:
        yield Rival(name, started, frozenset(cells))


@contextlib.contextmanager
def driver(name: str, module: str, python: Path, arguments: list[str]) -> Iterator[Driver]:
    """Starts a driver and stops it at the end."""
    command = [str(python), "-m", f"tests.benchmarks.{module}", *arguments]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        yield Driver(name, process)
    finally:
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()  # a driver ends with its input
        wait_or_kill(process)


def wait_or_kill(process: subprocess.Popen[str]) -> None:
    """Gives a process that was asked to end the time to do so."""
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
