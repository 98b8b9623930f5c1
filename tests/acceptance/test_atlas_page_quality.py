"""What the Atlas page says of reviews and of the Quality that they support, asked through both doors."""

from __future__ import annotations

from typing import Any

import pytest

from ledger.events.reviews import ReviewSuperseded
from tests.acceptance.curated import BAD, NO_RATING, SOME_ISSUES, Curated
from tests.acceptance.doors import rules_of
from tests.publications.review_builder import EXECUTED, INSPECTED, issue, observation


class TestQuality:
    def test_a_source_without_a_review_is_unreviewed(self, source: Curated) -> None:
        assert source.quality() == "unreviewed"
        assert source.shown()["review"] is None
        assert source.shown()["applicability"] is None

    @pytest.mark.parametrize(
        ("options", "quality"),
        [({}, "good"), (SOME_ISSUES, "some_issues"), (BAD, "bad"), (NO_RATING, "unrated")],
        ids=["good", "some-issues", "bad", "unrated"],
    )
    def test_quality_links_to_the_sample_based_review_that_it_rests_on(
        self, source: Curated, options: dict[str, Any], quality: str
    ) -> None:
        before = source.doors.size
        review = source.review(**options)

        assert source.quality(at=before) == "unreviewed"
        shown = source.shown()
        assert (shown["quality"], shown["review"]["id"]) == (quality, review)
        assert shown["review"]["rating"] == (None if quality == "unrated" else quality)
        assert shown["applicability"] == "current"

    @pytest.mark.parametrize("severity", ["medium", "high", "critical"])
    def test_good_means_that_the_sampled_review_found_no_qualifying_defect(
        self, source: Curated, severity: str
    ) -> None:
        source.review(judge_findings=[issue("low"), issue("info"), observation()])
        assert source.quality() == "good"

        source.review(judge_findings=[issue(severity)])
        assert source.quality() == "some_issues"

    def test_a_run_that_the_native_verifier_did_not_verify_is_not_good(self, source: Curated) -> None:
        source.review(tasks=2, verification=("verified", "unavailable"))

        assert source.quality() == "some_issues"

    def test_a_half_recorded_review_shows_nothing(self, source: Curated) -> None:
        before = source.doors.size

        source.review()

        published = source.doors.size
        for size in range(before, published):
            assert source.quality(at=size) == "unreviewed"
        assert source.quality(at=published) == "good"

    @pytest.mark.parametrize("who", ["curator-1", "curator-2"])
    def test_publishing_a_review_twice_is_one_publication_whoever_does_it_and_whatever_changed(
        self, source: Curated, who: str
    ) -> None:
        run = source.run_of()
        first = source.doors.record("review", "publish", run)
        source.revise(verifier="f" * 40)

        again = source.doors.tell("review", "publish", run, "--actor", who, "--actor-kind", "human")

        assert again["events"] == [event | {"already_recorded": True} for event in first]


class TestTheReview:
    def test_the_review_date_is_the_latest_actual_judgment_and_not_a_synthesis(self, source: Curated) -> None:
        source.review(tasks=2, day="2026-10-02")

        assert source.shown()["review"]["review_date"] == "2026-10-02T12:03:00Z"
        assert rules_of(source.shown(), "review")[-1] == "review.latest-judgment"

    def test_unknown_historical_dates_stay_unknown(self, source: Curated) -> None:
        def forget(document: dict[str, Any]) -> None:
            for review in document["reviews"]:
                review["reviewed_at"] = None

        source.review(edit=forget)

        assert source.shown()["review"]["review_date"] is None
        assert source.quality() == "good"

    def test_unknown_historical_revisions_stay_unknown(self, source: Curated) -> None:
        source.review(dataset_revision=None)

        shown = source.shown()
        assert shown["review"]["dataset_revision"] is None
        assert (shown["quality"], shown["applicability"]) == ("good", "unknown")

    def test_the_inspected_reference_commit_is_recorded_apart_from_native_execution(self, source: Curated) -> None:
        source.review()
        assert source.shown()["review"]["reference_commit"] is None

        source.review(inspected_commit=INSPECTED)
        review = source.shown()["review"]
        assert (review["executed_commit"], review["reference_commit"]) == (EXECUTED, INSPECTED)

    def test_three_judges_assess_each_attempt_and_are_no_additional_attempts(self, source: Curated) -> None:
        source.review(tasks=3)

        review = source.shown()["review"]
        assert (review["traces"], review["judgments"]) == (3, 9)

    def test_a_superseded_opinion_is_marked_and_its_content_stays(self, source: Curated) -> None:
        older, newer = source.review(**BAD), source.review(**SOME_ISSUES)
        before = source.doors.size

        superseded = ReviewSuperseded(review=newer, superseded_by=older, reason="the judges saw the wrong prompt")
        source.doors.append("review.superseded", source.stream, superseded)

        assert (source.quality(at=before), source.quality()) == ("some_issues", "bad")
        shown = source.shown()
        assert shown["review"]["id"] == older
        assert "review.superseded" in rules_of(shown, "review")
        published = source.shown(at=before)["review"]["pos"]
        assert source.doors.payload(published)["review"] == newer

    def test_disagreeing_judges_are_all_kept_as_they_spoke(self, source: Curated) -> None:
        source.review(judge_verdicts=("keep", "reject", "conditional"))

        events = source.doors.reader.events(streams=[source.stream], types=["judgment.recorded"])
        assert [source.doors.payload(e.pos)["verdict"] for e in events] == ["keep", "reject", "conditional"]


class TestApplicability:
    @pytest.mark.parametrize("changed", ["dataset", "verifier"])
    def test_a_changed_revision_hides_the_rating_and_keeps_its_review_link_and_date(
        self, source: Curated, changed: str
    ) -> None:
        review = source.review()
        before = source.shown()

        source.revise(**{changed: "0" * 40})

        shown = source.shown()
        assert (shown["quality"], shown["applicability"]) == ("needs_re_review", "stale")
        assert shown["review"] == before["review"]
        assert shown["review"]["id"] == review
        assert source.shown(at=before["size"]) == before | {"final": True}

    def test_a_new_review_of_the_present_revisions_brings_a_rating_back(self, source: Curated) -> None:
        source.review()
        source.revise(dataset="1" * 40, verifier="2" * 40)
        assert source.quality() == "needs_re_review"

        source.review(**SOME_ISSUES)

        assert (source.quality(), source.shown()["applicability"]) == ("some_issues", "current")

    def test_a_rating_that_covers_the_revision_that_is_pinned_again_is_shown_again(self, source: Curated) -> None:
        covered = source.dataset
        source.review()
        source.revise(dataset="3" * 40)
        assert source.quality() == "needs_re_review"

        source.revise(dataset=covered)

        assert source.quality() == "good"

    def test_a_review_of_other_data_than_the_source_s_is_refused_by_the_publisher(self, source: Curated) -> None:
        run = source.run_of(dataset_revision="4" * 40)

        error = source.doors.refused("review", "publish", run, code=5, reason="REFUSED_BY_RULES")

        assert [p["place"] for p in error["problems"]] == ["/dataset_revision"]

    def test_a_review_of_another_source_than_the_one_named_is_refused_by_the_publisher(self, source: Curated) -> None:
        run = source.run_of()

        error = source.doors.refused(
            "review", "publish", run, "--atlas-id", "MarinSkyRL:nobody", code=1, reason="INVALID_FILE"
        )

        assert any("MarinSkyRL:nobody" in p["message"] for p in error["problems"])
