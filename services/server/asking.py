"""How a question over history is asked: it waits for what it needs, runs in a thread, and ends when nobody waits.

Every question waits no longer than its caller does. What may read much runs apart from the rest, so that however many
ask for it, moments and single sources are answered.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from ledger.audit.coordinates import At, Clockwork, Moment
from ledger.audit.pages import decode_token
from ledger.audit.reading import Check
from ledger.core.errors import LedgerError, Unavailable
from ledger.projections.generations import Moved
from services.server.answering import Context
from services.server.threads import LongQuestions

Answer = TypeVar("Answer")

WAIT_MARGIN_SECONDS: Final = 0.25
"""Left of the caller's deadline when it is told that a projection is behind."""
DEFAULT_WAIT_SECONDS: Final = 10.0
LOOK_SECONDS: Final = 0.02
"""Between two looks at how far the projections have come."""


class Asking:
    """Asks questions over one log for the calls of a server."""

    def __init__(self, clockwork: Clockwork, questions: LongQuestions, *, stopping: asyncio.Event) -> None:
        self._clockwork = clockwork
        self._questions = questions
        self._stopping = stopping

    async def ask(
        self, at: At, question: Callable[[Moment, Check], Answer], context: Context, *, long: bool = True
    ) -> tuple[Moment, Answer]:
        """The answer and where it stands; asked again when the generation that answers is dropped."""
        while True:
            with contextlib.suppress(Moved):
                return await self._once(at, question, context, long=long)

    async def ask_of_both(
        self, before: At, after: At, question: Callable[[Moment, Moment, Check], Answer], context: Context
    ) -> tuple[Moment, Moment, Answer]:
        """An answer about two moments, and where they stand."""
        while True:
            with contextlib.suppress(Moved):
                first = await self._moment(before, context)
                second, found = await self._once(after, functools.partial(question, first), context, long=True)
                return first, second, found

    async def _once(
        self, at: At, question: Callable[[Moment, Check], Answer], context: Context, *, long: bool
    ) -> tuple[Moment, Answer]:
        moment = await self._moment(at, context)
        gone = threading.Event()
        asked = functools.partial(question, moment, raising(gone))

        async def answered() -> Answer:
            if long or moment.is_folded:
                return await self._questions.run(asked)
            return await asyncio.to_thread(asked)

        try:
            # A question may need another projection than the moment does, which stands elsewhere.
            return moment, await self._waiting(answered, context)
        finally:
            gone.set()

    async def _moment(self, at: At, context: Context) -> Moment:
        async def found() -> Moment:
            return await asyncio.to_thread(self._clockwork.moment, at)

        return await self._waiting(found, context)

    async def _waiting(self, ask: Callable[[], Awaitable[Answer]], context: Context) -> Answer:
        """Waits for the projections, no longer than the caller does, or the server lives.

        Between looks nothing is held: however many wait, the others are answered.
        """
        left = context.time_remaining()
        until = time.monotonic() + (DEFAULT_WAIT_SECONDS if left is None else left - WAIT_MARGIN_SECONDS)
        while True:
            try:
                return await ask()
            except Unavailable as behind:
                over = self._stopping.is_set() or time.monotonic() + LOOK_SECONDS >= until
                if behind.reason != "BEHIND" or over:
                    raise
            await asyncio.sleep(LOOK_SECONDS)


def raising(gone: threading.Event) -> Check:
    """A check that ends a scan once nobody waits for it."""

    def check() -> None:
        if gone.is_set():
            raise LedgerError("nobody waits for the answer", reason="INTERRUPTED", remedy="Ask again.")

    return check


def stand(token: str, asked: At, question: str, of: object) -> tuple[At, int]:
    """Where the question stands, and where its page begins: as the token says, or at the asked coordinates."""
    if not token:
        return asked, 0
    (at,), start = decode_token(token, question, of)
    return at, start
