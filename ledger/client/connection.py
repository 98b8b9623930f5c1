"""One connection to a ledger: the channel, a deadline for every call, and one kind of error.

Whatever goes wrong on the way is raised as a `LedgerError`; no gRPC error escapes. A connection is made lazily, by its
first call, and heals by itself. It may be used by several threads at once.

    with connect("127.0.0.1:7410") as connection:
        print(connection.call(connection.log.GetInfo, log_pb2.GetInfoRequest()).size)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any, Final, Protocol, Self, TypeVar

import grpc

from ledger.client.status import from_rpc_error
from ledger.core.errors import InvalidInput
from ledger.wire import (
    artifacts_pb2_grpc,
    audit_pb2_grpc,
    log_pb2,
    log_pb2_grpc,
    projections_pb2_grpc,
    runs_pb2_grpc,
)

DEFAULT_TIMEOUT: Final = 30.0
STREAM_TIMEOUT: Final = 600.0
"""Of a call that carries many messages; who reads without end opens the next call when it is over."""
MAX_MESSAGE: Final = 32 * 1024 * 1024
"""Bytes of one message: twice the largest request, since an answer may be larger than what asked for it."""
MAX_TRAILERS: Final = 64 * 1024
KEEPALIVE_MS: Final = 60_000
"""How often an open call asks whether the server is still there."""

_ADDRESS: Final = re.compile(r"(?:(?P<host>[^\s:/\[\]]+)|\[(?P<six>[0-9a-fA-F:.]+)\]):(?P<port>\d{1,5})", re.ASCII)
_LOOPBACK: Final = re.compile(r"localhost|127(?:\.\d+){3}|::1", re.ASCII)

Answer_co = TypeVar("Answer_co", covariant=True)


class _Call(Protocol[Answer_co]):
    """A method of a generated stub that answers once."""

    def __call__(self, request: Any, timeout: float | None = ..., /) -> Answer_co: ...


class _StreamCall(Protocol[Answer_co]):
    """A method of a generated stub that answers many times."""

    def __call__(self, request: Any, timeout: float | None = ..., /) -> Iterator[Answer_co]: ...


class Connection:
    """The stubs of a ledger's services over one channel, and the two ways to call them."""

    def __init__(self, channel: grpc.Channel, address: str, timeout: float = DEFAULT_TIMEOUT) -> None:
        self.address = address
        self.timeout = timeout
        self.log = log_pb2_grpc.EventLogStub(channel)
        self.artifacts = artifacts_pb2_grpc.ArtifactsStub(channel)
        self.audit = audit_pb2_grpc.AuditStub(channel)
        self.projections = projections_pb2_grpc.ProjectionsStub(channel)
        self.runs = runs_pb2_grpc.RunsStub(channel)
        # These two take a request that is bytes already, so that a repetition sends the very same ones.
        self.append = channel.unary_unary(
            "/atlas.ledger.v1.EventLog/Append",
            request_serializer=_as_it_is,
            response_deserializer=log_pb2.AppendResponse.FromString,
        )
        self.append_stream = channel.stream_stream(
            "/atlas.ledger.v1.EventLog/AppendStream",
            request_serializer=_as_it_is,
            response_deserializer=log_pb2.AppendStreamResponse.FromString,
        )
        self._channel = channel

    def call(self, method: _Call[Answer_co], request: Any, *, timeout: float | None = None) -> Answer_co:
        """Calls a method that answers once; `request` is an iterator where the method takes a stream.

        Raises:
            LedgerError: what the server said, or why there is no answer.
        """
        try:
            return method(request, timeout or self.timeout)
        except grpc.RpcError as error:
            raise from_rpc_error(error, self.address) from None

    def stream(
        self, method: _StreamCall[Answer_co], request: Any | Iterable[Any], *, timeout: float = STREAM_TIMEOUT
    ) -> Iterator[Answer_co]:
        """Calls a method that answers many times. Leaving the iterator early cancels the call."""
        answers = method(request, timeout)
        try:
            yield from answers
        except grpc.RpcError as error:
            raise from_rpc_error(error, self.address) from None
        finally:
            if isinstance(answers, grpc.RpcContext):
                answers.cancel()

    def close(self) -> None:
        """Ends the connection; calls that are still open fail."""
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def connect(address: str, *, timeout: float = DEFAULT_TIMEOUT) -> Connection:
    """A connection to the ledger at `HOST:PORT` or `unix:/PATH`; nothing is sent before the first call.

    Args:
        timeout: Seconds that a call may take unless it says otherwise.

    Raises:
        InvalidInput: reason USAGE, if it is no such address.
    """
    options: list[tuple[str, Any]] = [
        ("grpc.max_send_message_length", MAX_MESSAGE),
        ("grpc.max_receive_message_length", MAX_MESSAGE),
        ("grpc.max_metadata_size", MAX_TRAILERS),
        ("grpc.absolute_max_metadata_size", MAX_TRAILERS),
        ("grpc.keepalive_time_ms", KEEPALIVE_MS),
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.max_reconnect_backoff_ms", 5_000),
    ]
    if _is_local(address):
        options.append(("grpc.enable_http_proxy", 0))
    return Connection(grpc.insecure_channel(address, options=options), address, timeout)


def _is_local(address: str) -> bool:
    """Whether the address is on this machine, where no proxy is asked.

    Raises:
        InvalidInput: if it is no address.
    """
    if address.startswith("unix:") and len(address) > len("unix:"):
        return True
    parts = _ADDRESS.fullmatch(address)
    if parts is None or not 0 < int(parts["port"]) < 65_536:
        raise InvalidInput(
            f"{address!r} is no address of a ledger",
            reason="USAGE",
            remedy="Write HOST:PORT, such as 127.0.0.1:7410, or unix:/PATH of a socket.",
        )
    return _LOOPBACK.fullmatch(parts["host"] or parts["six"]) is not None


def _as_it_is(request: bytes) -> bytes:
    return request
