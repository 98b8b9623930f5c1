"""Append requests as they go over the wire: frozen to bytes once, within the limits, their answers checked.

A request is serialised when it is made. Every try sends those bytes, so that whatever became of an earlier try, the
ledger sees the same request again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ledger.client.drafts import Draft
from ledger.core.errors import Broken, InvalidInput
from ledger.core.merkle import HASH_SIZE
from ledger.wire import log_pb2

MAX_EVENTS: Final = 20_000
MAX_BYTES: Final = 16 * 1024 * 1024
_FRAME: Final = 8
"""Bytes that a draft's tag and length take within a request, at most."""
_DRAFTS: Final = b"\x0a"
"""The tag of the field that holds drafts."""


@dataclass(frozen=True, slots=True)
class Frozen:
    """One request: its bytes, and the ids that they append, to check the answer by."""

    data: bytes
    ids: tuple[str, ...]
    atomic: bool

    @property
    def fits(self) -> bool:
        return len(self.ids) <= MAX_EVENTS and len(self.data) <= MAX_BYTES


def freeze(drafts: Sequence[Draft], conditions: Iterable[log_pb2.Condition] = (), *, atomic: bool = False) -> Frozen:
    """The drafts as one request."""
    request = log_pb2.AppendRequest(drafts=drafts, conditions=conditions, atomic=atomic)
    return Frozen(request.SerializeToString(), tuple(d.id for d in drafts), atomic)


def freeze_bytes(drafts: Sequence[bytes]) -> Frozen:
    """Drafts that are bytes already, as one request that holds the very same ones."""
    data = b"".join(part for draft in drafts for part in (_DRAFTS, varint(len(draft)), draft))
    return Frozen(data, tuple(log_pb2.Draft.FromString(draft).id for draft in drafts), atomic=False)


def varint(number: int) -> bytes:
    """A number, not negative, as protobuf writes it."""
    if number < 0x80:
        return bytes((number,))
    if number < 0x4000:
        return bytes((number & 0x7F | 0x80, number >> 7))
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def freeze_whole(drafts: Sequence[Draft], conditions: Iterable[log_pb2.Condition] = (), *, atomic: bool) -> Frozen:
    """The drafts as one request that cannot be split.

    Raises:
        InvalidInput: reason TOO_LARGE.
    """
    frozen = freeze(drafts, conditions, atomic=atomic)
    if not frozen.fits:
        raise InvalidInput(
            f"a request of {len(frozen.ids)} events and {len(frozen.data)} bytes: "
            f"the limits are {MAX_EVENTS} and {MAX_BYTES}",
            reason="TOO_LARGE",
            remedy="Send the parts first, not atomic and without conditions, and what closes them in a request after.",
        )
    return frozen


def freeze_split(drafts: Iterable[Draft], batch: int) -> Iterator[Frozen]:
    """The drafts as requests of at most `batch` events within the limits, in order, made as they are asked for."""
    waiting: list[Draft] = []
    size = 0
    for draft in drafts:
        taken = draft.ByteSize() + _FRAME
        if waiting and (len(waiting) == batch or size + taken > MAX_BYTES):
            yield freeze_whole(waiting, atomic=False)
            waiting, size = [], 0
        waiting.append(draft)
        size += taken
    if waiting:
        yield freeze_whole(waiting, atomic=False)


def check(request: Frozen, answer: log_pb2.AppendResponse) -> None:
    """Compares an answer with its request, as far as a client can.

    Raises:
        Broken: if it cannot be the answer to it.
    """
    if len(answer.receipts) != len(request.ids):
        raise _broken(f"{len(answer.receipts)} receipts for {len(request.ids)} events")
    positions: dict[str, int] = {}
    for id_, receipt in zip(request.ids, answer.receipts, strict=True):
        if receipt.HasField("refusal"):
            if request.atomic:
                raise _broken(f"an event refused within a request that is all or nothing: {id_}")
            continue
        _check_receipt(id_, receipt, answer.size)
        if positions.setdefault(id_, receipt.pos) != receipt.pos:
            raise _broken(f"two positions for the event {id_}")
    if len(set(positions.values())) != len(positions):
        raise _broken("one position for two events")


def _check_receipt(id_: str, receipt: log_pb2.Receipt, size: int) -> None:
    if len(receipt.leaf_hash) != HASH_SIZE:
        raise _broken(f"a leaf hash of {len(receipt.leaf_hash)} bytes for the event {id_}")
    if receipt.pos >= size:
        raise _broken(f"position {receipt.pos} in a log of size {size} for the event {id_}")
    if receipt.stream_version < 1:
        raise _broken(f"stream version {receipt.stream_version} for the event {id_}")


def _broken(what: str) -> Broken:
    return Broken(
        f"the ledger answered with {what}",
        remedy="Do not count the events as recorded: look for their ids, and trust no answer of this server until "
        "`ledger log fsck` is clean.",
    )
