"""The service `Audit`: what was known, at any coordinates."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

import orjson

from ledger.audit.coordinates import At, Clockwork, Moment
from ledger.audit.sources import SourceFilter, Sources, State, decode_token
from ledger.core import clock
from ledger.core.errors import InvalidInput
from ledger.events.fields import SAMPLE_TAG
from ledger.log.model import StoredEvent
from ledger.projections.generations import Moved
from ledger.wire import audit_pb2, audit_pb2_grpc
from services.server.answering import Context, answers

Answer = TypeVar("Answer")

WAIT_MARGIN_SECONDS: Final = 0.25
"""Left of the caller's deadline when it is told that the projection is behind."""
DEFAULT_WAIT_SECONDS: Final = 10.0


class AuditService(audit_pb2_grpc.AuditServicer):
    """Answers from the interval rows."""

    def __init__(self, clockwork: Clockwork, sources: Sources, *, stopping: asyncio.Event) -> None:
        self._clockwork = clockwork
        self._sources = sources
        self._stopping = stopping

    @answers
    async def SourceAsOf(self, request: audit_pb2.SourceAsOfRequest, context: Context) -> audit_pb2.SourceAsOfResponse:
        moment, state = await self._ask(
            _at(request.coordinates), lambda moment: self._sources.one(request.id, moment), context
        )
        return audit_pb2.SourceAsOfResponse(source=_source(state), coordinates=_coordinates(moment))

    @answers
    async def ListSources(
        self, request: audit_pb2.ListSourcesRequest, context: Context
    ) -> audit_pb2.ListSourcesResponse:
        at, start = decode_token(request.page_token) if request.page_token else (_at(request.coordinates), 0)
        which = _filter(request.filter)
        moment, page = await self._ask(
            at, lambda moment: self._sources.page(moment, which, page_size=request.page_size, start=start), context
        )
        return audit_pb2.ListSourcesResponse(
            sources=[_source(state) for state in page.states],
            next_page_token=page.next_token,
            total=page.total,
            coordinates=_coordinates(moment),
        )

    @answers
    async def Why(self, request: audit_pb2.WhyRequest, context: Context) -> audit_pb2.WhyResponse:
        moment, state = await self._ask(
            _at(request.coordinates), lambda moment: self._sources.one(request.id, moment), context
        )
        events = await asyncio.to_thread(self._sources.events_of, state)
        return audit_pb2.WhyResponse(
            source=_source(state), events=[_why_event(e) for e in events], coordinates=_coordinates(moment)
        )

    async def _ask(self, at: At, question: Callable[[Moment], Answer], context: Context) -> tuple[Moment, Answer]:
        """The answer and where it stands; asked again when the generation that answers is replaced."""
        while True:
            moment = await self._moment(at, context)
            with contextlib.suppress(Moved):
                return moment, await asyncio.to_thread(question, moment)

    async def _moment(self, at: At, context: Context) -> Moment:
        """Waits for the projection in a thread of its own, no longer than the caller does, or the server lives."""
        left = context.time_remaining()
        wait = DEFAULT_WAIT_SECONDS if left is None else left - WAIT_MARGIN_SECONDS
        gone = threading.Event()
        try:
            return await asyncio.to_thread(
                self._clockwork.moment,
                at,
                deadline=time.monotonic() + wait,
                cancelled=lambda: gone.is_set() or self._stopping.is_set(),
            )
        finally:
            gone.set()


def _at(wire: audit_pb2.Coordinates) -> At:
    which = wire.WhichOneof("at")
    if which == "recorded_at_us" and not clock.MIN_US <= wire.recorded_at_us <= clock.MAX_US:
        raise InvalidInput(
            "coordinates.recorded_at_us lies outside the years 1 to 9999",
            remedy="Give microseconds since 1970-01-01T00:00Z.",
        )
    return At(
        size=wire.size if which == "size" else None,
        recorded_at_us=wire.recorded_at_us if which == "recorded_at_us" else None,
        rules=wire.rules,
        min_size=wire.min_size,
    )


def _filter(wire: audit_pb2.SourceFilter) -> SourceFilter:
    return SourceFilter(
        origins=frozenset(wire.origins),
        families=frozenset(wire.families),
        qualities=frozenset(wire.qualities),
        difficulties=frozenset(wire.difficulties),
        atlas_statuses=frozenset(wire.atlas_statuses),
        has_open_defects=wire.has_open_defects if wire.HasField("has_open_defects") else None,
        is_benchmark=wire.is_benchmark if wire.HasField("is_benchmark") else None,
        search=wire.search,
        include_retired=wire.include_retired,
    )


def _source(state: State) -> audit_pb2.Source:
    """The message of a state: the fold wrote its fields under the message's own names."""
    return audit_pb2.Source(**state)


def _coordinates(moment: Moment) -> audit_pb2.AnswerCoordinates:
    return audit_pb2.AnswerCoordinates(
        size=moment.size,
        recorded_at_us=moment.recorded_at_us,
        final=moment.final,
        rules=moment.rules,
        rules_digest=moment.rules_digest,
        redactions_through=moment.redactions_through,
    )


def _why_event(event: StoredEvent) -> audit_pb2.WhyEvent:
    header: dict[str, Any] = orjson.loads(event.header)
    occurred_at = header["occurred_at"]
    return audit_pb2.WhyEvent(
        pos=event.pos,
        id=event.id,
        type=event.type,
        stream=event.stream,
        actor=header["actor"]["id"],
        recorded_at_us=event.recorded_at_us,
        occurred_at_us=None if occurred_at is None else clock.from_text(occurred_at),
        sample=SAMPLE_TAG in header["tags"],
    )
