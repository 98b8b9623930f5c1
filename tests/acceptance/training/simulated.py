"""A trainer that does nothing but record: a process of its own, whose every number follows from a seed.

    python -m tests.acceptance.training.simulated '{"address": "…", "run": "…", "spool": "…", "saves": "…", "seed": 1,
    "steps": 1000, "close_timeout": 30}'

It makes the steps that its standard input grants, a number a line, and says each on standard output once `step` has
returned, with how many calls that can wait it saw in its own thread meanwhile. A later process with the same spool and
folder of saves goes on from the last checkpoint that was recorded.
"""

from __future__ import annotations

import json
import math
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Final

from ledger.client.recording import Recorder

METRICS: Final = 100
SAVE_EVERY: Final = 50
ODD_ONE: Final = "policy/raw_grad_norm"
"""A metric that is not finite now and then."""
KEYS: Final = ("reward/avg_raw_reward", "policy/policy_entropy", ODD_ONE, *(f"m/{n:02}" for n in range(METRICS - 3)))

BUILT_IN_WAITS: Final = frozenset(
    {"sleep", "select", "poll", "connect", "accept", "recv", "recv_into", "send", "sendall", "fsync", "fdatasync"}
)
"""Built-in functions that wait for a clock, a network or a disk."""
WAITING_MODULES: Final = frozenset({"grpc", "socket", "selectors", "ssl", "queue", "subprocess"})
"""What is called in them may wait for somebody."""
THREAD_WAITS: Final = frozenset({"wait", "wait_for", "join"})
"""Of `threading`."""


@dataclass(frozen=True)
class Asked:
    """What one process is to do."""

    address: str
    run: str
    spool: str
    saves: str
    seed: int
    steps: int
    close_timeout: float


def metrics(seed: int, attempt: int, step: int) -> dict[str, float]:
    """What an attempt measures at a step: the same wherever it is computed."""
    numbers = random.Random(f"{seed}/{attempt}/{step}")
    found = {key: numbers.uniform(0.3, 0.7) for key in KEYS}
    if step % 97 == 0:
        found[ODD_ONE] = (math.nan, math.inf, -math.inf)[step // 97 % 3]
    return found


class Waits:
    """Counts the calls of one thread that can wait, whoever makes them on its behalf."""

    def __init__(self) -> None:
        self.count = 0

    def during(self, call: Callable[[], Any]) -> int:
        """How many there were while the call ran."""
        self.count = 0
        sys.setprofile(self._see)
        try:
            call()
        finally:
            sys.setprofile(None)
        return self.count

    def _see(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "c_call":
            self.count += getattr(argument, "__name__", "") in BUILT_IN_WAITS
        elif event == "call":
            module = frame.f_globals.get("__name__", "").partition(".")[0]
            of_a_thread = module == "threading" and frame.f_code.co_name in THREAD_WAITS
            self.count += of_a_thread or module in WAITING_MODULES


def main(asked: Asked) -> None:
    latest = Path(asked.saves) / "latest"
    with Recorder(
        asked.address, run=asked.run, spool=asked.spool, strict=True, close_timeout=asked.close_timeout
    ) as rec:
        first = _begin(rec, latest)
        for step in _granted(first, asked.steps):
            found = metrics(asked.seed, rec.attempt, step)
            waited = Waits().during(partial(rec.step, step, found, weight_version=step - 1))
            if step % SAVE_EVERY == 0:
                _save(rec, Path(asked.saves), latest, step)
            _say(attempt=rec.attempt, step=step, waits=waited)
        rec.end_attempt("completed")
        rec.end_run("completed")
    report = rec.report()
    _say(waiting=report.waiting, dropped=report.dropped, refused=len(report.refused))


def _begin(rec: Recorder, latest: Path) -> int:
    """Starts an attempt, from the last checkpoint if there is one; gives its first step."""
    if not latest.exists():
        rec.declare_run(rl_start={"name": "org/base"}, sources=[], checkpoint_interval=SAVE_EVERY)
        rec.start_attempt()
        return 1
    saved: dict[str, Any] = json.loads(latest.read_text())
    rec.start_attempt(resumed_from=saved)
    rec.loaded(saved["step"], recorded_step=saved["step"])
    return int(saved["step"]) + 1


def _save(rec: Recorder, saves: Path, latest: Path, step: int) -> None:
    """The marker comes after the content, and after the ledger was told."""
    folder = saves / f"attempt-{rec.attempt}" / f"global_step_{step}"
    folder.mkdir(parents=True)
    rec.saving(step)
    (folder / "weights").write_text(f"{rec.attempt} {step}")
    rec.checkpoint(step, folder, recorded_step=step).result()
    replaced = latest.with_suffix(".new")
    replaced.write_text(json.dumps({"step": step, "attempt": rec.attempt}))
    replaced.replace(latest)


def _granted(first: int, last: int) -> Any:
    """The steps, as far as they are granted; ends where nobody grants more."""
    until = 0
    for step in range(first, last + 1):
        while step > until:
            line = sys.stdin.readline()
            if not line:
                return
            until = int(line)
        yield step


def _say(**said: int) -> None:
    print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main(Asked(**json.loads(sys.argv[1])))
