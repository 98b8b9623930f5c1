"""What is shown of a source: the fields of `Source` in audit.proto, each derived one with its reasons."""

from __future__ import annotations

from ledger.rules import State
from ledger.rules.atlas_page_1 import defects
from ledger.rules.atlas_page_1.difficulty import Difficulty, difficulty
from ledger.rules.atlas_page_1.environment import Environment
from ledger.rules.atlas_page_1.listing import Listing, catalogue_reasons, listing
from ledger.rules.atlas_page_1.model import Facts, Review
from ledger.rules.atlas_page_1.quality import applicability, quality, review_fields, review_reasons, review_shown


def show(source_id: str, facts: Facts, environment: Environment) -> State | None:
    """What is shown; None while the source is not in the catalogue."""
    listed = listing(facts, environment)
    if listed is None:
        return None
    row, review = listed.row, review_shown(facts)
    applies = applicability(review, listed)
    rated = quality(facts, review, applies, listed)
    measured = difficulty(facts, environment, listed, rated, applies)
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
        "review": review_fields(review),
        "difficulty": measured.fields(),
        "open_defects": defects.shown(facts, "open"),
        "suspected_defects": defects.shown(facts, "suspected"),
        "resolved_defects": defects.shown(facts, "resolved"),
        "reasons": [
            *rated.reasons,
            *applies.reasons,
            *review_reasons(facts, review, listed),
            *measured.reasons,
            *catalogue_reasons(listed),
        ],
        "sample": _rests_on_sample(facts, listed, review, measured),
        "retired": listed.retired,
        "row_sha256": row.sha256,
        "url": row.url,
    }


def _rests_on_sample(facts: Facts, listed: Listing, review: Review | None, measured: Difficulty) -> bool:
    return (
        listed.sample
        or facts.standing.sample
        or (review is not None and review.sample)
        or any(d.sample for d in facts.defects.values() if d.status != "withdrawn")
        or measured.sample
    )
