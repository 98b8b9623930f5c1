"""The one mapping between `LedgerError` and what goes over the wire. The server writes with it, the SDK reads with it.

- A failed call carries a `google.rpc.Status`: ErrorInfo (reason, domain, metadata: the remedy and the details),
  BadRequest (a field violation for each problem) and, when `details` holds `retry_after_ms`, RetryInfo.
- A failed request of a stream, or a refused draft, carries a `Refusal` with the same content.
- An error that is not the ledger's own, such as a refused connection, becomes the nearest `LedgerError` with a remedy.

Trailers are small: gRPC peers drop a call whose metadata is larger than 8 KiB. So texts are clipped, problems are
capped, and what was left out is counted in `details["problems_left_out"]`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

from ledger.core.errors import (
    DOMAIN,
    REASONS,
    Broken,
    InvalidInput,
    LedgerError,
    NotFound,
    Problem,
    Refused,
    Unavailable,
)
from ledger.wire import log_pb2

TRAILER: Final = "grpc-status-details-bin"
MAX_PROBLEMS: Final = 50
MAX_TEXT: Final = 1_000
"""Bytes of a text in a status or a refusal."""
MAX_MESSAGE: Final = 1_200
"""Bytes of the message as the trailer `grpc-message` writes it, percent-encoded."""
MAX_STATUS: Final = 5 * 1024
"""Bytes of the status: about 6.7 KiB in base64, which leaves room for the message within 8 KiB."""
_ROOM_FOR_DETAILS: Final = 2 * 1024
_REMEDY: Final = "remedy"
_LEFT_OUT: Final = "problems_left_out"
_RETRY_AFTER: Final = "retry_after_ms"

_KINDS: Final[Mapping[str, type[LedgerError]]] = {
    "INVALID_ARGUMENT": InvalidInput,
    "NOT_FOUND": NotFound,
    "ALREADY_EXISTS": Refused,
    "FAILED_PRECONDITION": Refused,
    "PERMISSION_DENIED": Refused,
    "RESOURCE_EXHAUSTED": Unavailable,
    "UNAVAILABLE": Unavailable,
    "DEADLINE_EXCEEDED": Unavailable,
    "DATA_LOSS": Broken,
}

_FOREIGN: Final[Mapping[str, tuple[str, str]]] = {
    "UNAVAILABLE": ("UNAVAILABLE", "Is the server running, and is this its address? Repeating the call is safe."),
    "DEADLINE_EXCEEDED": ("DEADLINE", "Repeat the call, which is safe, or allow it more time."),
    "RESOURCE_EXHAUSTED": ("QUEUE_FULL", "Repeat the call after a while, which is safe."),
    "CANCELLED": ("INTERRUPTED", "The call was cancelled. Repeating it is safe."),
    "UNIMPLEMENTED": (
        "NOT_SUPPORTED",
        "The server at this address does not know the call: is it a ledger, and new enough?",
    ),
    "PERMISSION_DENIED": ("NOT_PERMITTED", "Ask whoever runs the server, or the proxy before it, for access."),
    "UNAUTHENTICATED": ("NOT_PERMITTED", "Ask whoever runs the server, or the proxy before it, for access."),
}
_FOREIGN_REST: Final = ("INTERNAL", "Look at the server's log. Repeating the call is safe.")


def grpc_code(error: LedgerError) -> grpc.StatusCode:
    """The gRPC status code of an error."""
    return grpc.StatusCode[error.door.grpc]


def to_status(error: LedgerError) -> status_pb2.Status:
    """The error as a `google.rpc.Status` that fits into a call's trailers."""
    status = status_pb2.Status(code=grpc_code(error).value[0], message=_encodable(error.message))
    info = error_details_pb2.ErrorInfo(reason=error.reason, domain=DOMAIN, metadata=_metadata(error))
    if (
        _RETRY_AFTER in info.metadata
        and info.metadata[_RETRY_AFTER].isascii()
        and info.metadata[_RETRY_AFTER].isdigit()
    ):
        _pack(status, error_details_pb2.RetryInfo(retry_delay=_duration(int(info.metadata[_RETRY_AFTER]))))
    violations = _fitting(error.problems, MAX_STATUS - status.ByteSize() - info.ByteSize() - 200)
    if len(violations) < len(error.problems):
        info.metadata[_LEFT_OUT] = str(len(error.problems) - len(violations))
    _pack(status, info)
    if violations:
        _pack(status, error_details_pb2.BadRequest(field_violations=violations))
    return status


def from_status(status: status_pb2.Status) -> LedgerError | None:
    """The error that `to_status` was given, or None if the status does not come from a ledger of a known kind."""
    info = _unpack(status, error_details_pb2.ErrorInfo)
    if info is None or info.domain != DOMAIN or info.reason not in REASONS:
        return None
    bad = _unpack(status, error_details_pb2.BadRequest) or error_details_pb2.BadRequest()
    details = dict(info.metadata)
    remedy = details.pop(_REMEDY, "")
    problems = [Problem(v.field, v.description) for v in bad.field_violations]
    return _make(info.reason, status.message, remedy, details, problems)


def to_refusal(error: LedgerError) -> log_pb2.Refusal:
    """The error as the answer to one request of a stream, or to one draft."""
    details = {k: clip(v) for k, v in error.details.items()}
    kept = error.problems[:MAX_PROBLEMS]
    for number, problem in enumerate(kept):
        details[f"problem.{number}.place"] = clip(problem.place)
        details[f"problem.{number}.message"] = clip(problem.message)
    if len(kept) < len(error.problems):
        details[_LEFT_OUT] = str(len(error.problems) - len(kept))
    return log_pb2.Refusal(reason=error.reason, message=clip(error.message), remedy=clip(error.remedy), details=details)


def from_refusal(refusal: log_pb2.Refusal) -> LedgerError:
    """The error that a refusal stands for. A reason of a newer server is kept in `details["reason"]`."""
    details = dict(refusal.details)
    problems = list(_unfold(details))
    reason = refusal.reason
    if reason not in REASONS:
        details["reason"], reason = reason, "INTERNAL"
    return _make(reason, refusal.message, refusal.remedy, details, problems)


def from_rpc_error(error: grpc.RpcError, address: str = "") -> LedgerError:
    """What a failed call says, whoever failed it."""
    code = error.code() if isinstance(error, grpc.Call) else grpc.StatusCode.UNKNOWN
    text = (error.details() if isinstance(error, grpc.Call) else str(error)) or code.name
    trailing: dict[str, str | bytes] = dict(error.trailing_metadata() or ()) if isinstance(error, grpc.Call) else {}
    ours = _from_trailer(trailing[TRAILER]) if TRAILER in trailing else None
    return ours or _foreign(code, text, address)


def trailers(error: LedgerError) -> tuple[tuple[str, bytes], ...]:
    """The trailing metadata of a failed call; its details text is `to_status(error).message`."""
    return ((TRAILER, to_status(error).SerializeToString()),)


def clip(text: str, limit: int = MAX_TEXT) -> str:
    """The text as valid UTF-8 of at most `limit` bytes; what was cut is marked."""
    data = text.encode("utf-8", "replace")
    return data.decode() if len(data) <= limit else data[: limit - 3].decode("utf-8", "ignore") + "…"


def _encodable(message: str) -> str:
    text = clip(message)
    while len(quote(text, safe=" ")) > MAX_MESSAGE:
        text = text[: len(text) * 3 // 4].removesuffix("…") + "…"
    return text


def _metadata(error: LedgerError) -> dict[str, str]:
    """The remedy and as many details as there is room for, in their order."""
    kept = {_REMEDY: clip(error.remedy)} if error.remedy else {}
    room = _ROOM_FOR_DETAILS
    for key, value in error.details.items():
        text = clip(value)
        room -= len(key.encode()) + len(text.encode()) + 8
        if room < 0:
            break
        kept[key] = text
    return kept


def _fitting(problems: Iterable[Problem], room: int) -> list[error_details_pb2.BadRequest.FieldViolation]:
    kept: list[error_details_pb2.BadRequest.FieldViolation] = []
    for problem in problems:
        violation = error_details_pb2.BadRequest.FieldViolation(
            field=clip(problem.place), description=clip(problem.message)
        )
        room -= violation.ByteSize() + 4
        if room < 0 or len(kept) == MAX_PROBLEMS:
            break
        kept.append(violation)
    return kept


def _duration(milliseconds: int) -> duration_pb2.Duration:
    milliseconds = min(milliseconds, 3_600_000)
    return duration_pb2.Duration(seconds=milliseconds // 1000, nanos=milliseconds % 1000 * 1_000_000)


def _pack(status: status_pb2.Status, detail: Any) -> None:
    packed = any_pb2.Any()
    packed.Pack(detail)
    status.details.append(packed)


def _unpack(status: status_pb2.Status, kind: type[Any]) -> Any:
    for detail in status.details:
        if detail.Is(kind.DESCRIPTOR):
            found = kind()
            detail.Unpack(found)
            return found
    return None


def _unfold(details: dict[str, str]) -> Iterator[Problem]:
    """Takes the problems out of a refusal's details."""
    for number in range(MAX_PROBLEMS):
        place = details.pop(f"problem.{number}.place", None)
        message = details.pop(f"problem.{number}.message", None)
        if place is None or message is None:
            return
        yield Problem(place, message)


def _from_trailer(value: str | bytes) -> LedgerError | None:
    try:
        return from_status(status_pb2.Status.FromString(value if isinstance(value, bytes) else value.encode()))
    except DecodeError:
        return None


def _foreign(code: grpc.StatusCode, text: str, address: str) -> LedgerError:
    reason, remedy = _FOREIGN.get(code.name, _FOREIGN_REST)
    if "larger than max" in text:
        reason, remedy = "TOO_LARGE", "Send fewer events, or smaller ones, in one request."
    details = {"grpc_status": code.name, **({"address": address} if address else {})}
    at = f" at {address}" if address else ""
    return _make(reason, f"the call to the ledger{at} failed: {clip(text)}", remedy, details, ())


def _make(
    reason: str, message: str, remedy: str, details: Mapping[str, str], problems: Iterable[Problem]
) -> LedgerError:
    kind = _KINDS.get(REASONS[reason].grpc, LedgerError)
    return kind(message, reason=reason, remedy=remedy, details=details, problems=problems)
