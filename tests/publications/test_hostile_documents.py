"""Whatever a file holds, it is taken or refused with its faults: nothing else comes out."""

from __future__ import annotations

import copy
import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.client.catalogue_rows import catalogue_digest
from ledger.client.difficulty import plan_difficulty
from ledger.client.difficulty_context import plan_context
from ledger.client.drafts import actor
from ledger.client.inventories import origins_named, read, read_inventory
from ledger.client.review_checks import read_collection
from ledger.client.review_files import RunFiles, evidence_problems
from ledger.core.errors import InvalidInput
from tests.publications.review_builder import build_review

Result = TypeVar("Result")

CATALOGUE = json.loads((Path(__file__).parent.parent / "vectors" / "catalogues" / "good" / "golden.json").read_text())
CONTEXT = {
    "reviewer_rollout_baseline": {"solved": 1, "verified": 2, "configured_model_reviewers": [{"label": "a"}]},
    "historical_reference": {"applicability": "historical", "limitations": ["b"], "artifact_path": "c"},
}
REPORT = json.loads((Path(__file__).parent.parent / "vectors" / "difficulty" / "good" / "difficulty.json").read_text())

with tempfile.TemporaryDirectory() as _folder:
    _run = build_review(Path(_folder), tasks=1, tags=[("license", "mit")])
    REVIEW = json.loads((_run / "quality-reviews.json").read_text())

anything = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 10**17) | st.floats() | st.text(max_size=5) | st.just("reviews"),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield at
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(item, (*at, key))


def replaced(document: Any, at: tuple[Any, ...], value: Any) -> Any:
    if not at:
        return value
    changed = copy.deepcopy(document)
    holder = changed
    for key in at[:-1]:
        holder = holder[key]
    holder[at[-1]] = value
    return changed


def taken(call: Callable[[], Result]) -> Result | None:
    """What the call gives; None if it refuses and names the faults."""
    try:
        return call()
    except InvalidInput as error:
        if not error.problems:
            raise
        return None


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("documents")


@given(at=st.sampled_from(list(places(REVIEW))), value=anything)
def test_a_review_document_with_anything_anywhere_is_judged(at: tuple[Any, ...], value: Any) -> None:
    parsed = read_collection(json.dumps(replaced(REVIEW, at, value)).encode())

    assert parsed.problems or parsed.collection is not None


@given(at=st.sampled_from(list(places(REPORT))), value=anything)
def test_a_report_with_anything_anywhere_is_taken_or_refused(folder: Path, at: tuple[Any, ...], value: Any) -> None:
    path = folder / "difficulty.json"
    path.write_text(json.dumps(replaced(REPORT, at, value)))

    planned = taken(lambda: plan_difficulty(path, source_id=REPORT["atlas_id"], by=actor("me")))

    assert planned is None or planned.parts


@given(st.dictionaries(st.sampled_from(["id", "origin", "tags", "is_benchmark", "more"]), anything) | anything)
def test_a_line_with_anything_is_a_row_or_refused(folder: Path, value: Any) -> None:
    path = folder / "inventory.jsonl"
    path.write_text(json.dumps(value))

    rows = taken(lambda: read_inventory(path))

    assert rows is None or len(rows) == 1


@given(at=st.sampled_from(list(places(CATALOGUE))), value=anything)
def test_a_catalogue_with_anything_anywhere_is_taken_whole_or_refused(
    folder: Path, at: tuple[Any, ...], value: Any
) -> None:
    changed = replaced(CATALOGUE, at, value)
    path = folder / "catalogue.json"
    path.write_text(json.dumps(changed))

    inventory = taken(lambda: read(path))

    if inventory is not None and inventory.revision is not None:
        assert [row.id for row in inventory.rows] == [source["id"] for source in changed["sources"]]
        assert inventory.revision == catalogue_digest(changed["sources"])
    assert all(isinstance(origin, str) for origin in origins_named(path))


@given(at=st.sampled_from(list(places(CONTEXT))), value=anything)
def test_a_context_with_anything_anywhere_is_taken_or_refused(folder: Path, at: tuple[Any, ...], value: Any) -> None:
    path = folder / "context.json"
    path.write_text(json.dumps(replaced(CONTEXT, at, value)))

    planned = taken(lambda: plan_context(path, source_id="O:one", by=actor("me")))

    assert planned is None or len(planned.parts) == 1


@given(st.dictionaries(st.sampled_from(["finding_evidence", "conversation_id", "request_ids", "prompt"]), anything))
def test_attributes_with_anything_in_them_are_judged(attributes: dict[str, Any]) -> None:
    judge = next(i for i, review in enumerate(REVIEW["reviews"]) if review["method"] == "model_judgment")

    parsed = read_collection(json.dumps(replaced(REVIEW, ("reviews", judge, "attributes"), attributes)).encode())

    assert parsed.collection is not None or parsed.problems
    problems = list(evidence_problems(parsed.reviews, {}, RunFiles(Path("/nonexistent"))))
    assert all(problem.place.startswith("/reviews/") for problem in problems)
