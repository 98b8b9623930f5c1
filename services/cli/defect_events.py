"""What all events on a defect have in common: files as evidence, the revisions where it was seen, and their append."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ledger.client.drafts import Publication, Upload, draft
from ledger.client.evidence import upload_of
from ledger.core.ids import new_id
from ledger.events import REGISTRY
from ledger.events.defects import DefectConfirmed, DefectSuspected, DefectValidationRecorded
from ledger.events.fields import ArtifactRef
from ledger.wire import audit_pb2
from services.cli.publishing import append_given
from services.cli.state import Ledger, State

Saying = audit_pb2.Source | DefectConfirmed | DefectValidationRecorded | None
"""What says at which revisions something was seen; None: nobody knows the source."""


def stored(files: tuple[Path, ...]) -> tuple[list[Upload], list[ArtifactRef]]:
    """Files as uploads, and as events cite them."""
    uploads = [upload_of(file) for file in files]
    references = [ArtifactRef(name=f.name, sha256=u.sha256, size=u.size) for f, u in zip(files, uploads, strict=True)]
    return uploads, references


def present_source(ledger: Ledger, source_id: str) -> audit_pb2.Source:
    return ledger.reader.source(source_id, min_size=ledger.reader.info().size).source


def dataset_revision_of(said: Saying) -> str | None:
    """The revision of a source's row stands in for an unknown one of its data, as it does for its reviews."""
    if isinstance(said, audit_pb2.Source):
        return said.dataset_revision or said.revision or None
    return said.dataset_revision if said is not None else None


def verifier_revision_of(said: Saying) -> str | None:
    return said.verifier_revision or None if said is not None else None


def defect_id(first: DefectSuspected | DefectConfirmed | None) -> str:
    """The id of a defect that the command does not name: a new one, unless the command is repeated."""
    return first.defect if first else new_id()


def append(
    state: State, ledger: Ledger, source_id: str, payload: Any, *, uploads: Sequence[Upload], event_id: str | None
) -> None:
    type_ = next(kind.type for kind in REGISTRY if kind.model is type(payload))
    event = draft(type_, f"source/{source_id}", payload, by=state.by, id=event_id)
    summary = f"{source_id}: {type_}, defect {payload.defect}"
    append_given(state, ledger, Publication(closing=event, uploads=tuple(uploads), summary=summary))
