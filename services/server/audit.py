"""The service `Audit`: what was known, at any coordinates.

Every question runs in a thread, waits no longer than its caller does, and stops when nobody waits for its answer. What
may read much runs apart from the rest, so that however many ask for it, moments and single sources are answered.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
import time
from collections.abc import Callable
from typing import Final, TypeVar

from ledger.audit import diff, judgments, queue, sources, timeline, why
from ledger.audit.coordinates import At, Clockwork, Moment
from ledger.audit.disregards import Disregards
from ledger.audit.dossiers import Dossiers
from ledger.audit.imports import Imports
from ledger.audit.pages import decode_token
from ledger.audit.reading import Check, Events
from ledger.audit.sources import Sources
from ledger.core.errors import LedgerError, Unavailable
from ledger.projections.generations import Moved
from ledger.wire import audit_pb2, audit_pb2_grpc
from services.server import audit_messages as messages
from services.server.answering import Context, answers
from services.server.threads import LongQuestions

Answer = TypeVar("Answer")

WAIT_MARGIN_SECONDS: Final = 0.25
"""Left of the caller's deadline when it is told that the projection is behind."""
DEFAULT_WAIT_SECONDS: Final = 10.0
LOOK_SECONDS: Final = 0.02
"""Between two looks at how far the projection has come."""


class AuditService(audit_pb2_grpc.AuditServicer):
    """All questions over one log."""

    def __init__(
        self, clockwork: Clockwork, over: Sources, questions: LongQuestions, *, stopping: asyncio.Event
    ) -> None:
        self._clockwork = clockwork
        self._questions = questions
        self._sources = over
        self._stopping = stopping
        self._events = Events(over.log)
        disregards = Disregards(self._events)
        dossiers = Dossiers(self._events, disregards)
        self._judgments = judgments.Judgments(self._events, over.shelf, dossiers)
        self._timelines = timeline.Timelines(self._events, over, disregards)
        self._diffs = diff.Diffs(over.shelf)
        self._queue = queue.Queue(over, Imports(self._events, disregards))

    @answers
    async def SourceAsOf(self, request: audit_pb2.SourceAsOfRequest, context: Context) -> audit_pb2.SourceAsOfResponse:
        moment, state = await self._ask(
            messages.at(request.coordinates),
            lambda moment, _: self._sources.one(request.id, moment),
            context,
            long=False,
        )
        return audit_pb2.SourceAsOfResponse(source=messages.source(state), coordinates=messages.coordinates(moment))

    @answers
    async def ListSources(
        self, request: audit_pb2.ListSourcesRequest, context: Context
    ) -> audit_pb2.ListSourcesResponse:
        which = messages.source_filter(request.filter)
        at, start = _stand(request.page_token, request.coordinates, sources.QUESTION, which)
        moment, page = await self._ask(
            at,
            lambda moment, check: self._sources.page(moment, which, size=request.page_size, start=start, check=check),
            context,
        )
        return audit_pb2.ListSourcesResponse(
            sources=[messages.source(state) for state in page.states],
            next_page_token=page.next_token,
            total=page.total,
            coordinates=messages.coordinates(moment),
        )

    @answers
    async def Why(self, request: audit_pb2.WhyRequest, context: Context) -> audit_pb2.WhyResponse:
        _, answer = await self._ask(
            messages.at(request.coordinates), lambda moment, _: self._why(request.id, moment), context, long=False
        )
        return answer

    def _why(self, source_id: str, moment: Moment) -> audit_pb2.WhyResponse:
        state = self._sources.one(source_id, moment)
        return audit_pb2.WhyResponse(
            source=messages.source(state),
            events=[messages.event(e) for e in self._sources.events_of(state)],
            coordinates=messages.coordinates(moment),
            tree=[messages.node(n) for n in why.tree(state, moment, self._events)],
        )

    @answers
    async def Judgments(self, request: audit_pb2.JudgmentsRequest, context: Context) -> audit_pb2.JudgmentsResponse:
        which = messages.judgment_filter(request.filter)
        at, start = _stand(request.page_token, request.coordinates, judgments.QUESTION, which)
        moment, page = await self._ask(
            at,
            lambda moment, check: self._judgments.page(
                moment, which, size=request.page_size, from_pos=start, check=check
            ),
            context,
        )
        return audit_pb2.JudgmentsResponse(
            judgments=[messages.judgment(j) for j in page.judgments],
            next_page_token=page.next_token,
            coordinates=messages.coordinates(moment),
        )

    @answers
    async def Agreement(self, request: audit_pb2.AgreementRequest, context: Context) -> audit_pb2.AgreementResponse:
        which = judgments.for_agreement(messages.judgment_filter(request.filter))
        moment, report = await self._ask(
            messages.at(request.coordinates),
            lambda moment, check: self._judgments.agreement(moment, which, check=check),
            context,
        )
        return audit_pb2.AgreementResponse(
            verdicts=messages.agreement(report.verdicts),
            dimensions=[messages.agreement(found) for found in report.dimensions],
            judges=[
                audit_pb2.JudgeRecord(
                    reviewer=j.reviewer, judgments=j.judgments, synthesised=j.synthesised, overruled=j.overruled
                )
                for j in report.judges
            ],
            coordinates=messages.coordinates(moment),
        )

    @answers
    async def Timeline(self, request: audit_pb2.TimelineRequest, context: Context) -> audit_pb2.TimelineResponse:
        order = timeline.Order(request.id, newest_first=request.newest_first, full=request.full)
        at, start = _stand(request.page_token, request.coordinates, timeline.QUESTION, order)
        moment, page = await self._ask(
            at,
            lambda moment, check: self._timelines.page(moment, order, size=request.page_size, start=start, check=check),
            context,
        )
        return audit_pb2.TimelineResponse(
            entries=[messages.entry(e) for e in page.entries],
            next_page_token=page.next_token,
            coordinates=messages.coordinates(moment),
            total=page.total,
        )

    @answers
    async def Diff(self, request: audit_pb2.DiffRequest, context: Context) -> audit_pb2.DiffResponse:
        which = messages.source_filter(request.filter)
        (before_at, after_at), start = (
            decode_token(request.page_token, diff.QUESTION, which, moments=2)
            if request.page_token
            else ([messages.at(request.before), messages.at(request.after)], 0)
        )
        before, after, page = await self._both(
            before_at,
            after_at,
            lambda before, after, check: self._diffs.page(
                before, after, which, size=request.page_size, start=start, check=check
            ),
            context,
        )
        return audit_pb2.DiffResponse(
            changes=[messages.source_change(m) for m in page.moves],
            next_page_token=page.next_token,
            total=len(page.whole.moves),
            before=messages.coordinates(before),
            after=messages.coordinates(after),
            counts=page.whole.counts,
            digest=page.whole.digest,
        )

    @answers
    async def Queue(self, request: audit_pb2.QueueRequest, context: Context) -> audit_pb2.QueueResponse:
        which = messages.queue_filter(request)
        at, start = _stand(request.page_token, request.coordinates, queue.QUESTION, which)
        moment, page = await self._ask(
            at,
            lambda moment, check: self._queue.page(moment, which, size=request.page_size, start=start, check=check),
            context,
        )
        return audit_pb2.QueueResponse(
            items=[messages.item(i) for i in page.items],
            next_page_token=page.next_token,
            total=page.total,
            coordinates=messages.coordinates(moment),
            counts=page.counts,
        )

    async def _both(
        self, before: At, after: At, question: Callable[[Moment, Moment, Check], Answer], context: Context
    ) -> tuple[Moment, Moment, Answer]:
        """An answer about two moments, and where they stand."""
        while True:
            with contextlib.suppress(Moved):
                first = await self._moment(before, context)
                second, found = await self._ask_once(after, functools.partial(question, first), context)
                return first, second, found

    async def _ask(
        self, at: At, question: Callable[[Moment, Check], Answer], context: Context, *, long: bool = True
    ) -> tuple[Moment, Answer]:
        """The answer and where it stands; asked again when the generation that answers is dropped."""
        while True:
            with contextlib.suppress(Moved):
                return await self._ask_once(at, question, context, long=long)

    async def _ask_once(
        self, at: At, question: Callable[[Moment, Check], Answer], context: Context, *, long: bool = True
    ) -> tuple[Moment, Answer]:
        moment = await self._moment(at, context)
        gone = threading.Event()

        def check() -> None:
            if gone.is_set():
                raise LedgerError("nobody waits for the answer", reason="INTERRUPTED", remedy="Ask again.")

        asked = functools.partial(question, moment, check)
        try:
            if long or moment.is_folded:
                return moment, await self._questions.run(asked)
            return moment, await asyncio.to_thread(asked)
        finally:
            gone.set()

    async def _moment(self, at: At, context: Context) -> Moment:
        """Waits for the projection, no longer than the caller does, or the server lives.

        Between looks nothing is held: however many wait, the others are answered.
        """
        left = context.time_remaining()
        until = time.monotonic() + (DEFAULT_WAIT_SECONDS if left is None else left - WAIT_MARGIN_SECONDS)
        while True:
            try:
                return await asyncio.to_thread(self._clockwork.moment, at)
            except Unavailable as behind:
                over = self._stopping.is_set() or time.monotonic() + LOOK_SECONDS >= until
                if behind.reason != "BEHIND" or over:
                    raise
            await asyncio.sleep(LOOK_SECONDS)


def _stand(token: str, coordinates: audit_pb2.Coordinates, question: str, of: object) -> tuple[At, int]:
    """Where the question stands, and where its page begins: as the token says, or at the asked coordinates."""
    if not token:
        return messages.at(coordinates), 0
    (at,), start = decode_token(token, question, of)
    return at, start
