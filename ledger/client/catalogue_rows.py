"""One row of the catalogue: what a listing must say of a source to become one, and the digests of rows.

A digest depends on what rows say and not on how a file is laid out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pydantic import ValidationError

from ledger.core import strictjson
from ledger.core.errors import InvalidInput, Problem
from ledger.core.ids import sha256_hex
from ledger.core.text import is_header_text
from ledger.events.catalogue import CatalogueRow
from ledger.events.wording import words

FIELDS: Final = frozenset(CatalogueRow.model_fields) - {"extra"}
MAX_ORIGIN: Final = 505
"""With "origin/" before it, an origin names a stream of at most 512 bytes."""

MAX_ROW: Final = 1024 * 1024 - 4096
"""A payload is at most 1 MiB, and says a little beside its row."""


def validated(fields: dict[str, Any]) -> CatalogueRow:
    """The row.

    Raises:
        InvalidInput: with every field that is wrong, at its pointer within the row.
    """
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


def check_size(row: CatalogueRow) -> None:
    """Refuses a row that does not fit into one event.

    Raises:
        InvalidInput: with its size.
    """
    size = len(row.model_dump_json(exclude_defaults=True).encode())
    if size > MAX_ROW:
        found = Problem("", f"the row is {size:,} bytes as an event, at most {MAX_ROW:,} fit")
        raise InvalidInput("not a catalogue row", problems=[found])


def row_digest(row: CatalogueRow) -> str:
    """SHA-256 over what the row says; a field added later, at its default, changes no digest."""
    return sha256_hex(strictjson.dumps(row.model_dump(exclude_defaults=True)))


def catalogue_digest(rows: Iterable[Mapping[str, Any]]) -> str:
    """The revision that the Atlas gives to rows: it depends on what they say, not on how the file is laid out."""
    ordered = sorted(rows, key=lambda row: row["id"])
    return sha256_hex(json.dumps(ordered, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode())


def as_listed(row: CatalogueRow) -> dict[str, Any]:
    """The row as a JSONL inventory lists it: what is known, each key at the top."""
    return {**row.model_dump(exclude_defaults=True, exclude={"extra"}), **row.extra}


def _problem(error: Any) -> Problem:
    message = words(error)
    if error["loc"] == ("id",) and error["type"] == "string_pattern_mismatch":
        message = "an id names a stream: 1 to 500 printable ASCII characters"
    return Problem(strictjson.pointer(*error["loc"]), message)
