"""Policy: which rules are permitted, which protocols exist, which one is current."""

from __future__ import annotations

from ledger.events.fields import AnyText, Count, EventId, JsonObject, Name, Record, Sha256
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


@event("protocol.defined", family="policy", streams=("policy",), decision=True)
class ProtocolDefined(Record):
    """A difficulty protocol, whole. Its id never gets another definition."""

    protocol: Name
    context_window: Count
    max_input_tokens: Count
    max_output_tokens: Count
    models: list[ProtocolModel]
    note: AnyText | None = None


@event("protocol.adopted", family="policy", streams=("policy",), decision=True)
class ProtocolAdopted(Record):
    """From here on reports under this protocol are current, and those under another are historical."""

    protocol: Name
    definition: EventId
    replaces: Name | None
