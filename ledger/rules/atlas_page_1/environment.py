"""What decides about many sources at once: which catalogue refreshes are closed, and the policy.

A catalogue part is an event of its source's stream, and waits here with its refresh until a `catalogue.synced` closes
it. Then the parts are dropped: what stays of a refresh is where it was closed, and of a source its origin.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace
from pydantic import BaseModel

from ledger.events.catalogue import (
    CatalogueSynced,
    SourceDeclared,
    SourceReinstated,
    SourceRetired,
    SourceRevised,
)
from ledger.events.policy import ProtocolAdopted, ProtocolDefined, RulesAdopted
from ledger.rules import EVERYTHING, RuleEvent, Touched, source_of
from ledger.rules.atlas_page_1.growing import grown, items
from ledger.rules.atlas_page_1.model import Value

CataloguePart = SourceDeclared | SourceRevised | SourceRetired | SourceReinstated


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


class Terms(Value, frozen=True):
    """What a protocol asks for."""

    context_window: int
    max_input_tokens: int
    max_output_tokens: int
    models: tuple[ProtocolModelTerms, ...]
    note: str | None = None


class Definition(Value, frozen=True):
    """A defined protocol, and the event that defined it."""

    event: str
    pos: int
    terms: Terms
    sample: bool = False


class Adoption(Value, frozen=True):
    """The protocol whose reports are current."""

    protocol: str
    pos: int
    sample: bool = False


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
    adopted: Adoption | None = None


def fold_environment(environment: Environment, event: RuleEvent) -> Environment:
    folded = _FOLDS.get(type(event.payload))
    return folded(environment, event, event.payload) if folded else environment


def touched(environment: Environment, event: RuleEvent) -> Touched:
    """The sources whose `show` may differ after the event, the event's own stream aside."""
    match event.payload:
        case CatalogueSynced(collection=collection) if collection not in environment.closings:
            return frozenset(part.source for part in items(environment.waiting.get(collection, ())))
        case ProtocolAdopted():
            return EVERYTHING
        case ProtocolDefined(protocol=protocol) if _is_adopted(environment, protocol):
            return EVERYTHING
        case _:
            return frozenset()


def _is_adopted(environment: Environment, protocol: str) -> bool:
    return environment.adopted is not None and environment.adopted.protocol == protocol


def terms_of(payload: ProtocolDefined) -> Terms:
    return msgspec.convert(payload.model_dump(exclude={"protocol"}), Terms)


def _part(environment: Environment, event: RuleEvent, payload: CataloguePart) -> Environment:
    source, collection = source_of(event.stream), payload.collection
    if source is None or collection in environment.closings:
        return environment
    part = (
        WaitingPart(event.id, source)
        if isinstance(payload, SourceRetired)
        else WaitingPart(event.id, source, payload.row.origin, payload.row.id)
    )
    parts = grown(environment.waiting.get(collection, ()), part)
    return replace(environment, waiting={**environment.waiting, collection: parts})


def _synced(environment: Environment, event: RuleEvent, payload: CatalogueSynced) -> Environment:
    synced = {**environment.synced, payload.origin: event.id}
    if payload.collection in environment.closings:
        return replace(environment, synced=synced)
    closing = Closing(event.pos, payload.origin, event.sample)
    waiting = dict(environment.waiting)
    parts = waiting.pop(payload.collection, ())
    origins = {part.source: part.origin for part in items(parts) if part.origin is not None}
    return replace(
        environment,
        waiting=waiting,
        closings={**environment.closings, payload.collection: closing},
        synced=synced,
        origins={**environment.origins, **origins},
    )


def _rules_adopted(environment: Environment, _event: RuleEvent, payload: RulesAdopted) -> Environment:
    return replace(environment, rules={**environment.rules, payload.rules: payload.digest})


def _protocol_defined(environment: Environment, event: RuleEvent, payload: ProtocolDefined) -> Environment:
    if payload.protocol in environment.protocols:
        return environment
    definition = Definition(event.id, event.pos, terms_of(payload), event.sample)
    return replace(environment, protocols={**environment.protocols, payload.protocol: definition})


def _protocol_adopted(environment: Environment, event: RuleEvent, payload: ProtocolAdopted) -> Environment:
    return replace(environment, adopted=Adoption(payload.protocol, event.pos, event.sample))


_FOLDS: Final[Mapping[type[BaseModel], Callable[[Environment, RuleEvent, Any], Environment]]] = {
    SourceDeclared: _part,
    SourceRevised: _part,
    SourceRetired: _part,
    SourceReinstated: _part,
    CatalogueSynced: _synced,
    RulesAdopted: _rules_adopted,
    ProtocolDefined: _protocol_defined,
    ProtocolAdopted: _protocol_adopted,
}
