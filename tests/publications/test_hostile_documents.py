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

from ledger.client.catalogue import read_inventory
from ledger.client.difficulty import plan_difficulty
from ledger.client.drafts import actor
from ledger.client.review_checks import read_collection
from ledger.core.errors import InvalidInput
from tests.publications.review_builder import build_review

Result = TypeVar("Result")

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
