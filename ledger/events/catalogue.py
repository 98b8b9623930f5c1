"""The catalogue: which sources there are, at which revisions.

A catalogue part (declared, revised, retired, reinstated) takes effect at the position of the `catalogue.synced` that
closes its collection; parts that are never closed count for nothing.
"""

# ruff: noqa: RUF012  # pydantic copies the defaults of a model

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ledger.events.fields import (
    AnyText,
    ArtifactRef,
    CollectionId,
    Count,
    EventId,
    JsonObject,
    Name,
    Parts,
    Record,
    Revision,
    SourceId,
    Text,
    Timestamp,
    Url,
)
from ledger.events.registry import event


class RowCount(Record):
    """How many rows, of which population, at which revision: input, clean and released rows are different counts."""

    basis: Literal["input", "clean", "released"]
    """Selected input before conversion or curation; what curation left of it; what a release holds."""
    rows: Count
    revision: Revision | None
    """Of the data that was counted: the dataset's for input rows, the pipeline's run or release for the others."""
    evidence: ArtifactRef | None = None
    """What shows it, such as the counted files with their footers' counts."""
    method: AnyText | None = None


class AuthoredReview(Record):
    """A rating that an inventory states beside its rows, with no review collection behind it in the ledger."""

    grade: Literal["good", "some_issues", "bad"] | None
    evidence_url: Url | None = None
    reviewed_at: Timestamp | None = None
    dataset_revision: Revision | None = None
    verifier_revision: Revision | None = None


class CatalogueRow(Record):
    """One source, whole, as its inventory lists it. What the inventory does not say is null."""

    id: SourceId
    origin: Name
    name: Name | None = None
    display_name: Name | None = None
    family: Name | None = None
    url: Url | None = None
    dataset_id: Name | None = None
    dataset_revision: Revision | None = None
    revision: Revision | None = None
    verifier_revision: Revision | None = None
    component_name: Name | None = None
    component_selector: AnyText | None = None
    registry_name: Name | None = None
    is_benchmark: bool | None = None
    split: Name | None = None
    atlas_status: Name | None = None
    atlas_exclusion_reason: AnyText | None = None
    intended_use: Name | None = None
    input_rows: Count | None = None
    """Selected input rows at the pinned dataset revision, before conversion or curation. Null: unknown."""
    counts: list[RowCount] = []
    """Counts with their basis; `input_rows` is the inventory's own figure."""
    authored_review: AuthoredReview | None = None
    tags: list[Name] = []
    notes: AnyText | None = None
    extra: JsonObject = {}
    """Keys of the inventory that have no field of their own, as they were."""


@event("source.declared", family="catalogue", streams=("source",))
class SourceDeclared(Record):
    """A source appears in the catalogue."""

    collection: CollectionId
    row: CatalogueRow


@event("source.revised", family="catalogue", streams=("source",))
class SourceRevised(Record):
    """A source's row changed; the whole new row."""

    collection: CollectionId
    row: CatalogueRow


@event("source.retired", family="catalogue", streams=("source",))
class SourceRetired(Record):
    """A source is no longer listed. Its history stays."""

    collection: CollectionId
    reason: Text


@event("source.reinstated", family="catalogue", streams=("source",))
class SourceReinstated(Record):
    """A retired source is listed again; the whole row."""

    collection: CollectionId
    row: CatalogueRow


class SyncCounts(Record):
    """What a refresh did to the sources of its origin."""

    declared: Count
    revised: Count
    retired: Count
    reinstated: Count
    unchanged: Count


@event("catalogue.synced", family="catalogue", streams=("origin",), decision=True)
class CatalogueSynced(Record):
    """Closes a refresh of one origin: its parts take effect here, all at once."""

    collection: CollectionId
    origin: Name
    parts: Parts
    replaces: EventId | None = None
    """The id of the `catalogue.synced` of this origin that this one follows. Null: the first."""
    forced: bool = False
    """true: published although nothing differs, to record that it was looked at."""
    partial: bool = False
    """true: the refresh names some sources and says nothing of the others."""
    row_count: Count
    """Sources of this origin listed after the refresh."""
    counts: SyncCounts
    revision: Revision | None = None
    """The inventory's own revision."""
    revised_at: Timestamp | None = None
    checked_at: Timestamp | None = None
    inventory: ArtifactRef | None = None


@event("catalogue.sync_failed", family="catalogue", streams=("origin",))
class CatalogueSyncFailed(Record):
    """A refresh failed; the last good inventory stays."""

    origin: Name
    error: Text
    base: EventId | None = None
    """The last good refresh, which stays in effect."""
    revision: Revision | None = None
    """Of the inventory that failed, where it names one."""
    checked_at: Timestamp | None = None


@event("alias.mapped", family="catalogue", streams=("alias",))
class AliasMapped(Record):
    """A name used elsewhere, and the sources that it means."""

    alias: Name
    source_ids: list[SourceId]
    status: Literal["confirmed", "ambiguous", "unresolved"]
    applicability: Literal["exact_revision", "historical", "unknown"]
    evidence: Annotated[list[ArtifactRef], Field(max_length=100)] = []
    note: AnyText | None = None
