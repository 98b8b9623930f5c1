"""Reading recorded events for a question: the few header fields that are shown, and payloads in their newest version.

An event whose payload is gone or cannot be read says nothing here, as it says nothing to the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

import msgspec

from ledger.core.errors import LedgerError
from ledger.events.fields import COLLECTION_TAG, SAMPLE_TAG
from ledger.log.log import Log
from ledger.log.model import Filter, StoredEvent
from ledger.projections.folding import Row, plain
from ledger.projections.rows import read_streams

Check = Callable[[], None]
"""Called between pages of a long scan; raises when nobody waits for the answer any more."""
Decoded = TypeVar("Decoded")
CHECK_EVERY: Final = 1_000


def go_on() -> None:
    """A check that never stops a scan."""


class _Actor(msgspec.Struct, gc=False):
    id: str


class Header(msgspec.Struct, gc=False):
    """Of a header, what an answer shows."""

    tv: int
    tags: list[str]
    actor: _Actor
    occurred_at: str | None

    @property
    def sample(self) -> bool:
        return SAMPLE_TAG in self.tags

    @property
    def collection(self) -> str | None:
        """The collection that the event is a part of, or closes: the log holds its tag to its payload."""
        return next((tag.removeprefix(COLLECTION_TAG) for tag in self.tags if tag.startswith(COLLECTION_TAG)), None)


header_of = msgspec.json.Decoder(Header).decode
fields_of = msgspec.json.Decoder(dict[str, Any]).decode


class Events:
    """The log, as questions read it."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self._newest = {t.type: t.version for t in log.registry}  # in order of version: the last one stays

    def scan(
        self,
        size: int,
        *,
        streams: tuple[str, ...] = (),
        types: tuple[str, ...] = (),
        from_pos: int = 0,
        check: Check = go_on,
    ) -> Iterator[StoredEvent]:
        """Matching events from a position on, among the first `size`, page by page."""
        # Of a few streams the types are picked here: the store would rather walk the index of types.
        match = Filter(streams=streams) if streams else Filter(types=types)
        while True:
            check()
            page = self.log.store.read(from_pos, size, match=match)
            yield from (event for event in page if not types or event.type in types)
            if not page:
                return
            from_pos = page[-1].pos + 1

    def stream(self, stream: str, size: int, check: Check = go_on) -> Iterator[Row]:
        """A whole stream among the first `size` events, as the fold reads it: several times as fast."""
        for number, row in enumerate(read_streams(self.log.store.engine, stream, stream, size)):
            if number % CHECK_EVERY == 0:
                check()
            yield row

    def at(self, pos: int) -> StoredEvent | None:
        return self.log.store.event(pos)

    def by_id(self, event_id: str, size: int) -> StoredEvent | None:
        """The event of this id, if it is among the first `size`."""
        found = self.log.store.event_by_id(event_id)
        return found if found is not None and found.pos < size else None

    def fields(self, event: StoredEvent) -> dict[str, Any] | None:
        """The payload in its newest version, by name."""
        return self.decoded(plain(event), fields_of)

    def decoded(self, row: Row, decode: Callable[[bytes], Decoded]) -> Decoded | None:
        """What a decoder takes of the payload in its newest version."""
        _, _, type_, _, header, payload = row
        if payload is None:
            return None
        try:
            version = header_of(header).tv
            if version != self._newest.get(type_):
                payload = self.log.registry.newest_body(type_, version, payload)
            return decode(payload)
        except (LedgerError, msgspec.MsgspecError):
            return None
