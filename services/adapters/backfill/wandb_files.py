"""The file that an offline W&B run leaves: a log of protobuf records in blocks, of which only the history is read.

The file is a header, then blocks of 32 KiB. A record lies in one or more chunks, each with a checksum, a length and a
kind. It is read without the wandb package, whose version would have to be the writer's: the few fields needed are as
old as the format. A file that ends within a record, as a killed program leaves it, is read up to there.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from ledger.client import faults
from services.adapters.backfill import metrics

MAGIC: Final = b":W&B"
_HEADER: Final = 7
_BLOCK: Final = 32 * 1024
_CHUNK: Final = struct.Struct("<IHB")
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_MAX_RECORD: Final = 64 << 20

_HISTORY: Final = 2
"""Of a record."""
_ITEM, _STEP = 1, 2
"""Of a history."""
_KEY, _NESTED_KEY, _VALUE = 1, 2, 16
"""Of an item."""
_NUMBER: Final = 1
"""Of a step."""
_FIXED64: Final = 1


def history_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of the run's history, in order."""
    for record in _records(path):
        try:
            for number, value in _fields(record):
                if number == _HISTORY and isinstance(value, bytes):
                    yield _row(value)
        except ValueError:
            continue  # a record of another shape than W&B writes


def _row(history: bytes) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for number, value in _fields(history):
        if number == _STEP and isinstance(value, bytes):
            row.setdefault("_step", next((v for n, v in _fields(value) if n == _NUMBER), 0))
        elif number == _ITEM and isinstance(value, bytes):
            row.update([_item(value)])
    return row


def _item(item: bytes) -> tuple[str, Any]:
    key, nested, said = "", [], "null"
    for number, value in _fields(item):
        if isinstance(value, bytes):
            text = value.decode("utf-8", "replace")
            if number == _KEY:
                key = text
            elif number == _NESTED_KEY:
                nested.append(text)
            elif number == _VALUE:
                said = text
    return key or ".".join(nested), metrics.loads(said)


def _records(path: Path) -> Iterator[bytes]:
    """Whole records; a chunk that is out of place or cut off ends the reading of its record."""
    parts: list[bytes] = []
    for kind, data in _chunks(path):
        if kind in (_FULL, _FIRST):
            parts = [data]
        elif parts:
            parts.append(data)
        if kind in (_FULL, _LAST) and parts:
            yield b"".join(parts)
            parts = []
        elif sum(map(len, parts)) > _MAX_RECORD:
            parts = []


def _chunks(path: Path) -> Iterator[tuple[int, bytes]]:
    try:
        with path.open("rb") as file:
            file.seek(_HEADER)
            left = _BLOCK - _HEADER
            while True:
                if left < _CHUNK.size:
                    file.seek(left, 1)
                    left = _BLOCK
                head = file.read(_CHUNK.size)
                if len(head) < _CHUNK.size:
                    return
                _, size, kind = _CHUNK.unpack(head)
                data = file.read(size)
                if len(data) < size or not _FULL <= kind <= _LAST or size > left - _CHUNK.size:
                    return
                left -= _CHUNK.size + size
                yield kind, data
    except OSError as error:
        raise faults.unreadable(path, error) from None


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a protobuf message.

    Raises:
        ValueError: if it is none.
    """
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        match wire:
            case 0:
                value, at = _varint(data, at)
                yield number, value
            case 2:
                size, at = _varint(data, at)
                if at + size > len(data):
                    raise ValueError("a field that is cut off")
                yield number, data[at : at + size]
                at += size
            case 1 | 5:
                at += 8 if wire == _FIXED64 else 4
            case _:
                raise ValueError("a kind of field that is not known")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 64:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise ValueError("a number that is cut off")
