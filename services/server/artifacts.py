"""The service `Artifacts`: evidence bytes in and out, in chunks."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Final

from ledger.artifacts.directory import CHUNK, ArtifactDirectory
from ledger.core.errors import InvalidInput
from ledger.wire import artifacts_pb2, artifacts_pb2_grpc
from services.server.answering import Context, answers, streams

MAX_STATS: Final = 1_000


class ArtifactsService(artifacts_pb2_grpc.ArtifactsServicer):
    """Answers for one artifact store."""

    def __init__(self, store: ArtifactDirectory) -> None:
        self._store = store

    @answers
    async def Put(
        self,
        request_iterator: AsyncIterator[artifacts_pb2.PutArtifactRequest],
        context: Context,
    ) -> artifacts_pb2.Artifact:
        first = await anext(request_iterator, None)
        if first is None or first.WhichOneof("part") != "artifact":
            raise InvalidInput("the first message must name the artifact", remedy="Send its SHA-256 and size first.")
        named = first.artifact
        # Opened here and not in a thread: a call that is cancelled meanwhile would leave its file behind.
        with self._store.put(named.sha256, named.size) as incoming:
            async for message in request_iterator:
                await asyncio.to_thread(incoming.write, _chunk(message))
            await asyncio.to_thread(incoming.finish)
        return named

    @streams
    async def Get(
        self,
        request: artifacts_pb2.GetArtifactRequest,
        context: Context,
    ) -> AsyncIterator[artifacts_pb2.GetArtifactResponse]:
        file = await asyncio.to_thread(self._store.open, request.sha256)
        with file:
            size = os.fstat(file.fileno()).st_size
            yield artifacts_pb2.GetArtifactResponse(artifact=artifacts_pb2.Artifact(sha256=request.sha256, size=size))
            while chunk := await asyncio.to_thread(file.read, CHUNK):
                yield artifacts_pb2.GetArtifactResponse(chunk=chunk)

    @answers
    async def Stat(
        self,
        request: artifacts_pb2.StatArtifactsRequest,
        context: Context,
    ) -> artifacts_pb2.StatArtifactsResponse:
        if len(request.sha256) > MAX_STATS:
            raise InvalidInput(
                f"{len(request.sha256)} artifacts are asked for, at most {MAX_STATS}",
                reason="TOO_LARGE",
                remedy="Ask in several calls.",
            )
        stats = [artifacts_pb2.ArtifactStat(sha256=name, size=self._store.size(name)) for name in request.sha256]
        return artifacts_pb2.StatArtifactsResponse(artifacts=stats)


def _chunk(message: artifacts_pb2.PutArtifactRequest) -> bytes:
    if message.WhichOneof("part") != "chunk":
        raise InvalidInput("after the first message come chunks", remedy="Send one artifact a call.")
    if len(message.chunk) > CHUNK:
        raise InvalidInput(
            f"a chunk of {len(message.chunk)} bytes, at most {CHUNK}",
            reason="TOO_LARGE",
            remedy="Send smaller chunks.",
        )
    return message.chunk
