"""What an attestation's own comparison shows before anything is published that rests on it."""

from __future__ import annotations

from typing import Any

import pytest

from ledger.client.attested import differences
from ledger.events.attestations import AttestationRecorded
from ledger.events.fields import ArtifactRef

A, B = "a" * 64, "b" * 64
EVIDENCE = ArtifactRef(name="comparison.json", sha256=A)


def attested(kind: str, **claim: Any) -> AttestationRecorded:
    return AttestationRecorded.model_validate(
        {
            "source_id": "O:one",
            "kind": kind,
            "subject": "s",
            "evidence": [EVIDENCE],
            "scope": "What is compared.",
            "attested_at": None,
            kind: claim,
        }
    )


def implementation(**changed: Any) -> AttestationRecorded:
    definition = {"name": "load", "original_sha256": A, "executed_sha256": A}
    claim = {
        "script": "make_review.py",
        "original_sha256": A,
        "executed_sha256": B,
        "roots": ["load"],
        "definitions": [definition],
        "original_closure_sha256": A,
        "executed_closure_sha256": A,
        "encoding": "e",
    }
    return attested("execution_implementation", **{**claim, **changed})


CHANGED = [{"name": "load", "original_sha256": A, "executed_sha256": B}]
GONE = [{"name": "load", "original_sha256": A, "executed_sha256": None}]
VALIDATED = {
    "evidence": [EVIDENCE],
    "validated_by": {"id": "p", "label": "P", "kind": "human"},
    "note": "Ran both.",
}


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({}, []),
        ({"definitions": CHANGED}, ["load"]),
        ({"definitions": GONE}, ["load"]),
        ({"executed_closure_sha256": B}, ["the closure"]),
        ({"definitions": CHANGED, "validation": VALIDATED}, []),
    ],
)
def test_changed_code_is_a_difference_unless_it_was_validated_and_a_moved_file_hash_is_none(
    changed: dict[str, Any], found: list[str]
) -> None:
    assert differences(implementation(**changed)) == found


@pytest.mark.parametrize(
    ("current", "selection", "found"),
    [
        (A, None, []),
        (B, None, ["train.parquet"]),
        (A, {"current_selector": "other"}, ["the selection"]),
        (A, {"current_rows": 6}, ["the selection"]),
        (A, {"executed_rows_sha256": A, "current_rows_sha256": B}, ["the selection"]),
        (A, {"executed_rows_sha256": A}, []),
    ],
)
def test_other_bytes_and_another_selection_are_differences_and_unknown_rows_are_none(
    current: str, selection: dict[str, Any] | None, found: list[str]
) -> None:
    same = {"executed_selector": "all", "current_selector": "all", "executed_rows": 5, "current_rows": 5}
    claim = {
        "executed_revision": "d1",
        "current_revision": "d2",
        "files": [{"path": "train.parquet", "executed_sha256": A, "current_sha256": current}],
        "selection": selection and {**same, **selection},
    }

    assert differences(attested("dataset_revision", **claim)) == found


@pytest.mark.parametrize(("there", "found"), [("1" * 40, []), ("2" * 40, ["gym"]), (None, [])])
def test_another_object_of_a_path_is_a_difference(there: str | None, found: list[str]) -> None:
    objects = [{"path": "gym", "reviewed_object": "1" * 40, "registry_object": there}]
    claim = {"reviewed_commit": "3" * 40, "registry_commit": "4" * 40, "dirty": False, "objects": objects}

    assert differences(attested("native_revision", **claim)) == found


@pytest.mark.parametrize(
    ("manifest", "program", "found"), [(A, A, []), (B, A, ["the manifest"]), (A, B, ["gym"]), (A, None, [])]
)
def test_another_manifest_and_another_program_are_differences(
    manifest: str, program: str | None, found: list[str]
) -> None:
    claim = {
        "review": A,
        "source_revision": "d1",
        "captured_verifier_revision": "v1",
        "grading_revision": A,
        "manifest_sha256": manifest,
        "programs": [{"route": "gym", "executed_sha256": program, "manifest_sha256": A}],
    }

    assert differences(attested("grading_applicability", **claim)) == found
