"""Policy: which rules are permitted, which protocols exist, which ones are current."""

# ruff: noqa: RUF012  # pydantic copies the defaults of a model

from __future__ import annotations

from ledger.events.fields import AnyText, Count, EventId, JsonObject, Name, Record, Sha256, SourceId
from ledger.events.registry import event


@event("rules.adopted", family="policy", streams=("policy",), decision=True)
class RulesAdopted(Record):
    """A rule set may be promoted from here on. What is in force is said by `projection.promoted`."""

    rules: Name
    digest: Sha256
    """Over the parsed definitions of the set."""
    note: AnyText | None = None


class ProtocolModel(Record):
    """A model of the comparison, with the generation parameters that it must have run under."""

    size: Name
    model: Name
    reasoning: AnyText
    generation_parameters: JsonObject
    must_record: list[Name] = []
    """Parameters that a report must record although models keep their native controls of them."""


class ProtocolJudge(Record):
    """The model that a source's own verifier asks, and how the report must have configured it."""

    key: Name
    """The key of `verifier_configuration` that holds the judge's configuration."""
    required: JsonObject
    """Values that the configuration must equal."""
    not_empty: list[Name] = []
    """Fields of it that must be recorded and not empty."""


@event("protocol.defined", family="policy", streams=("policy",), decision=True)
class ProtocolDefined(Record):
    """A difficulty protocol, whole. Its id never gets another definition."""

    protocol: Name
    context_window: Count
    max_input_tokens: Count
    max_output_tokens: Count
    models: list[ProtocolModel]
    judge: ProtocolJudge | None = None
    """Null: the protocol is for sources whose verifier needs no judge."""
    sources: list[SourceId] = []
    """The sources that it is for; empty: every one."""
    note: AnyText | None = None


@event("protocol.adopted", family="policy", streams=("policy",), decision=True)
class ProtocolAdopted(Record):
    """From here on reports under this protocol are current, and those under another are historical."""

    protocol: Name
    definition: EventId
    replaces: Name | None
    """The adopted protocol whose place it takes. Null: the first, or beside those adopted where the rules permit."""
