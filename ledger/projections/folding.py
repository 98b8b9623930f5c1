"""The steps of the fold: from an event to the facts and the environment, and from both to what is shown.

Everything here is a function of what it is given. The live fold and a rebuild take the same steps in another order of
sources, so they give the same rows. What the rules cannot take is a value too:

  - an event that they refuse leaves facts and environment as they were; the state names it for as long as it counts;
  - while they cannot derive a state, the last one that they could is shown, with the position since when.

A rule set may spare showing what would be shown alike. `shows_alike(before, after)` says that nothing between two facts
can change it, as of most events, which wait for another that closes them. `shown_from(key, facts, environment)` gives
the immutable values that `show` reads: while each is the very object that it was, the state is what it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from operator import is_
from typing import Any, Final, NamedTuple

import msgspec
import orjson

from ledger.core import strictjson
from ledger.core.errors import LedgerError
from ledger.events import Registry
from ledger.events.fields import SAMPLE_TAG
from ledger.log.model import StoredEvent
from ledger.projections.subjects import SOURCES, Projection
from ledger.rules import RuleEvent, RuleSet, State, Touched

FAILED_RULE: Final = "fold.failed"
BROKEN_RULE: Final = "show.failed"
NOBODY: Final = ""
"""Stands for the key of events that are of none."""

Row = tuple[int, str, str, str, bytes, bytes | None]
"""Of a stored event what the fold reads: position, id, type, stream, header, payload. A plain tuple: one an event."""

_ShownFrom = Callable[[str, Any, Any], tuple[Any, ...]]


@dataclass(slots=True)
class Kept:
    """What a generation keeps of a key between events."""

    facts: Any
    state: bytes = b""
    """The state shown now, as JSON; empty while nothing is shown."""
    failed: tuple[int, ...] = ()
    """Positions of the events that count and that the rules refused."""
    broken: int | None = None
    """Since which position the rules cannot derive the state."""
    shown_from: tuple[Any, ...] | None = field(default=None, compare=False)
    """What the state was derived from, where the rules say so; it is not written, and not known after reading back."""

    @property
    def failures(self) -> int:
        return len(self.failed) + (self.broken is not None)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The environment, and the events that its fold refused: their positions by key."""

    environment: Any
    failed: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def failures(self) -> int:
        return sum(map(len, self.failed.values()))


class Interval(NamedTuple):
    """A state that is shown from a position on: visible at size N iff from_pos < N."""

    key: str
    from_pos: int
    origin: str
    state: bytes


class Folder:
    """One rule set's steps, in the projection that it belongs to. Holds no state of the log; safe to share."""

    def __init__(self, rules: RuleSet[Any, Any], registry: Registry, projection: Projection = SOURCES) -> None:
        self.rules = rules
        self.registry = registry
        self.projection = projection
        self.environment_types = rules.environment_types
        kinds = frozenset(projection.kinds)
        mine = {t.type for t in registry if t.family in projection.families and not kinds.isdisjoint(t.streams)}
        self.types = frozenset(mine | rules.environment_types)
        """The types that decide a key's state."""
        self.alike: Callable[[Any, Any], bool] = getattr(rules, "shows_alike", _differ)
        self._shown_from: _ShownFrom | None = getattr(rules, "shown_from", None)
        self._newest = {t.type: t.version for t in registry}  # in order of version: the last one stays

    def initial(self) -> Surroundings:
        return Surroundings(self.rules.initial_environment())

    def event(self, row: Row) -> RuleEvent:
        """A stored event as the rules see it.

        Raises:
            LedgerError: if its payload is gone or cannot be read.
        """
        pos, id_, type_, stream, header, body = row
        if body is None:
            raise LedgerError(f"the payload of the event at position {pos} is gone")
        said = _header(header)
        read = partial(self.registry.read, type_, said.tv, body)
        if said.tv != self._newest.get(type_):
            body = self.registry.newest_body(type_, said.tv, body)
        tags = said.tags
        sample = SAMPLE_TAG in tags if tags else False
        return RuleEvent(
            pos, id_, type_, stream, None, body=body, read=read,
            sample=sample, actor=said.actor.id, principal=said.principal, producer=_counted(said.producer),
        )  # fmt: skip

    def fold(self, kept: Kept, row: Row) -> bool:
        """One more event of the key's own stream; whether it leaves what is shown as it is."""
        before = kept.facts
        try:
            kept.facts = after = self.rules.fold(before, self.event(row))
            return row[2] not in self.environment_types and self.alike(before, after)
        except Exception:  # noqa: BLE001  # whatever a rule trips over becomes a state that says so
            kept.facts = before
            kept.failed = (*kept.failed, row[0])
            return False

    def surround(self, before: Surroundings, row: Row) -> tuple[Surroundings, Touched]:
        """The environment after one more event of its types, and the keys whose state may differ."""
        try:
            event = self.event(row)
            touched = self.rules.touched(before.environment, event)
            environment = self.rules.fold_environment(before.environment, event)
        except Exception:  # noqa: BLE001  # as above
            key = self.projection.key_of(row[3]) or NOBODY
            failed = {**before.failed, key: (*before.failed.get(key, ()), row[0])}
            return Surroundings(before.environment, failed), frozenset()
        if environment is before.environment:
            return before, touched
        return Surroundings(environment, before.failed), touched

    def show(self, key: str, kept: Kept, surroundings: Surroundings, pos: int) -> Interval | None:
        """What is shown of the key after the event at a position, if it is not what was shown before."""
        refused = kept.failed
        if key in surroundings.failed:
            refused = tuple(sorted({*refused, *surroundings.failed[key]}))
        try:
            if self._is_as_shown(key, kept, surroundings, refused):
                return None
            state = self.rules.show(key, kept.facts, surroundings.environment)
            written = b"" if state is None else strictjson.dumps(self._saying(state, refused, None))
            kept.broken = None
        except Exception:  # noqa: BLE001  # as above
            kept.shown_from = None
            if kept.broken is None:
                kept.broken = pos
            state = orjson.loads(kept.state) if kept.state else None
            written = b"" if state is None else strictjson.dumps(self._saying(state, refused, kept.broken))
        if written == kept.state:
            return None
        kept.state = written
        return Interval(key, pos, self.projection.origin_of(key, state) if state else "", written)

    def _is_as_shown(self, key: str, kept: Kept, surroundings: Surroundings, refused: tuple[int, ...]) -> bool:
        """Whether everything that the state would be derived from is what it was when it was derived last."""
        if self._shown_from is None:
            return False
        before = kept.shown_from
        kept.shown_from = now = (*self._shown_from(key, kept.facts, surroundings.environment), *refused)
        return before is not None and len(before) == len(now) and all(map(is_, before, now))

    def _saying(self, state: State, refused: tuple[int, ...], broken: int | None) -> State:
        """The state with what could not be done, said among its reasons."""
        if not refused and broken is None:
            return state
        said = self.projection.doubt
        reasons = [r for r in state.get("reasons", ()) if r["rule"] not in {FAILED_RULE, BROKEN_RULE}]
        if refused:
            text = "The rules could not take these events; they count for nothing."
            reasons.append(_reason(said, FAILED_RULE, text, refused))
        if broken is not None:
            text = "The rules cannot derive the state since this event; what is shown is the last one that they could."
            reasons.append(_reason(said, BROKEN_RULE, text, (broken,)))
        return {**state, "reasons": reasons}


def _differ(_before: Any, _after: Any) -> bool:
    return False


def plain(stored: StoredEvent) -> Row:
    """A stored event as the fold reads it."""
    return stored.pos, stored.id, stored.type, stored.stream, stored.header, stored.payload


def rule_event(stored: StoredEvent, registry: Registry) -> RuleEvent:
    """A stored event as rules see it.

    Raises:
        LedgerError: if its payload is gone or cannot be read.
    """
    if stored.payload is None:
        raise LedgerError(f"the payload of the event at position {stored.pos} is gone")
    said, payload = _header(stored.header), stored.payload
    return RuleEvent(
        stored.pos,
        stored.id,
        stored.type,
        stored.stream,
        body=registry.newest_body(stored.type, said.tv, payload),
        read=partial(registry.read, stored.type, said.tv, payload),
        sample=SAMPLE_TAG in said.tags,
        actor=said.actor.id,
        principal=said.principal,
        producer=_counted(said.producer),
    )


def version_of(header: bytes) -> int:
    """The version of its type that an event was recorded in."""
    return _header(header).tv


class _Actor(msgspec.Struct, gc=False):
    id: str


class _Producer(msgspec.Struct, gc=False):
    id: str
    epoch: int
    seq: int


class _Header(msgspec.Struct, gc=False):
    """Of a header, what a rule may see."""

    tv: int
    tags: list[str]
    actor: _Actor
    principal: str | None
    producer: _Producer | None


def _counted(producer: _Producer | None) -> tuple[str, int, int] | None:
    return None if producer is None else (producer.id, producer.epoch, producer.seq)


_header = msgspec.json.Decoder(_Header).decode


def _reason(field: str, rule: str, text: str, events: tuple[int, ...]) -> dict[str, Any]:
    return {"field": field, "rule": rule, "text": text, "events": list(events)}
