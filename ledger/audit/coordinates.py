"""Coordinates: where a question stands, and where its answer stood.

`at` is a size N (the first N events) or a recorded time T (N = the events recorded at or before T). The rules are those
in force at N, the last promotion before N, unless a set is named. Every answer echoes its coordinates; asked again with
them it is the same.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ledger.core.errors import LedgerError, NotFound, Unavailable
from ledger.log.log import Log
from ledger.log.model import Filter
from ledger.projections.generations import GenerationRow, Generations
from ledger.projections.promotions import PROMOTED, Promotion, promotion_of

WAIT_SECONDS: Final = 0.02


@dataclass(frozen=True, slots=True)
class At:
    """A question's coordinates. Without size and time: now."""

    size: int | None = None
    recorded_at_us: int | None = None
    rules: str = ""
    min_size: int = 0
    final: bool = True
    """Of a size: false where a page goes on with an answer that was not final."""


@dataclass(frozen=True, slots=True)
class Moment:
    """An answer's coordinates."""

    size: int
    recorded_at_us: int | None
    final: bool
    rules: str
    rules_digest: str
    redactions_through: int
    generation: GenerationRow | None
    """Whose rows answer; None while no rules are in force."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a question stands in the log as it is now; size None: wherever the projection stands."""

    size: int | None
    final: bool


class Clockwork:
    """Turns questions' coordinates into answers'. Safe to use from many threads."""

    def __init__(self, log: Log, generations: Generations) -> None:
        self._log = log
        self._generations = generations
        self._reading = threading.Lock()
        self._promotions: list[Promotion] = []  # this and the next two are guarded by _reading
        self._redactions_through = 0
        self._read_to = 0

    def moment(self, at: At, *, deadline: float | None = None, cancelled: Callable[[], bool] = lambda: False) -> Moment:
        """Where an answer stands, waiting for the projection if it must.

        Args:
            at: The question's coordinates.
            deadline: On the monotonic clock; None: do not wait.
            cancelled: Says that nobody waits for the answer any more.

        Raises:
            NotFound: a size beyond the log's, or rules that no generation holds.
            Unavailable: reason BEHIND when the projection has not come so far in time.
        """
        while True:
            row = self._generations.live()
            watermark = row.size if row else 0
            place = self._place(at)
            needed = max(place.size or 0, at.min_size)
            if watermark >= needed:
                return self._moment(at, row, watermark if place.size is None else place.size, final=place.final)
            if cancelled() or deadline is None or time.monotonic() + WAIT_SECONDS >= deadline:
                raise _behind(watermark, needed, self._log.head().size)
            self._log.growth.want()
            time.sleep(WAIT_SECONDS)

    def _place(self, at: At) -> _Place:
        # The head is read before the log is searched: what is recorded in between can then only make less final.
        head = self._log.head()
        if at.size is not None:
            if at.size > max(head.size, at.min_size):
                raise NotFound(
                    f"the log holds {head.size} events, not {at.size}",
                    remedy="Ask for a size that the log has reached, or wait for more with min_size (--min-size).",
                    details={"size": str(head.size)},
                )
            return _Place(at.size, final=at.final)
        if at.recorded_at_us is not None:
            return _Place(self._log.size_at(at.recorded_at_us), final=at.recorded_at_us <= head.recorded_at_us)
        return _Place(None, final=False)

    def _moment(self, at: At, row: GenerationRow | None, size: int, *, final: bool) -> Moment:
        if at.rules and (row is None or row.identity.rules != at.rules):
            raise NotFound(
                f"no generation holds the rules {at.rules!r}",
                remedy="`ledger projection list` names the rule sets that can be asked.",
            )
        promotion, redactions_through = self._policy_at(size)
        answering = promotion.identity if promotion else None
        if at.rules and row is not None:
            answering = row.identity
        return Moment(
            size=size,
            recorded_at_us=self._log.store.recorded_at(size - 1) if size else None,
            final=final,
            rules=answering.rules if answering else "",
            rules_digest=answering.rules_digest if answering else "",
            redactions_through=redactions_through,
            generation=row if answering else None,
        )

    def _policy_at(self, size: int) -> tuple[Promotion | None, int]:
        """The promotion in force at a size, and how far redactions are honoured."""
        with self._reading:
            self._read_policy()
            in_force = next((p for p in reversed(self._promotions) if p.pos < size), None)
            return in_force, self._redactions_through

    def _read_policy(self) -> None:
        """What the stream `ledger` says of promotions and redactions, since the last look."""
        size = self._log.head().size
        match = Filter(streams=("ledger",), types=(PROMOTED, "event.redacted", "artifact.redacted"))
        for event in self._log.store.read_all(self._read_to, size, match=match):
            if event.type != PROMOTED:
                self._redactions_through = event.pos + 1
            elif promotion := promotion_of(event, self._log):
                self._promotions.append(promotion)
        self._read_to = size


def _behind(watermark: int, needed: int, log_size: int) -> LedgerError:
    if needed > log_size:
        message = f"the log holds {log_size} events, the question asks for at least {needed}"
    else:
        message = f"the projection has folded {watermark} events, the question needs {needed}"
    return Unavailable(
        message,
        reason="BEHIND",
        remedy="Ask again with a longer deadline (--timeout), or for a smaller min_size (--min-size).",
        details={"size": str(watermark), "needed": str(needed), "log_size": str(log_size)},
    )
