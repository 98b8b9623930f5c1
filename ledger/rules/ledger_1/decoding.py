"""How the payload of each type is read: its JSON, into the structs of `reading` and `environment_reading`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from ledger.rules import RuleEvent
from ledger.rules.ledger_1 import environment_reading, reading

_TYPES: Final[Mapping[str, type[reading.Said]]] = {
    "observation.recorded": reading.ReviewPart,
    "judgment.recorded": reading.ReviewPart,
    "synthesis.recorded": reading.ReviewPart,
    "review.published": reading.ReviewPublished,
    "review.superseded": reading.ReviewSuperseded,
    "tag.assigned": reading.TagAssigned,
    "tag.retracted": reading.TagRetracted,
    "defect.suspected": reading.DefectSuspected,
    "defect.confirmed": reading.DefectConfirmed,
    "defect.validation_recorded": reading.DefectValidationRecorded,
    "defect.resolved": reading.DefectResolved,
    "defect.reopened": reading.DefectReopened,
    "defect.withdrawn": reading.DefectWithdrawn,
    "difficulty.reported": reading.DifficultyReported,
    "difficulty.followup_reported": reading.DifficultyFollowupReported,
    "difficulty.context_recorded": reading.DifficultyContextRecorded,
    "attestation.recorded": reading.AttestationRecorded,
    "source.declared": environment_reading.PartWithRow,
    "source.revised": environment_reading.PartWithRow,
    "source.retired": environment_reading.SourceRetired,
    "source.reinstated": environment_reading.PartWithRow,
    "catalogue.synced": environment_reading.CatalogueSynced,
    "alias.mapped": environment_reading.AliasMapped,
    "rules.adopted": environment_reading.RulesAdopted,
    "protocol.defined": environment_reading.ProtocolDefined,
    "protocol.adopted": environment_reading.ProtocolAdopted,
}

DECODE: Final[Mapping[str, Callable[[bytes], Any]]] = {
    type_: msgspec.json.Decoder(said).decode for type_, said in _TYPES.items()
}
"""How the payload of each type is read; types that are not here mean nothing to these rules."""

decode_row: Final = msgspec.json.Decoder(environment_reading.CatalogueRow).decode
decode_part_head: Final = msgspec.json.Decoder(environment_reading.PartHead).decode


def read(event: RuleEvent) -> Any:
    """What an event says, None if its type means nothing to these rules."""
    decode = DECODE.get(event.type)
    return decode(event.body) if decode else None
