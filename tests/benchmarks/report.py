"""From rates to a table: medians, ratios taken inside each round, and whether the goals were reached.

The machine's speed drifts, so a rate is compared only with a rate of the same round; the median is taken of the ratios.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from tests.benchmarks.contestants import LEDGER, LOCKERS, RECORDER, UMADB, Key


@dataclass(frozen=True)
class Rate:
    """Events a second that one contestant reached in one cell of one round."""

    round: int
    key: Key
    contestant: str
    rate: float


@dataclass(frozen=True)
class Spread:
    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread | None:
        found = sorted(values)
        return cls(median(found), found[0], found[-1]) if found else None

    def text(self, digits: int) -> str:
        return f"{self.median:,.{digits}f} ({self.low:,.{digits}f}-{self.high:,.{digits}f})"


@dataclass(frozen=True)
class Goal:
    """The ledger on Postgres, in one cell, at least so many times a rival in another."""

    text: str
    key: Key
    rival: str
    rival_key: Key
    factor: float

    def verdict(self, rates: Sequence[Rate]) -> str:
        spread = ratios(rates, (LEDGER["postgres"], self.key), (self.rival, self.rival_key))
        if spread is None:
            return f"not measured: {self.text}"
        reached = "reached" if spread.median >= self.factor else "NOT reached"
        return f"{reached}: {self.text}: {spread.text(2)}"


GOALS: Final = (
    Goal("32 clients at 100 a message, at least 20 times the 32 lockers", (32, 100), LOCKERS, (32, 1), 20),
    Goal("one client at 100 a message, at least 0.8 times umadb", (1, 100), UMADB, (1, 100), 0.8),
    Goal(
        "one client at 100 a message, at least 1.5 times the Postgres recorder",
        (1, 100),
        RECORDER["postgres"],
        (1, 100),
        1.5,
    ),
)


def spread(rates: Sequence[Rate], contestant: str, key: Key) -> Spread | None:
    return Spread.of(r.rate for r in rates if r.contestant == contestant and r.key == key)


def ratios(rates: Sequence[Rate], over: tuple[str, Key], under: tuple[str, Key]) -> Spread | None:
    """The first contestant's rate over the second's, in each round that has both."""
    found = {(r.round, r.contestant, r.key): r.rate for r in rates}
    rounds = sorted({r.round for r in rates})
    pairs = [(found.get((n, *over)), found.get((n, *under))) for n in rounds]
    return Spread.of(a / b for a, b in pairs if a is not None and b is not None)


def table(rates: Sequence[Rate]) -> str:
    """One line a cell and contestant, as Markdown."""
    ledgers = [name for name in LEDGER.values() if any(r.contestant == name for r in rates)]
    lines = [
        _line("clients", "events a message", "", "events/s", *(f"{name} is so many times that" for name in ledgers))
    ]
    lines.append(_line("--:", "--:", ":--", "--:", *("--:" for _ in ledgers)))
    for key in dict.fromkeys(r.key for r in rates):
        for contestant in dict.fromkeys(r.contestant for r in rates if r.key == key):
            reached = spread(rates, contestant, key)
            assert reached is not None
            cells = [_ratio(rates, ledger, contestant, key) for ledger in ledgers]
            lines.append(_line(str(key[0]), str(key[1]), contestant, reached.text(0), *cells))
    return "\n".join(lines)


def goals(rates: Sequence[Rate]) -> list[str]:
    return [goal.verdict(rates) for goal in GOALS]


def _ratio(rates: Sequence[Rate], ledger: str, contestant: str, key: Key) -> str:
    if contestant == ledger:
        return "1"
    found = ratios(rates, (ledger, key), (contestant, key))
    return found.text(2) if found else ""


def _line(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"
