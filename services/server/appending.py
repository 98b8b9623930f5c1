"""How requests reach the log: one at a time, or many on one call that wait for the disk together.

- A request with decisions is judged first, on a log that holds every earlier request of its call.
- What was handed to the log is recorded whatever becomes of the caller: a cancelled call only stops waiting.
- When the server stops, what was taken is still answered.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from concurrent.futures import Future
from types import MappingProxyType
from typing import Final, Generic, Protocol, TypeVar

from google.protobuf.message import Message

from ledger.core.errors import InvalidInput, LedgerError, Unavailable
from ledger.log import conditions, limits
from ledger.log.batches import GuardMoved
from ledger.log.log import Log
from ledger.log.model import Outcome
from ledger.wire import log_pb2
from services.server.answering import as_ledger_error
from services.server.decisions import Decider, Decision

MAX_UNANSWERED: Final = 256
"""Requests of one stream that may wait for their answer; the caller's flow control does the rest."""
DECISION_TRIES: Final = 20
QUEUE_WAIT_SECONDS: Final = 0.02

Pending = asyncio.Future[Outcome]
Refusals = Mapping[int, LedgerError]
"""Drafts of a request that are refused already, by their index."""
NONE_REFUSED: Final[Refusals] = MappingProxyType({})

Request = TypeVar("Request")
Sent_contra = TypeVar("Sent_contra", contravariant=True)


class Appender:
    """Hands requests to one log, decided where they hold decisions."""

    def __init__(self, log: Log, decider: Decider) -> None:
        self._log = log
        self._decider = decider
        self._answers: _Answers | None = None  # of the loop that serves

    def decides(self, request: log_pb2.AppendRequest) -> bool:
        """Whether the request rests on what was recorded before it."""
        return self._decider.concerns(request.drafts)

    async def append(self, request: log_pb2.AppendRequest, refused: Refusals = NONE_REFUSED) -> Outcome:
        return await (await self.submit(request, refused))

    async def submit(self, request: log_pb2.AppendRequest, refused: Refusals = NONE_REFUSED) -> Pending:
        """Queues a request; one with decisions is answered before this returns."""
        check_bytes(request)
        asked = conditions.from_wire(request.conditions)
        if self.decides(request):
            return _done(await self._append_decision(request, asked, refused))
        future = self._log.append(request.drafts, conditions=asked, refused=refused, atomic=request.atomic)
        return self._answer(future)

    def _answer(self, future: Future[Outcome]) -> Pending:
        if self._answers is None:
            self._answers = _Answers()
        return self._answers.wait_for(future)

    async def submit_when_there_is_room(
        self, request: log_pb2.AppendRequest, refused: Refusals = NONE_REFUSED
    ) -> Pending:
        """On a stream a full queue is no error: the caller is slowed down instead."""
        while True:
            try:
                return await self.submit(request, refused)
            except LedgerError as error:
                if error.reason != "QUEUE_FULL":
                    return failed(error)
                await asyncio.sleep(QUEUE_WAIT_SECONDS)
            except Exception as error:  # noqa: BLE001  # answered in its turn
                return failed(as_ledger_error(error))

    async def _append_decision(
        self, request: log_pb2.AppendRequest, asked: tuple[conditions.Condition, ...], refused: Refusals
    ) -> Outcome:
        """Decides and appends; when what the decision rests on has moved, decides again."""
        for _ in range(DECISION_TRIES):
            decision = await asyncio.to_thread(self._decider.decide, request.drafts)
            if decision.refused and await self._became_known(request, decision):
                continue
            if decision.refused and request.atomic:
                raise next(iter(decision.refused.values()))
            with contextlib.suppress(GuardMoved):
                return await self._append_decided(request, asked, decision, refused)
        raise Unavailable(
            "the streams that the decision rests on keep moving",
            reason="UNAVAILABLE",
            remedy="Send the same request again.",
        )

    async def _append_decided(
        self,
        request: log_pb2.AppendRequest,
        asked: tuple[conditions.Condition, ...],
        decision: Decision,
        refused: Refusals,
    ) -> Outcome:
        future = self._log.append(
            request.drafts,
            conditions=asked,
            guards=decision.guards,
            refused={**decision.refused, **refused},
            atomic=request.atomic,
        )
        return await self._answer(future)

    async def _became_known(self, request: log_pb2.AppendRequest, decision: Decision) -> bool:
        """A twin of this request may have been recorded while it was judged: then it is a retry."""
        ids = [request.drafts[index].id for index in decision.refused]
        return bool(await asyncio.to_thread(self._decider.known, ids))


class Taker(Protocol[Sent_contra]):
    """Takes the requests of a call: an appender, or what makes requests for one."""

    def decides(self, request: Sent_contra, /) -> bool: ...

    async def submit_when_there_is_room(self, request: Sent_contra, /) -> Pending:
        """A fault of the request is the answer to it, never raised."""


class Intake(Generic[Request]):
    """The requests of one call, taken in order while earlier ones wait for their answer."""

    def __init__(self, appender: Taker[Request], requests: AsyncIterator[Request], stopping: asyncio.Event) -> None:
        self._appender = appender
        self._requests = requests
        self._stopping = stopping
        self._waiting: asyncio.Queue[Pending | _Stopping | None] = asyncio.Queue(MAX_UNANSWERED)
        self._reading = False
        self._fault: Exception | None = None
        self.stopped = False
        """The server stops, and the caller may have had more to send."""

    async def taken(self) -> AsyncGenerator[Pending, None]:
        """Every request that was taken, in order; ends with the call's requests or when the server stops."""
        taking = asyncio.create_task(self._take())
        stopping = asyncio.create_task(self._say_stopping())
        try:
            while (pending := await self._next()) is not None:
                yield pending
            if self._fault is not None:
                raise self._fault
        finally:
            taking.cancel()
            stopping.cancel()

    async def _take(self) -> None:
        try:
            await self._take_all()
        except Exception as fault:  # noqa: BLE001  # raised where the answers are given
            self._fault = fault
        self._reading = False
        await self._waiting.put(None)

    async def _take_all(self) -> None:
        last: Pending | None = None
        self._reading = True
        async for request in self._requests:
            self._reading = False
            if last is not None and not last.done() and self._appender.decides(request):
                await asyncio.wait((last,))
            last = await self._appender.submit_when_there_is_room(request)
            await self._waiting.put(last)
            if self._stopping.is_set():
                self.stopped = True
                return
            self._reading = True

    async def _next(self) -> Pending | None:
        """The next request that was taken; None at the end."""
        while True:
            if self._stopping.is_set() and self._reading and self._waiting.empty():
                self.stopped = True
                return None
            pending = await self._waiting.get()
            if not isinstance(pending, _Stopping):
                return pending

    async def _say_stopping(self) -> None:
        """Wakes whoever waits for a request that will not come."""
        await self._stopping.wait()
        await self._waiting.put(_Stopping())


class _Stopping:
    """The server stops: look whether anything is still to come."""


class _Answers:
    """Brings the log's answers from its thread to the loop, those of one transaction together."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._ready: list[tuple[Pending, Future[Outcome]]] = []  # guarded by _lock

    def wait_for(self, future: Future[Outcome]) -> Pending:
        """The log's answer. A caller that is gone does not cancel it: the log is to answer every request."""
        pending: Pending = self._loop.create_future()
        future.add_done_callback(lambda done: self._done(pending, done))
        return pending

    def _done(self, pending: Pending, done: Future[Outcome]) -> None:
        with self._lock:
            self._ready.append((pending, done))
            first = len(self._ready) == 1
        if first:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                self._loop.call_soon_threadsafe(self._settle)

    def _settle(self) -> None:
        with self._lock:
            ready, self._ready = self._ready, []
        for pending, done in ready:
            if pending.done():
                continue
            fault = done.exception()
            if fault is None:
                pending.set_result(done.result())
            else:
                pending.set_exception(fault)


def _done(outcome: Outcome) -> Pending:
    future: Pending = asyncio.get_running_loop().create_future()
    future.set_result(outcome)
    return future


def failed(error: LedgerError) -> Pending:
    """An answer that is known already: the error."""
    future: Pending = asyncio.get_running_loop().create_future()
    future.set_exception(error)
    return future


def check_bytes(request: Message) -> None:
    """A request beyond the limit is refused.

    Raises:
        InvalidInput: reason TOO_LARGE.
    """
    size = request.ByteSize()
    if size > limits.REQUEST_BYTES:
        raise InvalidInput(
            f"the request is {size} bytes, at most {limits.REQUEST_BYTES}",
            reason="TOO_LARGE",
            remedy="Send several requests; larger bytes are artifacts.",
            details={"limit": str(limits.REQUEST_BYTES), "found": str(size)},
        )
