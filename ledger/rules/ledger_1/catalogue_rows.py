"""Catalogue rows: what is kept of one, and its digest.

The digest is SHA-256 over the row as sorted JSON, without what equals its default, so that a row means the same digest
whether its unknown fields were written as null or left out.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Final

import orjson

from ledger.core import strictjson
from ledger.rules.ledger_1.decoding import decode_row
from ledger.rules.ledger_1.environment_reading import AuthoredReview
from ledger.rules.ledger_1.model import Authored, Row, RowCount

_REQUIRED: Final = frozenset({"id", "origin"})
_REQUIRED_OF_COUNT: Final = frozenset({"basis", "rows", "revision"})
_REQUIRED_OF_EVIDENCE: Final = frozenset({"name", "sha256"})
_REQUIRED_OF_AUTHORED: Final = frozenset({"grade"})
_EMPTY: Final[tuple[Any, ...]] = (None, [], {})


def row_of(written: bytes) -> Row:
    """What is kept of a row, from its JSON."""
    said = decode_row(written)
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
        component_selector=said.component_selector,
        atlas_status=said.atlas_status,
        intended_use=said.intended_use,
        is_benchmark=said.is_benchmark,
        input_rows=said.input_rows,
        counts=tuple(
            RowCount(c.basis, c.rows, c.revision, c.evidence.sha256 if c.evidence else None) for c in said.counts
        ),
        authored=_authored(said.authored_review),
    )


def _authored(said: AuthoredReview | None) -> Authored | None:
    """An authored review without a grade rates nothing."""
    if said is None or said.grade is None:
        return None
    return Authored(said.grade, said.reviewed_at, said.dataset_revision, said.verifier_revision)


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
