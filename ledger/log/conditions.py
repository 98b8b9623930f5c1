"""Append conditions: what must hold when a request is recorded.

Every condition of a request is judged, under the head lock, against the store and the earlier requests of the batch,
and every failure is reported with the present value. A condition is judged by a pure function over a `View`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ledger.core.errors import InvalidInput, Problem
from ledger.core.ids import ids_digest
from ledger.core.text import is_header_text
from ledger.events.fields import COLLECTION_TAG
from ledger.log import limits
from ledger.wire import log_pb2

"""A part carries this tag with the name of its collection, so that its collection can be counted."""


@dataclass(frozen=True, slots=True)
class StreamVersion:
    """The stream has exactly this many events; None: at least one."""

    stream: str
    exact: int | None


@dataclass(frozen=True, slots=True)
class MustExist:
    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MustNotExist:
    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NoMatch:
    """No event at or after `after` has one of the types (any when empty) and all of the tags."""

    types: tuple[str, ...]
    tags: tuple[str, ...]
    after: int


@dataclass(frozen=True, slots=True)
class CollectionIs:
    """The events tagged with the collection are these, by count and digest of their ids."""

    collection: str
    count: int
    digest: str


Condition = StreamVersion | MustExist | MustNotExist | NoMatch | CollectionIs


class View(Protocol):
    """The log as it would be if the earlier requests of the batch were recorded."""

    def stream_version(self, stream: str) -> int: ...

    def exists(self, event_id: str) -> bool: ...

    def first_match(self, types: tuple[str, ...], tags: tuple[str, ...], after: int) -> int | None:
        """The first matching position, or None."""

    def tagged_ids(self, tag: str) -> Sequence[str]: ...


def failures(conditions: Iterable[Condition], view: View) -> list[Problem]:
    """Every condition that does not hold, with what holds instead."""
    problems = []
    for number, condition in enumerate(conditions):
        fault = _fault(condition, view)
        if fault:
            problems.append(Problem(f"conditions[{number}]", fault))
    return problems


def _fault(condition: Condition, view: View) -> str | None:
    match condition:
        case StreamVersion(stream, exact):
            return _version_fault(stream, exact, view.stream_version(stream))
        case MustExist(ids):
            missing = [i for i in ids if not view.exists(i)]
            return f"not in the log: {', '.join(missing)}" if missing else None
        case MustNotExist(ids):
            found = [i for i in ids if view.exists(i)]
            return f"already in the log: {', '.join(found)}" if found else None
        case NoMatch(types, tags, after):
            pos = view.first_match(types, tags, after)
            return None if pos is None else f"the event at position {pos} matches"
        case CollectionIs(collection, count, digest):
            return _collection_fault(count, digest, view.tagged_ids(COLLECTION_TAG + collection))


def _version_fault(stream: str, exact: int | None, version: int) -> str | None:
    if exact is None:
        return f"the stream {stream!r} has no event" if version == 0 else None
    return f"the stream {stream!r} is at version {version}, not {exact}" if version != exact else None


def _collection_fault(count: int, digest: str, ids: Sequence[str]) -> str | None:
    if len(ids) != count:
        return f"the collection has {len(ids)} events, not {count}"
    found = ids_digest(ids)
    return f"the collection's ids have the digest {found}, not {digest}" if found != digest else None


def from_wire(conditions: Iterable[log_pb2.Condition]) -> tuple[Condition, ...]:
    """Reads the conditions of a request.

    Raises:
        InvalidInput: for a condition that says nothing, or names what no log can hold.
    """
    return tuple(_from_wire(number, c) for number, c in enumerate(conditions))


def _from_wire(number: int, condition: log_pb2.Condition) -> Condition:
    match condition.WhichOneof("condition"):
        case "stream_version":
            return _stream_version(number, condition.stream_version)
        case "must_exist":
            return MustExist(_names(number, condition.must_exist.ids, limits.ID_BYTES))
        case "must_not_exist":
            return MustNotExist(_names(number, condition.must_not_exist.ids, limits.ID_BYTES))
        case "no_match":
            return _no_match(number, condition.no_match)
        case "collection":
            collection = condition.collection
            _names(number, [COLLECTION_TAG + collection.id], limits.TAG_BYTES)
            return CollectionIs(collection.id, collection.count, collection.digest)
        case _:
            raise _unclear(number, "is empty")


def _names(number: int, texts: Sequence[str], limit: int) -> tuple[str, ...]:
    for text in texts:
        if not is_header_text(text, limit):
            raise _unclear(number, f"names {text[:40]!r}, which is not 1 to {limit} characters of printable ASCII")
    return tuple(texts)


def _no_match(number: int, condition: log_pb2.NoMatch) -> NoMatch:
    if len(condition.tags) > limits.TAGS:
        raise _unclear(number, f"names {len(condition.tags)} tags; no event has more than {limits.TAGS}")
    if condition.after >= 1 << 63:
        raise _unclear(number, "looks after a size that no log reaches")
    types = _names(number, condition.types, limits.ID_BYTES)
    return NoMatch(types, _names(number, condition.tags, limits.TAG_BYTES), condition.after)


def _stream_version(number: int, condition: log_pb2.StreamVersion) -> StreamVersion:
    _names(number, [condition.stream], limits.STREAM_BYTES)
    match condition.WhichOneof("expected"):
        case "exact":
            return StreamVersion(condition.stream, condition.exact)
        case "none" if condition.none:
            return StreamVersion(condition.stream, 0)
        case "exists" if condition.exists:
            return StreamVersion(condition.stream, None)
        case _:
            raise _unclear(number, "expects nothing of its stream")


def _unclear(number: int, what: str) -> InvalidInput:
    return InvalidInput(
        f"conditions[{number}] {what}",
        remedy="Set one kind of condition, and for a stream version one of exact, none = true or exists = true; "
        "name ids, streams, types and tags as headers hold them.",
        problems=[Problem(f"conditions[{number}]", what)],
    )
