"""What recording costs a training loop, and how fast what was recorded reaches a ledger, beside MLflow and ml-metadata.

    python tests/benchmarks/recorder.py                 # a few minutes on an idle machine
    python tests/benchmarks/recorder.py --quick         # everything once, small: does it run? Its numbers mean nothing

MLFLOW_PYTHON and MLMD_PYTHON name the Pythons of environments that hold `mlflow` (or mlflow-skinny with sqlalchemy and
alembic) and `ml-metadata`. A rival whose variable is not set is left out, and the table says so.

A step has 100 metrics. It is timed call by call, beside a bare `os.write` of as many bytes: in a tight loop, and with a
pause between, as a training loop has, where caches are cold for both. A recorder is given one record a call, as a loop
has them; ml-metadata is shown at one a call too, and at a hundred. End to end means: until the ledger, on SQLite with
every commit on the disk, has answered all of it. Ratios are taken inside a round.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

from ledger.client import Recorder
from tests.benchmarks.ledger_server import served
from tests.benchmarks.report import Spread
from tests.benchmarks.rival_venvs import Driver, driver

METRICS: Final = {f"group/metric_{n}": n * 0.3712345 + 1 for n in range(100)}
STEP_BYTES: Final = 2_900
"""About what the draft of such a step takes."""
TEXT: Final = "The answer handles the empty case and the bound. " * 9
PAUSE: Final = 0.001
NOWHERE: Final = "127.0.0.1:9"
RIVALS: Final = {"mlflow": "MLFLOW_PYTHON", "ml-metadata": "MLMD_PYTHON"}
PATIENCE: Final = 300.0


@dataclass(frozen=True)
class Size:
    """How much is measured in a round."""

    timed_steps: int
    sent_steps: int
    rival_steps: int
    mlmd_calls: int
    records: int
    rounds: int


FULL: Final = Size(timed_steps=3_000, sent_steps=5_000, rival_steps=100, mlmd_calls=20, records=10_000, rounds=5)
QUICK: Final = Size(timed_steps=50, sent_steps=50, rival_steps=3, mlmd_calls=2, records=100, rounds=1)


@dataclass(frozen=True)
class Timed:
    """Microseconds of one call, over one round."""

    round: int
    what: str
    paused: bool
    median: float
    p99: float


@dataclass(frozen=True)
class Sent:
    """How many a second were answered, over one round."""

    round: int
    what: str
    rate: float


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    size = QUICK if options.quick else FULL
    folder = Path(tempfile.mkdtemp(prefix="ledger-recorder-", dir=options.data))
    timed: list[Timed] = []
    sent: list[Sent] = []
    try:
        with ExitStack() as stack:
            address = stack.enter_context(served(folder / "home"))
            rivals = {name: stack.enter_context(started(name, folder)) for name in RIVALS}
            for number in range(options.rounds or size.rounds):
                timed += list(time_steps(number, size, address, folder / f"steps-{number}"))
                sent += list(send_all(number, size, address, folder / f"sent-{number}", rivals))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(render(timed, sent, quick=options.quick))
    if options.json:
        found = {"timed": [asdict(t) for t in timed], "sent": [asdict(s) for s in sent], "goals": goals(timed, sent)}
        options.json.write_text(json.dumps(found, indent=1) + "\n")


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small, one round")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every number there")
    parser.add_argument("--data", type=Path, default=Path("/tmp"), help="where spools and databases go")
    return parser.parse_args(arguments)


@contextmanager
def started(name: str, folder: Path) -> Iterator[Driver | None]:
    """A rival's driver; None where the environment names no Python for it."""
    python = os.environ.get(RIVALS[name])
    if not python:
        print(f"LEFT OUT: {name}: set {RIVALS[name]} to a Python that has it", file=sys.stderr)
        yield None
        return
    place = folder / name
    place.mkdir()
    with driver(name, f"rival_{'mlflow' if name == 'mlflow' else 'mlmd'}", Path(python), [str(place)]) as ready:
        yield ready


# What a step costs


def time_steps(number: int, size: Size, address: str, folder: Path) -> Iterator[Timed]:
    for paused in (False, True):
        place = folder / ("paused" if paused else "tight")
        place.mkdir(parents=True)
        for what, open_one in CALLS.items():
            with open_one(address, place / what.replace(" ", "-")) as call:
                took = sorted(microseconds(call, size.timed_steps, paused=paused))
            yield Timed(number, what, paused, took[len(took) // 2], took[int(len(took) * 0.99)])


def microseconds(call: Callable[[int], object], steps: int, *, paused: bool) -> Iterator[float]:
    for step in range(1, steps + 1):
        started_ns = time.perf_counter_ns()
        call(step)
        yield (time.perf_counter_ns() - started_ns) / 1_000
        if paused:
            time.sleep(PAUSE)


@contextmanager
def bare_write(_address: str, file: Path) -> Iterator[Callable[[int], object]]:
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    data = b"x" * STEP_BYTES
    try:
        yield lambda _step: os.write(handle, data)
    finally:
        os.close(handle)


@contextmanager
def recording(address: str | None, spool: Path, close_timeout: float = PATIENCE) -> Iterator[Callable[[int], object]]:
    run = f"bench/{spool.parent.parent.name}/{spool.parent.name}/{spool.name}"
    with Recorder(address, run=run, spool=spool, rank=0, close_timeout=close_timeout) as rec:
        yield lambda step: rec.step(step, METRICS, weight_version=step - 1)


BARE: Final = "bare write"
UP: Final = "server up"
DOWN: Final = "server down"
OFFLINE: Final = "no server"
CALLS: Final = {
    BARE: bare_write,
    OFFLINE: lambda _address, spool: recording(None, spool, 0.0),
    UP: recording,
    DOWN: lambda _address, spool: recording(NOWHERE, spool, 0.0),
}


# How fast it gets there


def send_all(number: int, size: Size, address: str, folder: Path, rivals: dict[str, Driver | None]) -> Iterator[Sent]:
    folder.mkdir()
    yield Sent(
        number, "metrics", size.sent_steps * len(METRICS) / send_steps(address, folder / "steps", size.sent_steps)
    )
    if (mlflow := rivals["mlflow"]) is not None:
        seconds = float(mlflow.ask({"steps": size.rival_steps, "metrics": len(METRICS)})["seconds"])
        yield Sent(number, "metrics, mlflow", size.rival_steps * len(METRICS) / seconds)
    yield Sent(number, "records", size.records / send_records(address, folder / "records", size.records))
    if (mlmd := rivals["ml-metadata"]) is not None:
        for batch in (1, 100):
            count = size.mlmd_calls * batch
            asked = {"records": count, "text": TEXT, "batch": batch}
            seconds = float(mlmd.ask(asked)["seconds"])
            yield Sent(number, f"records, ml-metadata, {batch} a call", count / seconds)


def send_steps(address: str, spool: Path, steps: int) -> float:
    return send(address, spool, lambda rec: [rec.step(s, METRICS) for s in range(1, steps + 1)])


def send_records(address: str, spool: Path, records: int) -> float:
    """Records of about half a kilobyte, validated by their model and searched for secrets."""

    def record(rec: Recorder) -> list[Any]:
        return [rec.record("anomaly.claimed", {"kind": "other", "statement": f"{TEXT}{n}"}) for n in range(records)]

    return send(address, spool, record)


def send(address: str, spool: Path, record: Callable[[Recorder], list[Any]]) -> float:
    """Seconds from the first call to the last answer."""
    run = f"bench/{spool.parent.name}/{spool.name}"
    with Recorder(address, run=run, spool=spool, rank=0, strict=True) as rec:
        started = time.perf_counter()
        made = record(rec)
        report = rec.flush(PATIENCE)
        seconds = time.perf_counter() - started
    if None in made or not report.complete or report.answered != len(made):
        raise RuntimeError(f"not all of it arrived: {report}")
    return seconds


# What is told of it


def render(timed: Sequence[Timed], sent: Sequence[Sent], *, quick: bool) -> str:
    lines = [
        f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}",
        *(["a quick run: its numbers mean nothing"] if quick else []),
        "",
        "| µs a step of 100 metrics | tight loop: median | p99 | beside a bare write | paused: median | p99 | beside |",
        "| :-- | --: | --: | --: | --: | --: | --: |",
    ]
    for what in CALLS:
        cells = [cell for paused in (False, True) for cell in step_cells(timed, what, paused=paused)]
        lines.append(f"| {what} | {' | '.join(cells)} |")
    lines += ["", "| end to end | a second | ratio |", "| :-- | --: | --: |"]
    for what in dict.fromkeys(s.what for s in sent):
        ours = what.partition(",")[0]
        ratio = "" if what == ours else f"{text(ratios(sent, ours, what), 1)} times"
        lines.append(f"| {what} | {text(Spread.of(s.rate for s in sent if s.what == what), 0)} | {ratio} |")
    return "\n".join([*lines, "", *goals(timed, sent)])


def step_cells(timed: Sequence[Timed], what: str, *, paused: bool) -> list[str]:
    chosen = [t for t in timed if t.what == what and t.paused == paused]
    beside = text(step_ratio(timed, what, paused=paused), 1)
    return [f"{median(t.median for t in chosen):.1f}", f"{median(t.p99 for t in chosen):.1f}", beside]


def goals(timed: Sequence[Timed], sent: Sequence[Sent]) -> list[str]:
    lines = []
    for what, paused in ((UP, False), (DOWN, False), (UP, True), (DOWN, True)):
        over = Spread.of(beyond(timed, what, paused=paused))
        told = f"{what}, {'with a pause' if paused else 'tight loop'}: below 50 µs a step beside the write"
        lines.append(
            f"not measured: {told}" if over is None else f"{verdict(over.median < 50)}: {told}: {over.text(1)}"
        )
    for ours, rival in (
        ("metrics", "mlflow"),
        ("records", "ml-metadata, 1 a call"),
        ("records", "ml-metadata, 100 a call"),
    ):
        spread = ratios(sent, ours, f"{ours}, {rival}")
        told = f"at least 20 times the {ours} of {rival}"
        lines.append(
            f"not measured: {told}" if spread is None else f"{verdict(spread.median >= 20)}: {told}: {text(spread, 1)}"
        )
    return lines


def verdict(reached: bool) -> str:
    return "reached" if reached else "NOT reached"


def beyond(timed: Sequence[Timed], what: str, *, paused: bool) -> list[float]:
    """How much longer a step takes than the bare write, in each round."""
    bare = {t.round: t.median for t in timed if t.what == BARE and t.paused == paused}
    return [t.median - bare[t.round] for t in timed if t.what == what and t.paused == paused]


def step_ratio(timed: Sequence[Timed], what: str, *, paused: bool) -> Spread | None:
    bare = {t.round: t.median for t in timed if t.what == BARE and t.paused == paused}
    return Spread.of(t.median / bare[t.round] for t in timed if t.what == what and t.paused == paused)


def ratios(sent: Sequence[Sent], ours: str, rival: str) -> Spread | None:
    found = {(s.round, s.what): s.rate for s in sent}
    rounds = {s.round for s in sent}
    return Spread.of(found[n, ours] / found[n, rival] for n in rounds if (n, rival) in found)


def text(spread: Spread | None, digits: int) -> str:
    return spread.text(digits) if spread is not None else "not measured"


if __name__ == "__main__":
    main()
