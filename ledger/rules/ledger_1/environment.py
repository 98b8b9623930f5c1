"""What decides about many sources at once: which catalogue refreshes are closed, the policy, and the aliases.

A catalogue part is an event of its source's stream, and waits here with its refresh until a `catalogue.synced` closes
it. Then the parts are dropped: what stays of a refresh is where it was closed, and of a source its origin.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from ledger.rules import EVERYTHING, RuleEvent, Touched, source_of
from ledger.rules.ledger_1 import environment_reading
from ledger.rules.ledger_1.decoding import decode_part_head, read
from ledger.rules.ledger_1.growing import grown, items
from ledger.rules.ledger_1.values import Value


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


class ModelTerms(Value, frozen=True):
    size: str
    model: str
    reasoning: str
    generation_parameters: dict[str, Any]
    must_record: tuple[str, ...] = ()


class JudgeTerms(Value, frozen=True):
    """How a report must have configured the model that the source's own verifier asks."""

    key: str
    required: dict[str, Any]
    not_empty: tuple[str, ...] = ()


class Terms(Value, frozen=True):
    """What a protocol asks for."""

    context_window: int
    max_input_tokens: int
    max_output_tokens: int
    models: tuple[ModelTerms, ...]
    judge: JudgeTerms | None = None
    sources: tuple[str, ...] = ()
    """The sources that it is for; empty: every one."""
    note: str | None = None

    @property
    def is_branch(self) -> bool:
        """Stands beside the general protocol, for some sources or for verifiers that ask a judge."""
        return self.judge is not None or bool(self.sources)


class Definition(Value, frozen=True):
    """A defined protocol, and the event that defined it."""

    event: str
    pos: int
    terms: Terms
    sample: bool = False


class Adoption(Value, frozen=True):
    """A protocol whose reports are current."""

    protocol: str
    pos: int
    sample: bool = False


class NamedElsewhere(Value, frozen=True):
    """An alias, as it was last mapped."""

    sources: tuple[str, ...]
    status: str
    applicability: str
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
    adopted: dict[str, Adoption] = msgspec.field(default_factory=dict)
    """By protocol, in the order of their adoption."""
    replaced: dict[str, Adoption] = msgspec.field(default_factory=dict)
    """By the protocol that lost its place: the adoption that took it last."""
    aliases: dict[str, NamedElsewhere] = msgspec.field(default_factory=dict)
    named: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    """The aliases of each source, sorted."""


def fold_environment(environment: Environment, event: RuleEvent) -> Environment:
    folded = _FOLDS.get(event.type)
    return folded(environment, event) if folded else environment


def touched(environment: Environment, event: RuleEvent) -> Touched:
    """The sources whose `show` may differ after the event, the event's own stream aside."""
    match event.type:
        case "catalogue.synced":
            collection = read(event).collection
            if collection not in environment.closings:
                return frozenset(part.source for part in items(environment.waiting.get(collection, ())))
        case "protocol.adopted":
            return EVERYTHING
        case "protocol.defined":
            protocol = read(event).protocol
            if protocol in environment.adopted and protocol not in environment.protocols:
                return EVERYTHING
        case "alias.mapped":
            said = read(event)
            before = environment.aliases.get(said.alias)
            return frozenset(said.source_ids).union(before.sources if before else ())
    return frozenset()


def terms_of(said: environment_reading.ProtocolDefined) -> Terms:
    judge = said.judge
    return Terms(
        context_window=said.context_window,
        max_input_tokens=said.max_input_tokens,
        max_output_tokens=said.max_output_tokens,
        models=tuple(
            ModelTerms(m.size, m.model, m.reasoning, m.generation_parameters, m.must_record) for m in said.models
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
    said: environment_reading.CatalogueSynced = read(event)
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
    said: environment_reading.RulesAdopted = read(event)
    return replace(environment, rules={**environment.rules, said.rules: said.digest})


def _protocol_defined(environment: Environment, event: RuleEvent) -> Environment:
    said: environment_reading.ProtocolDefined = read(event)
    if said.protocol in environment.protocols:
        return environment
    definition = Definition(event.id, event.pos, terms_of(said), event.sample)
    return replace(environment, protocols={**environment.protocols, said.protocol: definition})


def _protocol_adopted(environment: Environment, event: RuleEvent) -> Environment:
    said: environment_reading.ProtocolAdopted = read(event)
    adoption = Adoption(said.protocol, event.pos, event.sample)
    adopted, replaced = {**environment.adopted, said.protocol: adoption}, dict(environment.replaced)
    if said.replaces in adopted and said.replaces != said.protocol:
        del adopted[said.replaces]
        replaced[said.replaces] = adoption
    return replace(environment, adopted=adopted, replaced=replaced)


def _alias_mapped(environment: Environment, event: RuleEvent) -> Environment:
    said: environment_reading.AliasMapped = read(event)
    before = environment.aliases.get(said.alias)
    now = NamedElsewhere(tuple(said.source_ids), said.status, said.applicability, event.pos, event.sample)
    named = dict(environment.named)
    for source in before.sources if before else ():
        named[source] = tuple(alias for alias in named.get(source, ()) if alias != said.alias)
    for source in now.sources:
        named[source] = tuple(sorted({*named.get(source, ()), said.alias}))
    named = {source: aliases for source, aliases in named.items() if aliases}
    return replace(environment, aliases={**environment.aliases, said.alias: now}, named=named)


_FOLDS: Final[Mapping[str, Callable[[Environment, RuleEvent], Environment]]] = {
    "source.declared": _part,
    "source.revised": _part,
    "source.retired": _part,
    "source.reinstated": _part,
    "catalogue.synced": _synced,
    "rules.adopted": _rules_adopted,
    "protocol.defined": _protocol_defined,
    "protocol.adopted": _protocol_adopted,
    "alias.mapped": _alias_mapped,
}

ENVIRONMENT_TYPES: Final = frozenset(_FOLDS)
