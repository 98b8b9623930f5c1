"""Which stream an event of a run, an export or a campaign belongs to: the payload says it."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel

from ledger.events.checkpoints import ClaimRecorded

_KINDS: Final = {"run_id": "run", "export_id": "export", "campaign_id": "campaign"}
_OF_SUBJECT: Final = {"campaign": "campaign", "export": "export", "model": "export", "hosting": "export"}
"""What is claimed of a model or a host belongs to the export that was published; all else to the run."""


def stream_of(payload: BaseModel) -> str:
    """The stream of a training or export event, named by the first field of its payload.

    Raises:
        ValueError: the payload is of another family.
    """
    if isinstance(payload, ClaimRecorded):
        return f"{_OF_SUBJECT.get(payload.subject.kind, 'run')}/{payload.subject.id}"
    first = next(iter(type(payload).model_fields))
    if first not in _KINDS:
        raise ValueError(f"{type(payload).__name__} names no run, export or campaign that it is of")
    return f"{_KINDS[first]}/{getattr(payload, first)}"
