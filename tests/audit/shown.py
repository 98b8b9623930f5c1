"""States as rules show them, one line each: a listed source with nothing known, and what is said of it.

shown(quality="good", applicability="current", review=review("r1"))
"""

from __future__ import annotations

from typing import Any

from tests.rules.builders import sha


def reason(field: str, *events: int, rule: str = "rule", text: str = "why") -> dict[str, Any]:
    return {"field": field, "rule": rule, "text": text, "events": list(events)}


def review(name: str = "r1", pos: int = 10, **fields: Any) -> dict[str, Any]:
    return {"id": sha(name), "pos": pos, "rating": "good", **fields}


def pooled(name: str, pos: int, **fields: Any) -> dict[str, Any]:
    known = {
        "id": sha(name), "pos": pos, "role": "rating", "rating": "good", "dataset_revision": "data-1",
        "applicability": "current", "superseded": None, "judgments": 3,
    }  # fmt: skip
    return {**known, **fields}


def defect(name: str = "d1", pos: int = 20, **fields: Any) -> dict[str, Any]:
    return {"id": name, "pos": pos, "issue_url": "https://example.org/1", "applicability": None, **fields}


def difficulty(status: str = "not_measured", **fields: Any) -> dict[str, Any]:
    return {"status": status, "protocol": None, "pos": None, "source_revision": None, "history": [], **fields}


def shown(source: str = "A:one", **fields: Any) -> dict[str, Any]:
    known: dict[str, Any] = {
        "id": source, "origin": source.partition(":")[0], "name": None, "family": None, "dataset_id": None,
        "dataset_revision": "data-1", "revision": None, "verifier_revision": "verifier-1", "atlas_status": None,
        "is_benchmark": None, "retired": False, "quality": "unreviewed", "underlying_quality": None,
        "applicability": None, "review": None, "difficulty": difficulty(), "open_defects": [],
        "suspected_defects": [], "resolved_defects": [], "reasons": [], "review_pool": [], "attestations": [],
        "panel": {"tasks_in_conflict": 0},
    }  # fmt: skip
    return {**known, **fields}
