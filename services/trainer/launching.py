"""Starts the processes of one run on this machine, and stays until the last one is gone.

The first process tells what happens in lines of JSON, which are handed on as they come; the others say nothing. They
find one another by a store that this process holds, on the loopback. When one fails the rest are stopped: they would
wait for it. What stops this process stops all of them, by SIGTERM alone: an interrupt at the terminal, which reaches
all, would else come twice, and the second one in the midst of telling the ledger the end.

Where there are several machines, `torchrun -m services.trainer CONFIG` does the same.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from torch.distributed import TCPStore  # type: ignore[attr-defined]  # torch exports it, and does not say so

from ledger.core.errors import REASONS, LedgerError, Problem
from services.trainer.stopping import terminable
from services.trainer.training import Tell

HOST: Final = "127.0.0.1"
GRACE_SECONDS: Final = 30.0
"""For the others, once one has failed; and for each to end, once it was told to."""
_LOOK_SECONDS: Final = 0.2


def launch(arguments: Sequence[str], processes: int, *, tell: Tell) -> dict[str, Any]:
    """Runs `python -m services.trainer` with these arguments, so many times; gives the outcome that was told.

    Raises:
        LedgerError: as the first process says, or what is known of a process that failed without a word.
        KeyboardInterrupt: it was told to stop; the processes were told so too, and have ended.
    """
    with terminable():
        return _launch(arguments, processes, tell)


def _launch(arguments: Sequence[str], processes: int, tell: Tell) -> dict[str, Any]:
    store = TCPStore(HOST, 0, is_master=True, wait_for_workers=False)
    started: list[subprocess.Popen[str]] = []
    watcher = threading.Thread(target=_stop_when_one_fails, args=(started,), daemon=True)
    last: dict[str, Any] = {}
    try:
        for rank in range(processes):
            started.append(_start(arguments, rank, processes, store.port))  # noqa: PERF401  # a failure keeps the others
        watcher.start()
        for told in _lines(started[0]):
            if told["kind"] in {"end", "error"}:
                last = told
            else:
                tell(told)
        for process in started:
            process.wait()
    finally:
        _stop(started)
        for process in started:
            if process.stdout is not None:
                process.stdout.close()
        if watcher.ident is not None:
            watcher.join()
    if last.get("kind") != "end":
        raise _failure(last, [process.returncode for process in started])
    return last


def _start(arguments: Sequence[str], rank: int, processes: int, port: int) -> subprocess.Popen[str]:
    return subprocess.Popen(  # noqa: S603  # this interpreter, and arguments that were parsed
        [sys.executable, "-m", "services.trainer", *arguments, "--json", "--launched"],
        env=environment(rank, processes, port),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL,
        text=True,
    )


def environment(rank: int, processes: int, port: int) -> dict[str, str]:
    """Of one of the processes, which find one another by the store at that port."""
    return {
        **os.environ,
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(processes),
        "LOCAL_WORLD_SIZE": str(processes),
        "MASTER_ADDR": HOST,
        "MASTER_PORT": str(port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",  # the store is this process's: none of them opens one
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
    }


def _lines(first: subprocess.Popen[str]) -> Any:
    """What it tells. Its pipe stays open: it would break under what it tells while it is stopped."""
    assert first.stdout is not None
    for line in first.stdout:
        try:
            told = json.loads(line)
        except ValueError:
            continue  # a library's own word
        if isinstance(told, dict) and isinstance(told.get("kind"), str):
            yield told


def _stop_when_one_fails(started: Sequence[subprocess.Popen[str]]) -> None:
    while any(process.poll() is None for process in started):
        if any(process.poll() for process in started):
            deadline = time.monotonic() + GRACE_SECONDS
            while time.monotonic() < deadline and any(process.poll() is None for process in started):
                time.sleep(_LOOK_SECONDS)
            _stop(started)
            return
        time.sleep(_LOOK_SECONDS)


def _stop(started: Sequence[subprocess.Popen[str]]) -> None:
    """Tells those that are left to end; kills those that do not."""
    for process in started:
        if process.poll() is None:
            process.terminate()
    for process in started:
        try:
            process.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _failure(last: Mapping[str, Any], codes: Sequence[int | None]) -> LedgerError:
    if last.get("kind") == "error" and last.get("reason") in REASONS:
        return LedgerError(
            str(last["message"]),
            reason=last["reason"],
            remedy=str(last.get("remedy", "")),
            details=last.get("details"),
            problems=[Problem(str(p["place"]), str(p["message"])) for p in last.get("problems", ())],
        )
    ends = ", ".join(f"process {rank} with {code}" for rank, code in enumerate(codes))
    return LedgerError(
        f"the processes of the run ended without an outcome: {ends}",
        remedy="Look at what they wrote to stderr; `--resume auto` goes on from the last checkpoint.",
    )
