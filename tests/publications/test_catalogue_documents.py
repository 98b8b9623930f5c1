"""The catalogue document of schema 1: judged whole, read without loss, written again as it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.client import catalogue_document as documents
from ledger.client.catalogue import CurrentSource, plan_import
from ledger.client.catalogue_document import catalogue_document, document_row, read_document
from ledger.client.catalogue_rows import catalogue_digest, row_digest
from ledger.client.drafts import actor
from ledger.client.inventories import origins_named, read, read_inventory
from ledger.core.errors import InvalidInput
from ledger.events import REGISTRY
from ledger.events.catalogue import AuthoredReview, CatalogueRow, RowCount

VECTORS = Path(__file__).parent.parent / "vectors" / "catalogues"
BAD = json.loads((VECTORS / "expected.json").read_text())
LINES = Path(__file__).parent.parent / "vectors" / "inventories" / "good" / "two-origins.jsonl"

WHOLE: dict[str, Any] = {
    "id": "MarinSkyRL:svamp",
    "name": "svamp",
    "display_name": "SVAMP · 700",
    "origin": "MarinSkyRL",
    "family": "math-answer",
    "tags": ["license:mit"],
    "task_count": 700,
    "notes": None,
    "dataset_id": "ChilleD/SVAMP",
    "dataset_revision": "5e0bf1e5e7c0e9c4bc39180d224f41f3f801b7ef",
    "url": "https://huggingface.co/datasets/ChilleD/SVAMP",
    "canonical_source": "ChilleD/SVAMP",
    "canonical_url": None,
    "verifier_revision": "88660ec860e483213c2a1c5e03d7f1c483e93ab25860648ae40a656fcb876db4",
    "verifier_url": "https://example.org/verifier",
    "verifier_name": "aime",
    "type": "RLVR",
    "turns": "Single-turn",
    "is_benchmark": False,
    "kind": "Dataset",
    "status": "Available",
    "pipeline": {"name": "p", "version": "1", "source": None, "revision": "r", "files": []},
    "quality": "good",
    "review_url": "https://example.org/review",
    "review_date": "2026-09-29T10:00:00Z",
    "review_source_revision": "5e0bf1e5e7c0e9c4bc39180d224f41f3f801b7ef",
    "review_verifier_revision": None,
    "difficulty": None,
    "traces": None,
    "grading_revision": "a" * 64,
    "grading_manifest": {"schema_version": 1, "routes": {}},
    "grading_scope": {"entrypoint": "e", "mode": "legacy", "agents": []},
}


def taken(source: dict[str, Any]) -> CatalogueRow:
    document = {"schema_version": 1, "revision": catalogue_digest([source]), "sources": [source]}
    rows, _ = read_document(Path("c.json"), json.dumps(document).encode())
    return rows[0]


@pytest.mark.parametrize("name", sorted(p.name for p in (VECTORS / "bad").iterdir()))
def test_a_bad_document_is_refused_with_every_fault_and_its_place(name: str) -> None:
    path = VECTORS / "bad" / name

    with pytest.raises(InvalidInput) as refused:
        read(path)

    assert refused.value.reason == "INVALID_FILE"
    assert refused.value.remedy
    assert {f"{path}#{place}" for place in BAD[name]} == {p.place for p in refused.value.problems}
    for place, said in BAD[name].items():
        assert any(said in p.message for p in refused.value.problems if p.place == f"{path}#{place}")


def test_every_bad_document_is_expected() -> None:
    assert {p.name for p in (VECTORS / "bad").iterdir()} == BAD.keys()


def test_the_golden_documents_have_the_golden_revisions() -> None:
    golden = read(VECTORS / "good" / "golden.json")
    empty = read(VECTORS / "good" / "empty.json")

    assert golden.revision == "37ec6c5b4cc1f965f99c2de57b41706d845df9709a457e8559900e245753714d"
    assert empty.revision == "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945"
    assert (empty.rows, empty.origins) == ((), [])


def test_the_document_s_revision_is_that_of_each_of_its_origins_and_lines_have_one_of_their_own() -> None:
    golden, lines = read(VECTORS / "good" / "golden.json"), read(LINES)

    assert {stated.revision for stated in golden.revisions.values()} == {golden.revision}
    assert len({stated.revision for stated in lines.revisions.values()}) == 2


def test_each_key_of_a_row_has_its_field_or_is_kept_as_it_was() -> None:
    row = taken(WHOLE)

    assert row.input_rows == 700
    assert row.counts == [RowCount(basis="input", rows=700, revision=WHOLE["dataset_revision"])]
    assert row.authored_review == AuthoredReview(
        grade="good",
        evidence_url="https://example.org/review",
        reviewed_at="2026-09-29T10:00:00Z",
        dataset_revision=WHOLE["dataset_revision"],
        verifier_revision=None,
    )
    assert row.verifier_revision == WHOLE["verifier_revision"]
    assert row.extra["turns"] == "Single-turn"
    assert row.extra["pipeline"] == WHOLE["pipeline"]
    assert row.extra["grading_revision"] == "a" * 64
    assert row.extra["notes"] is None
    assert "task_count" not in row.extra


def test_the_authored_review_has_a_key_for_each_of_its_fields() -> None:
    assert documents._AUTHORED.keys() == AuthoredReview.model_fields.keys()


def test_a_row_is_written_as_it_was_read_and_the_document_has_its_revision() -> None:
    row = taken(WHOLE)

    assert json.dumps(document_row(row), sort_keys=True) == json.dumps(WHOLE, sort_keys=True)
    assert catalogue_document([row])["revision"] == catalogue_digest([WHOLE])


values = st.none() | st.booleans() | st.integers(0, 5) | st.sampled_from([1.5, "", "x", [], {}, "2026-09-29", "good"])


@given(st.dictionaries(st.sampled_from([*WHOLE, "input_rows", "counts", "extra", "authored_review"]), values))
def test_whatever_a_row_says_it_is_written_as_it_was_read_or_refused(said: dict[str, Any]) -> None:
    source = {**said, "id": "O:a", "origin": "O"}

    try:
        row = taken(source)
    except InvalidInput:
        return

    assert json.dumps(document_row(row), sort_keys=True) == json.dumps(source, sort_keys=True)
    assert row_digest(taken(document_row(row))) == row_digest(row)


def test_a_line_inventory_s_row_survives_a_document() -> None:
    for row in read_inventory(LINES):
        assert row_digest(taken(document_row(row))) == row_digest(row)


def test_an_unknown_count_stays_unknown_and_zero_is_a_count() -> None:
    unknown, none = taken({**WHOLE, "task_count": None}), taken({**WHOLE, "task_count": 0})

    assert (unknown.input_rows, unknown.counts) == (None, [])
    assert (none.input_rows, [c.rows for c in none.counts]) == (0, [0])


def test_a_date_that_is_none_is_kept_as_it_was_and_stays_unknown() -> None:
    row = taken({**WHOLE, "review_date": "last autumn"})

    assert row.authored_review is not None
    assert row.authored_review.reviewed_at is None
    assert row.extra["review_date"] == "last autumn"


def test_a_changed_count_is_written_with_its_basis() -> None:
    counted = taken(WHOLE).model_copy(update={"counts": [RowCount(basis="clean", rows=690, revision="run")]})

    written = document_row(counted)

    assert written["task_count"] == 700
    assert written["counts"] == [{"basis": "clean", "rows": 690, "revision": "run"}]
    assert row_digest(taken(written)) == row_digest(counted)


def test_the_payloads_of_a_document_s_import_pass_the_quick_check(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text(json.dumps(catalogue_document([taken(WHOLE)])))
    inventory = read(path)

    [publication] = plan_import(
        inventory.rows,
        {},
        by=actor("curator-1"),
        partial=False,
        base={},
        inventory=inventory.reference,
        revisions=inventory.revisions,
    )

    for made in publication.drafts:
        quick = REGISTRY.get(made.type, 1).quick
        assert quick is not None
        assert quick(made.payload)
    assert json.loads(publication.drafts[-1].payload)["revision"] == inventory.revision


@pytest.mark.parametrize("pretty", [True, False])
def test_a_row_that_no_event_can_hold_is_refused_before_anything_is_sent(tmp_path: Path, pretty: bool) -> None:
    source = {"id": "O:a", "origin": "O", "grading_manifest": {"text": "x" * 1024 * 1024}}
    path = tmp_path / "c.json"
    document = {"schema_version": 1, "revision": catalogue_digest([source]), "sources": [source]}
    path.write_text(json.dumps(document) if pretty else json.dumps(source))

    with pytest.raises(InvalidInput) as refused:
        read(path)

    assert "at most" in refused.value.problems[0].message
    assert refused.value.problems[0].place == (f"{path}#/sources/0" if pretty else f"{path}:1")


def test_one_line_that_speaks_of_sources_is_a_row_and_no_document(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    path.write_text('{"id": "O:a", "origin": "O", "schema_version": 1, "sources": []}\n')

    assert read(path).rows[0].extra == {"schema_version": 1, "sources": []}


def test_the_origins_of_a_file_are_known_as_far_as_it_can_be_read(tmp_path: Path) -> None:
    lines = tmp_path / "lines.jsonl"
    lines.write_text('{"origin": "B"}\nnot json\n{"origin": "A", "id": 7}\n{"origin": "\\u0007"}\n[1]\n')

    assert origins_named(lines) == ["A", "B"]
    assert origins_named(VECTORS / "bad" / "many-rows-are-wrong.json") == ["O"]
    assert origins_named(VECTORS / "bad" / "cut-off.json") == []
    assert origins_named(VECTORS / "bad" / "sources-are-an-object.json") == []
    assert origins_named(tmp_path / "absent") == []


def test_a_forced_refresh_of_what_is_equal_has_no_parts_and_says_that_it_is_forced() -> None:
    row = taken(WHOLE)

    [publication] = plan_import(
        [row],
        {row.id: CurrentSource(row_digest(row), row.origin, retired=False)},
        by=actor("me"),
        partial=False,
        base={"MarinSkyRL": "b"},
        force=True,
    )

    said = json.loads(publication.drafts[-1].payload)
    assert publication.parts == ()
    assert (said["forced"], said["replaces"], said["parts"]["count"], said["row_count"]) == (True, "b", 0, 1)
