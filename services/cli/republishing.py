"""What of a publication the ledger has already: only what an event says counts, not who sent it, with which tags.

A document is published once. Sent again by another actor, or under another basis of the verifier revision, it says
nothing new; a document of the same name that says something else is a conflict.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from ledger.client.drafts import Draft, Publication
from ledger.client.reader import Reader
from ledger.core import strictjson
from ledger.core.errors import Problem, Refused
from ledger.wire import log_pb2
from services.cli.catalogue_state import header_of

_BASIS: Final = "verifier_revision_basis"
"""Who says the revision, not which it is."""
_SHOWN: Final = 60

Known = Mapping[str, log_pb2.Event]


def recorded_before(reader: Reader, publication: Publication) -> Known:
    """The events of a publication that the ledger has, by id; one whose payload is gone counts as the same.

    Raises:
        Refused: reason ID_CONFLICT, naming every field that differs.
    """
    planned = {draft.id: draft for draft in publication.drafts}
    if not planned:
        return {}
    streams = sorted({draft.stream for draft in planned.values()})
    known = {id_: e for e in reader.events(streams=streams) if (id_ := str(header_of(e)["id"])) in planned}
    problems = [problem for id_, event in known.items() for problem in _differences(planned[id_], event)]
    if problems:
        raise Refused(
            f"{publication.summary}: the ledger has it with other content",
            reason="ID_CONFLICT",
            remedy=f"It says otherwise of {', '.join(dict.fromkeys(p.place for p in problems))}: leave that as it was "
            "published, or publish a new document. Nothing was appended.",
            problems=problems,
        )
    return known


def without(publication: Publication, known: Known) -> Publication:
    """What is left to publish."""
    closing = publication.closing
    return replace(
        publication,
        parts=tuple(part for part in publication.parts if part.id not in known),
        closing=None if closing is None or closing.id in known else closing,
    )


def _differences(draft: Draft, event: log_pb2.Event) -> Iterator[Problem]:
    if not event.HasField("payload"):
        return
    then, now = _said(event.payload), _said(draft.payload)
    for name in sorted(then.keys() | now.keys()):
        if name != _BASIS and then.get(name) != now.get(name):
            yield Problem(f"/{name}", f"published as {_short(then.get(name))}, now {_short(now.get(name))}")


def _said(payload: bytes) -> dict[str, Any]:
    said = strictjson.parse(payload)
    assert isinstance(said, dict)
    return said


def _short(value: Any) -> str:
    text = strictjson.dumps(value).decode()
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
