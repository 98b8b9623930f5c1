"""Catalogue rows: what is kept of one, and its digest.

The digest is SHA-256 over the row as sorted JSON, without what equals its default, so that a row means the same digest
whether its unknown fields were written as null or left out.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Final

import orjson

from ledger.core import strictjson
from ledger.rules.atlas_code_1.model import Authored, Row
from ledger.rules.atlas_code_1.reading import AuthoredReview, decode_row

_REQUIRED: Final = frozenset({"id", "origin"})
_REQUIRED_OF_COUNT: Final = frozenset({"basis", "rows", "revision"})
_REQUIRED_OF_EVIDENCE: Final = frozenset({"name", "sha256"})
_REQUIRED_OF_AUTHORED: Final = frozenset({"grade"})
_EMPTY: Final[tuple[Any, ...]] = (None, [], {})


def row_of(written: bytes) -> Row:
    """What is kept of a row, from its JSON."""
    said = decode_row(written)
    grading = said.extra.grading_revision
    return Row(
        origin=said.origin,
        sha256=sha256(strictjson.dumps(_without_defaults(orjson.loads(written)))).hexdigest(),
        name=said.name,
        family=said.family,
        url=said.url,
        dataset_id=said.dataset_id,
        dataset_revision=said.dataset_revision,
        revision=said.revision,
        verifier_revision=said.verifier_revision,
        atlas_status=said.atlas_status,
        intended_use=said.intended_use,
        is_benchmark=said.is_benchmark,
        input_rows=said.input_rows,
        grading_revision=grading if isinstance(grading, str) and grading else None,
        authored=_authored(said.authored_review),
    )


def _authored(said: AuthoredReview | None) -> Authored | None:
    return Authored(said.grade, said.dataset_revision, said.verifier_revision) if said else None


def _without_defaults(row: dict[str, Any]) -> dict[str, Any]:
    kept = _pruned(row, _REQUIRED)
    if "counts" in kept:
        kept["counts"] = [_count(count) for count in kept["counts"]]
    if "authored_review" in kept:
        kept["authored_review"] = _pruned(kept["authored_review"], _REQUIRED_OF_AUTHORED)
    return kept


def _count(count: dict[str, Any]) -> dict[str, Any]:
    kept = _pruned(count, _REQUIRED_OF_COUNT)
    if "evidence" in kept:
        kept["evidence"] = _pruned(kept["evidence"], _REQUIRED_OF_EVIDENCE)
    return kept


def _pruned(record: dict[str, Any], required: frozenset[str]) -> dict[str, Any]:
    """The record without fields that equal their default; what must be written stays even where it is null."""
    return {name: value for name, value in record.items() if name in required or value not in _EMPTY}
