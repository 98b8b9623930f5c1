"""A ledger in memory behind the real wire: honest about ids, conditions of size, refusals and artifacts.

It plays the faults that lose or double events elsewhere: `faults` holds one entry for each coming Append, "before" (an
error, nothing recorded), "after" (recorded, and an error all the same) or "full" (a full queue).
"""

# ruff: noqa: N802  # the methods bear the names of the wire
from __future__ import annotations

import hashlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc

from ledger.client.status import grpc_code, to_refusal, to_status, trailers
from ledger.core import clock, merkle, strictjson
from ledger.core.errors import LedgerError, NotFound, Refused, Unavailable
from ledger.wire import (
    artifacts_pb2,
    artifacts_pb2_grpc,
    audit_pb2,
    audit_pb2_grpc,
    log_pb2,
    log_pb2_grpc,
    projections_pb2,
    projections_pb2_grpc,
)

START = 1_790_000_000_000_000


def refuse(context: grpc.ServicerContext, error: LedgerError) -> Any:
    context.set_trailing_metadata(trailers(error))
    context.abort(grpc_code(error), to_status(error).message)


class FakeLedger(
    log_pb2_grpc.EventLogServicer,
    artifacts_pb2_grpc.ArtifactsServicer,
    audit_pb2_grpc.AuditServicer,
    projections_pb2_grpc.ProjectionsServicer,
):
    def __init__(self) -> None:
        self.events: list[log_pb2.Event] = []
        self.drafts: dict[str, tuple[int, bytes]] = {}
        self.artifacts: dict[str, bytes] = {}
        self.received: list[bytes] = []
        self.faults: list[str] = []
        self.refused_types: set[str] = set()
        self.sources: list[audit_pb2.Source] = []
        self.why_events: list[audit_pb2.WhyEvent] = []
        self.asked: list[Any] = []
        self.page_size = 2
        self.wrong_receipts = False

    # EventLog

    def append_bytes(self, data: bytes, context: grpc.ServicerContext) -> log_pb2.AppendResponse:
        self.received.append(data)
        try:
            return self._append_with_faults(data)
        except LedgerError as error:
            return refuse(context, error)

    def append_stream_bytes(
        self, requests: Iterator[bytes], context: grpc.ServicerContext
    ) -> Iterator[log_pb2.AppendStreamResponse]:
        for number, data in enumerate(requests):
            self.received.append(data)
            try:
                answer = self._append_with_faults(data)
            except Unavailable as error:
                refuse(context, error)
            except LedgerError as error:
                yield log_pb2.AppendStreamResponse(request=number, error=to_refusal(error))
            else:
                yield log_pb2.AppendStreamResponse(request=number, response=answer)

    def _append_with_faults(self, data: bytes) -> log_pb2.AppendResponse:
        fault = self.faults.pop(0) if self.faults else ""
        if fault == "before":
            raise Unavailable("gone before it was recorded")
        if fault == "full":
            raise Unavailable("the queue is full", reason="QUEUE_FULL", details={"retry_after_ms": "1500"})
        answer = self._append(log_pb2.AppendRequest.FromString(data))
        if fault == "after":
            raise Unavailable("gone after it was recorded")
        if self.wrong_receipts:
            del answer.receipts[-1]
        return answer

    def _append(self, request: log_pb2.AppendRequest) -> log_pb2.AppendResponse:
        known = [d.id in self.drafts for d in request.drafts]
        if request.atomic and any(known) and not all(known):
            raise Refused("a part of the request is recorded", reason="PARTLY_RECORDED")
        if request.atomic and any(d.type in self.refused_types for d in request.drafts):
            raise Refused("the rules say no", remedy="Mend it.")
        return log_pb2.AppendResponse(receipts=[self._record(d) for d in request.drafts], size=len(self.events))

    def _record(self, draft: log_pb2.Draft) -> log_pb2.Receipt:
        frozen = draft.SerializeToString(deterministic=True)
        if draft.id in self.drafts:
            pos, first = self.drafts[draft.id]
            if first != frozen:
                raise Refused(f"{draft.id} is taken", reason="ID_CONFLICT")
            return self._receipt(pos, already=True)
        if draft.type in self.refused_types:
            return log_pb2.Receipt(refusal=to_refusal(Refused("the rules say no", remedy="Mend it.")))
        pos = len(self.events)
        header = self._header(draft, pos)
        self.events.append(
            log_pb2.Event(
                pos=pos, header=header, leaf_hash=merkle.leaf_hash(header), payload=draft.payload, salt=bytes(32)
            )
        )
        self.drafts[draft.id] = (pos, frozen)
        return self._receipt(pos, already=False)

    def _header(self, draft: log_pb2.Draft, pos: int) -> bytes:
        occurred = clock.to_text(draft.occurred_at_us) if draft.HasField("occurred_at_us") else None
        kind = log_pb2.ActorKind.Name(draft.actor.kind).removeprefix("ACTOR_KIND_").lower()
        return strictjson.dumps(
            {
                "v": 1,
                "log": "fake",
                "pos": pos,
                "id": draft.id,
                "type": draft.type,
                "tv": draft.type_version,
                "stream": draft.stream,
                "sv": 1 + sum(self.header(e)["stream"] == draft.stream for e in self.events),
                "prev": None,
                "recorded_at": clock.to_text(START + pos),
                "occurred_at": occurred,
                "actor": {"id": draft.actor.id, "kind": kind},
                "principal": None,
                "causes": list(draft.causes),
                "tags": list(draft.tags),
                "producer": None,
                "payload": {"len": len(draft.payload), "commitment": "00" * 32},
            }
        )

    @staticmethod
    def header(event: log_pb2.Event) -> Any:
        return strictjson.parse(event.header)

    def _receipt(self, pos: int, *, already: bool) -> log_pb2.Receipt:
        event = self.events[pos]
        return log_pb2.Receipt(
            pos=pos,
            stream_version=self.header(event)["sv"],
            recorded_at_us=START + pos,
            leaf_hash=event.leaf_hash,
            already_recorded=already,
        )

    def GetInfo(self, request: Any, context: grpc.ServicerContext) -> log_pb2.GetInfoResponse:
        return log_pb2.GetInfoResponse(origin="fake", size=len(self.events), software_version="0", auth="none")

    def Read(self, request: log_pb2.ReadRequest, context: grpc.ServicerContext) -> Iterator[log_pb2.ReadResponse]:
        self.asked.append(request)
        size = request.to_size or len(self.events)
        found = [e for e in self.events[request.from_pos : size] if self._matches(e, request.filter)]
        found = found[: request.limit or None]
        for start in range(0, len(found), self.page_size):
            page = found[start : start + self.page_size]
            yield log_pb2.ReadResponse(events=page, next_pos=page[-1].pos + 1, size=len(self.events))
        yield log_pb2.ReadResponse(next_pos=size, size=len(self.events))

    def Subscribe(
        self, request: log_pb2.SubscribeRequest, context: grpc.ServicerContext
    ) -> Iterator[log_pb2.ReadResponse]:
        """Two events a call, then the call breaks."""
        self.asked.append(request.from_pos)
        page = self.events[request.from_pos : request.from_pos + 2]
        yield log_pb2.ReadResponse(events=page, next_pos=request.from_pos + len(page), size=len(self.events))
        refuse(context, Unavailable("cut"))

    def GetEvent(self, request: log_pb2.GetEventRequest, context: grpc.ServicerContext) -> log_pb2.Event:
        pos = request.pos if request.HasField("pos") else self.drafts.get(request.id, (len(self.events), b""))[0]
        if pos >= len(self.events):
            return refuse(context, NotFound(f"no event {request.id or pos}", remedy="Ask for another."))
        return self.events[pos]

    def _matches(self, event: log_pb2.Event, wanted: log_pb2.Filter) -> bool:
        header = self.header(event)
        return (
            (not wanted.streams or header["stream"] in wanted.streams)
            and (not wanted.types or header["type"] in wanted.types)
            and set(wanted.tags) <= set(header["tags"])
        )

    # Artifacts

    def Put(self, request_iterator: Any, context: grpc.ServicerContext) -> artifacts_pb2.Artifact:
        named = next(request_iterator).artifact
        chunks = [m.chunk for m in request_iterator]
        self.asked.append([len(c) for c in chunks])
        data = b"".join(chunks)
        if hashlib.sha256(data).hexdigest() != named.sha256 or len(data) != named.size:
            return refuse(context, Refused("the bytes are others", reason="HASH_MISMATCH"))
        self.artifacts[named.sha256] = data
        return named

    def Get(self, request: Any, context: grpc.ServicerContext) -> Iterator[artifacts_pb2.GetArtifactResponse]:
        if request.sha256 not in self.artifacts:
            refuse(context, NotFound(f"no artifact {request.sha256}"))
        data = self.artifacts[request.sha256]
        artifact = artifacts_pb2.Artifact(sha256=request.sha256, size=len(data))
        yield artifacts_pb2.GetArtifactResponse(artifact=artifact)
        yield artifacts_pb2.GetArtifactResponse(chunk=data)

    def Stat(self, request: Any, context: grpc.ServicerContext) -> artifacts_pb2.StatArtifactsResponse:
        stats = [
            artifacts_pb2.ArtifactStat(sha256=h, size=len(self.artifacts[h]) if h in self.artifacts else None)
            for h in request.sha256
        ]
        return artifacts_pb2.StatArtifactsResponse(artifacts=stats)

    # Audit

    def _coordinates(self, asked: audit_pb2.Coordinates) -> audit_pb2.AnswerCoordinates:
        size = asked.size if asked.WhichOneof("at") == "size" else len(self.events)
        moment = START + size - 1 if size else None
        return audit_pb2.AnswerCoordinates(size=size, recorded_at_us=moment, final=size < len(self.events), rules="r1")

    def _find(self, source_id: str, context: grpc.ServicerContext) -> audit_pb2.Source:
        for source in self.sources:
            if source.id == source_id:
                return source
        return refuse(context, NotFound(f"no source {source_id}", remedy="`ledger source list` names them."))

    def SourceAsOf(self, request: Any, context: grpc.ServicerContext) -> audit_pb2.SourceAsOfResponse:
        self.asked.append(request)
        return audit_pb2.SourceAsOfResponse(
            source=self._find(request.id, context), coordinates=self._coordinates(request.coordinates)
        )

    def ListSources(self, request: Any, context: grpc.ServicerContext) -> audit_pb2.ListSourcesResponse:
        self.asked.append(audit_pb2.ListSourcesRequest.FromString(request.SerializeToString()))
        start = int(request.page_token or 0)
        found = [s for s in self.sources if not s.retired or request.filter.include_retired]
        end = start + self.page_size
        return audit_pb2.ListSourcesResponse(
            sources=found[start:end],
            next_page_token=str(end) if end < len(found) else "",
            total=len(found),
            coordinates=self._coordinates(request.coordinates),
        )

    def Why(self, request: Any, context: grpc.ServicerContext) -> audit_pb2.WhyResponse:
        self.asked.append(request)
        return audit_pb2.WhyResponse(
            source=self._find(request.id, context),
            events=self.why_events,
            coordinates=self._coordinates(request.coordinates),
        )

    # Projections

    def List(self, request: Any, context: grpc.ServicerContext) -> projections_pb2.ListProjectionsResponse:
        live = projections_pb2.Generation(id="g1", projection="sources", rules="r1", status="live", size=3, keys=2)
        return projections_pb2.ListProjectionsResponse(generations=[live], log_size=len(self.events))

    def Rebuild(self, request: Any, context: grpc.ServicerContext) -> Iterator[projections_pb2.RebuildResponse]:
        size = len(self.events)
        yield projections_pb2.RebuildResponse(size=0, log_size=size)
        live = projections_pb2.Generation(id="g2", projection="sources", rules="r1", status="live", size=size, keys=2)
        result = projections_pb2.RebuildResult(generation=live, equal=True, intervals=4)
        yield projections_pb2.RebuildResponse(size=size, log_size=size, result=result)


def _raw_appends(ledger: FakeLedger) -> dict[str, grpc.RpcMethodHandler]:
    """Appends that are handed over as the bytes that came, before a parser saw them."""
    return {
        "Append": grpc.unary_unary_rpc_method_handler(
            ledger.append_bytes, response_serializer=log_pb2.AppendResponse.SerializeToString
        ),
        "AppendStream": grpc.stream_stream_rpc_method_handler(
            ledger.append_stream_bytes, response_serializer=log_pb2.AppendStreamResponse.SerializeToString
        ),
    }


@contextmanager
def serving(ledger: FakeLedger, folder: Path) -> Iterator[str]:
    """Serves the ledger on a socket in the folder; gives its address."""
    server = grpc.server(ThreadPoolExecutor(max_workers=4), options=[("grpc.max_receive_message_length", 2**25)])
    log_pb2_grpc.add_EventLogServicer_to_server(ledger, server)
    server.add_registered_method_handlers("atlas.ledger.v1.EventLog", _raw_appends(ledger))
    artifacts_pb2_grpc.add_ArtifactsServicer_to_server(ledger, server)
    audit_pb2_grpc.add_AuditServicer_to_server(ledger, server)
    projections_pb2_grpc.add_ProjectionsServicer_to_server(ledger, server)
    address = f"unix:{folder}/ledger.sock"
    server.add_insecure_port(address)
    server.start()
    try:
        yield address
    finally:
        server.stop(0).wait()
