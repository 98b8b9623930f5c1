"""What is shown of runs, exports and campaigns at a size, however it comes to be known.

The rows of the live generation answer where this release computes it. While there is none, as in a log of an older
release until its runs are folded, the log itself is folded: slower, and the same bytes.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from typing import Any, Final

from ledger.core.errors import Unavailable
from ledger.log.log import Log
from ledger.projections.generations import GenerationRow, Generations, Moved
from ledger.projections.prefix import states_of_prefix
from ledger.projections.subjects import RUNS
from ledger.rules import RuleSet

KINDS: Final = RUNS.kinds


class RunStates:
    """Answers about one log. Safe to use from many threads."""

    def __init__(self, log: Log, generations: Generations, rules: RuleSet[Any, Any]) -> None:
        self.rules = rules
        self._log = log
        self._generations = generations

    def size(self, needed: int = 0) -> int:
        """How many events are known now, if that is as many as are needed; else it is told that a reader waits.

        Raises:
            Unavailable: reason BEHIND.
        """
        row = self._row()
        known = self._log.head().size if row is None else row.size
        self._check(known, needed)
        return known

    def at(self, size: int, *, keys: Collection[str] | None = None, kind: str | None = None) -> list[tuple[str, bytes]]:
        """Key and state, as JSON, of what is shown at a size, by key.

        Args:
            size: The first so many events are known.
            keys: The streams that are asked for; None: all.
            kind: Of all, those of this kind, one of `KINDS`; None: every kind.

        Raises:
            Unavailable: reason BEHIND; it has not come so far.
        """
        while True:
            row = self._row()
            if row is None:
                return self._folded(size, keys, kind)
            self._check(row.size, size)
            with suppress(Moved):  # built again, and replaced, while it was read
                return self._generations.present_at(row.id, size, keys, kind)

    def one(self, key: str, size: int) -> bytes | None:
        """The state of one stream; None where it has none.

        Raises:
            Unavailable: as `at`.
        """
        found = self.at(size, keys=(key,))
        return found[0][1] if found else None

    def _folded(self, size: int, keys: Collection[str] | None, kind: str | None) -> list[tuple[str, bytes]]:
        self._check(self._log.head().size, size)
        mine = None if keys is None else [key for key in keys if RUNS.key_of(key) is not None]
        kinds = () if kind is None else (kind,)
        return list(states_of_prefix(self._log, self.rules, size, keys=mine, kinds=kinds, projection=RUNS).items())

    def _row(self) -> GenerationRow | None:
        row = self._generations.live(RUNS)
        if row is None or not self._generations.computes(row) or row.identity.rules != self.rules.id:
            return None
        return row

    def _check(self, known: int, needed: int) -> None:
        if known >= needed:
            return
        self._log.growth.want()
        head = self._log.head().size
        says = f"the log holds {head}" if needed > head else f"the projection of runs has folded {known}"
        raise Unavailable(
            f"{says} events, the question needs {needed}",
            reason="BEHIND",
            remedy="Ask again with a longer deadline (--timeout), or for a smaller min_size (--min-size).",
            details={"size": str(known), "needed": str(needed), "log_size": str(head)},
        )
