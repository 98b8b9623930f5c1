"""How every call answers: a value, or the one form of an error.

A `LedgerError` becomes the gRPC status of the error table, with its details. Anything else is a fault of the server: it
is logged whole, and the caller hears that it happened, not what was in it.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

import grpc
import grpc.aio
import structlog

from ledger.client.status import grpc_code, to_status, trailers
from ledger.core.errors import LedgerError

log = structlog.get_logger(__name__)

Servicer = TypeVar("Servicer")
Request = TypeVar("Request")
Response = TypeVar("Response")
Context = grpc.aio.ServicerContext[Any, Any]


def answers(
    handler: Callable[[Servicer, Request, Context], Awaitable[Response]],
) -> Callable[[Servicer, Request, Context], Awaitable[Response]]:
    """For a call with one answer."""

    @functools.wraps(handler)
    async def call(servicer: Servicer, request: Request, context: Context) -> Response:
        try:
            return await handler(servicer, request, context)
        except Exception as error:  # noqa: BLE001  # the caller hears of every fault
            await abort(error, context, call=handler.__name__)
        raise AssertionError

    return call


def streams(
    handler: Callable[[Servicer, Request, Context], AsyncIterator[Response]],
) -> Callable[[Servicer, Request, Context], AsyncIterator[Response]]:
    """For a call with many answers."""

    @functools.wraps(handler)
    async def call(servicer: Servicer, request: Request, context: Context) -> AsyncIterator[Response]:
        try:
            async for response in handler(servicer, request, context):
                yield response
        except Exception as error:  # noqa: BLE001  # the caller hears of every fault
            await abort(error, context, call=handler.__name__)

    return call


def as_ledger_error(error: BaseException) -> LedgerError:
    """The error itself, or one that says that the server is at fault."""
    if isinstance(error, LedgerError):
        return error
    log.error("a call failed", exc_info=error)
    return LedgerError(
        f"a fault of the server: {type(error).__name__}",
        remedy="Look at the server's log. Repeating the call is safe.",
    )


async def abort(error: Exception, context: Context, *, call: str) -> None:
    """Ends a call with an error; what was sent, and the error's text, may be confidential and are not logged."""
    if isinstance(error, (grpc.aio.AbortError, grpc.aio.UsageError)):
        raise error
    known = as_ledger_error(error)
    log.debug("refused", call=call, reason=known.reason)
    await context.abort(grpc_code(known), to_status(known).message, trailers(known))
