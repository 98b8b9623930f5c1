"""The fold: from events to the states that are shown, and nothing else.

One event changes the environment, the facts of its own source, or both; then every key that it touches is shown again.
A state that differs from the one before it starts a new interval at the event's position. Nothing here knows a
database: what is not in memory is asked of a loader. The same events give the same intervals, in pages of any size.

An event that the rules cannot take is a value too: the facts stay as they were, the state says which event it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from ledger.core import strictjson
from ledger.core.errors import LedgerError
from ledger.events import Registry
from ledger.events.fields import SAMPLE_TAG
from ledger.log.model import StoredEvent
from ledger.rules import EVERYTHING, RuleEvent, RuleSet, State, source_of

FAILED_RULE: Final = "fold.failed"


@dataclass(slots=True)
class Kept:
    """What a generation keeps of a key between events."""

    facts: Any
    state: bytes = b""
    """The state shown now, as JSON; empty while nothing is shown."""
    failed: tuple[int, ...] = ()
    """Positions of the events that the rules could not take."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A state that is shown from a position on: visible at size N iff from_pos < N."""

    key: str
    from_pos: int
    origin: str
    state: bytes


@dataclass(slots=True)
class Fold:
    """A fold in progress."""

    rules: RuleSet[Any, Any]
    registry: Registry
    environment: Any
    load: Callable[[Iterable[str]], dict[str, Kept]]
    """Gives what is kept of these keys; keys that are new are left out."""
    load_all: Callable[[], dict[str, Kept]]
    kept: dict[str, Kept] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set)
    """Keys whose facts or state have changed since the caller last took them."""
    failed_events: int = 0

    @property
    def types(self) -> frozenset[str]:
        """The event types that this fold looks at."""
        families = {"catalogue", "review", "defect", "difficulty", "attestation"}
        mine = {t.type for t in self.registry if t.family in families and "source" in t.streams}
        return frozenset(mine | self.rules.environment_types)

    def apply(self, stored: StoredEvent) -> list[Interval]:
        """The intervals that begin with this event."""
        key = source_of(stored.stream)
        try:
            event = rule_event(stored, self.registry)
            touched = self._touched(event)
            environment, facts = self.environment, None
            if event.type in self.rules.environment_types:
                environment = self.rules.fold_environment(environment, event)
            if key is not None:
                facts = self.rules.fold(self._get(key).facts, event)
        except Exception:  # noqa: BLE001  # whatever a rule trips over becomes a state that says so
            return self._failed(key, stored.pos)
        self.environment = environment
        if key is not None:
            self.kept[key].facts = facts
            self.changed.add(key)
            touched |= {key}
        return [i for k in sorted(touched) for i in self._show(k, stored.pos)]

    def take_changed(self) -> dict[str, Kept]:
        """What has changed since the last call."""
        taken = {key: self.kept[key] for key in sorted(self.changed)}
        self.changed.clear()
        return taken

    def _touched(self, event: RuleEvent) -> frozenset[str]:
        if event.type not in self.rules.environment_types:
            return frozenset()
        touched = self.rules.touched(self.environment, event)
        if touched is EVERYTHING:
            for key, kept in self.load_all().items():
                self.kept.setdefault(key, kept)
            return frozenset(self.kept)
        assert isinstance(touched, frozenset)
        self._fetch(touched)
        return touched

    def _get(self, key: str) -> Kept:
        self._fetch((key,))
        return self.kept[key]

    def _fetch(self, keys: Iterable[str]) -> None:
        missing = [key for key in keys if key not in self.kept]
        if missing:
            self.kept.update(self.load(missing))
            for key in missing:
                if key not in self.kept:
                    self.kept[key] = Kept(self.rules.initial_facts())

    def _show(self, key: str, pos: int) -> list[Interval]:
        kept = self.kept[key]
        try:
            state = self.rules.show(key, kept.facts, self.environment)
        except Exception:  # noqa: BLE001  # as above
            return self._failed(key, pos)
        return self._changed_to(key, pos, _with_failures(state, kept.failed))

    def _failed(self, key: str | None, pos: int) -> list[Interval]:
        self.failed_events += 1
        if key is None:
            return []
        kept = self._get(key)
        shown = orjson.loads(kept.state) if kept.state else None
        if shown is not None:
            shown["reasons"] = [r for r in shown["reasons"] if r["rule"] != FAILED_RULE]
        kept.failed = (*kept.failed, pos)
        self.changed.add(key)
        return self._changed_to(key, pos, _with_failures(shown, kept.failed))

    def _changed_to(self, key: str, pos: int, state: State | None) -> list[Interval]:
        written = b"" if state is None else strictjson.dumps(state)
        kept = self.kept[key]
        if written == kept.state:
            return []
        kept.state = written
        self.changed.add(key)
        return [Interval(key, pos, "" if state is None else state["origin"], written)]


def rule_event(stored: StoredEvent, registry: Registry) -> RuleEvent:
    """A stored event as rules see it.

    Raises:
        LedgerError: if its payload is gone or cannot be read.
    """
    if stored.payload is None:
        raise LedgerError(f"the payload of the event at position {stored.pos} is gone")
    header = orjson.loads(stored.header)
    return RuleEvent(
        pos=stored.pos,
        id=stored.id,
        type=stored.type,
        stream=stored.stream,
        payload=registry.read(stored.type, header["tv"], stored.payload),
        sample=SAMPLE_TAG in header["tags"],
        actor=header["actor"]["id"],
        principal=header["principal"],
    )


def _with_failures(state: State | None, failed: tuple[int, ...]) -> State | None:
    if state is None or not failed:
        return state
    said = {
        "field": "quality",
        "rule": FAILED_RULE,
        "text": "The rules could not take these events; they count for nothing.",
        "events": list(failed),
    }
    return {**state, "reasons": [*state["reasons"], said]}
