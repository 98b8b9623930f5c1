"""What happened to one source: every event of its stream once, and the events elsewhere that changed what is shown.

Compact, the parts of a collection stand with the event that closes them; full, each stands for itself. Parts that
nothing closed among the first N stand for themselves either way. What an event changed is the difference between the
states just before and just after it, under the rules and the policy that were asked.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import orjson

from ledger.audit.coordinates import Moment
from ledger.audit.disregards import Disregards
from ledger.audit.dossiers import PUBLISHED
from ledger.audit.pages import encode_token, page_size
from ledger.audit.reading import Check, Events, go_on, header_of
from ledger.audit.sources import Sources
from ledger.audit.states import State, States
from ledger.audit.wording import sentence
from ledger.events import REGISTRY
from ledger.log.model import Filter, StoredEvent
from ledger.projections import outcomes
from ledger.projections.outcomes import Change

QUESTION: Final = "timeline"
SYNCED: Final = "catalogue.synced"
MAX_TOLD: Final = 2
"""Parts told in the words of a refresh, which itself speaks of its origin and not of the source."""
KEPT: Final = 16
"""Outlines kept: a few dozen bytes an event."""
_CLOSED_BY: Final[Mapping[str, str]] = {
    t.type: SYNCED if t.family == "catalogue" else PUBLISHED
    for t in REGISTRY
    if t.family in {"catalogue", "review"} and "collection" in t.model.model_fields and not t.decision
}
"""The types of parts, and of the event that closes a collection of them."""


@dataclass(frozen=True)
class Order:
    """How a timeline is told."""

    source: str
    newest_first: bool = False
    full: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """An entry's place: one event, and the parts that it closes."""

    pos: int
    parts: tuple[int, ...] = ()
    elsewhere: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    """One event of a timeline."""

    event: StoredEvent
    text: str
    changes: tuple[Change, ...]
    parts: tuple[int, ...]
    disregarded_by: int | None
    elsewhere: bool


@dataclass(frozen=True, slots=True)
class TimelinePage:
    """Some of the entries, and how to ask for more."""

    entries: tuple[Entry, ...]
    total: int
    next_token: str = ""


@dataclass(slots=True)
class _Outline:
    """A stream without its payloads: what stands for itself, and what is closed by what."""

    own: list[int] = field(default_factory=list)
    closing: dict[int, list[int]] = field(default_factory=dict)
    """The parts of each closing event, in this stream or another."""
    open_parts: list[int] = field(default_factory=list)


class Timelines:
    """Answers about what happened to a source."""

    def __init__(self, events: Events, sources: Sources, disregards: Disregards) -> None:
        self._events = events
        self._sources = sources
        self._disregards = disregards
        self._guard = threading.Lock()
        self._outlines: OrderedDict[tuple[str, int, int], _Outline] = OrderedDict()  # guarded by _guard

    def page(
        self, moment: Moment, order: Order, *, size: int = 0, start: int = 0, check: Check = go_on
    ) -> TimelinePage:
        """The entries from the one with the number `start`.

        Raises:
            InvalidInput: the id is empty.
            NotFound: nothing was recorded of the source there.
        """
        self._sources.check_id(order.source, moment)
        outline = self._outline(order.source, moment, check)
        states = self._sources.shelf.states(moment)
        if not outline.own and not outline.open_parts and not outline.closing:
            self._sources.one(order.source, moment)  # which says that there is none
        turns = states.turns(order.source)
        lines = _lines(outline, turns, full=order.full)
        if order.newest_first:
            lines.reverse()
        end = start + page_size(size)
        disregarded, turned = self._disregards.at(moment.size), set(turns)
        entries = []
        for line in lines[start:end]:
            check()
            changes = _changes(states, order.source, line.pos) if line.pos in turned else ()
            entries.append(self._entry(line, changes, disregarded.get(line.pos)))
        token = encode_token(QUESTION, order, [moment], end) if end < len(lines) else ""
        return TimelinePage(tuple(entries), len(lines), token)

    def _entry(self, line: Line, changes: tuple[Change, ...], disregarded_by: int | None) -> Entry:
        event = self._events.at(line.pos)
        assert event is not None, f"the log has an event at position {line.pos}"
        told = line.parts[:MAX_TOLD] if line.elsewhere else ()
        text = " ".join(self._sentence(e) for e in (*filter(None, map(self._events.at, told)), event))
        return Entry(event, text, changes, line.parts, disregarded_by, line.elsewhere)

    def _sentence(self, event: StoredEvent) -> str:
        return sentence(event.type, self._events.fields(event))

    def _outline(self, source: str, moment: Moment, check: Check) -> _Outline:
        key = (source, moment.size, moment.redactions_through)
        with self._guard:
            found = self._outlines.get(key)
        if found is None:
            found = self._made(source, moment.size, check)
            with self._guard:
                self._outlines[key] = found
                while len(self._outlines) > KEPT:
                    self._outlines.popitem(last=False)
        return found

    def _made(self, source: str, size: int, check: Check) -> _Outline:
        outline, disregarded = _Outline(), self._disregards.at(size)
        parts: dict[tuple[str, str], list[int]] = {}
        closings: dict[tuple[str, str], int] = {}
        for pos, _, type_, _, header, _ in self._events.stream(f"source/{source}", size, check):
            collection, closed_by = header_of(header).collection, _CLOSED_BY.get(type_)
            if collection is not None and closed_by is not None:
                parts.setdefault((closed_by, collection), []).append(pos)
                continue
            outline.own.append(pos)
            if type_ == PUBLISHED and collection is not None and pos not in disregarded:
                closings.setdefault((PUBLISHED, collection), pos)
        for (closed_by, collection), positions in parts.items():
            if closed_by == SYNCED:
                closing = self._synced(collection, size, disregarded)
            else:
                closing = closings.get((closed_by, collection))
            self._close(outline, closing, positions)
        return outline

    def _synced(self, collection: str, size: int, disregarded: Mapping[int, int]) -> int | None:
        """The refresh that closed a collection of catalogue parts."""
        match = Filter(types=(SYNCED,), tags=(f"collection:{collection}",))
        found = self._events.log.store.read(0, size, match=match, payloads=False)
        return next((event.pos for event in found if event.pos not in disregarded), None)

    def _close(self, outline: _Outline, closing: int | None, positions: Iterable[int]) -> None:
        for pos in positions:
            if closing is not None and pos < closing:
                outline.closing.setdefault(closing, []).append(pos)
            else:
                outline.open_parts.append(pos)


def _lines(outline: _Outline, turns: Iterable[int], *, full: bool) -> list[Line]:
    """Every event of the stream once, and what changed the source elsewhere, in log order."""
    of_stream = {*outline.own, *outline.open_parts, *(pos for parts in outline.closing.values() for pos in parts)}
    shown = {*outline.own, *outline.open_parts, *outline.closing, *(pos for pos in turns if pos not in of_stream)}
    if full:
        shown |= of_stream
    return [
        Line(pos, () if full else tuple(outline.closing.get(pos, ())), elsewhere=pos not in of_stream)
        for pos in sorted(shown)
    ]


def _changes(states: States, source: str, pos: int) -> tuple[Change, ...]:
    return outcomes.changes(_read(states.earlier(source, pos)), _read(states.earlier(source, pos + 1)))


def _read(data: bytes | None) -> State | None:
    return None if data is None else orjson.loads(data)
