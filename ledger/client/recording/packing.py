"""A draft as bytes, written by hand: the same that protobuf would write, with the producer's count put in last.

The id, the time and the payload are known before a recorder's turn comes; the sequence number only when it has come.
So a draft is packed in two halves, and what happens within the turn is a join. A test compares the bytes with
protobuf's.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from ledger.client.requests import varint
from ledger.wire import log_pb2

_ID: Final = 0x0A
_OCCURRED: Final = b"\x28"
_PRODUCER: Final = b"\x4a"
_PAYLOAD: Final = b"\x52"
_SEQ: Final = b"\x18"


class Halves(NamedTuple):
    """A draft before and after the field that names its producer."""

    before: bytes
    after: bytes


class Kind:
    """What the drafts of one type and one stream have in common."""

    def __init__(self, type_: str, version: int, stream: str, by: log_pb2.Actor) -> None:
        self._head = log_pb2.Draft(type=type_, type_version=version, stream=stream).SerializeToString()
        self._actor = log_pb2.Draft(actor=by).SerializeToString()

    def halves(
        self, id_: str, payload: bytes, occurred_at_us: int, tags: Iterable[str] = (), causes: Iterable[str] = ()
    ) -> Halves:
        name = id_.encode()
        before = bytes((_ID, len(name))) + name + self._head + _OCCURRED + varint(occurred_at_us) + self._actor
        if tags or causes:
            before += log_pb2.Draft(causes=causes, tags=sorted(set(tags))).SerializeToString()
        return Halves(before, _PAYLOAD + varint(len(payload)) + payload)


class Counted:
    """The producer of a spool's epoch, which counts."""

    def __init__(self, producer: str, epoch: int) -> None:
        self._head = log_pb2.Producer(id=producer, epoch=epoch).SerializeToString()

    def join(self, halves: Halves, seq: int) -> bytes:
        inner = self._head + _SEQ + varint(seq)
        return b"".join((halves.before, _PRODUCER, varint(len(inner)), inner, halves.after))
