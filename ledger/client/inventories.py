"""An inventory's file into rows: JSONL, one source a line, or the Atlas catalogue document of schema 1.

A file is read whole or refused whole, with every problem at its place. Keys without a field of their own are kept.

    inventory = read(path)
    inventory.rows, inventory.revisions
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from ledger.client import faults
from ledger.client.catalogue_document import is_document, read_document
from ledger.client.catalogue_rows import FIELDS, MAX_ORIGIN, as_listed, catalogue_digest, check_size, validated
from ledger.client.drafts import Upload
from ledger.core import strictjson
from ledger.core.errors import InvalidInput, Problem
from ledger.core.ids import sha256_hex
from ledger.core.text import is_header_text
from ledger.events.catalogue import CatalogueRow
from ledger.events.fields import ArtifactRef

_REMEDY: Final = 'Write one JSON object a line, each with an "id" of its own and an "origin". No row of it was taken.'


@dataclass(frozen=True)
class InventoryRevision:
    """What an inventory's owner says of its own revision of one origin."""

    revision: str | None = None
    revised_at: str | None = None


@dataclass(frozen=True)
class Inventory:
    """A file that is sound: its rows, and its bytes as evidence."""

    path: Path
    rows: tuple[CatalogueRow, ...]
    revision: str | None
    """The document's own, over all its rows; None for JSONL, which states none."""
    reference: ArtifactRef
    upload: Upload

    @property
    def origins(self) -> list[str]:
        return sorted({row.origin for row in self.rows})

    @property
    def revisions(self) -> Mapping[str, InventoryRevision]:
        """The revision of each origin: the document's, or else the digest of the origin's rows."""
        return MappingProxyType({origin: InventoryRevision(self._revision_of(origin)) for origin in self.origins})

    def _revision_of(self, origin: str) -> str:
        if self.revision is not None:
            return self.revision
        return catalogue_digest(as_listed(row) for row in self.rows if row.origin == origin)


def read(path: Path) -> Inventory:
    """Reads and judges a file of either form.

    Raises:
        InvalidInput: reason INVALID_FILE, with every problem.
    """
    content = _content(path)
    document = is_document(content)
    rows, revision = read_document(path, content) if document else (_read_lines(path, content), None)
    upload = Upload(sha256_hex(content), len(content), content)
    media_type = "application/json" if document else "application/x-ndjson"
    reference = ArtifactRef(name=path.name, sha256=upload.sha256, size=upload.size, media_type=media_type)
    return Inventory(path, tuple(rows), revision, reference, upload)


def read_inventory(path: Path) -> list[CatalogueRow]:
    """The rows of a file of either form, in its order.

    Raises:
        InvalidInput: reason INVALID_FILE, with every problem: a bad line at "FILE:LINE".
    """
    return list(read(path).rows)


def inventory_artifact(path: Path) -> tuple[ArtifactRef, Upload]:
    """The inventory's bytes as evidence: how an event cites them, and the upload that must come before."""
    inventory = read(path)
    return inventory.reference, inventory.upload


def origins_named(path: Path) -> list[str]:
    """The origins that a file names, sound or not: of whom it was to be a refresh."""
    try:
        content = path.read_bytes()
    except OSError:
        return []
    found = (row.get("origin") for row in _listed(content) if isinstance(row, dict))
    return sorted({name for name in found if isinstance(name, str) and is_header_text(name, MAX_ORIGIN)})


def _listed(content: bytes) -> Iterator[Any]:
    """What stands in the place of rows, as far as it is strict JSON."""
    for part in [content] if is_document(content) else content.split(b"\n"):
        try:
            found = strictjson.parse(part)
        except InvalidInput:
            continue
        sources = found.get("sources") if isinstance(found, dict) and is_document(content) else [found]
        yield from sources if isinstance(sources, list) else ()


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise faults.unreadable(path, error) from None


def _read_lines(path: Path, content: bytes) -> list[CatalogueRow]:
    rows: list[CatalogueRow] = []
    problems: list[Problem] = []
    line_of: dict[str, int] = {}
    for number, line in enumerate(content.split(b"\n"), start=1):
        if not line.strip():
            continue
        place = f"{path}:{number}"
        try:
            row = _read_row(line)
            check_size(row)
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


def _read_row(line: bytes) -> CatalogueRow:
    listed = strictjson.parse(line)
    if not isinstance(listed, dict):
        raise InvalidInput("not a row", problems=[Problem("", "not a JSON object")])
    # A null says as little as an absent key.
    known = {key: value for key, value in listed.items() if key in FIELDS and value is not None}
    extra = {key: value for key, value in listed.items() if key not in FIELDS}
    return validated({**known, "extra": extra})
