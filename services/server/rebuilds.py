"""Rebuilds under way: each in a thread of its own, one at a time for a rule set, whoever follows it.

- Who asks for what is under way follows it: a caller who was cut off and asks again misses nothing.
- A rebuild whose callers have all left goes on to its end, and no further; what went wrong with it is logged then.
- When the server stops, so does every rebuild; the next one of the same rules goes on where it stood.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

import structlog

from ledger.core.errors import LedgerError, Refused
from ledger.projections.generations import Moved
from ledger.projections.projector import Progress, Projector, Rebuilt

log = structlog.get_logger(__name__)

AT_ONCE: Final = 2
"""Rebuilds of different rules; more wait their turn. Each takes processes of its own besides."""


class _UnderWay(NamedTuple):
    outcome: asyncio.Future[Rebuilt]
    followers: set[asyncio.Queue[Progress | None]]
    """Each is told of every step, and of the end by None."""


class Rebuilds:
    """All rebuilds of one projector. Everything but the work itself happens in the event loop."""

    def __init__(self, projector: Projector) -> None:
        self._projector = projector
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="rebuild")
        self._under_way: dict[str, _UnderWay] = {}

    async def follow(self, rules: str, processes: int) -> AsyncGenerator[Progress | Rebuilt, None]:
        """How far the rebuild of these rules is, again and again, and at last its outcome.

        Args:
            rules: The rule set.
            processes: That fold, where this call begins the rebuild; 0: as many as pay.

        Raises:
            LedgerError: it failed.
        """
        found = self._under_way.get(rules) or self._begin(rules, processes)
        steps: asyncio.Queue[Progress | None] = asyncio.Queue()
        found.followers.add(steps)
        try:
            while (step := await steps.get()) is not None:
                yield step
            yield found.outcome.result()
        finally:
            found.followers.discard(steps)

    def _begin(self, rules: str, processes: int) -> _UnderWay:
        loop = asyncio.get_running_loop()
        followers: set[asyncio.Queue[Progress | None]] = set()

        def tell(step: Progress | None) -> None:
            for steps in followers:
                steps.put_nowait(step)

        def progress(step: Progress) -> None:
            loop.call_soon_threadsafe(tell, step)

        def rebuild() -> Rebuilt:
            try:
                return self._projector.rebuild(progress, rules=rules, processes=processes)
            except Moved:
                raise _overtaken() from None

        def ended(outcome: asyncio.Future[Rebuilt]) -> None:
            del self._under_way[rules]
            error = None if outcome.cancelled() else outcome.exception()  # looked at, also when nobody will
            if not followers:
                _log_end(rules, error)
            tell(None)

        made = _UnderWay(loop.run_in_executor(self._threads, rebuild), followers)
        self._under_way[rules] = made
        made.outcome.add_done_callback(ended)
        return made

    def close(self) -> None:
        """Waits for the rebuilds to end; the projector must have been told to stop building."""
        self._threads.shutdown(cancel_futures=True)


def _log_end(rules: str, error: BaseException | None) -> None:
    """Of a rebuild that nobody follows any more."""
    if isinstance(error, LedgerError):
        log.warning("a rebuild that nobody followed failed", rules=rules, reason=error.reason, cause=error.message)
    elif error is not None:
        log.error("a rebuild that nobody followed failed", rules=rules, exc_info=error)
    else:
        log.info("a rebuild that nobody followed has ended", rules=rules)


def _overtaken() -> Refused:
    return Refused(
        "another rebuild of the same rules was faster, and its generation stands",
        reason="CONDITION_FAILED",
        remedy="Look at it with `ledger projection list`; rebuild again if that is still wanted.",
    )
