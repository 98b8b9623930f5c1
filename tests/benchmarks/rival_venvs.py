"""Rivals run in environments of their own, made on first use and kept, and answer over a pipe.

A driver is a module of this folder, run by the rival's Python. It reads one cell a line and answers one line: the
seconds that it took. What it prints on stderr is for people.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

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
class Rival:
    """A contestant behind a driver's pipe."""

    name: str
    driver: subprocess.Popen[str]
    cells: frozenset[Key]

    def takes(self, cell: Cell) -> bool:
        return cell.key in self.cells

    def seconds(self, cell: Cell) -> float:
        assert self.driver.stdin is not None
        assert self.driver.stdout is not None
        self.driver.stdin.write(json.dumps(asdict(cell)) + "\n")
        self.driver.stdin.flush()
        answer = self.driver.stdout.readline()
        if not answer:
            raise RuntimeError(f"{self.name}: the driver ended with exit code {self.driver.wait()} at {cell}")
        return float(json.loads(answer)["seconds"])

    def rest(self) -> None:
        """It answers when it is done."""


@contextlib.contextmanager
def rival(name: str, module: str, python: Path, arguments: list[str], cells: set[Key]) -> Iterator[Rival]:
    """Starts a driver and stops it at the end."""
    command = [str(python), "-m", f"tests.benchmarks.{module}", *arguments]
    driver = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        yield Rival(name, driver, frozenset(cells))
    finally:
        assert driver.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            driver.stdin.close()  # a driver ends with its input
        wait_or_kill(driver)


def wait_or_kill(process: subprocess.Popen[str]) -> None:
    """Gives a process that was asked to end the time to do so."""
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
