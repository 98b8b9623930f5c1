"""Checks a whole log from its stored bytes, sharing as little with the writer as it can.

Everything that can be derived is derived again: leaves from headers, chains of streams, commitments, draft hashes, tag
rows, the tree. Each difference is named with its position. Nothing that is stored may stop the walk: bytes that cannot
be read are a difference too. Appends may go on meanwhile: what is checked is the log as it was at the start.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol, TypeVar

import msgspec
import orjson
from sqlalchemy.exc import SQLAlchemyError

from ledger.core import clock
from ledger.core.errors import LedgerError, Problem
from ledger.events import REGISTRY
from ledger.events.administration import EventRedacted
from ledger.events.fields import ArtifactRef, Record, artifacts_in
from ledger.log.model import Head, StoredEvent
from ledger.log.ports import Store
from ledger.log.reading import PAGE

MAX_PROBLEMS: Final = 1_000
TAG_WINDOW: Final = 100_000
"""Positions whose tags are read at once: the tag table has no order by position, so each reading walks all of it."""
_FIRST: Final = -(2**63)
_LAST: Final = 2**63 - 1
_DRAFT_KEYS: Final = ("actor", "causes", "id", "occurred_at", "producer", "stream", "tags", "tv", "type")

Row = TypeVar("Row")


class ArtifactBytes(Protocol):
    """What fsck asks of an artifact store."""

    def names(self) -> Iterator[str]: ...

    def verify(self, sha256: str) -> bool: ...

    def size(self, sha256: str) -> int | None: ...


@dataclass
class FsckReport:
    """What was looked at, and everything that does not hold."""

    size: int = 0
    root: str = ""
    checked: dict[str, int] = field(default_factory=lambda: {"events": 0, "streams": 0, "tags": 0, "artifacts": 0})
    problems: list[Problem] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.problems


def fsck(store: Store, artifacts: ArtifactBytes | None = None) -> FsckReport:
    """Checks the log up to its head as it is now."""
    head = store.head()
    check = _Check(head, artifacts)
    for start in _pages(store, head.size, TAG_WINDOW):
        end = min(start + TAG_WINDOW, head.size)
        tags = dict(_gather(store, lambda a, b: list(store.tags_of(a, b).items()), start, end, check.unreadable))
        for page in _pages(store, end, PAGE, start):
            for event in _gather(store, store.read, page, min(page + PAGE, end), check.unreadable):
                check.event(event, tags.pop(event.pos, []))
        check.stray_tags(tags)
    check.end()
    _look_beyond(store, head.size, check)
    if artifacts is not None:
        check.artifacts(artifacts)
    return check.report


def _pages(store: Store, size: int, step: int, start: int = 0) -> Iterator[int]:
    """Where pages begin; stretches without events are jumped over, since a damaged head may announce any size."""
    while start < size:
        first = store.first_pos(start)
        if first is None or first >= size:
            return
        start += (first - start) // step * step
        yield start
        start += step


def _gather(
    store: Store, read: Callable[[int, int], list[Row]], start: int, end: int, unreadable: Callable[[int], None]
) -> list[Row]:
    """What is stored in a range. When it cannot be read, each half is tried, down to the rows that are at fault."""
    try:
        return read(start, end)
    except (SQLAlchemyError, TypeError, ValueError):
        store.head()  # a database that went away is no fault of a row
        if end - start == 1:
            unreadable(start)
            return []
        middle = (start + end) // 2
        first = _gather(store, read, start, middle, unreadable)
        return first + _gather(store, read, middle, end, unreadable)


def _look_beyond(store: Store, size: int, check: _Check) -> None:
    """Rows outside of the log. Those that were appended meanwhile lie before the head as it is read last."""
    beyond = store.first_pos(size)
    before = store.first_pos(_FIRST)
    tags = _gather(store, lambda a, b: list(store.tags_of(a, b).items()), size, _LAST, check.unreadable)
    tags += _gather(store, lambda a, b: list(store.tags_of(a, b).items()), _FIRST, 0, check.unreadable)
    size = max(size, store.head().size)
    for pos in (beyond, before):
        if pos is not None and not 0 <= pos < size:
            check.fault(pos, "an event is stored outside of the log that the head row describes")
    check.stray_tags({pos: names for pos, names in tags if not 0 <= pos < size})


class _Actor(msgspec.Struct, forbid_unknown_fields=True):
    id: str
    kind: Literal["human", "model", "organization", "unknown"]


class _Producer(msgspec.Struct, forbid_unknown_fields=True):
    id: str
    epoch: int
    seq: int


class _Sealed(msgspec.Struct, forbid_unknown_fields=True):
    len: int
    commitment: str


class _Header(msgspec.Struct, forbid_unknown_fields=True):
    v: int
    log: str
    pos: int
    id: str
    type: str
    tv: int
    stream: str
    sv: int
    prev: str | None
    recorded_at: str
    occurred_at: str | None
    actor: _Actor
    principal: str | None
    causes: list[str]
    tags: list[str]
    producer: _Producer | None
    payload: _Sealed


_decode_header = msgspec.json.Decoder(_Header).decode


class _Check:
    """The state of one walk through the log."""

    def __init__(self, head: Head, artifacts: ArtifactBytes | None) -> None:
        self.report = FsckReport(size=head.size, root=head.root.hex())
        self._head = head
        self._store = artifacts
        self._next = 0
        self._origin: str | None = None
        self._streams: dict[str, tuple[int, set[str]]] = {}
        self._ids: set[str] = set()
        self._unreadable: set[int] = set()
        self._recorded_at = 0
        self._redactions: dict[int, tuple[int, EventRedacted]] = {}
        self._redacted: dict[int, tuple[int, str]] = {}
        self._level: list[bytes | None] = []

    def unreadable(self, pos: int) -> None:
        if pos not in self._unreadable:
            self._unreadable.add(pos)
            self.fault(pos, "a stored row cannot be read")

    def event(self, event: StoredEvent, tags: list[str]) -> None:
        self._missing(event.pos)
        self._next = event.pos + 1
        self.report.checked["events"] += 1
        leaf = hashlib.sha256(b"\x00" + event.header).digest()
        if leaf != event.leaf:
            self.fault(event.pos, "the stored leaf is not the hash of the header")
        self._grow(leaf)
        header = self._parse(event)
        if header is not None:
            self._header(event, header)
            self._payload(event, header)
            self._tags(event, header, tags)
        # Where leaf and header differ, that is named above: either may be what the stream's next event was chained to.
        self._streams[event.stream] = (event.sv, {leaf.hex(), event.leaf.hex()})

    def end(self) -> None:
        """The head row against what was walked."""
        head = self._head
        self._missing(head.size)
        if self._next < head.size:
            self.fault(None, f"the head row's size is {head.size}; the events end before {self._next}")
        if self._origin not in {None, head.origin}:
            self.fault(None, "the head row's origin is not that of the events")
        if self._root() != head.root:
            self.fault(None, "the head row's root is not the root of the leaves")
        if b"".join(p for p in reversed(self._level) if p is not None) != b"".join(head.peaks):
            self.fault(None, "the head row's peaks are not those of the leaves")
        if self._recorded_at != head.recorded_at_us:
            self.fault(None, "the head row's time is not that of the last event")
        for pos, (by, _) in self._redacted.items():
            self._redaction(pos, by)
        self.report.checked["streams"] = len(self._streams)

    def artifacts(self, store: ArtifactBytes) -> None:
        for name in store.names():
            self.report.checked["artifacts"] += 1
            if not store.verify(name):
                self._add(f"artifact {name}", "the stored bytes do not hash to the name")

    def stray_tags(self, tags: dict[int, list[str]]) -> None:
        for pos in tags.keys() - self._unreadable:
            self.fault(pos, "tags are stored for an event that is not in the log")

    def fault(self, pos: int | None, what: str) -> None:
        self._add("head" if pos is None else f"position {pos}", what)

    def _missing(self, until: int) -> None:
        """Names the gap before a position, if there is one."""
        gap = until - self._next
        if gap == 1 and self._next not in self._unreadable:
            self.fault(self._next, "no event is stored")
        elif gap > 1:
            self.fault(self._next, f"no event is stored from here up to position {until - 1}")

    def _parse(self, event: StoredEvent) -> _Header | None:
        try:
            header = _decode_header(event.header)
        except (msgspec.DecodeError, UnicodeDecodeError):
            self.fault(event.pos, "the header is not a header")
            return None
        if orjson.dumps(orjson.loads(event.header), option=orjson.OPT_SORT_KEYS) != event.header:
            self.fault(event.pos, "the header is not in its one form")
        return header

    def _header(self, event: StoredEvent, header: _Header) -> None:
        pos = event.pos
        for name, column in (("pos", pos), ("id", event.id), ("type", event.type), ("stream", event.stream),
                             ("sv", event.sv), ("recorded_at", _time(event.recorded_at_us))):  # fmt: skip
            if getattr(header, name) != column:
                self.fault(pos, f"the header's {name} is not the stored column's")
        self._origin = self._origin or header.log
        if (header.log, header.v) != (self._origin, 1):
            self.fault(pos, "the header belongs to another log or version")
        version, leaves = self._streams.get(header.stream, (0, {None}))
        if header.sv != version + 1:
            self.fault(pos, f"is version {header.sv} of its stream, after version {version}")
        if header.prev not in leaves:
            self.fault(pos, "does not name the leaf of its stream's event before it")
        if header.id in self._ids:
            self.fault(pos, "the id stands in the log twice")
        self._ids.add(header.id)
        if event.recorded_at_us < self._recorded_at:
            self.fault(pos, "was recorded before the event before it")
        self._recorded_at = event.recorded_at_us

    def _payload(self, event: StoredEvent, header: _Header) -> None:
        if event.payload is None or event.salt is None:
            self.fault(event.pos, "the payload is missing, and no redaction says why")
            return
        found = hashlib.sha256(b"ledger/payload/v1\0" + event.salt + event.payload).hexdigest()
        if event.redacted_by is not None:
            self._redacted[event.pos] = (event.redacted_by, found)
            return
        if (found, len(event.payload)) != (header.payload.commitment, header.payload.len):
            self.fault(event.pos, "the payload is not the one that the header commits to")
            return
        whole = orjson.loads(event.header)
        fields = orjson.dumps({k: whole[k] for k in _DRAFT_KEYS}, option=orjson.OPT_SORT_KEYS)
        sealed = b"ledger/draft/v1\0" + event.salt + len(fields).to_bytes(4, "big") + fields + event.payload
        if hashlib.sha256(sealed).digest() != event.draft_hash:
            self.fault(event.pos, "the draft hash is not that of the draft")
        if b'"sha256"' in event.payload or header.type == "event.redacted":
            self._decision(event, header)

    def _decision(self, event: StoredEvent, header: _Header) -> None:
        """A decision cites only bytes that are stored; a redaction says what it left."""
        try:
            if not REGISTRY.get(header.type, header.tv).decision:
                return
            payload = REGISTRY.read(header.type, header.tv, event.payload or b"")
        except LedgerError as error:
            self.fault(event.pos, f"the payload cannot be read: {error.message}")
            return
        if isinstance(payload, EventRedacted):
            self._redactions[payload.pos] = (event.pos, payload)
        if self._store is not None and isinstance(payload, Record):
            for ref in artifacts_in(payload):
                self._citation(event.pos, ref, self._store)

    def _citation(self, pos: int, ref: ArtifactRef, store: ArtifactBytes) -> None:
        size = store.size(ref.sha256)
        if size is None:
            self.fault(pos, f"cites the artifact {ref.sha256}, which is not stored")
        elif ref.size is not None and ref.size != size:
            self.fault(pos, f"cites the artifact {ref.sha256} with {ref.size} bytes; it has {size}")

    def _tags(self, event: StoredEvent, header: _Header, tags: list[str]) -> None:
        self.report.checked["tags"] += len(tags)
        if header.tags != tags:
            self.fault(event.pos, "the stored tags are not the header's")

    def _redaction(self, pos: int, by: int) -> None:
        found = self._redactions.get(pos)
        if found is None or found[0] != by or found[1].remainder_commitment != self._redacted[pos][1]:
            self.fault(pos, "the payload was replaced, and no redaction in the log commits to what is there")

    def _grow(self, node: bytes) -> None:
        """A binary counter of subtree roots: another road to the root than the sequencer's."""
        for height, peak in enumerate(self._level):
            if peak is None:
                self._level[height] = node
                return
            node = hashlib.sha256(b"\x01" + peak + node).digest()
            self._level[height] = None
        self._level.append(node)

    def _root(self) -> bytes:
        node: bytes | None = None
        for peak in self._level:
            if peak is not None:
                node = peak if node is None else hashlib.sha256(b"\x01" + peak + node).digest()
        return hashlib.sha256(b"").digest() if node is None else node

    def _add(self, place: str, what: str) -> None:
        if len(self.report.problems) < MAX_PROBLEMS:
            self.report.problems.append(Problem(place, what))


def _time(us: int) -> str | None:
    try:
        return clock.to_text(us)
    except (OverflowError, TypeError):
        return None
