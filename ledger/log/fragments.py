"""The JSON of a header's fields, checked as it is made.

A fragment is a field's JSON, or None when the field may not stand in a header: printable ASCII within its limit, and
nothing else. What comes again and again (streams, tags, actors, seconds) is checked and made once. `header_error` says
what is wrong, field by field, when a fragment is None.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Final, NamedTuple, TypeVar

import orjson

from ledger.core import clock
from ledger.core.errors import InvalidInput, Problem
from ledger.core.text import is_header_text
from ledger.events import EventType
from ledger.events.fields import COLLECTION_TAG
from ledger.log import limits
from ledger.wire import log_pb2

_KINDS: Final = {0: "unknown", 1: "human", 2: "model", 3: "organization", 4: "unknown"}
_NO_ACTOR: Final = '{"id":"unknown","kind":"unknown"}'
_MAX_COUNT: Final = (1 << 53) - 1
_CACHE_LIMIT: Final = 20_000

Key = TypeVar("Key", bound=Hashable)
Kept = TypeVar("Kept")


class Tags(NamedTuple):
    """A draft's tags as the header has them: sorted, and once each."""

    tags: tuple[str, ...]
    json: str
    collections: tuple[str, ...]
    """The collections that they name."""
    opening: bytes
    """How the payload begins that names the one collection and is written as the SDK writes."""


class Fragments:
    """Makes fragments and keeps those that come again. Plain dictionaries: one a thread."""

    def __init__(self) -> None:
        self._tags: dict[tuple[str, ...], Tags] = {}
        self._streams: dict[tuple[str, tuple[str, ...]], str] = {}
        self._actors: dict[tuple[str, int], str] = {}
        self._seconds: dict[int, str] = {}
        self._names: dict[str | None, str] = {}

    def tags(self, given: tuple[str, ...]) -> Tags | None:
        """Of tags in any order."""
        return self._tags.get(given) or self._new_tags(given)

    def _new_tags(self, given: tuple[str, ...]) -> Tags | None:
        tags = tuple(sorted(set(given)))
        if len(tags) > limits.TAGS or not all(is_header_text(tag, limits.TAG_BYTES) for tag in tags):
            return None
        collections = tuple(t.removeprefix(COLLECTION_TAG) for t in tags if t.startswith(COLLECTION_TAG))
        opening = f'{{"collection":{_json(collections[0])}'.encode() if len(collections) == 1 else b""
        made = Tags(tags, f"[{','.join(map(_json, tags))}]", collections, opening)
        return _keep(self._tags, given, made)

    def stream(self, stream: str, kind: EventType) -> str | None:
        """The header's part around the stream, from after `recorded_at` up to and with `"sv":`."""
        key = (stream, kind.streams)
        found = self._streams.get(key)
        if found is None and _is_stream_of(stream, kind):
            found = _keep(self._streams, key, f'","stream":{_json(stream)},"sv":')
        return found

    def actor(self, draft: log_pb2.Draft) -> str | None:
        if not draft.HasField("actor"):
            return _NO_ACTOR
        actor = draft.actor
        key = (actor.id, actor.kind)
        found = self._actors.get(key)
        if found is None and _is_actor(actor):
            found = _keep(self._actors, key, f'{{"id":{_json(actor.id)},"kind":"{_KINDS[actor.kind]}"}}')
        return found

    def principal(self, name: str | None) -> str:
        return self._names.get(name) or _keep(self._names, name, _json(name))

    def occurred_at(self, draft: log_pb2.Draft) -> str | None:
        if not draft.HasField("occurred_at_us"):
            return "null"
        us = draft.occurred_at_us
        if not clock.MIN_US <= us <= clock.MAX_US:
            return None
        second, rest = divmod(us, 1_000_000)
        start = self._seconds.get(second) or _keep(
            self._seconds, second, clock.to_text(us).removesuffix(f"{rest:06d}Z")
        )
        return f'"{start}{rest:06d}Z"'


def event_id(text: str) -> str | None:
    if not is_header_text(text, limits.ID_BYTES):
        return None
    return _json(text) if '"' in text or "\\" in text else f'"{text}"'


def causes(ids: Sequence[str]) -> str | None:
    if not ids:
        return "[]"
    if len(ids) > limits.CAUSES:
        return None
    found = [event_id(text) for text in ids]
    return None if None in found else f"[{','.join(found)}]"  # type: ignore[arg-type]  # none of them is None


def producer(draft: log_pb2.Draft) -> str | None:
    if not draft.HasField("producer"):
        return "null"
    made = draft.producer
    return f'{{"epoch":{made.epoch},"id":{_json(made.id)},"seq":{made.seq}}}' if _is_producer(made) else None


def header_error(draft: log_pb2.Draft, kind: EventType) -> InvalidInput:
    """Every fault of the fields that become header, and of the payload's size."""
    tags = sorted(set(draft.tags))
    problems = [
        *_field_problems(draft, kind, tags),
        *_list_problems("tags", tags),
        *_list_problems("causes", draft.causes),
    ]
    too_large = any("at most" in p.message for p in problems)
    return InvalidInput(
        f"{problems[0].place} {problems[0].message}",
        reason="TOO_LARGE" if too_large else "INVALID_ARGUMENT",
        remedy="Ids, streams, tags and actors are short printable ASCII; prose belongs in the payload, and larger "
        "bytes are artifacts.",
        problems=problems,
    )


def _field_problems(draft: log_pb2.Draft, kind: EventType, tags: Sequence[str]) -> Iterable[Problem]:
    names = " or ".join(s if s == "ledger" else s + "/<name>" for s in kind.streams)
    checks = (
        (is_header_text(draft.id, limits.ID_BYTES), "id", _ascii(limits.ID_BYTES)),
        (
            _is_stream_of(draft.stream, kind),
            "stream",
            f"must be {names} for {kind.type}, up to {limits.STREAM_BYTES} characters of printable ASCII",
        ),
        (len(tags) <= limits.TAGS, "tags", f"are {len(tags)}, at most {limits.TAGS}"),
        (len(draft.causes) <= limits.CAUSES, "causes", f"are {len(draft.causes)}, at most {limits.CAUSES}"),
        (
            not draft.HasField("actor") or _is_actor(draft.actor),
            "actor",
            f"needs a kind and an id, which {_ascii(limits.ACTOR_BYTES)}",
        ),
        (
            not draft.HasField("producer") or _is_producer(draft.producer),
            "producer",
            f"needs epoch and seq below 2^53 and an id, which {_ascii(limits.ACTOR_BYTES)}",
        ),
        (
            not draft.HasField("occurred_at_us") or clock.MIN_US <= draft.occurred_at_us <= clock.MAX_US,
            "occurred_at_us",
            "must lie in the years 1 to 9999; leave it out when it is unknown",
        ),
        (
            len(draft.payload) <= limits.PAYLOAD_BYTES,
            "payload",
            f"is {len(draft.payload)} bytes, at most {limits.PAYLOAD_BYTES}",
        ),
    )
    return (Problem(place, message) for holds, place, message in checks if not holds)


def _list_problems(name: str, texts: Sequence[str]) -> Iterable[Problem]:
    limit = limits.TAG_BYTES if name == "tags" else limits.ID_BYTES
    return (Problem(f"{name}[{n}]", _ascii(limit)) for n, text in enumerate(texts) if not is_header_text(text, limit))


def _ascii(limit: int) -> str:
    return f"must be 1 to {limit} characters of printable ASCII"


def _is_stream_of(stream: str, kind: EventType) -> bool:
    name, slash, rest = stream.partition("/")
    return (
        is_header_text(stream, limits.STREAM_BYTES)
        and name in kind.streams
        and (not slash if name == "ledger" else bool(rest))
    )


def _is_actor(actor: log_pb2.Actor) -> bool:
    return is_header_text(actor.id, limits.ACTOR_BYTES) and actor.kind in _KINDS


def _is_producer(made: log_pb2.Producer) -> bool:
    return is_header_text(made.id, limits.ACTOR_BYTES) and max(made.epoch, made.seq) <= _MAX_COUNT


def _json(text: str | None) -> str:
    return orjson.dumps(text).decode()


def _keep(cache: dict[Key, Kept], key: Key, fragment: Kept) -> Kept:
    if len(cache) >= _CACHE_LIMIT:
        cache.clear()
    cache[key] = fragment
    return fragment
