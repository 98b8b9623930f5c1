"""What is shown of a source: the fields of `Source` in audit.proto, each derived one with its reasons."""

from __future__ import annotations

from ledger.rules import State
from ledger.rules.atlas_code_1 import defects
from ledger.rules.atlas_code_1.columns import Columns, columns
from ledger.rules.atlas_code_1.difficulty import Difficulty, difficulty
from ledger.rules.atlas_code_1.environment import Environment
from ledger.rules.atlas_code_1.listing import Listing, catalogue_reasons, listing
from ledger.rules.atlas_code_1.model import Facts
from ledger.rules.atlas_code_1.quality import Judged, applicability, quality
from ledger.rules.atlas_code_1.reviews import review_fields, review_reasons


def show(source_id: str, facts: Facts, environment: Environment) -> State | None:
    """What is shown; None while the source is not in the catalogue."""
    listed = listing(facts, environment)
    if listed is None:
        return None
    row, shown = listed.row, columns(facts, environment, listed)
    applies = applicability(facts, shown, listed)
    rated = quality(facts, shown, applies, listed)
    measured = difficulty(facts, shown, rated, applies, listed)
    return {
        "id": source_id,
        "origin": row.origin,
        "name": row.name,
        "family": row.family,
        "dataset_id": row.dataset_id,
        "dataset_revision": row.dataset_revision,
        "revision": row.revision,
        "verifier_revision": row.verifier_revision,
        "atlas_status": row.atlas_status,
        "intended_use": row.intended_use,
        "is_benchmark": row.is_benchmark,
        "input_rows": row.input_rows,
        "quality": rated.value,
        "applicability": applies.value,
        "review": review_fields(shown),
        "difficulty": measured.fields(),
        "open_defects": defects.shown(facts, "open"),
        "suspected_defects": defects.shown(facts, "suspected"),
        "resolved_defects": defects.shown(facts, "resolved"),
        "reasons": [
            *rated.reasons,
            *applies.reasons,
            *review_reasons(facts, shown, listed),
            measured.reason,
            *catalogue_reasons(listed),
        ],
        "sample": _rests_on_sample(facts, listed, shown, applies, measured),
        "retired": listed.retired,
        "row_sha256": row.sha256,
        "url": row.url,
    }


def _rests_on_sample(facts: Facts, listed: Listing, row: Columns, applies: Judged, measured: Difficulty) -> bool:
    return (
        listed.sample
        or facts.standing.sample
        or (row.review is not None and row.review.sample)
        or applies.sample
        or any(d.sample for d in facts.defects.values() if d.status != "withdrawn")
        or measured.sample
    )
