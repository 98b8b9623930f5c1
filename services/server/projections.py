"""The service `Projections`: which generations there are, and building one again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from ledger.core.errors import NotFound
from ledger.log.log import Log
from ledger.projections.generations import SOURCES, GenerationRow
from ledger.projections.projector import Projector, Rebuilt
from ledger.wire import projections_pb2, projections_pb2_grpc
from services.server.answering import Context, answers, streams


class ProjectionsService(projections_pb2_grpc.ProjectionsServicer):
    """Answers for the one projector."""

    def __init__(self, log: Log, projector: Projector) -> None:
        self._log = log
        self._projector = projector

    @answers
    async def List(
        self,
        request: projections_pb2.ListProjectionsRequest,
        context: Context,
    ) -> projections_pb2.ListProjectionsResponse:
        rows = await asyncio.to_thread(self._projector.generations.all)
        counts = [await asyncio.to_thread(self._projector.generations.count, row.id) for row in rows]
        head = await asyncio.to_thread(self._log.head)
        return projections_pb2.ListProjectionsResponse(
            generations=[_generation(row, keys) for row, (keys, _) in zip(rows, counts, strict=True)],
            log_size=head.size,
        )

    @streams
    async def Rebuild(
        self,
        request: projections_pb2.RebuildRequest,
        context: Context,
    ) -> AsyncIterator[projections_pb2.RebuildResponse]:
        if request.projection not in {"", SOURCES}:
            raise NotFound(
                f"there is no projection {request.projection!r}", remedy=f"The one projection is {SOURCES!r}."
            )
        loop = asyncio.get_running_loop()
        steps: asyncio.Queue[tuple[int, int] | None] = asyncio.Queue()

        def progress(size: int, log_size: int) -> None:
            loop.call_soon_threadsafe(steps.put_nowait, (size, log_size))

        building = asyncio.create_task(asyncio.to_thread(self._projector.rebuild, progress))
        building.add_done_callback(lambda _task: steps.put_nowait(None))
        while (step := await steps.get()) is not None:
            yield projections_pb2.RebuildResponse(size=step[0], log_size=step[1])
        yield _result(await building)


def _generation(row: GenerationRow, keys: int) -> projections_pb2.Generation:
    return projections_pb2.Generation(
        id=row.id,
        projection=SOURCES,
        rules=row.identity.rules,
        rules_digest=row.identity.rules_digest,
        fold_digest=row.identity.fold_digest,
        status=row.status,
        size=row.size,
        keys=keys,
        failed_events=row.failed_events,
    )


def _result(rebuilt: Rebuilt) -> projections_pb2.RebuildResponse:
    size = rebuilt.generation.size
    result = projections_pb2.RebuildResult(
        generation=_generation(rebuilt.generation, rebuilt.keys),
        equal=rebuilt.equal,
        differing_keys=rebuilt.differing_keys,
        intervals=rebuilt.intervals,
    )
    return projections_pb2.RebuildResponse(size=size, log_size=size, result=result)
