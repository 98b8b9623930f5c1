"""Publishing a review twice is one publication, whatever changed in between."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Run

SAMPLES = Path(__file__).parents[2] / "services" / "cli" / "demo_data"
REVIEW = SAMPLES / "reviews" / "asdiv-good"


def imported(run: Run) -> None:
    assert run("catalogue", "import", SAMPLES / "atlas-sources-2026-09-29.jsonl").code == 0


def test_a_review_is_one_publication_also_after_a_revision_and_by_another_actor(run: Run) -> None:
    imported(run)
    assert run("review", "publish", REVIEW, "--json").json["recorded"] == 7
    assert run("source", "revise", "MarinSkyRL:asdiv", "--verifier-revision", "f" * 40).code == 0

    again = run("review", "publish", REVIEW, "--actor", "somebody-else", "--json").json

    assert (again["recorded"], again["already_recorded"]) == (0, 7)


def test_another_verifier_revision_for_a_published_review_is_a_conflict(run: Run) -> None:
    imported(run)
    assert run("review", "publish", REVIEW).code == 0

    other = run("review", "publish", REVIEW, "--verifier-revision", "f" * 40, "--json")

    assert (other.code, other.error["reason"]) == (5, "ID_CONFLICT")
    assert "/verifier_revision" in other.error["remedy"]


def test_the_same_verifier_revision_said_by_the_publisher_is_no_other_content(run: Run) -> None:
    imported(run)
    assert run("review", "publish", REVIEW).code == 0
    covered = run("source", "show", "MarinSkyRL:asdiv", "--json").json["review"]["verifier_revision"]

    again = run("review", "publish", REVIEW, "--verifier-revision", covered)

    assert again.code == 0
    assert "Already published at size" in again.err
