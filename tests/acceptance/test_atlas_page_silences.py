"""Where the Atlas page is silent: the decisions of ledger/decisions/0006, each asked through both doors."""

from __future__ import annotations

from typing import Any

import pytest

from tests.acceptance.curated import BAD, NO_RATING, SOME_ISSUES, Curated
from tests.acceptance.doors import rules_of, text_of


@pytest.mark.parametrize("reviewed", [False, True], ids=["unreviewed", "unrated"])
def test_a_source_without_a_rating_that_gets_an_open_defect_is_some_issues(source: Curated, reviewed: bool) -> None:
    if reviewed:
        source.review(**NO_RATING)
    before = source.doors.size

    source.confirm()

    assert source.quality(at=before) == ("unrated" if reviewed else "unreviewed")
    assert source.quality() == "some_issues"
    assert rules_of(source.shown(), "quality") == ["quality.open-defect"]


class TestARatingPublishedWhileADefectIsOpen:
    @pytest.mark.parametrize("options", [{}, SOME_ISSUES], ids=["good", "some-issues"])
    def test_lifts_bad_to_nothing(self, source: Curated, options: dict[str, Any]) -> None:
        source.review(**BAD)
        source.confirm()

        source.review(**options)

        assert source.quality() == "bad"

    def test_can_lower_to_bad(self, source: Curated) -> None:
        source.review()
        source.confirm()
        before = source.doors.size

        source.review(**BAD)

        assert (source.quality(at=before), source.quality()) == ("some_issues", "bad")


class TestAfterTheLastDefectIsClosed:
    def test_the_rating_stays_and_waits_for_a_new_publication(self, source: Curated) -> None:
        source.review()
        source.confirm()
        source.repair()

        assert source.quality() == "some_issues"
        assert "waits for a new publication" in text_of(source.shown(), "quality")
        assert rules_of(source.shown(), "quality")[0] == "quality.waits-for-publication"

    def test_bad_waits_as_bad(self, source: Curated) -> None:
        source.review(**BAD)
        source.confirm()
        source.repair()
        before = source.doors.size
        source.review(**SOME_ISSUES)

        assert (source.quality(at=before), source.quality()) == ("bad", "some_issues")

    def test_a_withdrawal_waits_as_a_resolution_does(self, source: Curated) -> None:
        source.review()
        source.confirm()
        source.withdraw()
        before = source.doors.size
        assert "publish a new review collection" in text_of(source.shown(), "quality")
        source.review()

        assert (source.quality(at=before), source.quality()) == ("some_issues", "good")


def test_a_stale_source_with_an_open_defect_shows_the_defect(source: Curated) -> None:
    source.review()
    source.confirm()
    before = source.doors.size

    source.revise(verifier="b" * 40)

    shown = source.shown()
    assert source.quality(at=before) == "some_issues"
    assert (shown["quality"], shown["applicability"]) == ("some_issues", "stale")
    assert "quality.defect-before-stale" in rules_of(shown, "quality")


@pytest.mark.parametrize(("options", "quality"), [({}, "good"), (SOME_ISSUES, "some_issues"), (BAD, "bad")])
@pytest.mark.parametrize("supplement", [NO_RATING, {"review_pool_role": "verifier_defect"}], ids=["judge", "role"])
def test_a_supplemental_collection_without_a_rating_moves_no_rating(
    source: Curated, options: dict[str, Any], quality: str, supplement: dict[str, Any]
) -> None:
    rated = source.review(**options)

    source.review(**supplement)

    shown = source.shown()
    assert (shown["quality"], shown["review"]["id"]) == (quality, rated)
    assert "review.no-rating-moves-none" in rules_of(shown, "review")


def test_a_verifier_revision_that_the_catalogue_gave_is_said_to_be_from_there(source: Curated) -> None:
    source.review()
    assert source.shown()["review"]["verifier_revision_basis"] == "catalogue"
    assert "taken from the catalogue at publication" in text_of(source.shown(), "applicability")

    source.review("--verifier-revision", source.verifier)
    assert source.shown()["review"]["verifier_revision_basis"] == "publisher"
    assert "taken from the catalogue" not in text_of(source.shown(), "applicability")


class TestDifficultyWithoutAReport:
    """In both cases none could be shown; Not measured is left for sources where nothing stands in the way."""

    def test_is_withheld_while_a_confirmed_defect_is_open(self, source: Curated) -> None:
        source.review()
        source.confirm()

        assert source.difficulty() == "withheld"

    def test_needs_re_review_while_the_review_is_stale(self, source: Curated) -> None:
        source.review()
        source.revise(verifier="c" * 40)

        assert source.difficulty() == "needs_re_review"


class TestUnknownRevisions:
    def test_equal_nothing_and_the_rating_is_shown_with_that_word(self, unpinned: Curated) -> None:
        unpinned.review()

        shown = unpinned.shown()
        assert (shown["quality"], shown["applicability"]) == ("good", "unknown")
        assert shown["verifier_revision"] is None
        assert "Good, applicability unknown" in unpinned.doors.run("source", "show", unpinned.id).out

    def test_a_known_one_on_the_other_side_is_not_equal_either(self, unpinned: Curated) -> None:
        unpinned.review("--verifier-revision", "d" * 40)
        assert unpinned.shown()["applicability"] == "unknown"

        unpinned.revise(verifier="d" * 40)
        assert unpinned.shown()["applicability"] == "current"

    def test_nothing_can_be_resolved_on_them(self, unpinned: Curated) -> None:
        unpinned.confirm()
        unpinned.validate()
        unpinned.fix_review()

        error = unpinned.doors.refused("defect", "resolve", unpinned.id, "d1", code=5, reason="REFUSED_BY_RULES")

        assert any("verifier revision is unknown" in p["message"] for p in error["problems"])
        assert [d["id"] for d in unpinned.shown()["open_defects"]] == ["d1"]

    def test_of_the_data_are_stood_in_for_by_the_row_s_own_and_can_be_resolved_on(self, unpinned: Curated) -> None:
        unpinned.revise(verifier="d" * 40)
        pos = unpinned.confirm()
        assert unpinned.doors.payload(pos)["dataset_revision"] == unpinned.row["revision"]

        unpinned.repair()

        assert unpinned.shown()["dataset_revision"] is None
        assert [d["status"] for d in unpinned.shown()["resolved_defects"]] == ["resolved"]
