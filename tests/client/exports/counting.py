"""Places that count, or die."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ledger.client.exports.places import Place
from ledger.core.errors import Unavailable


class CountingPlace:
    """Tells which bytes of which file were read, in order."""

    def __init__(self, inner: Place) -> None:
        self._inner = inner
        self.read_bytes: dict[str, int] = {}
        self.ranges: list[tuple[str, int, int]] = []

    @property
    def location(self) -> str:
        return self._inner.location

    def names(self) -> list[str]:
        return self._inner.names()

    def size(self, name: str) -> int:
        return self._inner.size(name)

    def read(self, name: str, begin: int = 0, end: int | None = None) -> bytes:
        data = self._inner.read(name, begin, end)
        self.read_bytes[name] = self.read_bytes.get(name, 0) + len(data)
        self.ranges.append((name, begin, begin + len(data)))
        return data

    def chunks(self, name: str) -> Iterator[bytes]:
        for data in self._inner.chunks(name):
            self.read_bytes[name] = self.read_bytes.get(name, 0) + len(data)
            yield data

    def put(self, name: str, source: Path | bytes) -> None:
        self._inner.put(name, source)

    def delete(self, name: str) -> None:
        self._inner.delete(name)


class MortalPlace(CountingPlace):
    """Notes what is done to it, and goes away before change number `dies_at`."""

    def __init__(self, inner: Place, dies_at: int | None = None) -> None:
        super().__init__(inner)
        self.done: list[tuple[str, str]] = []
        self._dies_at = dies_at

    def put(self, name: str, source: Path | bytes) -> None:
        self._live("put", name)
        super().put(name, source)

    def delete(self, name: str) -> None:
        self._live("delete", name)
        super().delete(name)

    def _live(self, what: str, name: str) -> None:
        if len(self.done) == self._dies_at:
            raise Unavailable("the place is gone")
        self.done.append((what, name))

    def puts(self) -> list[str]:
        return [name for what, name in self.done if what == "put"]
