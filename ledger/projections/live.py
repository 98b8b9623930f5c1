"""The live fold: events as they come, over all sources at once, a page at a time.

What is not in memory is asked of a shelf; what an event changes is kept until the caller takes it. The same events
give the same intervals in pages of any size. A source is known from the first event of its own stream on; what touches
others before that touches nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Protocol

from ledger.projections.disregards import DISREGARDED
from ledger.projections.environments import EnvironmentFold, History
from ledger.projections.folding import Folder, Interval, Kept, Row
from ledger.rules import Touched

_NOTHING: Final[Touched] = frozenset()


class Shelf(Protocol):
    """What a generation has written of its sources."""

    def some(self, keys: Iterable[str]) -> dict[str, Kept]:
        """What is kept of these; sources that are new are left out."""

    def every(self) -> Iterator[dict[str, Kept]]:
        """What is kept of all, some at a time."""


class LiveFold:
    """A fold in progress."""

    def __init__(self, folder: Folder, history: History, environment: EnvironmentFold, shelf: Shelf) -> None:
        self.folder = folder
        self._key_of: Final = folder.projection.key_of
        self.environment = environment
        self.types: Final = folder.types | {DISREGARDED}
        self.kept: dict[str, Kept] = {}
        self._counted: dict[str, int] = {}
        """How many failures of each source in memory the caller has counted."""
        self._changed: set[str] = set()
        self._unwritten: set[str] = set()
        """Sources that the shelf was asked for and has nothing of."""
        self._history = history
        self._shelf = shelf

    def expect(self, rows: Iterable[Row]) -> None:
        """Fetches at once what these events will ask for one after another."""
        streams = {row[3] for row in rows}
        self._fetch([key for key in map(self._key_of, streams) if key is not None])

    def apply(self, row: Row) -> list[Interval]:
        """The intervals that begin with this event."""
        pos, _, type_, stream, _, _ = row
        if type_ == DISREGARDED:
            effect = self.environment.take(row)
            if effect.refolded is not None:
                self._refold(effect.refolded, pos)
            return self._show_all(effect.touched, effect.refolded, pos)
        touched = self.environment.take(row).touched if type_ in self.folder.environment_types else _NOTHING
        own = self._key_of(stream)
        if own is not None and self._fold(own, row):
            own = None
        return self._show_all(touched, own, pos)

    def take_changed(self) -> tuple[dict[str, Kept], int]:
        """What has changed since the last call, and how many failures it holds more than then."""
        taken = {key: self.kept[key] for key in sorted(self._changed)}
        self._changed.clear()
        more = sum(kept.failures - self._counted[key] for key, kept in taken.items())
        self._counted.update({key: kept.failures for key, kept in taken.items()})
        return taken, more

    def _fold(self, key: str, row: Row) -> bool:
        """Whether the event leaves what is shown as it is."""
        self._fetch((key,))
        if key not in self.kept:
            self._remember(key, Kept(self.folder.rules.initial_facts()))
        self._changed.add(key)
        return self.folder.fold(self.kept[key], row)

    def _refold(self, key: str, pos: int) -> None:
        """The facts of what still counts after the event at a position, from the log."""
        self._fetch((key,))
        kept = self.kept[key]
        kept.facts, kept.failed = self.folder.rules.initial_facts(), ()
        for row in self._history.stream(self.folder.projection.stream_of(key), pos):
            if row[2] in self.folder.types and row[0] not in self.environment.disregarded:
                self.folder.fold(kept, row)
        self._changed.add(key)

    def _show_all(self, touched: Touched, own: str | None, pos: int) -> list[Interval]:
        if not isinstance(touched, frozenset):
            return self._show_everything(pos)
        self._fetch(touched)
        keys = {key for key in touched if key in self.kept}
        if own is not None:
            keys.add(own)
        shown = (self._show(key, self.kept[key], pos) for key in sorted(keys))
        return [interval for interval in shown if interval is not None]

    def _show_everything(self, pos: int) -> list[Interval]:
        """Sources that are not in memory are fetched some at a time, and kept if they are shown otherwise."""
        here = sorted(self.kept)
        found = [self._show(key, self.kept[key], pos) for key in here]
        known = frozenset(here)
        for some in self._shelf.every():
            for key, kept in some.items():
                if key not in known:
                    found.append(self._show_fetched(key, kept, pos))
        return [interval for interval in found if interval is not None]

    def _show_fetched(self, key: str, kept: Kept, pos: int) -> Interval | None:
        failures, broken = kept.failures, kept.broken
        interval = self.folder.show(key, kept, self.environment.surroundings, pos)
        if interval is not None or kept.broken != broken:
            self.kept[key] = kept
            self._counted[key] = failures
            self._changed.add(key)
        return interval

    def _show(self, key: str, kept: Kept, pos: int) -> Interval | None:
        broken = kept.broken
        interval = self.folder.show(key, kept, self.environment.surroundings, pos)
        if interval is not None or kept.broken != broken:
            self._changed.add(key)
        return interval

    def _fetch(self, keys: Iterable[str]) -> None:
        missing = [key for key in keys if key not in self.kept and key not in self._unwritten]
        if missing:
            found = self._shelf.some(missing)
            self._unwritten.update(key for key in missing if key not in found)
            for key, kept in found.items():
                self._remember(key, kept)

    def _remember(self, key: str, kept: Kept) -> None:
        self.kept[key] = kept
        self._counted[key] = kept.failures
