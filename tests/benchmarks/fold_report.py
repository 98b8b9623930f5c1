"""What the fold's benchmark found: tables, ratios taken inside each round, and whether the goals were reached."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tests.benchmarks.as_of import Loop
from tests.benchmarks.report import Spread

REBUILD: Final = "rebuild, {store}, {processes}"
FOLD: Final = "fold alone, {processes}"
REPLAY: Final = "eventsourcing repository.get, SQLite"
REPLAY_UNREAD: Final = "the same, payloads kept as text and not read"
PROCESSES: Final = {1: "1 process", 2: "2 processes"}
STORES: Final = {"sqlite": "SQLite", "postgres": "Postgres"}

REBUILD_GOAL: Final = 3.0
FOLD_GOAL: Final = 1.7
FLAT_GOAL: Final = 0.8
AS_OF_GOAL: Final = 1.2


def rebuild(store: str, processes: int) -> str:
    return REBUILD.format(store=STORES[store], processes=PROCESSES[processes])


def fold(processes: int) -> str:
    return FOLD.format(processes=PROCESSES[processes])


@dataclass(frozen=True)
class Pace:
    """How fast something was."""

    rate: float
    """Events a second."""
    cpu_rate: float | None = None
    """Events a second of its busiest process's CPU time, where that is known: what others on the machine do disturbs
    it less."""


@dataclass(frozen=True)
class Rate:
    """The pace of one contestant over one history in one round."""

    round: int
    events: int
    contestant: str
    pace: Pace


@dataclass(frozen=True)
class Reading:
    """One loop of reads, now and then."""

    round: int
    events: int
    door: str
    loop: Loop


Key = tuple[int, str]
"""The history's events, and the contestant."""
Measure = Callable[[Rate], float | None]


def by_clock(rate: Rate) -> float | None:
    return rate.pace.rate


def by_cpu(rate: Rate) -> float | None:
    return rate.pace.cpu_rate


def ratios(rates: Sequence[Rate], over: Key, under: Key, by: Measure = by_clock) -> Spread | None:
    """The first's rate over the second's, in each round that has both."""
    found = {(r.round, r.events, r.contestant): by(r) for r in rates}
    pairs = [(found.get((n, *over)), found.get((n, *under))) for n in sorted({r.round for r in rates})]
    return Spread.of(a / b for a, b in pairs if a is not None and b is not None)


def as_of_ratio(readings: Sequence[Reading], events: int, door: str) -> Spread | None:
    """The 99th percentile then over the one now, in each round."""
    mine = [r.loop for r in readings if (r.events, r.door) == (events, door)]
    return Spread.of(loop.then.p99 / loop.now.p99 for loop in mine)


def rate_table(rates: Sequence[Rate]) -> str:
    """One line a history and contestant, as Markdown."""
    lines = [
        "| events | | events/s | times repository.get | events/CPU s | times repository.get |",
        "| --: | :-- | --: | --: | --: | --: |",
    ]
    for events, contestant in dict.fromkeys((r.events, r.contestant) for r in rates):
        cells = [f"{events:,}", contestant]
        for by in (by_clock, by_cpu):
            mine = (by(r) for r in rates if (r.events, r.contestant) == (events, contestant))
            beside = ratios(rates, (events, contestant), (events, REPLAY), by)
            cells += [_text(Spread.of(rate for rate in mine if rate is not None), 0), _text(beside, 2)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _text(found: Spread | None, digits: int) -> str:
    return found.text(digits) if found else ""


def reading_table(readings: Sequence[Reading]) -> str:
    """One line a history and door, as Markdown; milliseconds."""
    lines = [
        "| events | one source, read | now p50 | then p50 | now p99 | then p99 | p99 then / now |",
        "| --: | :-- | --: | --: | --: | --: | --: |",
    ]
    for events, door in dict.fromkeys((r.events, r.door) for r in readings):
        mine = [r.loop for r in readings if (r.events, r.door) == (events, door)]
        columns = zip(*((o.now.p50, o.then.p50, o.now.p99, o.then.p99) for o in mine), strict=True)
        spreads = [*map(Spread.of, columns), as_of_ratio(readings, events, door)]
        cells = [spread.text(2) for spread in spreads if spread is not None]
        lines.append(f"| {events:,} | {door} | {' | '.join(cells)} |")
    return "\n".join(lines)


def goals(rates: Sequence[Rate], readings: Sequence[Reading]) -> list[str]:
    return [*_rate_goals(rates), *_reading_goals(readings)]


def _rate_goals(rates: Sequence[Rate]) -> Iterator[str]:
    one = rebuild("sqlite", 1)
    histories = sorted({r.events for r in rates})

    def goal(text: str, over: Key, under: Key, factor: float) -> str:
        by_time = _verdict(text, ratios(rates, over, under), at_least=factor)
        cpu = ratios(rates, over, under, by_cpu)
        return by_time if cpu is None else f"{by_time}; by CPU time {cpu.text(2)}"

    for events in histories:
        yield goal(f"{one}, {events:,} events, over repository.get", (events, one), (events, REPLAY), REBUILD_GOAL)
    for events in histories:
        text = f"the fold alone, {events:,} events, 2 processes over 1"
        yield goal(text, (events, fold(2)), (events, fold(1)), FOLD_GOAL)
    for most in histories[1:]:
        text = f"{one}, {most:,} events over {histories[0]:,}"
        yield goal(text, (most, one), (histories[0], one), FLAT_GOAL)


def _reading_goals(readings: Sequence[Reading]) -> Iterator[str]:
    for events, door in dict.fromkeys((r.events, r.door) for r in readings):
        found = as_of_ratio(readings, events, door)
        yield _verdict(f"one source {door}, {events:,} events, p99 then over now", found, at_most=AS_OF_GOAL)


def _verdict(text: str, found: Spread | None, *, at_least: float = 0.0, at_most: float | None = None) -> str:
    goal = f"at least {at_least}" if at_most is None else f"at most {at_most}"
    if found is None:
        return f"not measured: {text}: {goal}"
    reached = found.median >= at_least and (at_most is None or found.median <= at_most)
    return f"{'reached' if reached else 'NOT reached'}: {text}: {found.text(2)}, {goal}"
