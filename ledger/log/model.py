"""What goes through the log: prepared drafts, receipts, stored events, the head.

Plain values, made on one side of the sequencer's queue and read on the other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from ledger.core.errors import LedgerError


@dataclass(frozen=True, slots=True)
class Head:
    """The log's one head row: the serialisation point of every append."""

    origin: str
    size: int
    peaks: tuple[bytes, ...]
    root: bytes
    recorded_at_us: int
    """Of the last transaction; 0 when the log is empty."""


class Receipt(NamedTuple):
    """Where an event stands."""

    pos: int
    sv: int
    recorded_at_us: int
    leaf: bytes
    already_recorded: bool = False


class Known(NamedTuple):
    """What the store holds of an id: enough to answer a retry."""

    receipt: Receipt
    salt: bytes | None
    draft_hash: bytes | None
    """None once the payload was redacted: then any content counts as the same."""
    principal: str | None


class Prepared(NamedTuple):
    """A draft, checked and hashed, with everything of its header that needs no position.

    A tuple, since one is made for every event: a frozen dataclass takes five times as long.
    """

    id: str
    type: str
    stream: str
    tags: tuple[str, ...]
    principal: str | None
    fields: bytes
    """F of the draft hash."""
    salt: bytes
    payload: bytes
    draft_hash: bytes
    first: str
    """The header's actor, causes and id."""
    sealed: str
    """Its log, occurred_at and payload, up to and with `"pos":`."""
    middle: str
    """From after `prev` up to the value of `recorded_at`."""
    stream_part: str
    """From after `recorded_at` up to and with `"sv":`."""
    last: str
    """Its tags and type."""

    def header(self, pos: int, prev: str, recorded_at: str, sv: int) -> bytes:
        """The header's bytes; `prev` is JSON (a quoted hex hash, or null)."""
        return (
            f'{self.first}{self.sealed}{pos},"prev":{prev},{self.middle}{recorded_at}{self.stream_part}{sv},'
            f'{self.last},"v":1}}'
        ).encode()


class Entry(NamedTuple):
    """An event with its place, ready to be written."""

    pos: int
    sv: int
    recorded_at_us: int
    prepared: Prepared
    header: bytes
    leaf: bytes


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """An event as it was read back. Payload and salt are None when they were not asked for or not there."""

    pos: int
    id: str
    type: str
    stream: str
    sv: int
    recorded_at_us: int
    header: bytes
    leaf: bytes
    payload: bytes | None = None
    salt: bytes | None = None
    draft_hash: bytes | None = None
    redacted_by: int | None = None


@dataclass(frozen=True, slots=True)
class Filter:
    """Which events to read. Empty fields match everything; tags must all be there."""

    streams: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()


EVERYTHING = Filter()


@dataclass(slots=True)
class Outcome:
    """What became of one request: a receipt or a refusal for each draft, in order."""

    receipts: list[Receipt | LedgerError] = field(default_factory=list)
    size: int = 0
