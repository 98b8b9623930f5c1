"""From a draft to a prepared event: checked, hashed, and its header made as far as it can be without a position.

All of it happens off the head lock. The header is orjson's sorted JSON, made from a template: the fixed keys in their
order, with `fragments` between them (orjson itself is the oracle in the tests). Nothing personal is in a header:
printable ASCII without free text.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from ledger.core.errors import InvalidInput, LedgerError, Problem
from ledger.events import EventType, Registry
from ledger.events.fields import COLLECTION_TAG
from ledger.log import fragments, limits
from ledger.log.fragments import Fragments, Tags
from ledger.log.model import Prepared
from ledger.wire import log_pb2

DRAFT_DOMAIN: Final = b"ledger/draft/v1\0"
PAYLOAD_DOMAIN: Final = b"ledger/payload/v1\0"
SALT_BYTES: Final = 32

_PLACED_BYTES: Final = len('18446744073709551615,"prev":"",,,"v":1}') + 64 + len("2026-11-30T00:00:00.000000Z") + 20
"""The most that position, prev, time, stream version and the end add to a header."""
_UNPLACED_BYTES: Final = limits.HEADER_BYTES - _PLACED_BYTES

_length = struct.Struct(">I").pack
_sha256 = hashlib.sha256


def commitment(salt: bytes, payload: bytes) -> str:
    """SHA-256(domain ‖ salt ‖ payload) in hex: what a header says of its payload."""
    return _sha256(PAYLOAD_DOMAIN + salt + payload).hexdigest()


def draft_hash(salt: bytes, fields: bytes, payload: bytes) -> bytes:
    """SHA-256(domain ‖ salt ‖ u32be(len F) ‖ F ‖ payload): the same draft has the same hash, through every door."""
    return _sha256(DRAFT_DOMAIN + salt + _length(len(fields)) + fields + payload).digest()


class _JustCollection(msgspec.Struct):
    """Only the collection of a payload; the rest is skipped without being built."""

    collection: str | None = None


class _Kind(NamedTuple):
    """A type and what every draft of it asks."""

    event: EventType
    has_collection: bool


class Preparer:
    """Prepares the drafts of one log.

    Not bound to a thread, but its caches are plain dictionaries: one preparer a thread that prepares.
    """

    def __init__(self, origin: str, registry: Registry) -> None:
        self._registry = registry
        self._fragments = Fragments()
        self._log = self._fragments.principal(origin)
        self._kinds: dict[tuple[str, int], _Kind] = {}
        self._collection = msgspec.json.Decoder(_JustCollection).decode

    def prepare_all(
        self, drafts: Sequence[log_pb2.Draft], *, principal: str | None = None
    ) -> list[Prepared | LedgerError]:
        """Each draft prepared, or the reason why it cannot be."""
        salts = os.urandom(SALT_BYTES * len(drafts))
        prepared: list[Prepared | LedgerError] = []
        for index, draft in enumerate(drafts):
            salt = salts[SALT_BYTES * index : SALT_BYTES * (index + 1)]
            try:
                prepared.append(self.prepare(draft, salt=salt, principal=principal))
            except LedgerError as error:
                error.details["draft"] = str(index)
                error.details["id"] = draft.id[: limits.ID_BYTES]
                prepared.append(error)
        return prepared

    def prepare(self, draft: log_pb2.Draft, *, salt: bytes, principal: str | None = None) -> Prepared:
        """One draft, checked and hashed.

        Raises:
            InvalidInput: with every fault of the header, or of the payload.
        """
        type_, version = draft.type, draft.type_version or 1
        kind, has_collection = self._kinds.get((type_, version)) or self._kind(type_, version)
        payload = draft.payload
        cached = self._fragments
        name, stream = draft.id, draft.stream
        event_id = fragments.event_id(name)
        stream_part = cached.stream(stream, kind)
        tags = cached.tags(tuple(draft.tags))
        causes = fragments.causes(draft.causes)
        actor = cached.actor(draft)
        producer = fragments.producer(draft)
        occurred_at = cached.occurred_at(draft)
        made = (event_id, stream_part, tags, causes, actor, producer, occurred_at)
        if None in made or len(payload) > limits.PAYLOAD_BYTES:
            raise fragments.header_error(draft, kind)
        assert tags is not None
        assert stream_part is not None
        if kind.quick is None or not kind.quick(payload):
            self._registry.check(type_, version, payload)
        if has_collection:
            if not tags.opening or not payload.startswith(tags.opening):
                self._check_collection(payload, tags)
        elif tags.collections:
            self._check_collection(b"{}", tags)

        first = f'{{"actor":{actor},"causes":{causes},"id":{event_id},'
        last = f'"tags":{tags.json},"tv":{version},"type":"{type_}"'
        fields = f'{first}"occurred_at":{occurred_at},"producer":{producer},{stream_part[2:-5]}{last}}}'.encode()
        sealed = (
            f'"log":{self._log},"occurred_at":{occurred_at},"payload":'
            f'{{"commitment":"{commitment(salt, payload)}","len":{len(payload)}}},"pos":'
        )
        middle = f'"principal":{cached.principal(principal)},"producer":{producer},"recorded_at":"'
        if len(first) + len(sealed) + len(middle) + len(stream_part) + len(last) > _UNPLACED_BYTES:
            raise _header_too_large(len(first) + len(sealed) + len(middle) + len(stream_part) + len(last))
        return Prepared(
            name, type_, stream, tags.tags, principal, fields, salt, payload,
            draft_hash(salt, fields, payload), first, sealed, middle, stream_part, last,
        )  # fmt: skip

    def _kind(self, type_: str, version: int) -> _Kind:
        event = self._registry.get(type_, version)
        kind = self._kinds[type_, version] = _Kind(event, "collection" in event.model.model_fields)
        return kind

    def _check_collection(self, payload: bytes, tags: Tags) -> None:
        """A part is found by its tag, so tag and payload must name the same collection."""
        named = self._collection(payload).collection
        if tags.collections != (() if named is None else (named,)):
            raise InvalidInput(
                f"the payload names the collection {named!r}, the tags name {list(tags.collections)}",
                remedy=f"Give the draft the tag {COLLECTION_TAG}<collection of its payload>, and no other such tag.",
                problems=[Problem("tags", "must hold the collection of the payload, and no other")],
            )


def _header_too_large(unplaced: int) -> InvalidInput:
    return InvalidInput(
        f"the header would be {unplaced + _PLACED_BYTES} bytes, at most {limits.HEADER_BYTES}",
        reason="TOO_LARGE",
        remedy="Name fewer causes or tags.",
        problems=[Problem("causes", "make the header too large")],
    )
