"""Which stream an event of a run, an export or a campaign belongs to: the payload says it."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel

from ledger.events.checkpoints import ClaimRecorded

_KINDS: Final = {"run_id": "run", "export_id": "export", "campaign_id": "campaign"}
_OF_SUBJECT: Final = {"campaign": "campaign", "export": "export", "model": "export", "hosting": "export"}


def kind_of_claim(subject: str) -> str:
    """The kind of stream for a claim, by what it is about: a model or a host is the export's, all else the run's."""
    return _OF_SUBJECT.get(subject, "run")


def stream_of(payload: BaseModel) -> str:
    """The stream of a training or export event, named by the first field of its payload.

    Raises:
        ValueError: the payload is of another family.
    """
    if isinstance(payload, ClaimRecorded):
        return f"{kind_of_claim(payload.subject.kind)}/{payload.subject.id}"
    first = next(iter(type(payload).model_fields))
    if first not in _KINDS:
        raise ValueError(f"{type(payload).__name__} names no run, export or campaign that it is of")
    return f"{_KINDS[first]}/{getattr(payload, first)}"
