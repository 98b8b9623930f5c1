"""The service `Audit`: what was known, at any coordinates.

Each call is a question of `ledger.audit` in the wire's words; `services.server.asking` asks it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from ledger.audit import diff, judgments, queue, sources, timeline, why
from ledger.audit.coordinates import Clockwork, Moment
from ledger.audit.disregards import Disregards
from ledger.audit.dossiers import Dossiers
from ledger.audit.imports import Imports
from ledger.audit.pages import decode_token
from ledger.audit.reading import Check, Events
from ledger.audit.run_questions import RunQuestions
from ledger.audit.sources import Sources
from ledger.wire import audit_pb2, audit_pb2_grpc
from services.server import audit_messages as messages
from services.server.answering import Context, answers
from services.server.asking import Asking, stand
from services.server.threads import LongQuestions


class AuditService(audit_pb2_grpc.AuditServicer):
    """All questions over one log."""

    def __init__(
        self,
        clockwork: Clockwork,
        over: Sources,
        runs: RunQuestions,
        questions: LongQuestions,
        *,
        stopping: asyncio.Event,
    ) -> None:
        self._asking = Asking(clockwork, questions, stopping=stopping)
        self._sources = over
        self._runs = runs
        self._events = Events(over.log)
        disregards = Disregards(self._events)
        dossiers = Dossiers(self._events, disregards)
        self._judgments = judgments.Judgments(self._events, over.shelf, dossiers)
        self._timelines = timeline.Timelines(self._events, over, disregards)
        self._diffs = diff.Diffs(over.shelf)
        self._queue = queue.Queue(over, Imports(self._events, disregards))

    @answers
    async def SourceAsOf(self, request: audit_pb2.SourceAsOfRequest, context: Context) -> audit_pb2.SourceAsOfResponse:
        moment, state = await self._asking.ask(
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
        at, start = stand(request.page_token, messages.at(request.coordinates), sources.QUESTION, which)
        moment, page = await self._asking.ask(
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
        _, answer = await self._asking.ask(
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
        at, start = stand(request.page_token, messages.at(request.coordinates), judgments.QUESTION, which)
        moment, page = await self._asking.ask(
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
        moment, report = await self._asking.ask(
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
        at, start = stand(request.page_token, messages.at(request.coordinates), timeline.QUESTION, order)
        moment, page = await self._asking.ask(
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

        def differing(before: Moment, after: Moment, check: Check) -> tuple[diff.DiffPage, Mapping[str, list[str]]]:
            page = self._diffs.page(before, after, which, size=request.page_size, start=start, check=check)
            return page, self._runs.briefs.consumers(after.size) if page.moves else {}

        before, after, (page, runs) = await self._asking.ask_of_both(before_at, after_at, differing, context)
        return audit_pb2.DiffResponse(
            changes=[messages.source_change(m, runs.get(m.key, ())) for m in page.moves],
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
        at, start = stand(request.page_token, messages.at(request.coordinates), queue.QUESTION, which)
        moment, page = await self._asking.ask(
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
