"""Which events count for nothing, for commands that read the log themselves, and what disregards each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ledger.client.reader import Reader
from ledger.core import strictjson
from ledger.events import REGISTRY
from ledger.events.administration import EventDisregarded
from ledger.wire import log_pb2


class Disregard(NamedTuple):
    """The event by which another one counts for nothing."""

    pos: int
    id: str


Disregarded = Mapping[tuple[int, str], Disregard]
"""By the position and the id of what is disregarded."""


def disregarded(reader: Reader, *, to_size: int = 0) -> Disregarded:
    """What is disregarded among the first `to_size` events, 0 for all; one that names a later event changes nothing."""
    gone: dict[tuple[int, str], Disregard] = {}
    for event in reader.events(to_size=to_size, streams=["ledger"], types=["event.disregarded"]):
        if event.HasField("payload"):
            _note(gone, event)
    return gone


def _note(gone: dict[tuple[int, str], Disregard], event: log_pb2.Event) -> None:
    header = strictjson.parse(event.header)
    assert isinstance(header, dict)
    said = REGISTRY.read("event.disregarded", header["tv"], event.payload)
    if isinstance(said, EventDisregarded) and said.pos < event.pos:
        # The first counts: an event is disregarded once.
        gone.setdefault((said.pos, said.event), Disregard(event.pos, str(header["id"])))
