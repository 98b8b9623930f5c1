"""The service `Runs`: what was trained on what, what came of it, and whether sources may be trained on.

Each call is a question of `ledger.audit` in the wire's words; `services.server.asking` asks it. An answer stands at a
size that both projections have reached: of what is shown of sources, and of what is known of runs.
"""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import AsyncIterator, Callable
from itertools import chain, repeat
from typing import TypeVar

from ledger.audit import reading, run_lists
from ledger.audit.coordinates import At, Clockwork, Moment
from ledger.audit.run_questions import RunQuestions
from ledger.rules.sets import rules_digest
from ledger.wire import runs_pb2, runs_pb2_grpc
from services.server import audit_messages
from services.server import runs_messages as messages
from services.server.answering import Context, answers, streams
from services.server.asking import Asking, raising, stand
from services.server.threads import LongQuestions

Answer = TypeVar("Answer")


class RunsServicer(runs_pb2_grpc.RunsServicer):
    """All questions about the runs of one log."""

    def __init__(
        self, clockwork: Clockwork, over: RunQuestions, questions: LongQuestions, *, stopping: asyncio.Event
    ) -> None:
        self._asking = Asking(clockwork, questions, stopping=stopping)
        self._over = over
        self._questions = questions

    @answers
    async def RunAsOf(self, request: runs_pb2.RunAsOfRequest, context: Context) -> runs_pb2.RunAsOfResponse:
        at = audit_messages.at(request.coordinates)

        def answer(moment: Moment, check: reading.Check) -> runs_pb2.RunAsOfResponse:
            found = self._over.run(request.id, moment, _named(at, moment), check)
            return messages.whole_run(found, self._coordinates(moment, at))

        return await self._answer(at, answer, context)

    @answers
    async def ListRuns(self, request: runs_pb2.ListRunsRequest, context: Context) -> runs_pb2.ListRunsResponse:
        which = messages.run_filter(request.filter)
        at, start = stand(request.page_token, audit_messages.at(request.coordinates), run_lists.QUESTION, which)

        def answer(moment: Moment, _: reading.Check) -> runs_pb2.ListRunsResponse:
            page = self._over.page(moment, which, size=request.page_size, start=start)
            return messages.run_page(page, self._coordinates(moment, at))

        return await self._answer(at, answer, context)

    @streams
    async def Steps(self, request: runs_pb2.StepsRequest, context: Context) -> AsyncIterator[runs_pb2.StepsResponse]:
        wanted, gone = messages.wanted(request), threading.Event()
        at = audit_messages.at(request.coordinates)
        moment, known = await self._asking.ask(at, lambda moment, _: self._over.steps.series(moment, wanted), context)
        pages = self._over.steps.pages(moment, wanted, known, raising(gone))
        told = map(messages.steps, pages, chain([self._coordinates(moment, at)], repeat(None)))
        try:
            while (answer := await self._questions.run(functools.partial(next, told, None))) is not None:
                yield answer
        finally:
            gone.set()

    @answers
    async def Sweep(self, request: runs_pb2.SweepRequest, context: Context) -> runs_pb2.SweepResponse:
        at = audit_messages.at(request.coordinates)

        def answer(moment: Moment, check: reading.Check) -> runs_pb2.SweepResponse:
            unlike = request.compare_unlike
            found = self._over.sweep(moment, request.campaign_id, compare_unlike=unlike, check=check)
            return messages.sweep(found, self._coordinates(moment, at))

        return await self._answer(at, answer, context)

    @answers
    async def Lineage(self, request: runs_pb2.LineageRequest, context: Context) -> runs_pb2.LineageResponse:
        asked, at = messages.trace(request), audit_messages.at(request.coordinates)

        def answer(moment: Moment, _: reading.Check) -> runs_pb2.LineageResponse:
            nodes, edges = self._over.lineage(moment, asked)
            return messages.lineage(nodes, edges, self._coordinates(moment, at))

        return await self._answer(at, answer, context)

    @answers
    async def BlastRadius(self, request: runs_pb2.BlastRadiusRequest, context: Context) -> runs_pb2.BlastRadiusResponse:
        of, at = messages.of_source(request), audit_messages.at(request.coordinates)

        def answer(moment: Moment, check: reading.Check) -> runs_pb2.BlastRadiusResponse:
            concern, found = self._over.blast_radius(moment, of, _named(at, moment), check)
            return messages.blast_radius(concern, found, self._coordinates(moment, at))

        return await self._answer(at, answer, context)

    @answers
    async def Turned(self, request: runs_pb2.TurnedRequest, context: Context) -> runs_pb2.TurnedResponse:
        at, runs = audit_messages.at(request.coordinates), frozenset(request.runs)

        def answer(moment: Moment, check: reading.Check) -> runs_pb2.TurnedResponse:
            turns = self._over.turned(moment, runs, request.since, check)
            return runs_pb2.TurnedResponse(turns=map(messages.turn, turns), coordinates=self._coordinates(moment, at))

        return await self._answer(at, answer, context)

    @answers
    async def Check(self, request: runs_pb2.CheckRequest, context: Context) -> runs_pb2.CheckResponse:
        demand = messages.demand(request)

        def answer(moment: Moment, check: reading.Check) -> runs_pb2.CheckResponse:
            verdicts, root = self._over.check(moment, demand, check)
            return messages.checked(demand, verdicts, moment, root=root, origin=self._over.origin)

        return await self._answer(audit_messages.at(request.coordinates), answer, context)

    async def _answer(self, at: At, answer: Callable[[Moment, reading.Check], Answer], context: Context) -> Answer:
        """Messages are made where the question is answered: of a long run that is work too."""
        _, made = await self._asking.ask(at, answer, context)
        return made

    def _coordinates(self, moment: Moment, at: At) -> runs_pb2.RunCoordinates:
        run_rules = self._over.facts.rules.id
        return messages.coordinates(moment, _named(at, moment), run_rules, rules_digest(run_rules))


def _named(at: At, moment: Moment) -> str:
    """The rule set for sources, where one was asked for: "now" is the one in force at the head."""
    return moment.rules if at.rules else ""
