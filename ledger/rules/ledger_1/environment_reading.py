"""Of catalogue, alias and policy events, what these rules read, and nothing else."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from ledger.rules.ledger_1.reading import ArtifactRef, Parts, Said


class Counted(Said, frozen=True):
    basis: str
    rows: int
    revision: str | None = None
    evidence: ArtifactRef | None = None


class AuthoredReview(Said, frozen=True):
    grade: Literal["good", "some_issues", "bad"] | None = None
    reviewed_at: str | None = None
    dataset_revision: str | None = None
    verifier_revision: str | None = None


class CatalogueRow(Said, frozen=True):
    id: str
    origin: str
    name: str | None = None
    family: str | None = None
    url: str | None = None
    dataset_id: str | None = None
    dataset_revision: str | None = None
    revision: str | None = None
    verifier_revision: str | None = None
    component_selector: str | None = None
    is_benchmark: bool | None = None
    atlas_status: str | None = None
    intended_use: str | None = None
    input_rows: int | None = None
    counts: tuple[Counted, ...] = ()
    authored_review: AuthoredReview | None = None


class RowHead(Said, frozen=True):
    id: str
    origin: str


class PartHead(Said, frozen=True):
    """Of a catalogue part, what the environment asks; a retirement has no row."""

    collection: str
    row: RowHead | None = None


class PartWithRow(Said, frozen=True):
    """source.declared, source.revised, source.reinstated: the row as it was written, read apart."""

    collection: str
    row: msgspec.Raw


class SourceRetired(Said, frozen=True):
    collection: str


class CatalogueSynced(Said, frozen=True):
    collection: str
    origin: str
    parts: Parts
    replaces: str | None = None


class AliasMapped(Said, frozen=True):
    alias: str
    source_ids: list[str]
    status: str
    applicability: str


class RulesAdopted(Said, frozen=True):
    rules: str
    digest: str


class ProtocolModel(Said, frozen=True):
    size: str
    model: str
    reasoning: str
    generation_parameters: dict[str, Any]
    must_record: tuple[str, ...] = ()


class ProtocolJudge(Said, frozen=True):
    key: str
    required: dict[str, Any]
    not_empty: tuple[str, ...] = ()


class ProtocolDefined(Said, frozen=True):
    protocol: str
    context_window: int
    max_input_tokens: int
    max_output_tokens: int
    models: tuple[ProtocolModel, ...]
    judge: ProtocolJudge | None = None
    sources: tuple[str, ...] = ()
    note: str | None = None


class ProtocolAdopted(Said, frozen=True):
    protocol: str
    definition: str
    replaces: str | None = None
