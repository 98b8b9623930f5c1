"""From a fact to the draft that `EventLog.Append` would take: one fixed way, so that a retry may change doors.

The oneof's field names the type, the message is the payload, and the stream follows from the run, export or campaign
that the message names. Id, time, actor, causes, tags and producer are taken as they are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from ledger.core.errors import InvalidInput, LedgerError, Problem
from ledger.events import REGISTRY, EventType
from ledger.events.runs import RunId
from ledger.events.streams import kind_of_claim
from ledger.log import limits
from ledger.wire import log_pb2, provenance_pb2
from services.server.provenance_payloads import NewerContract, holds_strangers, payload_of, strangers

EVENT: Final = "event"
"""The oneof of a fact."""
TYPES: Final[Mapping[str, EventType]] = MappingProxyType(
    {
        field.name: REGISTRY.latest(field.name.replace("_", ".", 1))
        for field in provenance_pb2.Fact.DESCRIPTOR.oneofs_by_name[EVENT].fields
    }
)
"""By the name of the fact's field."""
_UPGRADE: Final = (
    "Upgrade the server before its clients, or send what it knows: GetInfo lists its types, "
    "`ledger schema show TYPE` their fields."
)

_id = TypeAdapter[str](RunId).validate_python


def drafts_of(
    facts: Iterable[provenance_pb2.Fact],
) -> tuple[list[log_pb2.Draft], dict[int, LedgerError]]:
    """A draft for each fact; of one that cannot be a draft the reason, and an empty draft in its place."""
    drafts: list[log_pb2.Draft] = []
    refused: dict[int, LedgerError] = {}
    for index, fact in enumerate(facts):
        try:
            drafts.append(draft_of(fact, f"facts[{index}]"))
        except LedgerError as error:
            error.details |= {"draft": str(index), "id": fact.id[: limits.ID_BYTES]}
            refused[index] = error
            drafts.append(log_pb2.Draft())
    return drafts, refused


def draft_of(fact: provenance_pb2.Fact, place: str = "fact") -> log_pb2.Draft:
    """The draft that says what the fact says.

    Raises:
        InvalidInput: the fact holds no event, something that is not known here, or an id that names no stream. Whether
            the payload is right is for the log to say, as of any draft.
    """
    name = fact.WhichOneof(EVENT)
    if holds_strangers(fact) or holds_strangers(fact.actor) or holds_strangers(fact.producer):
        raise newer_contract(strangers(fact, place))
    if name is None:
        raise _fault(place, "holds no event", "Set the one field that names what happened.")
    kind, said = TYPES[name], getattr(fact, name)
    try:
        payload = payload_of(kind.model, said)
    except NewerContract:
        raise newer_contract(strangers(fact, place)) from None
    return log_pb2.Draft(
        id=fact.id,
        type=kind.type,
        type_version=kind.version,
        stream=_stream(kind, said, f"{place}.{name}"),
        occurred_at_us=fact.occurred_at_us if fact.HasField("occurred_at_us") else None,
        actor=fact.actor if fact.HasField("actor") else None,
        causes=fact.causes,
        tags=fact.tags,
        producer=fact.producer if fact.HasField("producer") else None,
        payload=payload,
    )


def newer_contract(problems: Collection[Problem]) -> InvalidInput:
    """The error of a message that this release cannot record whole."""
    first, *more = problems
    also = f" (and {len(more)} more)" if more else ""
    return InvalidInput(
        f"{first.place}: {first.message}: the message is of a newer contract, and nothing of it is recorded{also}",
        remedy=_UPGRADE,
        problems=problems,
    )


def _stream(kind: EventType, said: Any, place: str) -> str:
    if len(kind.streams) > 1:
        subject = said.subject
        return _named(kind_of_claim(subject.kind), subject.id, f"{place}.subject.id")
    of = kind.streams[0]
    return _named(of, getattr(said, f"{of}_id"), f"{place}.{of}_id")


def _named(of: str, id_: str, place: str) -> str:
    stream = _checked(of, id_) if len(id_) <= limits.STREAM_BYTES else None  # what is kept stays small
    if stream is None:
        what = "is missing" if not id_ else "is not 1 to 500 characters of printable ASCII without a space at its ends"
        raise _fault(place, what, f"It names the {of}, and is the rest of its stream's name.")
    return stream


@lru_cache(maxsize=4096)
def _checked(of: str, id_: str) -> str | None:
    """The stream of an id; None if no stream can bear it."""
    try:
        return f"{of}/{_id(id_)}"
    except ValidationError:
        return None


def _fault(place: str, what: str, remedy: str) -> InvalidInput:
    return InvalidInput(f"{place} {what}", remedy=remedy, problems=[Problem(place, what)])
