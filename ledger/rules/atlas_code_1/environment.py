"""What decides about many sources at once: which catalogue refreshes are closed, and what policy was recorded.

A catalogue part is an event of its source's stream, and waits here with its refresh until a `catalogue.synced` closes
it. Then the parts are dropped: what stays of a refresh is where it was closed, and of a source its origin.

Policy is kept to judge policy decisions by, and for nothing else: the applet accepts the protocols that its code names,
whatever was adopted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from ledger.rules import RuleEvent, Touched, source_of
from ledger.rules.atlas_code_1 import reading
from ledger.rules.atlas_code_1.growing import grown, items
from ledger.rules.atlas_code_1.model import Value
from ledger.rules.atlas_code_1.reading import decode_part_head, read


class WaitingPart(Value, frozen=True):
    """A catalogue part whose refresh is not closed."""

    id: str
    source: str
    """From the stream that it is in."""
    origin: str | None = None
    """From its row; a retirement has none."""
    row_id: str | None = None


class Closing(Value, frozen=True):
    """Where a refresh took effect."""

    pos: int
    origin: str
    sample: bool = False


class ProtocolModelTerms(Value, frozen=True):
    size: str
    model: str
    reasoning: str
    generation_parameters: dict[str, Any]
    must_record: tuple[str, ...] = ()


class JudgeTerms(Value, frozen=True):
    key: str
    required: dict[str, Any]
    not_empty: tuple[str, ...] = ()


class Terms(Value, frozen=True):
    """What a protocol asks for."""

    context_window: int
    max_input_tokens: int
    max_output_tokens: int
    models: tuple[ProtocolModelTerms, ...]
    judge: JudgeTerms | None = None
    sources: tuple[str, ...] = ()
    note: str | None = None


class Definition(Value, frozen=True):
    """A defined protocol, and the event that defined it."""

    event: str
    terms: Terms


class Environment(Value, frozen=True):
    waiting: dict[str, tuple[tuple[WaitingPart, ...], ...]] = msgspec.field(default_factory=dict)
    """Parts by the refresh that they belong to."""
    closings: dict[str, Closing] = msgspec.field(default_factory=dict)
    synced: dict[str, str] = msgspec.field(default_factory=dict)
    """The id of the latest `catalogue.synced` by origin."""
    origins: dict[str, str] = msgspec.field(default_factory=dict)
    """The origin of each source that a closed refresh named."""
    rules: dict[str, str] = msgspec.field(default_factory=dict)
    """Adopted rule sets: digest by id."""
    protocols: dict[str, Definition] = msgspec.field(default_factory=dict)
    adopted: tuple[str, ...] = ()
    """The protocols that stand adopted beside each other. Which reports are current does not depend on them."""


def fold_environment(environment: Environment, event: RuleEvent) -> Environment:
    folded = _FOLDS.get(event.type)
    return folded(environment, event) if folded else environment


def touched(environment: Environment, event: RuleEvent) -> Touched:
    """The sources whose `show` may differ after the event, the event's own stream aside: policy moves none."""
    if event.type != "catalogue.synced":
        return frozenset()
    collection = read(event).collection
    if collection in environment.closings:
        return frozenset()
    return frozenset(part.source for part in items(environment.waiting.get(collection, ())))


def terms_of(said: reading.ProtocolDefined) -> Terms:
    judge = said.judge
    return Terms(
        context_window=said.context_window,
        max_input_tokens=said.max_input_tokens,
        max_output_tokens=said.max_output_tokens,
        models=tuple(
            ProtocolModelTerms(m.size, m.model, m.reasoning, m.generation_parameters, m.must_record)
            for m in said.models
        ),
        judge=None if judge is None else JudgeTerms(judge.key, judge.required, judge.not_empty),
        sources=said.sources,
        note=said.note,
    )


def _part(environment: Environment, event: RuleEvent) -> Environment:
    source, head = source_of(event.stream), decode_part_head(event.body)
    if source is None or head.collection in environment.closings:
        return environment
    row = head.row
    part = WaitingPart(event.id, source) if row is None else WaitingPart(event.id, source, row.origin, row.id)
    parts = grown(environment.waiting.get(head.collection, ()), part)
    return replace(environment, waiting={**environment.waiting, head.collection: parts})


def _synced(environment: Environment, event: RuleEvent) -> Environment:
    said: reading.CatalogueSynced = read(event)
    synced = {**environment.synced, said.origin: event.id}
    if said.collection in environment.closings:
        return replace(environment, synced=synced)
    closing = Closing(event.pos, said.origin, event.sample)
    waiting = dict(environment.waiting)
    parts = waiting.pop(said.collection, ())
    origins = {part.source: part.origin for part in items(parts) if part.origin is not None}
    return replace(
        environment,
        waiting=waiting,
        closings={**environment.closings, said.collection: closing},
        synced=synced,
        origins={**environment.origins, **origins},
    )


def _rules_adopted(environment: Environment, event: RuleEvent) -> Environment:
    said: reading.RulesAdopted = read(event)
    return replace(environment, rules={**environment.rules, said.rules: said.digest})


def _protocol_defined(environment: Environment, event: RuleEvent) -> Environment:
    said: reading.ProtocolDefined = read(event)
    if said.protocol in environment.protocols:
        return environment
    definition = Definition(event.id, terms_of(said))
    return replace(environment, protocols={**environment.protocols, said.protocol: definition})


def _protocol_adopted(environment: Environment, event: RuleEvent) -> Environment:
    said: reading.ProtocolAdopted = read(event)
    kept = tuple(p for p in environment.adopted if p not in {said.protocol, said.replaces})
    return replace(environment, adopted=(*kept, said.protocol))


_FOLDS: Final[Mapping[str, Callable[[Environment, RuleEvent], Environment]]] = {
    "source.declared": _part,
    "source.revised": _part,
    "source.retired": _part,
    "source.reinstated": _part,
    "catalogue.synced": _synced,
    "rules.adopted": _rules_adopted,
    "protocol.defined": _protocol_defined,
    "protocol.adopted": _protocol_adopted,
}

ENVIRONMENT_TYPES: Final = frozenset(_FOLDS)
