"""Inventories into events: what an import or a revision changes, and nothing else.

A file is the whole of each origin that it names, so a source that it leaves out retires; a partial one says nothing of
the others. An import equal to the present state plans nothing unless it is forced, and the same import planned twice is
the same events with the same ids. What was disregarded and is published again has other ids: name it as `retracted`.

    inventory = inventories.read(path)
    for publication in plan_import(inventory.rows, current, by=me, partial=False, base=base):
        writer.publish(publication)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from pydantic import BaseModel

from ledger.client.catalogue_rows import as_listed, catalogue_digest, row_digest, validated
from ledger.client.drafts import Actor, Draft, Publication, Upload, draft, parts_of
from ledger.client.inventories import InventoryRevision, inventory_artifact, read_inventory
from ledger.core import strictjson
from ledger.core.errors import InvalidInput, Problem
from ledger.core.ids import digest_id, sha256_hex
from ledger.events.catalogue import (
    CatalogueRow,
    CatalogueSynced,
    RowCount,
    SourceDeclared,
    SourceReinstated,
    SourceRetired,
    SourceRevised,
    SyncCounts,
)
from ledger.events.fields import ArtifactRef

__all__ = [
    "CurrentSource",
    "InventoryRevision",
    "catalogue_digest",
    "inventory_artifact",
    "plan_count",
    "plan_import",
    "plan_reinstatement",
    "plan_retirement",
    "plan_revision",
    "read_inventory",
    "row_digest",
]

RETIRED_BECAUSE: Final = "Its origin's inventory no longer lists it."

_WITH_ROW: Final[Mapping[str, type[SourceDeclared | SourceRevised | SourceReinstated]]] = MappingProxyType(
    {"declared": SourceDeclared, "revised": SourceRevised, "reinstated": SourceReinstated}
)


@dataclass(frozen=True)
class CurrentSource:
    """What the ledger shows of a source now, as far as an import must know it."""

    row_sha256: str
    origin: str
    retired: bool


@dataclass(frozen=True)
class _Change:
    """One source that a refresh changes; `row` is None when it retires."""

    source_id: str
    verb: str
    row: CatalogueRow | None
    reason: str = RETIRED_BECAUSE


@dataclass(frozen=True)
class _Author:
    """What every event of one plan shares."""

    by: Actor
    principal: str | None
    tags: tuple[str, ...]


def plan_import(
    rows: Iterable[CatalogueRow],
    current: Mapping[str, CurrentSource],
    *,
    by: Actor,
    partial: bool,
    base: Mapping[str, str | None],
    retracted: Mapping[str, str | None] | None = None,
    force: bool = False,
    inventory: ArtifactRef | None = None,
    uploads: Iterable[Upload] = (),
    principal: str | None = None,
    revisions: Mapping[str, InventoryRevision] | None = None,
    checked_at: str | None = None,
    tags: Iterable[str] = (),
) -> list[Publication]:
    """One publication for each origin whose sources change, in the order of the origins.

    Args:
        current: Every source of the origins named, retired ones included, by id.
        base: The id of each origin's last `catalogue.synced` that counts; absent or None before the first.
        retracted: The id of the last one after it that was disregarded, by origin, if any was.
        force: An origin of which nothing differs has a refresh too, which says that it was looked at.
        uploads: The bytes of `inventory`; see `inventory_artifact`.
        revisions: What the inventory's owner says of its revision, by origin. Otherwise the revision of an origin is
            the `catalogue_digest` of its rows.
    """
    listed = {row.id: row for row in rows}
    author = _Author(by, principal, tuple(tags))
    files = tuple(uploads)
    planned = []
    for origin in sorted({row.origin for row in listed.values()}):
        own = [row for row in listed.values() if row.origin == origin]
        active = {i for i, source in current.items() if source.origin == origin and not source.retired}
        gone = active - listed.keys()
        changes = sorted(_changes(own, current, set() if partial else gone), key=lambda c: c.source_id)
        if not changes and not force:
            continue
        stated = (revisions or {}).get(origin) or InventoryRevision(catalogue_digest(map(as_listed, own)))
        synced = _Closing(
            origin=origin,
            replaces=base.get(origin),
            retracted=(retracted or {}).get(origin),
            partial=partial,
            forced=not changes,
            row_count=len(own) + (len(gone) if partial else 0),
            unchanged=len(own) - sum(c.row is not None for c in changes),
            stated=stated,
            checked_at=checked_at,
            inventory=inventory,
        )
        planned.append(_publication(changes, synced, author, files))
    return planned


def plan_revision(
    row: CatalogueRow,
    *,
    by: Actor,
    base: str | None,
    retracted: str | None = None,
    row_count: int,
    dataset_revision: str | None = None,
    verifier_revision: str | None = None,
    principal: str | None = None,
    tags: Iterable[str] = (),
) -> Publication:
    """One source at other revisions, everything else of its row as it was. Equal revisions plan nothing.

    Args:
        row: The row as it stands now.
        base: The id of its origin's last `catalogue.synced` that counts.
        retracted: The id of the last one after it that was disregarded, if any was.
        row_count: How many sources its origin lists.

    Raises:
        InvalidInput: if no revision is named, or one is not a revision.
    """
    named = {"dataset_revision": dataset_revision, "verifier_revision": verifier_revision}
    changed = {field: value for field, value in named.items() if value is not None}
    if not changed:
        raise InvalidInput(
            f"nothing to revise of {row.id}: no revision is named",
            remedy="Name a dataset revision, a verifier revision or both.",
            problems=[Problem(field, "not named") for field in named],
        )
    revised = validated({**row.model_dump(), **changed})
    return _revised(
        row, revised, _refresh_of_one(row, base, retracted, row_count), _Author(by, principal, tuple(tags)), ()
    )


def plan_count(
    row: CatalogueRow,
    count: RowCount,
    *,
    by: Actor,
    base: str | None,
    retracted: str | None = None,
    row_count: int,
    uploads: Iterable[Upload] = (),
    principal: str | None = None,
    tags: Iterable[str] = (),
) -> Publication:
    """One source with another count of its rows: it takes the place of the count of the same basis, and of no other."""
    kept = [known for known in row.counts if known.basis != count.basis]
    counted = row.model_copy(update={"counts": sorted([*kept, count], key=lambda c: c.basis)})
    author = _Author(by, principal, tuple(tags))
    return _revised(row, counted, _refresh_of_one(row, base, retracted, row_count), author, tuple(uploads))


def plan_retirement(
    row: CatalogueRow,
    reason: str,
    *,
    by: Actor,
    base: str | None,
    retracted: str | None = None,
    row_count: int,
    principal: str | None = None,
    tags: Iterable[str] = (),
) -> Publication:
    """One source leaves the catalogue; `row_count` counts its origin's sources while it is still listed."""
    change = _Change(row.id, "retired", None, reason)
    return _publication(
        [change], _refresh_of_one(row, base, retracted, row_count - 1), _Author(by, principal, tuple(tags)), ()
    )


def plan_reinstatement(
    row: CatalogueRow,
    *,
    by: Actor,
    base: str | None,
    retracted: str | None = None,
    row_count: int,
    principal: str | None = None,
    tags: Iterable[str] = (),
) -> Publication:
    """A retired source is listed again as it was; `row_count` counts its origin's sources without it."""
    change = _Change(row.id, "reinstated", row)
    return _publication(
        [change], _refresh_of_one(row, base, retracted, row_count + 1), _Author(by, principal, tuple(tags)), ()
    )


@dataclass(frozen=True, kw_only=True)
class _Closing:
    """What the closing event says beside its parts."""

    origin: str
    replaces: str | None
    retracted: str | None
    partial: bool
    row_count: int
    forced: bool = False
    unchanged: int = 0
    stated: InventoryRevision | None = None
    checked_at: str | None = None
    inventory: ArtifactRef | None = None


def _refresh_of_one(row: CatalogueRow, base: str | None, retracted: str | None, row_count: int) -> _Closing:
    return _Closing(origin=row.origin, replaces=base, retracted=retracted, partial=True, row_count=row_count)


def _revised(
    before: CatalogueRow, after: CatalogueRow, synced: _Closing, author: _Author, uploads: tuple[Upload, ...]
) -> Publication:
    """One source's other row; nothing at all where it says the same."""
    if row_digest(before) == row_digest(after):
        return Publication(summary=f"{before.id}: unchanged")
    return _publication([_Change(before.id, "revised", after)], synced, author, uploads)


def _changes(
    rows: Iterable[CatalogueRow], current: Mapping[str, CurrentSource], gone: Iterable[str]
) -> Iterator[_Change]:
    for row in rows:
        verb = _verb(row, current.get(row.id))
        if verb is not None:
            yield _Change(row.id, verb, row)
    for source_id in gone:
        yield _Change(source_id, "retired", None)


def _verb(row: CatalogueRow, known: CurrentSource | None) -> str | None:
    if known is None:
        return "declared"
    if known.retired:
        return "reinstated"
    return "revised" if known.row_sha256 != row_digest(row) else None


def _publication(
    changes: Sequence[_Change], synced: _Closing, author: _Author, uploads: tuple[Upload, ...]
) -> Publication:
    collection = _collection_id(changes, synced, author)
    parts = tuple(_part(change, collection, synced.replaces, author) for change in changes)
    verbs = Counter(change.verb for change in changes)
    counts = SyncCounts(
        declared=verbs["declared"],
        revised=verbs["revised"],
        retired=verbs["retired"],
        reinstated=verbs["reinstated"],
        unchanged=synced.unchanged,
    )
    payload = CatalogueSynced(
        collection=collection,
        origin=synced.origin,
        parts=parts_of(parts),
        replaces=synced.replaces,
        forced=synced.forced,
        partial=synced.partial,
        row_count=synced.row_count,
        counts=counts,
        revision=synced.stated.revision if synced.stated else None,
        revised_at=synced.stated.revised_at if synced.stated else None,
        checked_at=synced.checked_at,
        inventory=synced.inventory,
    )
    closing = _draft("catalogue.synced", f"origin/{synced.origin}", payload, synced.replaces, author)
    return Publication(parts=parts, closing=closing, uploads=uploads, summary=_summary(synced.origin, counts))


def _collection_id(changes: Sequence[_Change], synced: _Closing, author: _Author) -> str:
    """Made from what changes and what it replaces, so that a refresh cut short is taken up again by the same parts."""
    content = [[c.source_id, c.verb, _said_of(c)] for c in changes]
    after = [synced.replaces] if synced.retracted is None else [synced.replaces, synced.retracted]
    return "sync-" + sha256_hex(strictjson.dumps([author.principal, synced.origin, *after, content]))[:24]


def _said_of(change: _Change) -> str | None:
    if change.row is not None:
        return row_digest(change.row)
    return None if change.reason == RETIRED_BECAUSE else change.reason


def _part(change: _Change, collection: str, replaces: str | None, author: _Author) -> Draft:
    payload: BaseModel
    if change.row is None:
        payload = SourceRetired(collection=collection, reason=change.reason)
    else:
        payload = _WITH_ROW[change.verb](collection=collection, row=change.row)
    return _draft(f"source.{change.verb}", f"source/{change.source_id}", payload, replaces, author)


def _draft(type_: str, stream: str, payload: BaseModel, replaces: str | None, author: _Author) -> Draft:
    text = payload.model_dump_json(exclude_defaults=True)
    event_id = digest_id(author.principal, stream, type_, text, replaces)
    return draft(type_, stream, payload, by=author.by, id=event_id, tags=author.tags)


def _summary(origin: str, counts: SyncCounts) -> str:
    said = ", ".join(f"{number} {verb}" for verb, number in counts.model_dump().items() if number)
    return f"{origin}: {said or 'nothing differs'}"
