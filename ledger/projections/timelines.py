"""A rebuild's two passes, without a database: the environment as a timeline, then each stream merged with it.

`fold_streams` gives of every source exactly what the live fold gives: its intervals, and its facts at the end. Streams
do not depend on one another, so they may be folded in any order, and in as many processes as there are.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from heapq import merge
from typing import Any, Final, NamedTuple

import orjson

from ledger.events import Registry
from ledger.projections.disregards import Disregards
from ledger.projections.environments import Effect, EnvironmentFold, History
from ledger.projections.folding import Folder, Interval, Kept, Row, Surroundings
from ledger.projections.subjects import SOURCES, Projection
from ledger.rules import RuleSet

_END: Final = 1 << 63
"""Beyond every position."""


@dataclass(slots=True)
class Timeline:
    """The environment after each event that changed it, and when which sources are shown again.

    Versions share what they have in common, so they hold little more than one environment and what its events said.
    """

    positions: list[int] = field(default_factory=list)
    versions: list[Surroundings] = field(default_factory=list)
    everyone: list[int] = field(default_factory=list)
    """Where every source is shown again."""
    touched: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """Where one source is shown again, whatever its own stream says."""
    disregarded: dict[str, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))
    """Of a source's events that come to count for nothing: where each is disregarded."""

    def at(self, pos: int) -> Surroundings:
        """The environment after the event at a position."""
        return self.versions[bisect_right(self.positions, pos) - 1]

    @property
    def last(self) -> Surroundings:
        return self.versions[-1]

    def moments(self, key: str, after: int) -> Iterator[int]:
        """Where the source is shown again after a position, in order; some of them may come twice."""
        for pos in merge(self.everyone, self.touched.get(key, ())):
            if pos > after:
                yield pos


def read_timeline(folder: Folder, rows: Iterable[Row], history: History, *, versions: bool = True) -> Timeline:
    """The first pass.

    Args:
        folder: The rules.
        rows: Events of the environment's types and disregards, in log order.
        history: To fold the environment again where one of its events is disregarded.
        versions: Keep every version; else the last one alone, for those who fold no stream themselves.
    """
    fold = EnvironmentFold(folder, history, folder.initial(), Disregards(history.event, folder.registry))
    line = Timeline([-1], [fold.surroundings])
    for row in rows:
        effect = fold.take(row)
        if fold.surroundings is not line.last:
            if not versions:
                line.positions.clear()
                line.versions.clear()
            line.positions.append(row[0])
            line.versions.append(fold.surroundings)
        _note(line, row[0], effect)
    return line


def _note(line: Timeline, pos: int, effect: Effect) -> None:
    if not isinstance(effect.touched, frozenset):
        line.everyone.append(pos)
    else:
        for key in effect.touched:
            line.touched[key].append(pos)
    if effect.refolded is not None and effect.disregarded is not None:
        key = effect.refolded
        line.touched[key].append(pos)
        line.disregarded[key][effect.disregarded] = pos


class FoldedStream(NamedTuple):
    """A source's whole history: its intervals, and what is kept of it."""

    key: str
    kept: bytes
    failures: int
    intervals: list[Interval]


def fold_streams(
    rules: RuleSet[Any, Any],
    registry: Registry,
    timeline: Timeline,
    streams: Iterable[tuple[str, Iterable[Row]]],
    projection: Projection = SOURCES,
) -> Iterator[FoldedStream]:
    """The second pass: every stream with its events, in their order, merged with the timeline.

    Only the events of whole streams that are given here are folded, so that a log can be cut between any two streams.
    """
    folder = Folder(rules, registry, projection)
    for stream, rows in streams:
        key = projection.key_of(stream)
        if key is not None:
            folded = _Stream(folder, timeline, key).folded(rows)
            if folded is not None:
                yield folded


class _Stream:
    """One source's stream being folded."""

    def __init__(self, folder: Folder, timeline: Timeline, key: str) -> None:
        self._folder = folder
        self._timeline = timeline
        self._key = key
        self._kept = Kept(folder.rules.initial_facts())
        self._intervals: list[Interval] = []
        self._disregarded = timeline.disregarded.get(key)
        self._refolds = frozenset((self._disregarded or {}).values())
        self._rows: list[Row] = []
        """What was folded, kept only where some of it will be disregarded."""

    def folded(self, rows: Iterable[Row]) -> FoldedStream | None:
        """None if no event of the stream is of a type that decides anything."""
        if not self._fold(rows):
            return None
        facts = self._folder.rules.encode_facts(self._kept.facts)
        kept = encode_kept(self._kept, facts)
        return FoldedStream(self._key, kept, self._kept.failures, self._intervals)

    def _fold(self, rows: Iterable[Row]) -> bool:
        """Whether there was anything to fold. What is done here for one event is done a million times."""
        kept, types, fold = self._kept, self._folder.types, self._folder.fold
        moments: Iterator[int] | None = None
        moment, pos, disregarded = _END, 0, self._disregarded
        for row in rows:
            if row[2] not in types:
                continue
            pos = row[0]
            if moments is None:
                moments = self._timeline.moments(self._key, pos - 1)
                moment = next(moments, _END)
            while moment < pos:
                self._show_again(moment)
                moment = next(moments, _END)
            if not fold(kept, row) or moment == pos:
                self._show(pos)
            if disregarded is not None:
                self._rows.append(row)
        for later in (moment, *(moments or ())):
            if later != _END and later > pos:
                self._show_again(later)
        return moments is not None

    def _show(self, pos: int) -> None:
        interval = self._folder.show(self._key, self._kept, self._timeline.at(pos), pos)
        if interval is not None:
            self._intervals.append(interval)

    def _show_again(self, pos: int) -> None:
        if pos in self._refolds:
            self._refold(pos)
        self._show(pos)

    def _refold(self, pos: int) -> None:
        """The facts of what still counts after the event at a position."""
        assert self._disregarded is not None
        kept, without = self._kept, self._disregarded
        kept.facts, kept.failed = self._folder.rules.initial_facts(), ()
        for row in self._rows:
            if without.get(row[0], _END) > pos:
                self._folder.fold(kept, row)


def encode_kept(kept: Kept, facts: bytes) -> bytes:
    """Facts with what failed before them, on a line of its own."""
    return orjson.dumps([kept.failed, kept.broken]) + b"\n" + facts


def decode_kept(data: bytes) -> tuple[tuple[int, ...], int | None, bytes]:
    """What failed, since when the state cannot be derived, and the facts."""
    said, _, facts = data.partition(b"\n")
    failed, broken = orjson.loads(said)
    return tuple(failed), broken, facts
