"""Why a source is shown as it is, as a tree: what is shown, the rules that say so, the events that they rest on, and
what those close, name or cite.

The reasons are those that the fold recorded; nothing here explains anew. A tree is bounded: who needs every part of a
collection reads its stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ledger.audit.coordinates import Moment
from ledger.audit.dossiers import PUBLISHED
from ledger.audit.reading import Events, fields_of, header_of
from ledger.audit.states import State
from ledger.audit.timeline import SYNCED
from ledger.audit.wording import Fields, quoted, sentence, short
from ledger.core.errors import LedgerError
from ledger.events.fields import ArtifactRef, artifacts_in
from ledger.log.model import StoredEvent
from ledger.projections.folding import Row, plain

MAX_PARTS: Final = 64
"""Parts shown below the event that closes them."""
MAX_ARTIFACTS: Final = 64
MAX_DEPTH: Final = 4
"""How far events that name one another are followed."""
MAX_NODES: Final = 5_000


@dataclass(frozen=True, slots=True)
class Node:
    """One line of the tree; the fields of `WhyNode` in audit.proto."""

    kind: str
    text: str
    rule: str = ""
    pos: int | None = None
    sha256: str = ""
    children: tuple[Node, ...] = ()


def tree(state: State, moment: Moment, events: Events) -> tuple[Node, ...]:
    """A node for each field that a reason speaks of, in the order of the reasons."""
    telling = _Telling(state["id"], moment.size, events)
    fields = dict.fromkeys(reason["field"] for reason in state["reasons"])
    values = tuple(
        Node(
            "value",
            f"{field}: {_shown(state, field)}",
            children=tuple(telling.reason(r) for r in state["reasons"] if r["field"] == field),
        )
        for field in fields
    )
    return (*values, Node("value", f"… cut after {MAX_NODES} lines")) if telling.cut else values


def _shown(state: State, field: str) -> str:
    match field:
        case "difficulty":
            return str(state["difficulty"]["status"])
        case "review":
            return short(state["review"]["id"]) if state["review"] else "none"
        case "catalogue":
            return "retired" if state["retired"] else "listed"
        case _:
            return quoted(state.get(field) or "none")


class _Telling:
    """One tree in the making: what was read for it, and how many nodes it has."""

    def __init__(self, source: str, size: int, events: Events) -> None:
        self._stream = f"source/{source}"
        self._size = size
        self._events = events
        self._read: dict[int, StoredEvent | None] = {}
        self._publications: dict[str, int] | None = None
        self._definitions: dict[str, int] | None = None
        self._nodes = 0

    @property
    def cut(self) -> bool:
        """Whether something was left out."""
        return self._nodes > MAX_NODES

    def reason(self, reason: Mapping[str, Any]) -> Node:
        cited = [event for pos in reason["events"] if (event := self._at(pos)) is not None]
        parts = _by_closing(cited)
        adopted = {part.pos for found in parts.values() for part in found}
        children = [self._event(e, parts.get(e.pos, ()), ()) for e in cited if e.pos not in adopted and self._room()]
        return Node("reason", reason["text"], rule=reason["rule"], children=tuple(children))

    def _room(self) -> bool:
        self._nodes += 1
        return self._nodes <= MAX_NODES

    def _event(self, event: StoredEvent, parts: Iterable[StoredEvent], above: tuple[int, ...]) -> Node:
        path = (*above, event.pos)
        fields = self._events.fields(event)
        below: list[Node] = []
        if fields is not None:
            below += self._parts(event, fields, list(parts), path)
            if len(path) < MAX_DEPTH:
                named = [self._at(pos) for pos in self._positions_named(event.type, fields) if pos not in path]
                below += [self._event(e, (), path) for e in named if e is not None and self._room()]
            below += self._artifacts(event)
        return Node("event", sentence(event.type, fields), pos=event.pos, children=tuple(below))

    def _parts(
        self, event: StoredEvent, fields: Fields, cited: list[StoredEvent], path: tuple[int, ...]
    ) -> Iterator[Node]:
        shown = [part for part in cited[:MAX_PARTS] if self._room()]
        yield from (self._event(part, (), path) for part in shown)
        more = _parts_of(fields, len(cited)) - len(shown) if event.type == PUBLISHED else len(cited) - len(shown)
        if more > 0:
            yield Node("event", f"… {more} more")

    def _artifacts(self, event: StoredEvent) -> Iterator[Node]:
        found = list(dict.fromkeys((ref.sha256, ref.name) for ref in self._cited(event)))
        for sha256, name in found[:MAX_ARTIFACTS]:
            if self._room():
                yield Node("artifact", quoted(name), sha256=sha256)
        if len(found) > MAX_ARTIFACTS:
            yield Node("artifact", f"… {len(found) - MAX_ARTIFACTS} more")

    def _cited(self, event: StoredEvent) -> list[ArtifactRef]:
        registry = self._events.log.registry
        try:
            return artifacts_in(registry.read(event.type, header_of(event.header).tv, event.payload or b""))
        except LedgerError:
            return []

    def _positions_named(self, type_: str, fields: Fields) -> list[int]:
        try:
            return list(dict.fromkeys(self._named(type_, fields)))
        except (KeyError, TypeError):  # a redaction may have taken the names
            return []

    def _named(self, type_: str, fields: Fields) -> Iterator[int]:
        """The positions of the earlier events that an event names."""
        match type_:
            case "defect.resolved":
                yield from self._ids([fields["validation"]])
                yield from self._reviews([fields["review"]])
            case "defect.confirmed" | "defect.suspected":
                yield from self._reviews([fields.get("review")])
            case "review.superseded":
                yield from self._reviews([fields["review"], fields["superseded_by"]])
            case "review.published":
                yield from self._ids(fields.get("rests_on", []))
            case "difficulty.reported":
                yield from self._protocols([fields["protocol"]["id"]])
                yield from self._ids(fields.get("rests_on", []))
            case "protocol.adopted":
                yield from self._ids([fields["definition"]])
            case "event.disregarded":
                yield fields["pos"]

    def _ids(self, ids: Iterable[str]) -> Iterator[int]:
        found = (self._events.by_id(event_id, self._size) for event_id in ids)
        yield from (event.pos for event in found if event is not None)

    def _reviews(self, reviews: Iterable[str | None]) -> Iterator[int]:
        """Where the source's reviews were published."""
        if self._publications is None:
            published = (row for row in self._events.stream(self._stream, self._size) if row[2] == PUBLISHED)
            self._publications = self._first(published, lambda p: p["review"])
        yield from (self._publications[r] for r in reviews if r is not None and r in self._publications)

    def _protocols(self, protocols: Iterable[str]) -> Iterator[int]:
        """Where protocols were defined."""
        if self._definitions is None:
            defined = map(plain, self._events.scan(self._size, types=("protocol.defined",)))
            self._definitions = self._first(defined, lambda p: p["protocol"])
        yield from (self._definitions[p] for p in protocols if p in self._definitions)

    def _first(self, rows: Iterable[Row], name: Callable[[Fields], str]) -> dict[str, int]:
        """By what they are named, the first of these events."""
        found: dict[str, int] = {}
        for row in rows:
            fields = self._events.decoded(row, fields_of)
            if fields is not None:
                found.setdefault(name(fields), row[0])
        return found

    def _at(self, pos: int) -> StoredEvent | None:
        if pos not in self._read:
            self._read[pos] = self._events.at(pos) if pos < self._size else None
        return self._read[pos]


def _parts_of(fields: Fields, at_least: int) -> int:
    """How many parts a publication closes, by its own word."""
    said = fields.get("parts")
    count = said.get("count") if isinstance(said, dict) else None
    return max(count, at_least) if isinstance(count, int) else at_least


def _by_closing(cited: list[StoredEvent]) -> dict[int, list[StoredEvent]]:
    """The cited parts that a cited event closes, by the position of that event."""
    closings = {header_of(e.header).collection: e.pos for e in reversed(cited) if e.type in {PUBLISHED, SYNCED}}
    found: dict[int, list[StoredEvent]] = {}
    for event in cited:
        collection = header_of(event.header).collection
        closing = None if collection is None else closings.get(collection)
        if closing is not None and event.pos < closing:
            found.setdefault(closing, []).append(event)
    return found
