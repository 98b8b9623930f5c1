"""A server as a process of its own, that can be killed and started again."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SERVE = """
import json, sys
from pathlib import Path
from ledger.core.errors import LedgerError
from services.server.app import serve
from services.server.settings import Settings
home, db, level = json.loads(sys.argv[1])
try:
    serve(Settings(Path(home), db=db, port=0, log_level=level), on_ready=lambda address: print(address, flush=True))
except LedgerError as error:
    print(error.reason, file=sys.stderr)
    sys.exit(error.door.exit)
"""
READY_SECONDS = 60


class ServerProcess:
    """One server on one home or database."""

    def __init__(self, home: Path, db: str | None = None, *, level: str = "info") -> None:
        self.home = home
        self.db = db
        self.address = ""
        self._level = level
        self._process: subprocess.Popen[bytes] | None = None
        self.said = home.parent / f"{home.name}.stderr"

    @property
    def running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    def start(self) -> str:
        """Starts it and waits until it says where it listens."""
        settings = json.dumps([str(self.home), self.db, self._level])
        with self.said.open("ab") as stderr:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _SERVE, settings], stdout=subprocess.PIPE, stderr=stderr
            )
        self.address = self._first_line()
        return self.address

    def kill(self) -> None:
        """As a power cut would end it."""
        self.running.send_signal(signal.SIGKILL)
        self.running.wait()
        self._close()

    def stop(self) -> int:
        """Asks it to stop; gives its exit code."""
        self.running.send_signal(signal.SIGTERM)
        code = self.running.wait(60)
        self._close()
        return code

    def refusal(self) -> tuple[int, str]:
        """Starts it where it must refuse to serve; its exit code and the last line that it said."""
        settings = json.dumps([str(self.home), self.db, self._level])
        done = subprocess.run([sys.executable, "-c", _SERVE, settings], capture_output=True, timeout=60, check=False)
        return done.returncode, done.stderr.decode().splitlines()[-1]

    def end(self) -> None:
        """Whatever state it is in."""
        if self._process is not None and self._process.poll() is None:
            self.kill()

    def _first_line(self) -> str:
        assert self.running.stdout is not None
        handle, line, until = self.running.stdout.fileno(), b"", time.monotonic() + READY_SECONDS
        while not line.endswith(b"\n"):
            left = until - time.monotonic()
            ready, _, _ = select.select([handle], [], [], max(left, 0))
            more = os.read(handle, 4096) if ready else b""
            if not more:
                self.end()
                raise AssertionError(f"the server did not start:\n{self.said.read_text()[-4000:]}")
            line += more
        return line.decode().strip()

    def _close(self) -> None:
        if self.running.stdout is not None:
            self.running.stdout.close()
        self.address = ""


@contextmanager
def server_process(home: Path, db: str | None = None, *, level: str = "info") -> Iterator[ServerProcess]:
    """A running server, ended with the block."""
    server = ServerProcess(home, db, level=level)
    try:
        server.start()
        yield server
    finally:
        server.end()
