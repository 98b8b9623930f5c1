"""The events behind a card: what each is, how it is known, and the list that marks lead to.

How a fact is known is read from the event itself: a sentence on a claim is marked as one, whatever the template. Who
claims it, and where, stands once: in the event's place in the list.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from ledger.client.cards.text import code, prose
from ledger.core import strictjson
from ledger.wire import log_pb2

RECORDED: Final = "recorded"
REDACTED: Final = "redacted since"
_WITHOUT: Final = {"hosting.observed": "observed", "anomaly.claimed": "claimed"}
"""How events are known that name no basis; the others were seen by whoever recorded them."""
_PLACE: Final = {"claimed": "claimed at", "imported": "imported from", "inferred": "inferred from"}


@dataclass(frozen=True)
class Cited:
    """An event that a sentence rests on."""

    pos: int
    id: str
    type: str
    recorded_at: str
    basis: str = RECORDED
    """How it is known, in a word."""
    place: str = ""
    """The same with the page or document that says it, where one is named."""
    note: str = ""
    """What its producer remarks on that."""


def cited(event: log_pb2.Event) -> Cited:
    header: dict[str, Any] = strictjson.parse(event.header)
    type_ = header["type"]
    return Cited(event.pos, header["id"], type_, header["recorded_at"], *_basis(event, type_))


def event_list(events: Iterable[Cited]) -> list[str]:
    """The list that marks lead to: an event a line, in log order."""
    return [_entry(event) for event in sorted(events, key=lambda e: e.pos)]


def _entry(event: Cited) -> str:
    """An event's place in the list; its anchor is the only HTML of a card."""
    parts = [f"{code(event.type)}, recorded {event.recorded_at}"]
    parts += [event.place] if event.place else []
    parts += [f"noted on that: {event.note}"] if event.note else []
    return f'- <a id="e{event.pos}"></a>e{event.pos}: {"; ".join(parts)}; {code(f"ledger event show {event.id}")}'


def _basis(event: log_pb2.Event, type_: str) -> tuple[str, str, str]:
    """How an event is known, by what it says itself; where that stands; its producer's note on it."""
    if not event.HasField("payload"):
        return REDACTED, REDACTED, ""
    payload = strictjson.parse(event.payload)
    basis = payload.get("basis") if isinstance(payload, dict) else None
    if not isinstance(basis, dict):
        word = _WITHOUT.get(type_, RECORDED)
        return word, "" if word == RECORDED else word, ""
    kind = basis.get("kind")
    if not isinstance(kind, str) or kind not in _PLACE:  # where something was redacted, a marker stands
        return REDACTED, "on a basis that was redacted", ""
    document = basis.get("document")
    name = basis.get("url") or (document.get("name") if isinstance(document, dict) else None)
    note = basis.get("note")
    return kind, f"{_PLACE[kind]} {code(name)}" if name else kind, prose(str(note)) if note else ""
