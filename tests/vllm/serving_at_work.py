"""A trainer whose weights lie in folders, and a vLLM server in a process of its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

from tests.trainer.rollouts.engines_at_work import Trainer, trainer

STARTS = 240.0
"""Seconds that a server may take to start, on a busy machine."""


def trainer_in(folder: Path, *, tied: bool = True) -> Trainer:
    made = trainer(tied=tied)

    def written() -> Path:
        place = folder / f"weights_{made.version}"
        if not place.exists():
            made.model.save_pretrained(place)
            made.tokenizer.save_pretrained(place)
        return place

    made.folder = written
    return made


class Server:
    """A vLLM server that can be started anew at its address."""

    def __init__(self, module: str, model: Path, log: Path, *options: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.name = str(model)
        """By which it calls its model, whatever weights it took since."""
        self._log = log
        common = ["--model", str(model), "--port", str(port), "--max-model-len", "128", "--dtype", "float32"]
        self._command = [sys.executable, "-m", module, *common, *options]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        environment = {
            **os.environ,
            "HF_HUB_OFFLINE": "1",
            "TRANSFORMERS_OFFLINE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_SERVER_DEV_MODE": "1",
        }
        environment.pop("VLLM_ENABLE_V1_MULTIPROCESSING", None)
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdout=log, stderr=log, env=environment, start_new_session=True
            )
        until = time.monotonic() + STARTS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > until:
                raise AssertionError(f"the server did not start:\n{self._log.read_text()[-3000:]}")
            time.sleep(0.5)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        if self._process is None:
            return
        os.killpg(self._process.pid, how)
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(30)
        self._process = None

    def _answers(self) -> bool:
        try:
            with urlopen(f"{self.url}/health", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


@contextmanager
def serving(module: str, model: Path, log: Path, *options: str) -> Iterator[Server]:
    server = Server(module, model, log, *options)
    try:
        server.start()
        yield server
    finally:
        server.stop()
