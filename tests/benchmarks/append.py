"""Durable appends a second over gRPC, beside what others reach with the same events on the same machine.

    python tests/benchmarks/append.py                     # the whole table: about ten minutes on an idle machine
    python tests/benchmarks/append.py --quick             # everything once, small: does it run? Its rates mean nothing
    python tests/benchmarks/append.py --stores sqlite --no-rivals

Every contestant meets every cell once a round, in an order that turns from round to round; ratios are taken inside a round.
What counts as durable is each one's own promise: Postgres with fsync and synchronous_commit on, SQLite in WAL with
synchronous=FULL, umadb as it ships.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from ledger.events import REGISTRY
from tests.benchmarks import report
from tests.benchmarks.contestants import FULL, LEDGER, QUICK, RECORDER, UMADB, Cell, Contestant, Key
from tests.benchmarks.ledger_server import Ledger, ProjectorRate, free_port, ledger, make_tables
from tests.benchmarks.rival_venvs import rival, rival_python
from tests.benchmarks.workload import PAYLOAD_MAKERS, STREAMS, Workload

WARM_UP_GIGABYTES: Final = 1.5
ALONE: Final[set[Key]] = {cell.key for cell in FULL if cell.clients == 1}
HANGS: Final[set[Key]] = {(1, 1000)}
"""The eventsourcing library's Postgres recorder waits for ever at a megabyte a call over a Unix socket."""

Results = tuple[list[report.Rate], dict[str, ProjectorRate]]


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    workload = Workload(options.type)
    prove(workload)
    cells = QUICK if options.quick else FULL
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="ledger-bench-", dir=options.data))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        setting = describe(workload)
        if options.quick:
            setting["note"] = "a quick run: its rates and verdicts mean nothing"
        contestants = enter_all(stack, folder, options, workload, setting)
        rates, folds = run_rounds(contestants, cells, options.rounds)
    print(render(setting, rates, folds))
    if options.json:
        options.json.write_text(json.dumps(as_json(setting, rates, folds), indent=1) + "\n")


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small cells, no warm-up of Postgres, one round")
    parser.add_argument("--rounds", type=int, help="default: 5, with --quick 1")
    parser.add_argument("--stores", default="postgres,sqlite", type=stores, help="default: postgres,sqlite")
    parser.add_argument("--no-rivals", action="store_true", help="the ledger alone")
    parser.add_argument("--type", choices=PAYLOAD_MAKERS, default=next(iter(PAYLOAD_MAKERS)), help="of the events")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every single rate there")
    parser.add_argument("--data", type=Path, default=Path("/tmp"), help="where databases go: the disk to be measured")
    parser.add_argument("--venvs", type=Path, default=Path.home() / ".cache" / "atlas-ledger-bench")
    options = parser.parse_args(arguments)
    options.rounds = options.rounds or (1 if options.quick else 5)
    return options


def stores(text: str) -> list[str]:
    chosen = text.split(",")
    unknown = set(chosen) - LEDGER.keys()
    if unknown:
        raise argparse.ArgumentTypeError(f"no such store: {', '.join(sorted(unknown))}; there are {', '.join(LEDGER)}")
    return chosen


def prove(workload: Workload) -> None:
    """Refuses to measure payloads that the ledger would take the slow way."""
    quick = REGISTRY.get(workload.event_type, 1).quick
    if quick is None or not all(map(quick, workload.payloads())):
        raise RuntimeError(f"a payload of {workload.event_type} does not pass the quick check")


def describe(workload: Workload) -> dict[str, Any]:
    return {
        "events": f"{workload.event_type}, payload of {workload.payload_bytes} bytes, 2 tags, {STREAMS} streams",
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "load before": f"{os.getloadavg()[0]:.1f}",
    }


def enter_all(
    stack: ExitStack, folder: Path, options: argparse.Namespace, workload: Workload, setting: dict[str, Any]
) -> list[Contestant]:
    """Everyone who takes part, started. `setting` learns what was read back of Postgres."""
    contestants: list[Contestant] = []
    if "postgres" in options.stores:
        contestants += stack.enter_context(on_postgres(folder, options, workload, setting))
    if "sqlite" in options.stores:
        contestants += stack.enter_context(on_sqlite(folder, options, workload))
    if not options.no_rivals:
        python = rival_python(options.venvs, UMADB)
        arguments = [str(folder), str(free_port()), workload.event_type]
        everywhere = {cell.key for cell in FULL}
        contestants.append(stack.enter_context(rival(UMADB, "rival_umadb", python, arguments, everywhere)))
    return contestants


@contextlib.contextmanager
def on_postgres(
    folder: Path, options: argparse.Namespace, workload: Workload, setting: dict[str, Any]
) -> Iterator[list[Contestant]]:
    # Imported here: a run on SQLite needs neither Postgres nor its driver.
    from tests.benchmarks.postgres_rivals import Lockers, RawCopy, make_turns  # noqa: PLC0415
    from tests.benchmarks.throwaway_postgres import throwaway_postgres  # noqa: PLC0415

    with ExitStack() as stack:
        cluster = stack.enter_context(throwaway_postgres(options.data))
        setting["postgres"] = cluster.describe()
        if not options.quick:
            cluster.warm_up(WARM_UP_GIGABYTES)
        for database in ("ledger", "raw", "lockers", "eventsourcing"):
            cluster.create_database(database)
        make_tables(folder / "ledger", cluster.uri("ledger"))
        server = ledger(LEDGER["postgres"], folder / "on-postgres", cluster.uri("ledger"), workload)
        contestants: list[Contestant] = [stack.enter_context(server)]
        if not options.no_rivals:
            for database in ("raw", "lockers"):
                make_tables(folder / database, cluster.uri(database))
            make_turns(cluster.uri("lockers"))
            raw = stack.enter_context(contextlib.closing(RawCopy(cluster.uri("raw"), workload)))
            lockers = [
                stack.enter_context(contextlib.closing(Lockers(cluster, "lockers", workload, pipelined=pipelined)))
                for pipelined in (False, True)
            ]
            place = ["postgres", str(cluster.socket_dir)]
            contestants += [raw, *lockers, stack.enter_context(recorder("postgres", place, options, ALONE - HANGS))]
        yield contestants


@contextlib.contextmanager
def on_sqlite(folder: Path, options: argparse.Namespace, workload: Workload) -> Iterator[list[Contestant]]:
    with ExitStack() as stack:
        contestants: list[Contestant] = [
            stack.enter_context(ledger(LEDGER["sqlite"], folder / "on-sqlite", None, workload))
        ]
        if not options.no_rivals:
            place = ["sqlite", str(folder / "eventsourcing.db")]
            contestants.append(stack.enter_context(recorder("sqlite", place, options, ALONE)))
        yield contestants


def recorder(
    store: str, place: list[str], options: argparse.Namespace, cells: set[Key]
) -> contextlib.AbstractContextManager[Contestant]:
    python = rival_python(options.venvs, "eventsourcing")
    return rival(RECORDER[store], "rival_eventsourcing", python, [*place, options.type], cells)


def run_rounds(contestants: Sequence[Contestant], cells: Sequence[Cell], rounds: int) -> Results:
    """All rounds. The projectors are measured first, while the logs hold nothing else."""
    folds = {c.name: c.fold_parts() for c in contestants if isinstance(c, Ledger)}
    rates: list[report.Rate] = []
    for number in range(rounds):
        for cell in cells:
            rates += [measure(number, cell, c) for c in turned(contestants, number) if c.takes(cell)]
    return rates, folds


def measure(number: int, cell: Cell, contestant: Contestant) -> report.Rate:
    rate = cell.events / contestant.seconds(cell)
    contestant.rest()
    print(f"round {number + 1}, {cell}: {contestant.name}: {rate:,.0f}/s", file=sys.stderr)
    return report.Rate(number, cell.key, contestant.name, rate)


def turned(contestants: Sequence[Contestant], number: int) -> list[Contestant]:
    """Another one begins each round, so that nobody always runs after the same neighbour."""
    start = number % len(contestants)
    return [*contestants[start:], *contestants[:start]]


def render(setting: dict[str, Any], rates: Sequence[report.Rate], folds: dict[str, ProjectorRate]) -> str:
    lines = [f"{name}: {value}" for name, value in setting.items()]
    lines += [
        "",
        "Medians (least-most) of the rounds; ratios are taken inside each round.",
        "",
        report.table(rates),
        "",
    ]
    lines += [
        f"projector, {name}: {fold.events / fold.seconds:,.0f} events/s ({fold.events:,} events folded from the first on)"
        for name, fold in folds.items()
    ]
    if any(rate.contestant == RECORDER["postgres"] for rate in rates):
        lines.append("eventsourcing's Postgres recorder is left out at 1000 a message: it hangs there.")
    return "\n".join([*lines, "", *report.goals(rates)])


def as_json(setting: dict[str, Any], rates: Sequence[report.Rate], folds: dict[str, ProjectorRate]) -> dict[str, Any]:
    return {
        "setting": setting,
        "rates": [asdict(rate) for rate in rates],
        "projector": {name: asdict(fold) for name, fold in folds.items()},
        "goals": report.goals(rates),
    }


if __name__ == "__main__":
    main()
