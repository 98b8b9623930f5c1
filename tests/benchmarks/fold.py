"""How fast history becomes state, and how fast any past state is read, as ratios within one run.

    python tests/benchmarks/fold.py                              # 10 k, 100 k and 1 M events on SQLite: half an hour or less
    python tests/benchmarks/fold.py --events 10000,100000 --stores sqlite,postgres --folder /var/tmp/histories
    python tests/benchmarks/fold.py --quick                      # does it run? Its rates mean nothing

- rebuild: from the log in its database to a new generation in the same database, until it could follow the head;
- fold alone: streams that lie in memory become intervals, nothing is read or written;
- repository.get: the eventsourcing library replays aggregates of the same events from SQLite;
- one source now and at a random past size: on the store, and through a server over gRPC.

Every contestant meets every history once a round, in an order that turns from round to round; ratios are taken inside a
round, of seconds and of CPU seconds: the latter hold on a machine that has other work to do. With a folder that is kept, histories are written once and found again.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from ledger.projections.building import FOLDING, READING, Progress
from ledger.rules.sets import RULE_SETS
from tests.benchmarks import as_of, fold_report
from tests.benchmarks.fold_report import PROCESSES, REPLAY, REPLAY_UNREAD, STORES, Pace, Rate, Reading
from tests.benchmarks.folding_alone import pace_alone
from tests.benchmarks.histories import source_count
from tests.benchmarks.rival_venvs import Driver, driver, rival_python
from tests.benchmarks.written_logs import Home, written

TAKEN: Final = 100_000
"""Events that are folded alone, or replayed, at most."""
REPEATED: Final = 5
"""A short history is folded or replayed again, so many times at most, to last long enough for the clock."""
TURNS: Final = 3_000
"""Of a loop of reads."""
QUICK_EVENTS: Final = 1_200
QUICK_TURNS: Final = 100
DEFAULT_RULES: Final = "ledger-1"


@dataclass(frozen=True)
class Contestant:
    """Something that goes through a whole history, or as much of it as it is given."""

    events: int
    name: str
    pace: Callable[[], Pace]
    """Goes through it once more."""


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    setting = describe(options)
    with ExitStack() as stack:
        folder = stack.enter_context(kept_or_not(options.folder))
        homes = write_all(stack, folder, options, setting)
        contestants = [*rebuilders(homes), *lone_folds(homes), *replayers(stack, folder, options)]
        rates, readings = run_rounds(contestants, homes, options)
    print(render(setting, rates, readings))
    if options.json:
        options.json.write_text(json.dumps(as_json(setting, rates, readings), indent=1) + "\n")


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=f"one round over {QUICK_EVENTS} events, few reads")
    parser.add_argument("--events", type=counts, default=None, help="default: 10000,100000,1000000")
    parser.add_argument("--rounds", type=int, help="default: 3, with --quick 1")
    parser.add_argument("--stores", type=stores, default=["sqlite"], help="default: sqlite")
    parser.add_argument("--rules", choices=sorted(RULE_SETS), default=DEFAULT_RULES, help=f"default: {DEFAULT_RULES}")
    parser.add_argument("--no-rivals", action="store_true", help="the ledger alone")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every single rate there")
    parser.add_argument("--folder", type=Path, help="keeps the histories for the next run; default: a throwaway one")
    parser.add_argument("--venvs", type=Path, default=Path.home() / ".cache" / "atlas-ledger-bench")
    options = parser.parse_args(arguments)
    options.events = options.events or ([QUICK_EVENTS] if options.quick else [10_000, 100_000, 1_000_000])
    options.rounds = options.rounds or (1 if options.quick else 3)
    return options


def counts(text: str) -> list[int]:
    return sorted({int(part) for part in text.split(",")})


def stores(text: str) -> list[str]:
    chosen = text.split(",")
    unknown = set(chosen) - STORES.keys()
    if unknown:
        raise argparse.ArgumentTypeError(f"no such store: {', '.join(sorted(unknown))}; there are {', '.join(STORES)}")
    return chosen


def describe(options: argparse.Namespace) -> dict[str, Any]:
    sources = ", ".join(f"{source_count(events):,} at {events:,} events" for events in options.events)
    setting = {
        "rules": options.rules,
        "sources": sources,
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "load before": f"{os.getloadavg()[0]:.1f}",
    }
    if options.quick:
        setting["note"] = "a quick run: its rates and verdicts mean nothing"
    return setting


@contextmanager
def kept_or_not(folder: Path | None) -> Iterator[Path]:
    """The folder for histories; one that nobody named goes away."""
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        yield folder
        return
    made = Path(tempfile.mkdtemp(prefix="ledger-fold-"))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


Homes = dict[tuple[str, int], Home]
"""By store and events."""


def write_all(stack: ExitStack, folder: Path, options: argparse.Namespace, setting: dict[str, Any]) -> Homes:
    """Every history in every store. `setting` learns what was read back of Postgres."""
    homes: Homes = {}
    if "sqlite" in options.stores:
        homes |= {("sqlite", events): written(folder, options.rules, events) for events in options.events}
    if "postgres" in options.stores:
        # Imported here: a run on SQLite needs neither Postgres nor its driver.
        from tests.benchmarks.ledger_server import make_tables  # noqa: PLC0415
        from tests.benchmarks.throwaway_postgres import throwaway_postgres  # noqa: PLC0415

        cluster = stack.enter_context(throwaway_postgres(Path(tempfile.gettempdir())))
        setting["postgres"] = cluster.describe()
        for events in options.events:
            cluster.create_database(f"fold_{events}")
            uri = cluster.uri(f"fold_{events}")
            make_tables(folder / "tables", uri)
            homes["postgres", events] = written(folder, options.rules, events, uri)
    return homes


def rebuilders(homes: Homes) -> list[Contestant]:
    return [
        Contestant(events, fold_report.rebuild(store, processes), partial(rebuild_pace, home, processes))
        for (store, events), home in homes.items()
        for processes in PROCESSES
    ]


def rebuild_pace(home: Home, processes: int) -> Pace:
    """Of the whole log, until the new generation has folded it; that it equals the one before is checked after that."""
    with home.opened() as (log, projector):
        folded: list[tuple[float, float]] = []

        def told(progress: Progress) -> None:
            if progress.phase not in {READING, FOLDING} and not folded:
                folded.append((time.perf_counter() - started, time.process_time() - cpu))

        started, cpu = time.perf_counter(), time.process_time()
        rebuilt = projector.rebuild(told, processes=processes)
        if not rebuilt.equal or rebuilt.generation.failed_events:
            raise RuntimeError(f"{home.settings.home}: the rebuilt projection is not right: {rebuilt}")
        if not rebuilt.resumed:
            (seconds, cpu_seconds), size = folded[0], log.head().size
            return Pace(size / seconds, size / cpu_seconds if processes == 1 else None)
    return rebuild_pace(home, processes)  # it went on with a build that an interrupted run had left


def lone_folds(homes: Homes) -> list[Contestant]:
    return [
        Contestant(
            events,
            fold_report.fold(processes),
            partial(pace_alone, home, min(events, TAKEN), repeated(events), processes),
        )
        for (store, events), home in homes.items()
        if store == "sqlite"
        for processes in PROCESSES
    ]


def repeated(events: int) -> int:
    """How often a history goes round, where only so many events of it are taken."""
    return max(1, min(REPEATED, TAKEN // events))


def replayers(stack: ExitStack, folder: Path, options: argparse.Namespace) -> list[Contestant]:
    if options.no_rivals or "sqlite" not in options.stores:
        return []
    python = rival_python(options.venvs, "eventsourcing")
    library = stack.enter_context(driver(REPLAY, "rival_replay", python, [str(folder)]))
    return [
        Contestant(events, REPLAY_UNREAD if unread else REPLAY, partial(replay_pace, library, events, unread=unread))
        for events in options.events
        for unread in (False, True)
    ]


def replay_pace(library: Driver, events: int, *, unread: bool) -> Pace:
    answer = library.ask({"events": events, "replayed": min(events, TAKEN) * repeated(events), "unread": unread})
    return Pace(answer["events"] / answer["seconds"], answer["events"] / answer["cpu_seconds"])


def run_rounds(
    contestants: Sequence[Contestant], homes: Homes, options: argparse.Namespace
) -> tuple[list[Rate], list[Reading]]:
    """All rounds. Sources are read at the end of each, when every projection is at its head."""
    rates: list[Rate] = []
    readings: list[Reading] = []
    turns = QUICK_TURNS if options.quick else TURNS
    for number in range(options.rounds):
        for contestant in turned(contestants, number):
            rates.append(Rate(number, contestant.events, contestant.name, contestant.pace()))
            say(number, f"{contestant.events:,} events: {contestant.name}: {rates[-1].pace.rate:,.0f}/s")
        for (store, events), home in homes.items():
            if store == "sqlite":
                for door, found in as_of.loops(home, turns, seed=number).items():
                    readings.append(Reading(number, events, door, found))
                    say(
                        number,
                        f"{events:,} events: one source {door}: p99 {found.now.p99:.2f} and {found.then.p99:.2f} ms",
                    )
    return rates, readings


def say(number: int, text: str) -> None:
    print(f"round {number + 1}, {text}", file=sys.stderr)


def turned(contestants: Sequence[Contestant], number: int) -> list[Contestant]:
    """Another one begins each round, so that nobody always runs after the same neighbour."""
    start = number % len(contestants)
    return [*contestants[start:], *contestants[:start]]


def render(setting: dict[str, Any], rates: Sequence[Rate], readings: Sequence[Reading]) -> str:
    lines = [f"{name}: {value}" for name, value in setting.items()]
    lines += ["", "Medians (least-most) of the rounds; ratios are taken inside each round.", ""]
    lines += [fold_report.rate_table(rates), ""]
    if readings:
        lines += ["Milliseconds.", "", fold_report.reading_table(readings), ""]
    return "\n".join([*lines, *fold_report.goals(rates, readings)])


def as_json(setting: dict[str, Any], rates: Sequence[Rate], readings: Sequence[Reading]) -> dict[str, Any]:
    return {
        "setting": setting,
        "rates": [asdict(rate) for rate in rates],
        "readings": [asdict(reading) for reading in readings],
        "goals": fold_report.goals(rates, readings),
    }


if __name__ == "__main__":
    main()
