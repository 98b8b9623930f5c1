"""Threads for questions that take long, apart from those that everything else is answered in.

Decisions, single reads and moments are answered in the event loop's own threads. What reads a whole log or a whole list
would take all of them, so it takes turns in a few of its own; a rebuild takes one of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

Answer = TypeVar("Answer")

LONG_QUESTIONS: Final = 3
"""Answered at once; more wait their turn."""


class LongQuestions:
    """Runs what may take long. A question that nobody waits for any more never starts."""

    def __init__(self, threads: int = LONG_QUESTIONS) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="long-question")

    async def run(self, question: Callable[[], Answer]) -> Answer:
        return await asyncio.get_running_loop().run_in_executor(self._threads, question)

    def close(self) -> None:
        """Waits for those under way: once the server has stopped nobody waits for their answers, and they end."""
        self._threads.shutdown(cancel_futures=True)
