"""Rows in order, without holding them: each is written to a file as it is found, and read again in its turn."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from services.adapters.traces.rows import Row, order_of


class _Kept(NamedTuple):
    order: tuple[Any, ...]
    at: int
    size: int


class Ordered:
    """Rows of any number. Of each only its place in the order is held in memory."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("x+b")
        self._kept: list[_Kept] = []
        self._end = 0

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, row: Row) -> None:
        data = msgspec.msgpack.encode(row)
        self._kept.append(_Kept(order_of(row, data), self._end, len(data)))
        self._end += self._file.write(data)

    def __iter__(self) -> Iterator[tuple[Row, int]]:
        """The rows in order, each with the bytes that it took."""
        read = msgspec.msgpack.Decoder(Row)
        for kept in sorted(self._kept):
            self._file.seek(kept.at)
            yield read.decode(self._file.read(kept.size)), kept.size

    def close(self) -> None:
        self._file.close()
