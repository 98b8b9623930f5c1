"""The service `EventLog`: appends, reads, follows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, Final

from ledger.client.status import to_refusal
from ledger.core.errors import InvalidInput, LedgerError, NotFound, Problem, Unavailable
from ledger.core.text import is_header_text
from ledger.log import limits
from ledger.log.log import Log
from ledger.log.model import Filter, Outcome, Receipt, StoredEvent
from ledger.log.reading import PAGE
from ledger.wire import log_pb2, log_pb2_grpc
from services.server.answering import Context, answers, as_ledger_error, streams
from services.server.appending import Appender, Intake, Pending

LAST_ANSWERS_SECONDS: Final = 0.5
"""Left to a caller to read its last answers before it hears that the server stops."""
HEARTBEAT_SECONDS: Final = 10.0
FOLLOW_SECONDS: Final = 0.05
PAGE_BYTES: Final = 4 << 20


class EventLogService(log_pb2_grpc.EventLogServicer):
    """Answers for one log."""

    def __init__(self, log: Log, appender: Appender, *, version: str, stopping: asyncio.Event) -> None:
        self._log = log
        self._appender = appender
        self._version = version
        self._stopping = stopping

    @answers
    async def GetInfo(self, request: log_pb2.GetInfoRequest, context: Context) -> log_pb2.GetInfoResponse:
        head = await asyncio.to_thread(self._log.head)
        return log_pb2.GetInfoResponse(
            origin=head.origin,
            size=head.size,
            root_hash=head.root,
            recorded_at_us=head.recorded_at_us,
            software_version=self._version,
            event_types=self._event_types(),
            auth="none",
            limits=log_pb2.Limits(
                header_bytes=limits.HEADER_BYTES,
                tags=limits.TAGS,
                causes=limits.CAUSES,
                payload_bytes=limits.PAYLOAD_BYTES,
                request_bytes=limits.REQUEST_BYTES,
                request_events=limits.REQUEST_EVENTS,
            ),
        )

    @answers
    async def Append(self, request: log_pb2.AppendRequest, context: Context) -> log_pb2.AppendResponse:
        return appended(await self._appender.append(request))

    @streams
    async def AppendStream(
        self, request_iterator: AsyncIterator[log_pb2.AppendRequest], context: Context
    ) -> AsyncIterator[log_pb2.AppendStreamResponse]:
        """Takes requests in order, answers in order; many may wait for the disk at once."""
        async for answer in stream_answers(Intake(self._appender, request_iterator, self._stopping)):
            yield answer

    @streams
    async def Read(self, request: log_pb2.ReadRequest, context: Context) -> AsyncIterator[log_pb2.ReadResponse]:
        size = (await asyncio.to_thread(self._log.head)).size
        to_size = min(request.to_size or size, size)
        match, pos, left = _filter(request.filter), request.from_pos, request.limit or None
        while True:
            page = await self._page(pos, to_size, match, left, headers_only=request.headers_only)
            pos = page.next_pos
            left = None if left is None else left - len(page.events)
            page.size = size
            yield page
            if pos >= to_size or left == 0:
                return

    @streams
    async def Subscribe(
        self, request: log_pb2.SubscribeRequest, context: Context
    ) -> AsyncIterator[log_pb2.ReadResponse]:
        pos, match = request.from_pos, _filter(request.filter)
        quiet_since = asyncio.get_running_loop().time()
        while not self._stopping.is_set():
            size = (await asyncio.to_thread(self._log.head)).size
            now = asyncio.get_running_loop().time()
            if pos < size or now - quiet_since >= HEARTBEAT_SECONDS:
                page = await self._page(pos, size, match, None, headers_only=request.headers_only)
                page.size = size
                pos, quiet_since = page.next_pos, now
                yield page
            else:
                await asyncio.sleep(FOLLOW_SECONDS)
        raise _stopping()

    @answers
    async def GetEvent(self, request: log_pb2.GetEventRequest, context: Context) -> log_pb2.Event:
        which = request.WhichOneof("key")
        if which is None:
            raise InvalidInput("name the event by pos or by id", remedy="Set one of the two.")
        found = await asyncio.to_thread(self._find, request)
        if found is None:
            raise NotFound(
                f"there is no event with {which} {getattr(request, which)!r}",
                remedy="Positions run from 0 up to, not including, the size of the log; ids are compared byte by byte.",
            )
        return _event(found)

    def _find(self, request: log_pb2.GetEventRequest) -> StoredEvent | None:
        """What no event can have is not asked of the database, which might not even take it."""
        if request.WhichOneof("key") == "pos":
            return self._log.store.event(request.pos) if request.pos < self._log.head().size else None
        return self._log.store.event_by_id(request.id) if is_header_text(request.id, limits.ID_BYTES) else None

    async def _page(
        self, pos: int, to_size: int, match: Filter, left: int | None, *, headers_only: bool
    ) -> log_pb2.ReadResponse:
        """One page; `next_pos` is where the next one starts."""
        if pos >= to_size:
            return log_pb2.ReadResponse(next_pos=pos)
        limit = PAGE if left is None else min(PAGE, left)
        events = await asyncio.to_thread(
            self._log.store.read, pos, to_size, match=match, limit=limit, payloads=not headers_only
        )
        page = log_pb2.ReadResponse(next_pos=to_size if len(events) < limit else events[-1].pos + 1)
        size = 0
        for event in events:
            size += len(event.header) + len(event.payload or b"")
            if size > PAGE_BYTES and page.events:
                page.next_pos = event.pos
                break
            page.events.append(_event(event))
        return page

    def _event_types(self) -> list[log_pb2.EventType]:
        newest = {kind.type: kind for kind in self._log.registry}
        return [
            log_pb2.EventType(
                type=kind.type,
                versions=self._log.registry.versions(kind.type),
                family=kind.family,
                decision=kind.decision,
            )
            for kind in newest.values()
        ]


async def stream_answers(intake: Intake[Any]) -> AsyncIterator[log_pb2.AppendStreamResponse]:
    """The answers to a call's requests, in their order.

    Raises:
        Unavailable: after the last of them, if the server stops and the caller may have had more to send.
    """
    number = 0
    async with aclosing(intake.taken()) as taken:
        async for pending in taken:
            yield await _stream_answer(number, pending)
            number += 1
    if intake.stopped:
        # A caller's gRPC throws away the answers that it has not read when an error status comes.
        await asyncio.sleep(LAST_ANSWERS_SECONDS)
        raise _stopping()


async def _stream_answer(number: int, pending: Pending) -> log_pb2.AppendStreamResponse:
    try:
        return log_pb2.AppendStreamResponse(request=number, response=appended(await pending))
    except Exception as error:  # noqa: BLE001  # one request's fault does not end the call
        return log_pb2.AppendStreamResponse(request=number, error=to_refusal(as_ledger_error(error)))


def _stopping() -> Unavailable:
    return Unavailable("the server is stopping", remedy="Connect again and go on.")


def appended(outcome: Outcome) -> log_pb2.AppendResponse:
    """What the log has made of a request, as its caller hears it."""
    return log_pb2.AppendResponse(receipts=map(_receipt, outcome.receipts), size=outcome.size)


def _receipt(receipt: Receipt | LedgerError) -> log_pb2.Receipt:
    if isinstance(receipt, LedgerError):
        return log_pb2.Receipt(refusal=to_refusal(receipt))
    pos, version, recorded_at_us, leaf, already_recorded = receipt
    made = log_pb2.Receipt(pos=pos, stream_version=version, recorded_at_us=recorded_at_us, leaf_hash=leaf)
    if already_recorded:
        made.already_recorded = True
    return made


def _filter(wire: log_pb2.Filter) -> Filter:
    """The filter as the store takes it; a text that no header holds is a slip, and is said to be one."""
    given = {"streams": wire.streams, "types": wire.types, "tags": wire.tags}
    problems = [
        Problem(f"filter.{name}[{number}]", "no header can hold this text")
        for name, texts in given.items()
        for number, text in enumerate(texts)
        if not is_header_text(text, limits.STREAM_BYTES)
    ]
    if problems:
        raise InvalidInput(
            f"{problems[0].place}: {problems[0].message}",
            remedy="Streams, types and tags are short printable ASCII, and match whole.",
            problems=problems,
        )
    return Filter(tuple(wire.streams), tuple(wire.types), tuple(wire.tags))


def _event(stored: StoredEvent) -> log_pb2.Event:
    return log_pb2.Event(
        pos=stored.pos,
        header=stored.header,
        leaf_hash=stored.leaf,
        payload=stored.payload,
        salt=stored.salt,
        redacted_by=stored.redacted_by,
    )
