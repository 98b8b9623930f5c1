"""What was recorded of a source's difficulty, from its stream, with the standing that the rules in force give it."""

from __future__ import annotations

from typing import Any, Final

from ledger.client.reader import Reader
from ledger.events import REGISTRY
from ledger.events.difficulty import (
    DifficultyFollowupReported,
    DifficultyReported,
    ReportedModel,
)
from ledger.wire import audit_pb2, log_pb2
from services.cli.catalogue_state import header_of
from services.cli.disregarded import Disregarded, disregarded

_TYPES: Final = ("difficulty.reported", "difficulty.followup_reported", "difficulty.context_recorded")


def measurements(reader: Reader, source: audit_pb2.Source, size: int) -> list[dict[str, Any]]:
    """Every record among the first `size` events, newest first; of a redacted one its place alone."""
    statuses = {earlier.pos: earlier.status for earlier in source.difficulty.history}
    if source.difficulty.HasField("pos"):
        statuses[source.difficulty.pos] = source.difficulty.status
    events = list(reader.events(streams=[f"source/{source.id}"], types=_TYPES, to_size=size))
    gone = disregarded(reader, to_size=size)
    return [_record(event, statuses, gone) for event in reversed(events)]


def _record(event: log_pb2.Event, statuses: dict[int, str], gone: Disregarded) -> dict[str, Any]:
    header = header_of(event)
    said = REGISTRY.read(header["type"], header["tv"], event.payload) if event.HasField("payload") else None
    by = gone.get((event.pos, str(header["id"])))
    return {
        "pos": event.pos,
        "event": header["id"],
        "recorded_at": header["recorded_at"],
        "what": _what(header["type"], said),
        "protocol": said.protocol.id if isinstance(said, DifficultyReported) else None,
        "status": statuses.get(event.pos),
        "disregarded_at": by.pos if by is not None else None,
        "estimated_at": said.estimated_at
        if isinstance(said, (DifficultyReported, DifficultyFollowupReported))
        else None,
        "source_revision": getattr(said, "source_revision", None),
        "ordering_warning": getattr(said, "ordering_warning", None),
        "limitations": getattr(said, "limitations", []),
        "models": [_model(model) for model in _models(said)],
        "baseline": getattr(said, "reviewer_rollout_baseline", None),
        "reference": getattr(said, "historical_reference", None),
    }


def _what(type_: str, said: object) -> str:
    if isinstance(said, DifficultyFollowupReported):
        kind = "generation setting" if said.changed_parameter else "native verifier recheck"
        return f"follow-up, {'other checkpoint' if said.kind == 'alternate_checkpoint' else kind}"
    return {"difficulty.reported": "report", "difficulty.context_recorded": "context"}.get(type_, "follow-up")


def _models(said: object) -> list[ReportedModel]:
    if isinstance(said, DifficultyReported):
        return said.models
    return [said.outcome] if isinstance(said, DifficultyFollowupReported) else []


def _model(model: ReportedModel) -> dict[str, Any]:
    return model.model_dump(include={"size", "model", "solved", "verified", "unverified", "attempted", "solve_rate"})
