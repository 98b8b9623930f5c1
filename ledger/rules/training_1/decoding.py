"""How the payload of each type is read: its JSON, into the structs of `reading`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from ledger.rules import RuleEvent
from ledger.rules.training_1 import export_reading, reading

_TYPES: Final[Mapping[str, type[reading.Said]]] = {
    "campaign.declared": export_reading.CampaignDeclared,
    "run.declared": reading.RunDeclared,
    "attempt.started": reading.AttemptStarted,
    "config.recorded": reading.ConfigRecorded,
    "config.drifted": reading.ConfigDrifted,
    "anomaly.claimed": reading.AnomalyClaimed,
    "attempt.ended": reading.AttemptEnded,
    "run.ended": reading.RunEnded,
    "recording.reported": reading.RecordingReported,
    "steps.logged": reading.StepsLogged,
    "weights.synced": reading.WeightsSynced,
    "eval.logged": reading.EvalLogged,
    "rollouts.summarised": reading.RolloutsSummarised,
    "groups.disposed": reading.GroupsDisposed,
    "checkpoint.save_started": reading.CheckpointSaveStarted,
    "checkpoint.committed": reading.CheckpointCommitted,
    "checkpoint.loaded": reading.CheckpointLoaded,
    "checkpoint.deleted": reading.CheckpointDeleted,
    "checkpoint.selected": reading.CheckpointSelected,
    "claim.recorded": reading.ClaimRecorded,
    "export.started": export_reading.ExportStarted,
    "export.completed": export_reading.ExportCompleted,
    "export.verified": export_reading.ExportVerified,
    "export.failed": export_reading.ExportFailed,
    "model.published": export_reading.ModelPublished,
    "traces.published": export_reading.TracesPublished,
    "logs.published": export_reading.LogsPublished,
}

DECODE: Final[Mapping[str, Callable[[bytes], Any]]] = {
    type_: msgspec.json.Decoder(said).decode for type_, said in _TYPES.items()
}
"""Types that are not here say nothing to these rules, or are kept as their bytes alone."""

decode_all_metrics: Final = msgspec.json.Decoder(reading.AnySteps).decode


def read(event: RuleEvent) -> Any:
    """What an event says.

    Raises:
        KeyError: if its type says nothing to these rules.
    """
    return DECODE[event.type](event.body)


def plain(body: bytes) -> Any:
    """Kept bytes as the values that they write."""
    return msgspec.json.decode(body)
