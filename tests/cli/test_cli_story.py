"""A source from its first review to a resolved defect, told with commands alone, and asked about afterwards."""

from __future__ import annotations

import pytest

from services.cli.demo_plan import DATA, INVENTORY

AIME24 = "MarinSkyRL:aime24"
REVIEWS = DATA / "reviews"
CASE = DATA / "defects" / "aime24-native-input.json"


@pytest.fixture
def atlas(own):
    assert own("catalogue", "import", INVENTORY).code == 0
    return own


def shown(run, *more):
    return run("source", "show", AIME24, "--json", *more).json


def test_a_dry_run_of_a_review_tells_the_quality_that_it_would_give(atlas):
    before = shown(atlas)
    planned = atlas("review", "publish", REVIEWS / "aime24-good", "--atlas-id", AIME24, "--dry-run", "--json").json
    assert planned["source"]["quality"] == "good"
    assert planned["recorded"] == 0
    assert shown(atlas) == before
    told = atlas("review", "publish", REVIEWS / "aime24-good", "--dry-run")
    assert "quality then     Good" in told.out
    assert "nothing was" in told.err


def test_what_a_dry_run_foretells_is_what_the_publication_gives(atlas):
    planned = atlas("review", "publish", REVIEWS / "aime24-good", "--dry-run", "--json").json
    published = atlas("review", "publish", REVIEWS / "aime24-good", "--json").json
    assert [e["id"] for e in published["events"]] == [e["id"] for e in planned["events"]]
    after = shown(atlas)
    assert {k: planned["source"][k] for k in ("quality", "applicability", "reasons")} == {
        k: after[k] for k in ("quality", "applicability", "reasons")
    }
    again = atlas("review", "publish", REVIEWS / "aime24-good", "--dry-run", "--json").json
    assert again["already_recorded"] == len(again["events"])


def test_a_dry_run_of_what_the_rules_would_refuse_is_refused_with_every_reason(atlas):
    revised = atlas("source", "revise", AIME24, "--dataset-revision", "another")
    assert revised.code == 0
    size = shown(atlas)["size"]
    got = atlas("review", "publish", REVIEWS / "aime24-good", "--dry-run", "--json")
    assert got.code == 5
    assert got.error["reason"] == "REFUSED_BY_RULES"
    assert "review.published" in got.error["problems"][0]["place"]
    assert atlas("review", "publish", REVIEWS / "aime24-good").code == 5
    assert shown(atlas)["size"] == size


def test_publishing_a_review_twice_is_one_publication(atlas):
    first = atlas("review", "publish", REVIEWS / "aime24-good", "--json").json
    second = atlas("review", "publish", REVIEWS / "aime24-good", "--json").json
    assert second["recorded"] == 0
    assert [e["pos"] for e in second["events"]] == [e["pos"] for e in first["events"]]
    assert "Already published at size" in atlas("review", "publish", REVIEWS / "aime24-good").err


def test_a_defect_from_its_confirmation_to_its_resolution(atlas):
    atlas("review", "publish", REVIEWS / "aime24-good")
    atlas("difficulty", "publish", DATA / "difficulty" / "aime24-before-the-defect.json")
    rated = shown(atlas)
    assert (rated["quality"], rated["difficulty"]["status"]) == ("good", "current")

    said = ["--kind", "verifier", "--summary", "rewards 007", "--expected", "reward 0", "--observed", "reward 1"]
    issue = ["--issue", "https://example.org/sample-issues/2", "--reproduction", "grade the input"]
    assert atlas("defect", "confirm", AIME24, "zeros", *said, *issue, "--native-input", CASE).code == 0
    demoted = shown(atlas)
    assert (demoted["quality"], demoted["difficulty"]["status"]) == ("some_issues", "withheld")

    early = atlas("defect", "resolve", AIME24, "zeros")
    assert early.code == 4

    assert atlas("review", "publish", REVIEWS / "aime24-fix-validated").code == 0
    checks = [
        "--replay",
        "passed",
        CASE,
        "reward 0",
        "reward 0",
        "--control",
        "passed",
        "empty",
        "reward 0",
        "reward 0",
    ]
    assert atlas("defect", "validation", AIME24, "zeros", *checks, "--evidence", CASE).code == 0
    assert atlas("defect", "resolve", AIME24, "zeros", "--note", "fixed").code == 0
    resolved = shown(atlas)
    assert resolved["open_defects"] == []
    assert [d["id"] for d in resolved["resolved_defects"]] == ["zeros"]
    assert resolved["quality"] == "some_issues"

    assert atlas("review", "publish", REVIEWS / "aime24-good-again").code == 0
    assert shown(atlas)["quality"] == "good"
    assert shown(atlas, "--at", demoted["size"])["quality"] == "some_issues"
    assert shown(atlas, "--at", rated["size"])["difficulty"] == rated["difficulty"]

    assert atlas("source", "revise", AIME24, "--verifier-revision", "9" * 40).code == 0
    assert shown(atlas)["quality"] == "needs_re_review"
    assert shown(atlas)["review"]["review_date"] is not None

    assert atlas("defect", "reopen", AIME24, "zeros", "--reason", "there again").code == 0
    assert [d["id"] for d in shown(atlas)["open_defects"]] == ["zeros"]
    assert shown(atlas)["quality"] == "needs_re_review"
    assert atlas("projection", "rebuild", "--json").json["equal"]
