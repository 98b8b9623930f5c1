"""Rows as Postgres takes them: binary COPY, packed by hand. No Python object a column.

A tuple is its number of fields, then each field's length and bytes; -1 is NULL. What is the same for many events (type,
stream) is packed once.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from ledger.log.model import Entry

SIGNATURE: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
END: Final = b"\xff\xff"

EVENT_COLUMNS: Final = "id, type, stream, sv, recorded_at, header, leaf, pos"
PAYLOAD_COLUMNS: Final = "pos, salt, body, draft_hash, redacted_by"
TAG_COLUMNS: Final = "tag, pos"

_start = struct.Struct(">hi").pack
_length = struct.Struct(">i").pack
_numbers = struct.Struct(">iqiqi").pack
_leaf_and_pos = struct.Struct(">i32siq").pack
_payload_start = struct.Struct(">hiqi32si").pack
_payload_end = struct.Struct(">i32si").pack
_position = struct.Struct(">iq").pack


def pack_events(entries: Sequence[Entry]) -> bytes:
    texts: dict[str, bytes] = {}
    rows = [SIGNATURE]
    for entry in entries:
        made = entry.prepared
        event_id = made.id.encode()
        type_ = texts.get(made.type) or texts.setdefault(made.type, _text(made.type))
        stream = texts.get(made.stream) or texts.setdefault(made.stream, _text(made.stream))
        header = entry.header
        rows.append(
            _start(8, len(event_id)) + event_id + type_ + stream
            + _numbers(8, entry.sv, 8, entry.recorded_at_us, len(header)) + header
            + _leaf_and_pos(32, entry.leaf, 8, entry.pos)
        )  # fmt: skip
    rows.append(END)
    return b"".join(rows)


def pack_payloads(entries: Sequence[Entry]) -> bytes:
    rows = [SIGNATURE]
    for entry in entries:
        made = entry.prepared
        rows.append(
            _payload_start(5, 8, entry.pos, 32, made.salt, len(made.payload)) + made.payload
            + _payload_end(32, made.draft_hash, -1)
        )  # fmt: skip
    rows.append(END)
    return b"".join(rows)


def pack_tags(entries: Sequence[Entry]) -> bytes:
    """Sorted by tag, then position: the order of the index, which spares Postgres a tenth of its work."""
    pairs = sorted((tag, entry.pos) for entry in entries for tag in entry.prepared.tags)
    rows = [SIGNATURE]
    rows += [_start(2, len(tag)) + tag.encode() + _position(8, pos) for tag, pos in pairs]
    rows.append(END)
    return b"".join(rows)


def _text(text: str) -> bytes:
    data = text.encode()
    return _length(len(data)) + data
