"""When a call may be repeated, and how long to wait before it is.

Every call of the ledger is safe to repeat. What is worth repeating is what another moment may answer otherwise: nobody
there, a full queue, no answer in time. The delay doubles, is drawn at random below its bound so that many callers do
not return at once, and is never shorter than the server asked for.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from ledger.core.errors import LedgerError

_REPEATED: Final = frozenset({"UNAVAILABLE", "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED"})


def is_repeatable(error: LedgerError) -> bool:
    """Whether another try may succeed."""
    return error.door.grpc in _REPEATED


@dataclass(frozen=True)
class Patience:
    """How long to try. Clock, sleep and chance are given, so that a test can stand in for them."""

    total: float = 60.0
    """Seconds from the first try, or the last success, to giving up."""
    first: float = 0.1
    longest: float = 5.0
    sleep: Callable[[float], object] = time.sleep
    now: Callable[[], float] = time.monotonic
    chance: Callable[[], float] = random.random

    def start(self) -> Attempts:
        return Attempts(self)


@dataclass
class Attempts:
    """The tries of one piece of work. Owned by the one thread that does it."""

    patience: Patience
    _failed: int = 0
    _until: float = field(init=False)

    def __post_init__(self) -> None:
        self.succeeded()

    @property
    def left(self) -> float:
        """Seconds until it is given up."""
        return self._until - self.patience.now()

    def succeeded(self) -> None:
        """Something came through: the time counts from here again."""
        self._failed = 0
        self._until = self.patience.now() + self.patience.total

    def failed(self, error: LedgerError) -> None:
        """Waits before the next try, or raises the error when there is to be none."""
        delay = self._delay(error)
        if not is_repeatable(error) or delay >= self.left:
            raise error
        self._failed += 1
        self.patience.sleep(delay)

    def _delay(self, error: LedgerError) -> float:
        bound = min(self.patience.longest, self.patience.first * float(2 ** min(self._failed, 20)))
        asked = error.details.get("retry_after_ms", "")
        least = int(asked) / 1000 if asked.isascii() and asked.isdigit() else 0.0
        return least + bound * (0.5 + self.patience.chance() / 2)
