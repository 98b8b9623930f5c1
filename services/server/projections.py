"""The service `Projections`: which generations there are, building one, and letting one take over."""

from __future__ import annotations

import asyncio
import base64
import functools
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from typing import Annotated, Final

import msgspec

from ledger.audit.run_briefs import Briefs
from ledger.client.drafts import actor
from ledger.core.errors import InvalidInput, NotFound, Refused
from ledger.log.model import Receipt
from ledger.projections import outcomes
from ledger.projections.generations import BUILDING, KEPT, SHADOW, STALE, GenerationRow
from ledger.projections.impact import Impact
from ledger.projections.projector import Progress, Projector, Rebuilt
from ledger.projections.subjects import PROJECTIONS, SOURCES
from ledger.wire import log_pb2, projections_pb2, projections_pb2_grpc
from services.server.answering import Context, answers, streams
from services.server.audit_messages import source_change
from services.server.promoting import Promoter
from services.server.rebuilds import Rebuilds
from services.server.standing import Standing, Standings
from services.server.threads import LongQuestions

MAX_PAGE: Final = 1_000
MAX_PROCESSES: Final = 64
KEPT_IMPACTS: Final = 4
"""Differences that are being read page by page: they are not taken anew for every page."""
UNKNOWN_ACTOR: Final = actor("unknown")

Taken = tuple[GenerationRow, GenerationRow, Impact]
"""The live generation, the candidate, and what the second would move."""


class ProjectionsService(projections_pb2_grpc.ProjectionsServicer):
    """Answers for the one projector."""

    def __init__(
        self,
        projector: Projector,
        standings: Standings,
        promoter: Promoter,
        rebuilds: Rebuilds,
        questions: LongQuestions,
    ) -> None:
        self._projector = projector
        self._rebuilds = rebuilds
        self._questions = questions
        self._standings = standings
        self._promoter = promoter
        self._impacts = _Impacts()

    @answers
    async def List(
        self,
        request: projections_pb2.ListProjectionsRequest,
        context: Context,
    ) -> projections_pb2.ListProjectionsResponse:
        return await self._questions.run(self._list)

    @streams
    async def Rebuild(
        self,
        request: projections_pb2.RebuildRequest,
        context: Context,
    ) -> AsyncIterator[projections_pb2.RebuildResponse]:
        _check_rebuild(request)
        rules = await asyncio.to_thread(self._rules_of, request)
        async with aclosing(self._rebuilds.follow(rules, request.processes)) as steps:
            async for step in steps:
                if isinstance(step, Rebuilt):
                    yield await asyncio.to_thread(self._result, step)
                else:
                    yield _progress(step)

    @answers
    async def Diff(
        self,
        request: projections_pb2.GenerationDiffRequest,
        context: Context,
    ) -> projections_pb2.GenerationDiffResponse:
        return await self._questions.run(functools.partial(self._diff, request))

    @answers
    async def Promote(
        self,
        request: projections_pb2.PromoteRequest,
        context: Context,
    ) -> projections_pb2.PromoteResponse:
        _check_named(request.generation)
        if not request.diff_digest:
            raise InvalidInput(
                "diff_digest is empty: a promotion names the difference that was confirmed",
                remedy="Ask for it first: Projections.Diff, or `ledger projection diff`.",
            )
        promoted = await asyncio.to_thread(
            self._promoter.promote,
            request.generation,
            request.diff_digest,
            by=request.actor if request.actor.id else UNKNOWN_ACTOR,
            note=request.note or None,
        )
        return projections_pb2.PromoteResponse(
            generation=await asyncio.to_thread(self._generation, promoted.generation),
            receipt=_receipt(promoted.receipt),
            size=promoted.size,
            already_in_force=promoted.receipt is None,
            moved=promoted.moved,
        )

    @answers
    async def Drop(
        self,
        request: projections_pb2.DropRequest,
        context: Context,
    ) -> projections_pb2.DropResponse:
        _check_named(request.generation)
        row = await asyncio.to_thread(self._projector.drop, request.generation)
        return projections_pb2.DropResponse(generation=self._said(row, self._standings.now(), keys=0))

    def _list(self) -> projections_pb2.ListProjectionsResponse:
        standing = self._standings.now()
        rows = self._projector.generations.all()
        return projections_pb2.ListProjectionsResponse(
            generations=[self._counted(row, standing) for row in rows], log_size=standing.size
        )

    def _diff(self, request: projections_pb2.GenerationDiffRequest) -> projections_pb2.GenerationDiffResponse:
        _check_named(request.generation)
        (live, candidate, impact), start = self._impact(request)
        end = start + min(request.page_size or MAX_PAGE, MAX_PAGE)
        more = end < len(impact.moves)
        runs = self._consumers(impact)
        return projections_pb2.GenerationDiffResponse(
            live=self._generation(live),
            candidate=self._generation(candidate),
            size=impact.size,
            changes=[source_change(move, runs.get(move.key, ())) for move in impact.moves[start:end]],
            total=len(impact.moves),
            counts=outcomes.counts(impact.moves),
            diff_digest=impact.digest,
            next_page_token=_encode_token(candidate.id, impact.digest, end) if more else "",
        )

    def _consumers(self, impact: Impact) -> Mapping[str, list[str]]:
        """Of each source the runs that took it, as far as runs are folded by now."""
        states = self._projector.runs
        if states is None or not impact.moves:
            return {}
        return Briefs(states).consumers(min(impact.size, states.size()))

    def _impact(self, request: projections_pb2.GenerationDiffRequest) -> tuple[Taken, int]:
        """The difference that is asked for, and where its page starts."""
        if not request.page_token:
            taken = self._taken(request.generation)
            self._impacts.keep(taken)
            return taken, 0
        candidate, digest, start = _decode_token(request.page_token)
        kept = self._impacts.get(candidate, digest) or self._taken(request.generation)
        if (kept[1].id, kept[2].digest) != (candidate, digest):
            raise Refused(
                "the log has grown since the first page, and the difference is another one now",
                reason="DIFF_MOVED",
                remedy="Begin again with the first page.",
                details={"diff_digest": kept[2].digest, "total": str(len(kept[2].moves))},
            )
        return kept, start

    def _rules_of(self, request: projections_pb2.RebuildRequest) -> str:
        """The rule set that is to be folded: the one that is named, or answers for the projection."""
        if not request.rules:
            return self._projector.answering_rules(request.projection or SOURCES.name)
        of = self._projector.identity(request.rules).projection
        if request.projection not in {"", of}:
            raise InvalidInput(
                f"the rules {request.rules!r} are of the projection {of!r}, not of {request.projection!r}",
                remedy="Leave the projection out: a rule set belongs to one.",
            )
        return request.rules

    def _taken(self, ref: str) -> Taken:
        """The difference at the head, or as far as another release's servers have brought theirs."""
        generations = self._projector.generations
        for row in (generations.live(), self._projector.candidate(ref)):
            if row is not None and row.status != BUILDING and generations.computes(row):
                self._projector.catch_up(row.id)
        return self._projector.impact(ref)

    def _result(self, rebuilt: Rebuilt) -> projections_pb2.RebuildResponse:
        standing, row = self._standings.now(), rebuilt.generation
        result = projections_pb2.RebuildResult(
            generation=self._said(row, standing, keys=rebuilt.keys),
            equal=rebuilt.equal,
            differing_keys=rebuilt.differing_keys,
            intervals=rebuilt.intervals,
            resumed=rebuilt.resumed,
            compared_with=rebuilt.compared_with or "",
            processes=rebuilt.processes,
        )
        return projections_pb2.RebuildResponse(size=row.size, log_size=standing.size, result=result)

    def _generation(self, row: GenerationRow) -> projections_pb2.Generation:
        return self._counted(row, self._standings.now())

    def _counted(self, row: GenerationRow, standing: Standing) -> projections_pb2.Generation:
        keys, _ = self._projector.generations.count(row.id)
        return self._said(row, standing, keys=keys)

    def _said(self, row: GenerationRow, standing: Standing, *, keys: int) -> projections_pb2.Generation:
        identity = row.identity
        promoted = standing.promoted(identity.rules_digest)
        return projections_pb2.Generation(
            id=row.id,
            projection=identity.projection,
            rules=identity.rules,
            rules_digest=identity.rules_digest,
            fold_digest=identity.fold_digest,
            status=self._status(row, ever_in_force=bool(promoted)),
            size=row.size,
            keys=keys,
            failed_events=row.failed_events,
            promoted=promoted,
            adopted=standing.is_adopted(identity.rules, identity.rules_digest),
            keys_done=row.keys_done,
        )

    def _status(self, row: GenerationRow, *, ever_in_force: bool) -> str:
        """As it is to those who read: a generation that was built anew is kept like the one it replaced."""
        if not self._projector.generations.computes(row):
            return STALE
        return KEPT if row.status == SHADOW and ever_in_force else row.status


class _Impacts:
    """The differences that were taken last, by candidate and digest."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str], Taken] = OrderedDict()

    def keep(self, taken: Taken) -> None:
        self._kept[(taken[1].id, taken[2].digest)] = taken
        while len(self._kept) > KEPT_IMPACTS:
            self._kept.popitem(last=False)

    def get(self, candidate: str, digest: str) -> Taken | None:
        return self._kept.get((candidate, digest))


_Token = tuple[str, str, Annotated[int, msgspec.Meta(ge=0, lt=1 << 53)]]


def _encode_token(candidate: str, digest: str, start: int) -> str:
    """A page token: which difference, and the number of the source that the next page starts with."""
    return base64.urlsafe_b64encode(msgspec.json.encode((candidate, digest, start))).decode()


def _decode_token(token: str) -> _Token:
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(token.encode()), type=_Token)
    except ValueError:  # base64's and msgspec's own errors are ValueErrors
        raise InvalidInput(
            "the page token is not one of this call's",
            remedy="Take next_page_token from the answer before, as it is, or leave it out.",
        ) from None


def _check_rebuild(request: projections_pb2.RebuildRequest) -> None:
    if request.projection not in {"", *PROJECTIONS}:
        raise NotFound(
            f"there is no projection {request.projection!r}", remedy=f"The projections are {', '.join(PROJECTIONS)}."
        )
    if request.processes > MAX_PROCESSES:
        raise InvalidInput(
            f"processes is {request.processes}, at most {MAX_PROCESSES}",
            remedy="Leave it out: the server then takes as many as it has cores.",
        )


def _check_named(generation: str) -> None:
    if not generation:
        raise InvalidInput(
            "generation is empty", remedy="Name a generation or its rule set; `ledger projection list` shows both."
        )


def _progress(step: Progress) -> projections_pb2.RebuildResponse:
    return projections_pb2.RebuildResponse(
        size=step.size, log_size=step.log_size, phase=step.phase, done=step.done, total=step.total
    )


def _receipt(receipt: Receipt | None) -> log_pb2.Receipt | None:
    if receipt is None:
        return None
    return log_pb2.Receipt(
        pos=receipt.pos, stream_version=receipt.sv, recorded_at_us=receipt.recorded_at_us, leaf_hash=receipt.leaf
    )
