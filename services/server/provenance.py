"""The service `Provenance`: what trainers and exporters tell, each kind of event as a message of its own.

A request becomes the one that `EventLog.Append` would take, and goes the same way from there: conditions, decisions,
receipts and refusals are those of that door. A fact that cannot become a draft is refused like a draft that is wrong.

Bytes that are no request are refused like any other fault of one, and a stream goes on after them. A trainer's
configuration may nest deeper than protobuf reads, and a sender that is told of a fault of the server sends it for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from ledger.core.errors import InvalidInput
from ledger.log.model import Outcome
from ledger.wire import log_pb2, provenance_pb2
from services.server.answering import Context, answers, as_ledger_error, streams
from services.server.appending import Appender, Intake, Pending, Refusals, check_bytes, failed
from services.server.event_log import appended, stream_answers
from services.server.provenance_drafts import EVENT, TYPES, drafts_of, newer_contract
from services.server.provenance_payloads import holds_strangers, strangers

INLINE_BYTES: Final = 64 << 10
"""A larger request is translated in a thread: the loop answers others meanwhile."""
SERVICE: Final[str] = provenance_pb2.DESCRIPTOR.services_by_name["Provenance"].full_name
_DECISIONS: Final = frozenset(name for name, kind in TYPES.items() if kind.decision)

Received = provenance_pb2.RecordRequest | InvalidInput
"""A request, or why its bytes are none."""


class ProvenanceService:
    """Takes facts for one log."""

    def __init__(self, appender: Appender, *, stopping: asyncio.Event) -> None:
        self._facts = Facts(appender)
        self._stopping = stopping

    @answers
    async def Record(self, request: Received, context: Context) -> log_pb2.AppendResponse:
        return appended(await self._facts.append(request))

    @streams
    async def RecordStream(
        self, request_iterator: AsyncIterator[Received], context: Context
    ) -> AsyncIterator[log_pb2.AppendStreamResponse]:
        """Takes requests in order, answers in order; many may wait for the disk at once."""
        async for answer in stream_answers(Intake(self._facts, request_iterator, self._stopping)):
            yield answer


def register(service: ProvenanceService, server: grpc.aio.Server) -> None:
    """Adds the service to a server, so that it sees the requests that are none too."""
    answer = log_pb2.AppendResponse.SerializeToString
    stream_answer = log_pb2.AppendStreamResponse.SerializeToString
    handlers = {
        "Record": grpc.unary_unary_rpc_method_handler(service.Record, received, answer),
        "RecordStream": grpc.stream_stream_rpc_method_handler(service.RecordStream, received, stream_answer),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))


def received(data: bytes) -> Received:
    """The request that was sent."""
    try:
        return provenance_pb2.RecordRequest.FromString(data)
    except DecodeError as error:
        return InvalidInput(
            f"the bytes are no request that can be read: {error}",
            remedy="Send a RecordRequest as protobuf writes it. Messages nest to 100 at most, and a Struct to some 30 "
            "objects: what is deeper goes into the artifact store, and the event cites it.",
        )


class Facts:
    """Hands facts to an appender, as drafts."""

    def __init__(self, appender: Appender) -> None:
        self._appender = appender

    def decides(self, request: Received) -> bool:
        """Whether the request rests on what was recorded before it."""
        return not isinstance(request, InvalidInput) and any(
            fact.WhichOneof(EVENT) in _DECISIONS for fact in request.facts
        )

    async def append(self, request: Received) -> Outcome:
        drafts, refused = await self._translated(request)
        return await self._appender.append(drafts, refused)

    async def submit_when_there_is_room(self, request: Received) -> Pending:
        try:
            drafts, refused = await self._translated(request)
        except Exception as error:  # noqa: BLE001  # answered in its turn
            return failed(as_ledger_error(error))
        return await self._appender.submit_when_there_is_room(drafts, refused)

    async def _translated(self, request: Received) -> tuple[log_pb2.AppendRequest, Refusals]:
        if isinstance(request, InvalidInput):
            raise request
        check_bytes(request)
        if request.ByteSize() <= INLINE_BYTES:
            return translated(request)
        return await asyncio.to_thread(translated, request)


def translated(request: provenance_pb2.RecordRequest) -> tuple[log_pb2.AppendRequest, Refusals]:
    """The request that `EventLog.Append` would take, and the facts that cannot be in it.

    Raises:
        InvalidInput: the request holds no fact, or asks for something beside its facts that is not known here.
    """
    if not request.facts:
        raise InvalidInput("the request holds no fact", remedy="Send at least one.")
    unknown = strangers(request, "request") if holds_strangers(request) else []
    for number, condition in enumerate(request.conditions):
        unknown += strangers(condition, f"conditions[{number}]")
    if unknown:
        raise newer_contract(unknown)
    drafts, refused = drafts_of(request.facts)
    return log_pb2.AppendRequest(drafts=drafts, conditions=request.conditions, atomic=request.atomic), refused
