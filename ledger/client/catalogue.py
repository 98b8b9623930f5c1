"""Inventories into events: what an import or a revision changes, and nothing else.

An inventory is JSONL, one source a line. A file is the whole of each origin that it names, so a source that it leaves
out retires; a partial one says nothing of the others. An import equal to the present state plans nothing, and the same
import planned twice is the same events with the same ids.

    rows = read_inventory(path)
    ref, upload = inventory_artifact(path)
    for publication in plan_import(rows, current, by=me, partial=False, base=base, inventory=ref, uploads=[upload]):
        writer.publish(publication)
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from ledger.client import faults
from ledger.client.drafts import Actor, Draft, Publication, Upload, draft, parts_of
from ledger.client.evidence import upload_of
from ledger.core import strictjson
from ledger.core.errors import InvalidInput, Problem
from ledger.core.ids import digest_id, sha256_hex
from ledger.core.text import is_header_text
from ledger.events.catalogue import (
    CatalogueRow,
    CatalogueSynced,
    SourceDeclared,
    SourceReinstated,
    SourceRetired,
    SourceRevised,
    SyncCounts,
)
from ledger.events.fields import ArtifactRef
from ledger.events.wording import words

RETIRED_BECAUSE: Final = "Its origin's inventory no longer lists it."
MAX_ORIGIN: Final = 505
"""With "origin/" before it, an origin names a stream of at most 512 bytes."""

_REMEDY: Final = 'Write one JSON object a line, each with an "id" of its own and an "origin". Nothing was imported.'
_FIELDS: Final = frozenset(CatalogueRow.model_fields) - {"extra"}
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
class InventoryRevision:
    """What an inventory's owner says of its own revision of one origin."""

    revision: str | None = None
    revised_at: str | None = None


@dataclass(frozen=True)
class _Change:
    """One source that a refresh changes; `row` is None when it retires."""

    source_id: str
    verb: str
    row: CatalogueRow | None


@dataclass(frozen=True)
class _Author:
    """What every event of one plan shares."""

    by: Actor
    principal: str | None
    tags: tuple[str, ...]


def read_inventory(path: Path) -> list[CatalogueRow]:
    """The rows of a JSONL inventory, in the file's order. Keys without a field of their own are kept in `extra`.

    Raises:
        InvalidInput: reason INVALID_FILE, with every bad line at "FILE:LINE".
    """
    rows: list[CatalogueRow] = []
    problems: list[Problem] = []
    line_of: dict[str, int] = {}
    for number, line in _lines(path):
        place = f"{path}:{number}"
        try:
            row = _read_row(line)
        except InvalidInput as error:
            problems += [Problem(place, f"{p.place}: {p.message}" if p.place else p.message) for p in error.problems]
            continue
        if row.id in line_of:
            problems.append(Problem(place, f"/id: {row.id} stands on line {line_of[row.id]} already"))
        line_of.setdefault(row.id, number)
        rows.append(row)
    if not rows and not problems:
        problems.append(Problem(str(path), "names no source"))
    if problems:
        raise faults.refused(path, "inventory", problems, remedy=_REMEDY)
    return rows


def inventory_artifact(path: Path) -> tuple[ArtifactRef, Upload]:
    """The inventory's bytes as evidence: how an event cites them, and the upload that must come before."""
    upload = upload_of(path)
    ref = ArtifactRef(name=path.name, sha256=upload.sha256, size=upload.size, media_type="application/x-ndjson")
    return ref, upload


def row_digest(row: CatalogueRow) -> str:
    """SHA-256 over what the row says; a field added later, at its default, changes no digest."""
    return sha256_hex(strictjson.dumps(row.model_dump(exclude_defaults=True)))


def catalogue_digest(rows: Iterable[Mapping[str, Any]]) -> str:
    """The revision that the Atlas gives to rows: it depends on what they say, not on how the file is laid out."""
    ordered = sorted(rows, key=lambda row: row["id"])
    return sha256_hex(json.dumps(ordered, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode())


def plan_import(
    rows: Iterable[CatalogueRow],
    current: Mapping[str, CurrentSource],
    *,
    by: Actor,
    partial: bool,
    base: Mapping[str, str | None],
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
        base: The id of each origin's last `catalogue.synced`; absent or None before the first.
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
        if not changes:
            continue
        stated = (revisions or {}).get(origin) or InventoryRevision(catalogue_digest(map(_as_listed, own)))
        synced = _Closing(
            origin=origin,
            replaces=base.get(origin),
            partial=partial,
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
    row_count: int,
    dataset_revision: str | None = None,
    verifier_revision: str | None = None,
    principal: str | None = None,
    tags: Iterable[str] = (),
) -> Publication:
    """One source at other revisions, everything else of its row as it was. Equal revisions plan nothing.

    Args:
        row: The row as it stands now.
        base: The id of its origin's last `catalogue.synced`.
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
    revised = _validated({**row.model_dump(), **changed})
    if row_digest(revised) == row_digest(row):
        return Publication(summary=f"{row.id}: unchanged")
    synced = _Closing(origin=row.origin, replaces=base, partial=True, row_count=row_count)
    return _publication([_Change(row.id, "revised", revised)], synced, _Author(by, principal, tuple(tags)), ())


@dataclass(frozen=True, kw_only=True)
class _Closing:
    """What the closing event says beside its parts."""

    origin: str
    replaces: str | None
    partial: bool
    row_count: int
    unchanged: int = 0
    stated: InventoryRevision = InventoryRevision()
    checked_at: str | None = None
    inventory: ArtifactRef | None = None


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines that hold something, numbered from 1."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise faults.unreadable(path, error) from None
    return ((n, line) for n, line in enumerate(content.split(b"\n"), start=1) if line.strip())


def _read_row(line: bytes) -> CatalogueRow:
    listed = strictjson.parse(line)
    if not isinstance(listed, dict):
        raise InvalidInput("not a row", problems=[Problem("", "not a JSON object")])
    # A null says as little as an absent key.
    known = {key: value for key, value in listed.items() if key in _FIELDS and value is not None}
    extra = {key: value for key, value in listed.items() if key not in _FIELDS}
    return _validated({**known, "extra": extra})


def _validated(fields: dict[str, Any]) -> CatalogueRow:
    problems = []
    try:
        row = CatalogueRow.model_validate(fields)
    except ValidationError as error:
        problems = [_problem(e) for e in error.errors(include_url=False, include_input=False)]
    if isinstance(fields.get("origin"), str) and not is_header_text(fields["origin"], MAX_ORIGIN):
        problems.append(Problem("/origin", f"an origin names a stream: 1 to {MAX_ORIGIN} printable ASCII characters"))
    if problems:
        raise InvalidInput("not a catalogue row", remedy="Correct the fields named.", problems=problems)
    return row


def _problem(error: Any) -> Problem:
    message = words(error)
    if error["loc"] == ("id",) and error["type"] == "string_pattern_mismatch":
        message = "an id names a stream: 1 to 500 printable ASCII characters"
    return Problem(strictjson.pointer(*error["loc"]), message)


def _as_listed(row: CatalogueRow) -> dict[str, Any]:
    """The row as an inventory lists it: what is known, each key at the top."""
    return {**row.model_dump(exclude_defaults=True, exclude={"extra"}), **row.extra}


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
        partial=synced.partial,
        row_count=synced.row_count,
        counts=counts,
        revision=synced.stated.revision,
        revised_at=synced.stated.revised_at,
        checked_at=synced.checked_at,
        inventory=synced.inventory,
    )
    closing = _draft("catalogue.synced", f"origin/{synced.origin}", payload, synced.replaces, author)
    return Publication(parts=parts, closing=closing, uploads=uploads, summary=_summary(synced.origin, counts))


def _collection_id(changes: Sequence[_Change], synced: _Closing, author: _Author) -> str:
    """Made from what changes and what it replaces, so that a refresh cut short is taken up again by the same parts."""
    content = [[c.source_id, c.verb, row_digest(c.row) if c.row is not None else None] for c in changes]
    return "sync-" + sha256_hex(strictjson.dumps([author.principal, synced.origin, synced.replaces, content]))[:24]


def _part(change: _Change, collection: str, replaces: str | None, author: _Author) -> Draft:
    payload: BaseModel
    if change.row is None:
        payload = SourceRetired(collection=collection, reason=RETIRED_BECAUSE)
    else:
        payload = _WITH_ROW[change.verb](collection=collection, row=change.row)
    return _draft(f"source.{change.verb}", f"source/{change.source_id}", payload, replaces, author)


def _draft(type_: str, stream: str, payload: BaseModel, replaces: str | None, author: _Author) -> Draft:
    text = payload.model_dump_json(exclude_defaults=True)
    event_id = digest_id(author.principal, stream, type_, text, replaces)
    return draft(type_, stream, payload, by=author.by, id=event_id, tags=author.tags)


def _summary(origin: str, counts: SyncCounts) -> str:
    said = ", ".join(f"{number} {verb}" for verb, number in counts.model_dump().items() if number)
    return f"{origin}: {said}"
