"""The Atlas catalogue document, schema 1: `{schema_version, revision, sources}`, into rows and back.

- Its revision is the `catalogue_digest` of its sources, and a document that says another is refused.
- A row loses nothing: what has no field of its own, or would not come back as it was (a null, an empty list, a date
  that is none), is kept in `extra`. A row that nobody changed is written as it was read, and its digest is the same.
- `task_count` is the count of input rows at the row's dataset revision, and is recorded with that basis.

    rows = read_document(path, content)
    document = catalogue_document(rows)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from ledger.client import faults
from ledger.client.catalogue_rows import FIELDS, catalogue_digest, check_size, validated
from ledger.core import clock, strictjson
from ledger.core.errors import InvalidInput, Problem
from ledger.events.catalogue import CatalogueRow

SCHEMA_VERSION: Final = 1

_AUTHORED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "grade": "quality",
        "evidence_url": "review_url",
        "reviewed_at": "review_date",
        "dataset_revision": "review_source_revision",
        "verifier_revision": "review_verifier_revision",
    }
)
"""The fields of an authored review, and their keys in a document's row."""
_OURS: Final = frozenset({"input_rows", "authored_review"})
"""Fields that a document writes under other keys."""
_REMEDY: Final = (
    "A catalogue document holds schema_version 1, the SHA-256 revision of its rows, and the rows, each with an id of "
    "its own and an origin. No row of it was taken."
)


def is_document(content: bytes) -> bool:
    """Whether the bytes mean to be a document, sound or not: the whole is one object, and no line of it is a row."""
    if content.lstrip()[:1] != b"{" or b'"schema_version"' not in content or b'"sources"' not in content:
        return False
    try:
        first = strictjson.parse(content.lstrip().partition(b"\n")[0])
    except InvalidInput:
        return True
    return not (isinstance(first, dict) and "id" in first)


def read_document(path: Path, content: bytes) -> tuple[list[CatalogueRow], str]:
    """The rows of a document, in its order, and its revision; every problem is told before anything is taken.

    Raises:
        InvalidInput: reason INVALID_FILE, with each problem at "FILE#/json/pointer".
    """
    try:
        raw = strictjson.parse(content)
    except InvalidInput as error:
        raise _refused(path, error.problems) from None
    problems = list(_form_problems(raw))
    sources = raw.get("sources") if isinstance(raw, dict) else None
    listed = sources if isinstance(sources, list) else []
    rows = _rows(listed, problems)
    if not problems and raw["revision"] != (derived := catalogue_digest(listed)):
        problems.append(Problem("/revision", f"is {raw['revision']}, but the rows hash to {derived}"))
    if problems:
        raise _refused(path, problems)
    return rows, str(raw["revision"])


def catalogue_document(rows: Iterable[CatalogueRow]) -> dict[str, Any]:
    """The rows as a document, by id, with the revision that they hash to."""
    sources = sorted((document_row(row) for row in rows), key=lambda source: str(source["id"]))
    return {"schema_version": SCHEMA_VERSION, "revision": catalogue_digest(sources), "sources": sources}


def document_row(row: CatalogueRow) -> dict[str, Any]:
    """A row under a document's keys; read again, it is the same row."""
    own = row.model_dump(exclude_defaults=True, exclude={"extra", "input_rows", "counts", "authored_review"})
    if row.input_rows is not None:
        own["task_count"] = row.input_rows
    said = row.model_dump(exclude_defaults=True)
    if said.get("counts", []) != _counts(row.input_rows, row.dataset_revision):
        own["counts"] = said.get("counts", [])
    if row.authored_review is not None:
        found = row.authored_review.model_dump()
        own |= {key: found[field] for field, key in _AUTHORED.items() if found[field] is not None}
    return {**row.extra, **own}


def _form_problems(raw: Any) -> Iterable[Problem]:
    if not isinstance(raw, dict):
        yield Problem("", "not a JSON object")
        return
    if type(raw.get("schema_version")) is not int or raw["schema_version"] != SCHEMA_VERSION:
        yield Problem("/schema_version", f"must be {SCHEMA_VERSION}")
    if not isinstance(raw.get("revision"), str) or not raw["revision"]:
        yield Problem("/revision", "must be a text that is not empty")
    if not isinstance(raw.get("sources"), list):
        yield Problem("/sources", "must be a list of rows")
    for key in raw.keys() - {"schema_version", "revision", "sources"}:
        yield Problem(strictjson.pointer(key), "schema 1 has no such key")


def _rows(sources: Sequence[Any], problems: list[Problem]) -> list[CatalogueRow]:
    rows = []
    place_of: dict[str, str] = {}
    for i, source in enumerate(sources):
        at = strictjson.pointer("sources", i)
        try:
            row = _row(source)
            check_size(row)
        except InvalidInput as error:
            problems += [Problem(at + p.place, p.message) for p in error.problems]
            continue
        if row.id in place_of:
            problems.append(Problem(f"{at}/id", f"{row.id} stands at {place_of[row.id]} already"))
        place_of.setdefault(row.id, at)
        rows.append(row)
    return rows


def _row(source: Any) -> CatalogueRow:
    """The row of a source, with all that it says.

    Raises:
        InvalidInput: with pointers within the source.
    """
    if not isinstance(source, dict):
        raise InvalidInput("not a row", problems=[Problem("", "not a JSON object")])
    known = {k: v for k, v in source.items() if k in FIELDS - _OURS and v is not None}
    count = source.get("task_count")
    if count is not None:
        known["input_rows"] = count
    if type(count) is int and "counts" not in source:
        known["counts"] = _counts(count, source.get("dataset_revision"))
    authored = {f: source[k] for f, k in _AUTHORED.items() if source.get(k) is not None}
    if not _is_moment(authored.get("reviewed_at")):
        authored.pop("reviewed_at", None)
    if authored:
        known["authored_review"] = {"grade": None, **authored}
    try:
        row = validated({**known, "extra": {}})
    except InvalidInput as error:
        # What is derived from a key is wrong only where the key is.
        own = [p for p in error.problems if "counts" in source or not p.place.startswith("/counts/")]
        raise InvalidInput("not a row", problems=[_at_its_key(p) for p in own]) from None
    given_back = document_row(row)
    rest = {k: v for k, v in source.items() if k not in given_back or not _same(given_back[k], v)}
    return row.model_copy(update={"extra": rest})


def _counts(rows: int | None, revision: Any) -> list[dict[str, Any]]:
    """What a row's task count says, with its basis."""
    return [] if rows is None else [{"basis": "input", "rows": rows, "revision": revision}]


def _is_moment(value: Any) -> bool:
    try:
        clock.from_text(value)
    except (TypeError, ValueError, AttributeError, OverflowError):
        return False
    return True


def _same(one: Any, other: Any) -> bool:
    """Whether both are written alike: true is not 1, and 1 is not 1.0."""
    return strictjson.dumps(one) == strictjson.dumps(other)


def _at_its_key(problem: Problem) -> Problem:
    """The problem at the key that the document has for the field."""
    first, _, rest = problem.place.removeprefix("/").partition("/")
    if first == "input_rows":
        return Problem("/task_count", problem.message)
    if first == "authored_review":
        return Problem(strictjson.pointer(_AUTHORED.get(rest, rest)), problem.message)
    return problem


def _refused(path: Path, problems: Iterable[Problem]) -> InvalidInput:
    placed = [Problem(f"{path}#{p.place}", p.message) for p in problems]
    return faults.refused(path, "catalogue document", placed, remedy=_REMEDY)
