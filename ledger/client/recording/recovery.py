"""What a crash left in a spool: torn bytes are cut and counted, and an epoch that did not end is ended."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ledger.client.recording import folders, segments
from ledger.client.recording.identities import Identity
from ledger.client.recording.packing import Counted, Halves
from ledger.client.recording.segments import Place
from ledger.client.recording.tallies import Tally
from ledger.wire import log_pb2


@dataclass(frozen=True)
class Recovered:
    """What was found in a spool whose writer is gone."""

    epoch: int
    waiting: int
    """Drafts that are not answered yet."""
    end: Place
    """After the last draft that was written or answered."""
    next_segment: int
    torn_before: int
    """Bytes cut, and reported for the epoch that left them."""
    torn_after_end: int
    """Bytes cut though the epoch had ended: nobody has reported them."""


def recover(folder: Path, identity: Identity) -> Recovered:
    """Cuts what a crash tore, and ends the epoch that it cut short. For who holds the writer's lock."""
    state, cursor = folders.read(folder / "epoch.json"), folders.read(folder / "cursor.json")
    place = cursor_place(cursor)
    waiting, torn, reported, end = 0, 0, 0, place
    counted = (0, 0)
    there = segments.numbers(folder)
    for number in (n for n in there if n >= place.segment):
        file, offset = segments.path(folder, number), place.offset if number == place.segment else 0
        found = _cut(file, offset)
        waiting, torn = waiting + found.frames, torn + found.torn
        if found.last is not None:
            end = Place(number, found.end)
            counted = max(counted, _count(found.last) or _last_count(file, offset))
    epoch, seq = max(counted, *((told.get("epoch", 0), told.get("seq", 0)) for told in (cursor, state)))
    if not state.get("closed", epoch == 0):
        tally = Tally(state.get("tally"))
        tally.cut(torn)
        end = _append_to_last(folder, identity, identity.report(tally, epoch, seq, closed=False), epoch, seq + 1)
        folders.write(folder / "epoch.json", {**state, "epoch": epoch, "closed": True}, durable=True)
        waiting, torn, reported, there = waiting + 1, 0, torn, segments.numbers(folder)
    return Recovered(epoch, waiting, end, max([*there, place.segment]) + 1, reported, torn)


def cursor_place(cursor: dict[str, Any]) -> Place:
    """Up to where everything is answered."""
    return Place(cursor.get("segment", 0), cursor.get("offset", 0))


def _count(body: bytes) -> tuple[int, int] | None:
    """The epoch and the number that a draft bears, if it bears one."""
    producer = log_pb2.Draft.FromString(body).producer
    return (producer.epoch, producer.seq) if producer.epoch else None


def _last_count(file: Path, offset: int) -> tuple[int, int]:
    """The last count in a segment whose last draft bears none."""
    return max((_count(body) or (0, 0) for _, body in segments.bodies(file, offset)), default=(0, 0))


def _cut(file: Path, offset: int) -> segments.Tail:
    """Also makes what is left durable: who wrote it may not have come to that."""
    found = segments.tail(file, offset)
    handle = os.open(file, os.O_WRONLY)
    try:
        if found.torn:
            os.ftruncate(handle, found.end)
        os.fsync(handle)
    finally:
        os.close(handle)
    return found


def _append_to_last(folder: Path, identity: Identity, halves: Halves, epoch: int, seq: int) -> Place:
    """Writes one draft of an epoch that is over, into a segment of its own; gives the place after it."""
    place = cursor_place(folders.read(folder / "cursor.json"))
    number = max([*segments.numbers(folder), place.segment]) + 1
    handle = segments.create(folder, number)
    try:
        written = os.write(handle, segments.frame(Counted(identity.producer, epoch).join(halves, seq)))
        os.fsync(handle)
    finally:
        os.close(handle)
    folders.sync_folder(folder)
    return Place(number, written)
