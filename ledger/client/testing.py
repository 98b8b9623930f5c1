"""A ledger within the process, for the tests of whoever writes to one. It keeps all in memory and judges no rules.

    with FakeLedger() as ledger, Recorder(ledger.address, run="r", spool=folder) as rec:
        train(rec)
        rec.flush()
    assert [e.type for e in ledger.events] == ["run.declared", "attempt.started", ...]

It stands behind the real wire and keeps the promises that clients build on: an id is recorded once, with the content
that it came with first; a stream is of a kind that holds the type, and a payload is checked by the type's model; drafts
of a request that is not atomic are judged one by one. And it plays what goes wrong with networks: `faults` holds one
entry for each coming request, "before" (it fails, nothing is recorded), "after" (it is recorded and fails all the
same), "full" (the queue is full) or "".
"""

# ruff: noqa: N802  # the methods bear the names of the wire
from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, NoReturn, Self

import grpc

from ledger.client.connection import MAX_MESSAGE
from ledger.client.status import grpc_code, to_refusal, to_status, trailers
from ledger.core import merkle, strictjson
from ledger.core.errors import InvalidInput, LedgerError, Refused, Unavailable
from ledger.core.text import is_header_text
from ledger.events import REGISTRY
from ledger.events.registry import EventType
from ledger.wire import log_pb2, log_pb2_grpc

_START_US: Final = 1_790_000_000_000_000
_MAX_STREAM: Final = 512


@dataclass(frozen=True)
class FakeEvent:
    """One event as it was sent."""

    pos: int
    stream_version: int
    draft: log_pb2.Draft

    @property
    def id(self) -> str:
        return self.draft.id

    @property
    def type(self) -> str:
        return self.draft.type

    @property
    def stream(self) -> str:
        return self.draft.stream

    @property
    def payload(self) -> Any:
        return strictjson.parse(self.draft.payload)

    @property
    def producer(self) -> tuple[str, int, int]:
        """Id, epoch and number."""
        return (self.draft.producer.id, self.draft.producer.epoch, self.draft.producer.seq)


class FakeLedger(log_pb2_grpc.EventLogServicer):
    """An honest ledger in memory, served at `address` while it is entered.

    Args:
        refused: Event types that it refuses, as rules may refuse a decision.
    """

    def __init__(self, *, refused: frozenset[str] = frozenset()) -> None:
        self.events: list[FakeEvent] = []  # guarded by _lock
        self.requests: list[log_pb2.AppendRequest] = []
        self.faults: list[str] = []
        self.refused = refused
        self.away = False
        """While it is set, nobody is there."""
        self.address = ""
        self._by_id: dict[str, FakeEvent] = {}
        self._versions: dict[str, int] = {}
        self._lock = threading.Lock()
        self._server: grpc.Server | None = None

    def __enter__(self) -> Self:
        self._server = grpc.server(ThreadPoolExecutor(8), options=[("grpc.max_receive_message_length", MAX_MESSAGE)])
        log_pb2_grpc.add_EventLogServicer_to_server(self, self._server)
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.stop(0).wait()

    def of_type(self, type_: str) -> list[FakeEvent]:
        return [e for e in self.events if e.type == type_]

    def GetInfo(self, request: Any, context: grpc.ServicerContext) -> log_pb2.GetInfoResponse:  # noqa: ARG002  # gRPC calls it
        if self.away:
            _fail(context, Unavailable("nobody is there"))
        kinds = [log_pb2.EventType(type=k.type, versions=[k.version], family=k.family) for k in REGISTRY]
        return log_pb2.GetInfoResponse(origin="fake", size=len(self.events), auth="none", event_types=kinds)

    def Append(self, request: log_pb2.AppendRequest, context: grpc.ServicerContext) -> log_pb2.AppendResponse:
        try:
            return self._answer(request)
        except LedgerError as error:
            _fail(context, error)

    def AppendStream(
        self, request_iterator: Iterator[log_pb2.AppendRequest], context: grpc.ServicerContext
    ) -> Iterator[log_pb2.AppendStreamResponse]:
        for number, request in enumerate(request_iterator):
            try:
                yield log_pb2.AppendStreamResponse(request=number, response=self._answer(request))
            except Unavailable as error:
                _fail(context, error)
            except LedgerError as error:
                yield log_pb2.AppendStreamResponse(request=number, error=to_refusal(error))

    def _answer(self, request: log_pb2.AppendRequest) -> log_pb2.AppendResponse:
        with self._lock:
            self.requests.append(request)
            fault = "before" if self.away else self.faults.pop(0) if self.faults else ""
            if fault == "before":
                raise Unavailable("gone before it was recorded")
            if fault == "full":
                raise Unavailable("the queue is full", reason="QUEUE_FULL", details={"retry_after_ms": "20"})
            answer = self._append(request)
        if fault == "after":
            raise Unavailable("gone after it was recorded")
        return answer

    def _append(self, request: log_pb2.AppendRequest) -> log_pb2.AppendResponse:
        faults = [self._fault(draft) for draft in request.drafts]
        if request.atomic:
            for fault in filter(None, faults):
                raise fault
        receipts = [
            log_pb2.Receipt(refusal=to_refusal(fault)) if fault is not None else self._record(draft)
            for draft, fault in zip(request.drafts, faults, strict=True)
        ]
        return log_pb2.AppendResponse(receipts=receipts, size=len(self.events))

    def _fault(self, draft: log_pb2.Draft) -> LedgerError | None:
        if draft.type in self.refused:
            return Refused(f"the rules refuse {draft.type}", remedy="Mend it.")
        version = draft.type_version or 1
        try:
            _check_stream(draft.stream, REGISTRY.get(draft.type, version))
            REGISTRY.check(draft.type, version, draft.payload)
        except LedgerError as error:
            return error
        return None

    def _record(self, draft: log_pb2.Draft) -> log_pb2.Receipt:
        known = self._by_id.get(draft.id)
        if known is None:
            version = self._versions[draft.stream] = self._versions.get(draft.stream, 0) + 1
            event = FakeEvent(len(self.events), version, log_pb2.Draft.FromString(draft.SerializeToString()))
            self.events.append(event)
            self._by_id[draft.id] = event
            return _receipt(event, already=False)
        if known.draft != draft:
            taken = Refused(f"the id {draft.id} is taken", reason="ID_CONFLICT", remedy="Make a new id.")
            return log_pb2.Receipt(refusal=to_refusal(taken))
        return _receipt(known, already=True)


def _check_stream(stream: str, kind: EventType) -> None:
    """As the log does: a type has its kinds of stream, and all but `ledger` have a name."""
    name, slash, rest = stream.partition("/")
    if name in kind.streams and (not slash if name == "ledger" else bool(rest)) and is_header_text(stream, _MAX_STREAM):
        return
    kinds = " or ".join(s if s == "ledger" else f"{s}/<name>" for s in kind.streams)
    raise InvalidInput(f"stream must be {kinds} for {kind.type}", remedy="Name a stream that holds the type.")


def _receipt(event: FakeEvent, *, already: bool) -> log_pb2.Receipt:
    return log_pb2.Receipt(
        pos=event.pos,
        stream_version=event.stream_version,
        recorded_at_us=_START_US + event.pos,
        leaf_hash=merkle.leaf_hash(event.draft.SerializeToString(deterministic=True)),
        already_recorded=already,
    )


def _fail(context: grpc.ServicerContext, error: LedgerError) -> NoReturn:
    context.set_trailing_metadata(trailers(error))
    context.abort(grpc_code(error), to_status(error).message)
    raise AssertionError("unreachable: to abort raises")
