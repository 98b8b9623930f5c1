"""Publishing again what was disregarded: under ids of its own, and nothing else of the publication.

An id that is made from what it says names one event for ever, and a disregard is for ever too. What is published again
after one is therefore a new event: its id is made from the old id and from the event that disregards that one, so that
repeating the command still gives one event. Parts that stand keep their ids; what closes them names them as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ledger.client.drafts import Draft, Publication, parts_of
from ledger.client.reader import Reader
from ledger.core.errors import NotFound, Refused
from ledger.core.ids import digest_id
from ledger.events import REGISTRY
from ledger.wire import log_pb2
from services.cli.disregarded import Disregard, Disregarded, disregarded


@dataclass(frozen=True)
class Renewed:
    """A publication as it is to be sent."""

    publication: Publication
    again: Mapping[str, Disregard] = field(default_factory=dict)
    """By the new id of an event: what disregards the one in whose place it comes."""


def renewed(reader: Reader, publication: Publication) -> Renewed:
    """The publication, with other ids for what the ledger has of it and disregards.

    Raises:
        Refused: reason CONDITION_FAILED, if a part is disregarded and what closes it stands: no part comes after that.
    """
    names = _Names(reader)
    again: dict[str, Disregard] = {}

    def anew(draft: Draft) -> Draft:
        id_, by = names.standing(draft.id)
        if by is None:
            return draft
        again[id_] = by
        return _copy(draft, id=id_)

    parts = tuple(map(anew, publication.parts))
    closing, lost = publication.closing, dict(again)
    if closing is not None:
        closing = anew(closing)
        if lost:
            _check_open(reader, closing, lost)
            closing = _closing_of(closing, parts)
    return Renewed(replace(publication, parts=parts, closing=closing), again)


def standing_event(reader: Reader, event_id: str) -> log_pb2.Event | None:
    """The event of that id, or the one that was published in its place; None if none of them counts."""
    return _found(reader, _Names(reader).standing(event_id)[0])


class _Names:
    """Under which id an event counts, or is to be published."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._gone: Disregarded = disregarded(reader)
        self._ids = {event_id for _, event_id in self._gone}

    def standing(self, event_id: str) -> tuple[str, Disregard | None]:
        """The first id of its line that is not disregarded, and what disregards the one before it."""
        by = None
        while event_id in self._ids:
            event = _found(self._reader, event_id)
            found = self._gone.get((event.pos, event_id)) if event is not None else None
            if found is None:
                break
            by, event_id = found, digest_id(event_id, found.id)
        return event_id, by


def _check_open(reader: Reader, closing: Draft, lost: Mapping[str, Disregard]) -> None:
    """Parts are published again only before what closes them.

    A closing event that stands was recorded with the parts of then. When it names these, this is a repetition.
    """
    event = _found(reader, closing.id)
    known = [_found(reader, id_) for id_ in lost]
    if event is None or all(part is not None and part.pos < event.pos for part in known):
        return
    positions = ", ".join(str(by.pos) for by in lost.values())
    raise Refused(
        f"{len(lost)} of its parts were disregarded (at position {positions}), and {closing.type} stands without them",
        reason="CONDITION_FAILED",
        remedy=f"Disregard what closes them too, `ledger event disregard {event.pos}`, then publish again. "
        "Nothing was appended.",
        details={"closing": closing.id, "pos": str(event.pos)},
    )


def _closing_of(closing: Draft, parts: tuple[Draft, ...]) -> Draft:
    """The closing event, naming its parts by the ids that they have now."""
    said = REGISTRY.read(closing.type, closing.type_version, closing.payload)
    named = said.model_copy(update={"parts": parts_of(parts)})
    return _copy(closing, payload=named.model_dump_json(exclude_defaults=True).encode())


def _copy(draft: Draft, *, id: str | None = None, payload: bytes | None = None) -> Draft:  # noqa: A002  # the wire's word
    made = Draft()
    made.CopyFrom(draft)
    made.id = id if id is not None else made.id
    made.payload = payload if payload is not None else made.payload
    return made


def _found(reader: Reader, event_id: str) -> log_pb2.Event | None:
    try:
        return reader.event(event_id)
    except NotFound:
        return None
