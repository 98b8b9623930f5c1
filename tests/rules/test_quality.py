"""Quality in the words of the Atlas page, one test a rule."""

from __future__ import annotations

import pytest

from .builders import (
    DATA,
    SOURCE,
    Story,
    bad,
    confirmed,
    declared,
    finding,
    good,
    judgment,
    published,
    reinstated,
    reopened,
    report,
    resolved,
    retired,
    revised,
    run,
    sha,
    some_issues,
    superseded,
    suspected,
    synced,
    synthesis,
    tag,
    withdrawn,
)

SUPPLEMENTAL_JUDGE = "model:Qwen/Qwen3-Coder-30B-A3B-Instruct"


def rated(*parts, **fields) -> str | None:
    """The rating that a collection of these parts supports."""
    story = Story().listed()
    story.review("r1", lambda _: parts, **fields)
    return story.shown()["review"]["rating"]


class TestTheRatingOfACollection:
    def test_good_when_the_synthesis_keeps_all_native_runs_are_verified_and_nothing_qualifies(self):
        assert rated(*good("r1")) == "good"

    def test_bad_when_the_synthesis_and_most_judges_reject_and_an_issue_is_severe(self):
        assert rated(*bad("r1")) == "bad"

    def test_half_of_the_judges_rejecting_is_no_majority(self):
        judges = [judgment("r1", "reject", finding("critical")), judgment("r1", "keep")]
        assert rated(run("r1"), *judges, synthesis("r1", "reject")) == "some_issues"

    def test_rejection_without_a_severe_issue_is_not_bad(self):
        judges = [judgment("r1", "reject", finding("medium"))] * 3
        assert rated(run("r1"), *judges, synthesis("r1", "reject")) == "some_issues"

    def test_the_majority_is_over_all_votes_of_all_tasks(self):
        votes = ["reject"] * 5 + ["keep"] * 4
        judges = [judgment("r1", v, finding("high")) for v in votes]
        assert rated(run("r1"), *judges, synthesis("r1", "reject")) == "bad"

    def test_a_severe_issue_of_the_source_synthesis_counts_too(self):
        judges = [judgment("r1", "reject")] * 3
        assert rated(run("r1"), *judges, synthesis("r1", "reject", finding("high"))) == "bad"

    def test_one_medium_issue_of_one_judge_blocks_good_though_the_synthesis_overrules_it(self):
        assert rated(*some_issues("r1")) == "some_issues"

    @pytest.mark.parametrize(
        "harmless", [finding("low"), finding("info"), finding(None), finding("info", "observation")]
    )
    def test_low_issues_and_observations_do_not_block_good(self, harmless):
        assert rated(run("r1"), judgment("r1", "keep", harmless), synthesis("r1")) == "good"

    @pytest.mark.parametrize("verdict", ["conditional", "inconclusive", "unrated", "reject"])
    def test_without_a_keeping_synthesis_it_is_not_good(self, verdict):
        assert rated(run("r1"), synthesis("r1", verdict)) == "some_issues"

    def test_without_a_native_run_it_is_not_good(self):
        assert rated(judgment("r1"), synthesis("r1")) == "some_issues"

    @pytest.mark.parametrize("status", ["unavailable", "error", "skipped"])
    def test_one_native_run_that_is_not_verified_blocks_good(self, status):
        assert rated(*good("r1"), run("r1", status=status)) == "some_issues"

    def test_the_status_may_stand_among_the_attributes_as_the_document_has_it(self):
        attributes = {"verification": {"status": "verified"}}
        assert rated(run("r1", verification=None, attributes=attributes), synthesis("r1")) == "good"
        assert (
            rated(run("r1", verification=None, attributes={"verification": "verified"}), synthesis("r1"))
            == "some_issues"
        )

    def test_a_static_inspection_is_no_native_run(self):
        assert rated(run("r1", method="static_inspection"), synthesis("r1")) == "some_issues"

    def test_task_syntheses_human_judgments_and_findings_of_runs_never_move_it(self):
        parts = [
            run("r1", findings=[finding("critical")]),
            judgment("r1", "reject", finding("critical"), method="human_judgment"),
            synthesis("r1", "reject", finding("critical"), level="task"),
            synthesis("r1"),
        ]
        assert rated(*parts) == "good"

    def test_without_judges_it_can_be_good(self):
        assert rated(run("r1"), synthesis("r1")) == "good"

    def test_a_supplemental_judge_gives_no_rating(self):
        judge = judgment("r1", by=SUPPLEMENTAL_JUDGE)
        assert rated(*good("r1"), judge) is None

    @pytest.mark.parametrize("role", ["verifier_defect", "verifier_revision_attestation"])
    def test_a_supplemental_role_gives_no_rating(self, role):
        assert rated(*good("r1"), review_pool_role=role) is None

    def test_why_it_gives_no_rating_is_said(self):
        for fields, parts, rule in (
            ({"review_pool_role": "verifier_defect"}, good("r1"), "review.supplemental-role"),
            ({}, [*good("r1"), judgment("r1", by=SUPPLEMENTAL_JUDGE)], "review.supplemental-judge"),
            ({}, [run("r1")], "review.source-synthesis"),
        ):
            story = Story().listed()
            story.review("r1", lambda _, parts=parts: parts, **fields)
            assert story.rules_of("review")[0] == rule

    def test_two_source_syntheses_give_no_rating(self):
        assert rated(*good("r1"), synthesis("r1")) is None


class TestTheWordShown:
    def test_unreviewed_without_a_review(self):
        assert Story().listed().shown()["quality"] == "unreviewed"

    def test_unrated_with_a_review_that_gives_no_rating(self):
        story = Story().listed()
        story.review("r1", lambda c: [run(c)])
        assert story.shown()["quality"] == "unrated"
        assert "review.source-synthesis" in story.rules_of("review")

    @pytest.mark.parametrize(("kind", "word"), [(good, "good"), (some_issues, "some_issues"), (bad, "bad")])
    def test_the_rating_of_the_review(self, kind, word):
        story = Story().listed()
        story.review("r1", kind)
        assert story.shown()["quality"] == word

    def test_parts_count_only_once_their_collection_is_published(self):
        story = Story().listed()
        ids = [story.add(part) for part in good("r1")]
        assert story.shown()["quality"] == "unreviewed"
        story.add(published("r1", "r1", ids))
        assert story.shown()["quality"] == "good"

    def test_parts_that_come_after_the_publication_count_for_nothing(self):
        story = Story().listed()
        story.review("r1")
        story.add(judgment("r1", "reject", finding("critical")))
        assert (story.shown()["quality"], story.shown()["review"]["judgments"]) == ("good", 3)
        assert story.facts_of(SOURCE).pending == {}

    def test_the_newest_rating_is_the_rating(self):
        story = Story().listed()
        story.review("r1", bad)
        story.review("r2", good)
        assert (story.shown()["quality"], story.shown()["review"]["id"]) == ("good", sha("r2"))

    def test_a_supplemental_review_never_moves_a_rating(self):
        story = Story().listed()
        story.review("r1", good)
        story.review("r2", lambda c: [*bad(c), judgment(c, by=SUPPLEMENTAL_JUDGE)])
        assert (story.shown()["quality"], story.shown()["review"]["id"]) == ("good", sha("r1"))
        assert "review.no-rating-moves-none" in story.rules_of("review")

    def test_a_publication_recorded_twice_counts_once(self):
        story = Story().listed()
        story.review("r1", good)
        story.add(published("r1", "other", []))
        assert story.shown()["quality"] == "good"


class TestDefects:
    def test_a_suspicion_alone_confirms_nothing(self):
        story = Story().listed()
        story.review("r1")
        story.add(suspected())
        shown = story.shown()
        assert (shown["quality"], [d["status"] for d in shown["suspected_defects"]]) == ("good", ["suspected"])
        assert shown["open_defects"] == []

    def test_a_second_suspicion_changes_nothing_of_a_known_defect(self):
        story = Story().listed()
        story.add(suspected("d1", "verifier"))
        story.add(confirmed("d2"))
        before = story.shown()
        story.add(suspected("d1", "judge-output"))
        story.add(suspected("d2", "judge-output"))
        assert story.shown() == before

    def test_what_was_withdrawn_can_be_suspected_again(self):
        story = Story().listed()
        story.add(suspected("d1", "verifier"))
        story.add(withdrawn())
        story.add(suspected("d1", "judge-output"))
        assert [d["kind"] for d in story.shown()["suspected_defects"]] == ["judge-output"]

    @pytest.mark.parametrize("kind", [good, some_issues])
    def test_a_confirmed_defect_demotes_good_to_some_issues(self, kind):
        story = Story().listed()
        story.review("r1", kind)
        story.add(confirmed())
        assert story.shown()["quality"] == "some_issues"
        assert story.cited_by("quality.open-defect") == ["defect.confirmed"]

    def test_bad_stays_bad(self):
        story = Story().listed()
        story.review("r1", bad)
        story.add(confirmed())
        assert story.shown()["quality"] == "bad"
        assert "Bad stays Bad" in story.text_of("quality.open-defect")

    def test_an_unreviewed_source_with_an_open_defect_is_some_issues(self):
        story = Story().listed()
        story.add(confirmed())
        assert story.shown()["quality"] == "some_issues"

    def test_an_unrated_source_with_an_open_defect_is_some_issues(self):
        story = Story().listed()
        story.review("r1", lambda c: [run(c)])
        story.add(confirmed())
        assert story.shown()["quality"] == "some_issues"

    def test_good_cannot_return_while_a_defect_is_open(self):
        story = Story().listed()
        story.add(confirmed())
        story.review("r1", good)
        shown = story.shown()
        assert (shown["quality"], shown["review"]["rating"]) == ("some_issues", "good")
        assert story.rules_of("quality") == ["quality.open-defect", "quality.review-supports"]
        assert story.text_of("quality.review-supports").startswith("The review itself supports Good: ")

    def test_a_new_review_cannot_lift_bad_while_a_defect_is_open(self):
        story = Story().listed()
        story.review("r1", bad)
        story.add(confirmed())
        story.review("r2", good)
        story.review("r3", some_issues)
        assert story.shown()["quality"] == "bad"

    def test_a_new_review_can_lower_to_bad_while_a_defect_is_open(self):
        story = Story().listed()
        story.review("r1", good)
        story.add(confirmed())
        story.review("r2", bad)
        assert story.shown()["quality"] == "bad"

    def test_after_the_last_resolution_the_rating_waits_for_a_new_publication(self):
        story = Story().listed()
        story.review("r1", good)
        story.add(confirmed())
        story.resolve()
        assert story.shown()["quality"] == "some_issues"
        assert story.cited_by("quality.waits-for-publication") == ["defect.confirmed", "defect.resolved"]
        assert story.rules_of("quality") == ["quality.waits-for-publication", "quality.review-supports"]
        story.review("r2", good)
        assert story.shown()["quality"] == "good"
        assert story.rules_of("quality") == ["quality.good"]

    def test_bad_waits_as_bad(self):
        story = Story().listed()
        story.review("r1", bad)
        story.add(confirmed())
        story.resolve()
        assert story.shown()["quality"] == "bad"
        story.review("r2", good)
        assert story.shown()["quality"] == "good"

    def test_all_defects_must_be_resolved_before_good_can_return(self):
        story = Story().listed()
        story.add(confirmed("d1"))
        story.add(confirmed("d2"))
        story.resolve("d1")
        story.review("r2", good)
        shown = story.shown()
        assert shown["quality"] == "some_issues"
        assert [d["id"] for d in shown["open_defects"]] == ["d2"]
        assert [d["id"] for d in shown["resolved_defects"]] == ["d1"]

    def test_after_a_withdrawal_the_rating_waits_too(self):
        story = Story().listed()
        story.review("r1", good)
        story.add(confirmed())
        story.add(withdrawn())
        shown = story.shown()
        assert (shown["quality"], shown["open_defects"], shown["resolved_defects"]) == ("some_issues", [], [])
        assert "publish a new review collection" in story.text_of("quality.waits-for-publication")
        story.review("r2", good)
        assert story.shown()["quality"] == "good"

    def test_a_withdrawn_suspicion_leaves_no_trace_in_what_is_shown(self):
        story = Story().listed()
        story.review("r1", good)
        story.add(suspected())
        story.add(withdrawn())
        shown = story.shown()
        assert (shown["quality"], shown["suspected_defects"]) == ("good", [])

    def test_a_reopened_defect_demotes_again(self):
        story = Story().listed()
        story.add(confirmed())
        story.resolve()
        story.review("r2", good)
        story.add(reopened())
        assert story.shown()["quality"] == "some_issues"
        assert story.cited_by("quality.open-defect") == ["defect.reopened"]

    def test_defects_are_listed_in_the_order_in_which_they_first_appeared(self):
        story = Story().listed()
        for defect in ("z", "a", "m"):
            story.add(suspected(defect))
        for defect in ("a", "z"):
            story.add(confirmed(defect))
        assert [d["id"] for d in story.shown()["open_defects"]] == ["z", "a"]

    def test_a_defect_without_an_issue_says_issue_missing(self):
        story = Story().listed()
        pos = story.size
        story.add(confirmed(issue=None, kind="task-import"))
        assert story.shown()["open_defects"] == [
            {
                "id": "d1",
                "kind": "task-import",
                "status": "open",
                "summary": "it rewards wrong answers",
                "issue_url": None,
                "pos": pos,
            }
        ]


class TestSuperseding:
    def test_a_superseded_collection_no_longer_gives_the_rating(self):
        story = Story().listed()
        story.review("r1", some_issues)
        story.review("r2", good)
        story.add(superseded("r2"))
        shown = story.shown()
        assert (shown["quality"], shown["review"]["id"]) == ("some_issues", sha("r1"))
        assert story.cited_by("review.superseded") == ["review.superseded"]

    def test_with_every_collection_superseded_the_source_is_unrated_and_the_newest_is_shown(self):
        story = Story().listed()
        story.review("r1", good)
        story.add(superseded("r1"))
        shown = story.shown()
        assert (shown["quality"], shown["review"]["id"]) == ("unrated", sha("r1"))
        assert "review.all-superseded" in story.rules_of("review")

    def test_a_rating_from_before_the_last_confirmation_does_not_come_back_as_good(self):
        story = Story().listed()
        story.review("r1", good)
        story.add(confirmed())
        story.resolve()
        story.review("r2", good)
        story.add(superseded("r2"))
        story.add(superseded("fix"))
        shown = story.shown()
        assert (shown["quality"], shown["review"]["id"]) == ("some_issues", sha("r1"))
        assert "quality.waits-for-publication" in story.rules_of("quality")

    def test_superseding_lifts_nothing_while_a_defect_is_open(self):
        story = Story().listed()
        story.review("r1", bad)
        story.add(confirmed())
        story.review("r2", good)
        story.add(superseded("r1", by="r2"))
        assert story.shown()["quality"] == "bad"

    def test_superseding_lifts_nothing_while_the_rating_waits(self):
        story = Story().listed()
        story.review("r1", bad)
        story.add(confirmed())
        story.add(withdrawn())
        story.add(superseded("r1"))
        assert story.shown()["quality"] == "bad"

    def test_superseding_an_unknown_review_changes_nothing(self):
        story = Story().listed()
        story.review("r1", good)
        before = story.shown()
        story.add(superseded("nowhere"), sample=True)
        assert story.shown() == before


class TestApplicability:
    def test_current_when_both_revisions_are_known_and_equal(self):
        story = Story().listed()
        story.review("r1")
        assert story.shown()["applicability"] == "current"

    @pytest.mark.parametrize("changed", [{"dataset_revision": "data-2"}, {"verifier_revision": "verifier-2"}])
    def test_a_changed_revision_hides_the_rating_and_keeps_the_link_and_the_date(self, changed):
        story = Story().listed()
        story.review("r1")
        before = story.shown()["review"]
        story.revise("c2", **changed)
        shown = story.shown()
        assert (shown["quality"], shown["applicability"]) == ("needs_re_review", "stale")
        assert shown["review"] == before
        assert before["review_date"] == "2026-10-01T00:00:00Z"
        assert "source.revised" in story.cited_by("applicability.revision-changed")

    def test_a_review_of_the_present_revisions_brings_the_rating_back(self):
        story = Story().listed()
        story.review("r1")
        story.revise("c2", dataset_revision="data-2")
        story.review("r2", good, dataset_revision="data-2")
        assert (story.shown()["quality"], story.shown()["applicability"]) == ("good", "current")

    @pytest.mark.parametrize("side", ["catalogue", "review", "both"])
    @pytest.mark.parametrize("revision", ["dataset_revision", "verifier_revision"])
    def test_unknown_is_equal_to_nothing_not_even_to_unknown(self, side, revision):
        unknown = {revision: None}
        story = Story().listed(**(unknown if side in {"catalogue", "both"} else {}))
        story.review("r1", **(unknown if side in {"review", "both"} else {}))
        shown = story.shown()
        assert (shown["quality"], shown["applicability"]) == ("good", "unknown")
        assert story.rules_of("applicability") == ["applicability.revision-unknown"]
        says = {
            "catalogue": "the catalogue does not say",
            "review": "the review does not say",
            "both": "the review and the catalogue do not say",
        }
        assert says[side] in story.text_of("applicability.revision-unknown")

    def test_one_changed_revision_is_stale_though_the_other_is_unknown(self):
        story = Story().listed(verifier_revision=None)
        story.review("r1")
        story.revise("c2", dataset_revision="data-2", verifier_revision=None)
        assert story.shown()["applicability"] == "stale"

    def test_a_stale_review_without_a_rating_needs_re_review_too(self):
        story = Story().listed()
        story.review("r1", lambda c: [run(c)])
        story.revise("c2", dataset_revision="data-2")
        assert story.shown()["quality"] == "needs_re_review"

    def test_a_stale_review_hides_what_waits_for_a_publication(self):
        story = Story().listed()
        story.review("r1")
        story.add(confirmed())
        story.add(withdrawn())
        story.revise("c2", dataset_revision="data-2")
        assert story.shown()["quality"] == "needs_re_review"

    def test_the_revision_of_the_row_stands_in_for_an_unknown_dataset_revision(self):
        story = Story().listed(dataset_revision=None, revision=DATA)
        story.review("r1")
        assert story.shown()["applicability"] == "current"

    def test_a_stale_source_with_an_open_defect_shows_the_defect(self):
        story = Story().listed()
        story.review("r1")
        story.add(confirmed())
        story.revise("c2", dataset_revision="data-2")
        shown = story.shown()
        assert (shown["quality"], shown["applicability"]) == ("some_issues", "stale")
        assert "quality.defect-before-stale" in story.rules_of("quality")

    def test_a_stale_bad_source_with_an_open_defect_shows_bad(self):
        story = Story().listed()
        story.review("r1", bad)
        story.add(confirmed())
        story.revise("c2", dataset_revision="data-2")
        assert story.shown()["quality"] == "bad"

    def test_without_a_review_there_is_no_applicability(self):
        story = Story().listed()
        assert story.shown()["applicability"] is None
        assert story.rules_of("applicability") == ["applicability.no-review"]

    @pytest.mark.parametrize(
        "changed", [{}, {"dataset_revision": "data-2"}, {"dataset_revision": None}], ids=["current", "stale", "unknown"]
    )
    @pytest.mark.parametrize(("basis", "said"), [("catalogue", True), ("publisher", False), (None, False)])
    def test_a_verifier_revision_from_the_catalogue_is_said_to_be_so(self, basis, said, changed):
        story = Story().listed()
        story.review("r1", verifier_revision_basis=basis)
        story.revise("c2", **changed)
        (rule,) = story.rules_of("applicability")
        told = "the verifier revision was taken from the catalogue at publication" in story.text_of(rule)
        assert (story.shown()["review"]["verifier_revision_basis"], told) == (basis, said)

    def test_a_basis_without_a_verifier_revision_is_not_spoken_of(self):
        story = Story().listed()
        story.review("r1", verifier_revision=None, verifier_revision_basis="catalogue")
        assert "taken from the catalogue" not in story.text_of("applicability.revision-unknown")


class TestTheEventsThatAReasonCites:
    def test_good_rests_on_every_native_run_and_model_judgment(self):
        story = Story().listed()
        story.review("r1", lambda c: [*good(c), run(c), judgment(c, method="human_judgment")])
        runs = ["observation.recorded"] * 2
        assert sorted(story.cited_by("quality.good")) == sorted(
            [*runs, *["judgment.recorded"] * 3, "synthesis.recorded", "review.published"]
        )

    def test_bad_rests_on_the_judges_that_reject_and_on_the_severe_findings(self):
        story = Story().listed()
        judges = [
            judgment("r1", "reject", summary="rejects"),
            judgment("r1", "reject", finding("low"), summary="rejects too"),
            judgment("r1", "keep", finding("high"), summary="keeps, and found something severe"),
            judgment("r1", "keep", finding("medium"), summary="keeps"),
            judgment("r1", "reject", finding("critical"), summary="rejects for something severe"),
        ]
        story.review("r1", lambda c: [run(c), *judges, synthesis(c, "reject")])
        cited = [story.events[pos] for pos in story.positions_of("quality.bad")]
        assert [e.payload for e in cited[:-2]] == [judges[n] for n in (0, 1, 2, 4)]
        assert [e.type for e in cited[-2:]] == ["synthesis.recorded", "review.published"]

    def test_the_review_date_rests_on_the_latest_judgment(self):
        story = Story().listed()
        late = judgment("r1", reviewed_at="2026-10-03T00:00:00Z")
        story.review("r1", lambda c: [run(c), judgment(c), late, judgment(c), synthesis(c)])
        cited = [story.events[pos] for pos in story.positions_of("review.latest-judgment")]
        assert cited[0].payload == late
        assert [e.type for e in cited] == ["judgment.recorded", "review.published"]

    def test_of_70_judgments_the_first_64_are_cited_and_never_at_the_cost_of_what_decides(self):
        story = Story().listed()
        judges = [judgment("r1", "keep", finding("medium"))] * 70
        story.review("r1", lambda c: [run(c), *judges, synthesis(c)])
        cited = story.cited_by("quality.some-issues")
        assert cited == ["judgment.recorded"] * 64 + ["synthesis.recorded", "review.published"]
        assert "in 70 opinions." in story.text_of("quality.some-issues")
        assert story.text_of("quality.some-issues").endswith("Cited are the first 64 of these parts.")

    def test_64_judgments_are_all_cited_and_nothing_is_said_of_more(self):
        story = Story().listed()
        story.review("r1", lambda c: [run(c), *[judgment(c, "keep", finding())] * 64, synthesis(c)])
        assert story.cited_by("quality.some-issues").count("judgment.recorded") == 64
        assert "Cited" not in story.text_of("quality.some-issues")

    def test_parts_of_two_kinds_share_the_64(self):
        story = Story().listed()
        story.review("r1", lambda c: [*[run(c)] * 40, *[judgment(c)] * 40, synthesis(c)])
        cited = story.cited_by("quality.good")
        assert (cited.count("observation.recorded"), cited.count("judgment.recorded")) == (40, 24)
        assert cited[-2:] == ["synthesis.recorded", "review.published"]
        assert "(40)" in story.text_of("quality.good")
        assert "(40 model judgments)" in story.text_of("quality.good")
        assert story.text_of("quality.good").endswith("Cited are the first 64 of these parts.")

    def test_events_that_decide_are_all_cited_however_many_there_are(self):
        story = Story().listed()
        for n in range(70):
            story.add(confirmed(f"d{n}"))
            story.review(f"r{n}")
            story.add(superseded(f"r{n}"))
        assert story.cited_by("quality.open-defect") == ["defect.confirmed"] * 70
        assert story.cited_by("review.superseded") == ["review.superseded"] * 70


class TestTheReviewShown:
    def test_the_review_date_is_the_latest_actual_judgment_compared_as_moments(self):
        story = Story().listed()
        parts = [
            run("r1", reviewed_at="2026-10-09T00:00:00Z"),
            judgment("r1", reviewed_at="2026-10-02T01:00:00+02:00"),
            judgment("r1", reviewed_at="2026-10-02T00:00:00Z", method="human_judgment"),
            judgment("r1", reviewed_at=None),
            judgment("r1", reviewed_at="2026-10-01T12:00:00Z"),
            synthesis("r1", reviewed_at="2026-10-10T00:00:00Z"),
        ]
        story.review("r1", lambda _: parts)
        assert story.shown()["review"]["review_date"] == "2026-10-02T00:00:00Z"

    def test_an_unknown_review_date_stays_unknown(self):
        story = Story().listed()
        story.review("r1", lambda c: [run(c), judgment(c, reviewed_at=None), synthesis(c)])
        assert story.shown()["review"]["review_date"] is None
        assert "review.date-unknown" in story.rules_of("review")

    def test_the_executed_commit_stands_apart_from_the_reference_commit(self):
        story = Story().listed()
        story.review("r1", executed_commit=None, reference_commit="b" * 40)
        review = story.shown()["review"]
        assert (review["executed_commit"], review["reference_commit"]) == (None, "b" * 40)

    def test_traces_are_native_runs_and_judgments_are_of_models_and_humans(self):
        story = Story().listed()
        story.review("r1", lambda c: [*good(c), run(c), judgment(c, method="human_judgment")])
        review = story.shown()["review"]
        assert (review["traces"], review["judgments"]) == (2, 4)

    def test_a_review_that_rates_is_explained_by_its_rating_and_its_date(self):
        story = Story().listed()
        story.review("r1")
        assert story.rules_of("review") == ["review.newest-rating", "review.latest-judgment"]


class TestTheCatalogue:
    def test_a_source_is_not_there_before_its_refresh_is_closed(self):
        story = Story()
        event = story.add(declared())
        with pytest.raises(AssertionError):
            story.shown()
        story.add(synced(ids=[event]))
        assert story.shown()["id"] == SOURCE

    def test_a_part_that_is_never_closed_counts_for_nothing(self):
        story = Story().listed()
        story.add(revised("never", name="other"))
        story.add(retired("never"))
        assert (story.shown()["name"], story.shown()["retired"]) == ("svamp", False)

    def test_a_part_that_comes_after_its_refresh_was_closed_counts_for_nothing(self):
        story = Story().listed()
        late = story.add(revised("c1", name="late"))
        assert story.shown()["name"] == "svamp"
        story.add(synced("c1", [late]))
        assert story.shown()["name"] == "svamp"

    def test_the_row_in_effect_is_the_one_closed_last_whatever_was_recorded_first(self):
        story = Story().listed()
        early = story.add(revised("c2", name="recorded first"))
        late = story.add(revised("c3", name="recorded second"))
        story.add(synced("c3", [late]))
        story.add(synced("c2", [early]))
        assert story.shown()["name"] == "recorded first"

    def test_a_retired_source_keeps_its_row_and_its_rating(self):
        story = Story().listed()
        story.review("r1")
        story.refresh(retired("c2"))
        shown = story.shown()
        assert (shown["retired"], shown["name"], shown["quality"]) == (True, "svamp", "good")
        assert story.rules_of("catalogue") == ["catalogue.retired"]
        assert story.cited_by("catalogue.retired") == ["source.retired", "catalogue.synced"]

    def test_a_source_that_was_never_retired_needs_no_reason_to_be_listed(self):
        story = Story().listed()
        story.revise("c2", name="new")
        assert story.rules_of("catalogue") == []

    def test_a_reinstated_source_is_listed_again_with_its_new_row(self):
        story = Story().listed()
        story.refresh(retired("c2"))
        story.refresh(reinstated("c3", name="again"))
        assert (story.shown()["retired"], story.shown()["name"]) == (False, "again")
        assert story.rules_of("catalogue") == ["catalogue.reinstated"]
        assert story.cited_by("catalogue.reinstated") == ["source.reinstated", "catalogue.synced"]

    def test_a_retired_source_that_is_declared_again_is_reinstated(self):
        story = Story().listed()
        story.refresh(retired("c2"))
        story.refresh(declared("c3"))
        assert story.shown()["retired"] is False
        assert story.cited_by("catalogue.reinstated") == ["source.declared", "catalogue.synced"]

    def test_a_revision_of_a_retired_source_changes_its_row_and_does_not_reinstate_it(self):
        story = Story().listed()
        story.refresh(retired("c2"))
        story.revise("c3", name="renamed")
        assert (story.shown()["retired"], story.shown()["name"]) == (True, "renamed")
        assert story.cited_by("catalogue.retired") == ["source.retired", "catalogue.synced"]
        story.refresh(reinstated("c4"))
        story.revise("c5", name="renamed again")
        assert (story.shown()["retired"], story.shown()["name"]) == (False, "renamed again")

    def test_a_retirement_that_a_sample_made_makes_the_source_a_sample(self):
        story = Story().listed()
        story.refresh(retired("c2"), sample=True)
        story.revise("c3", name="renamed")
        assert story.shown()["sample"] is True

    def test_equal_rows_have_equal_digests_and_others_do_not(self):
        story = Story().listed()
        first = story.shown()["row_sha256"]
        story.revise("c2", notes="a note")
        second = story.shown()["row_sha256"]
        story.revise("c3")
        assert (story.shown()["row_sha256"], second != first) == (first, True)


class TestSamples:
    def test_whatever_rests_on_a_sample_says_so(self):
        story = Story()
        story.refresh(declared(), sample=True)
        assert story.shown()["sample"] is True

    @pytest.mark.parametrize(
        "add",
        [
            lambda s: s.review("r1", sample=True),
            lambda s: s.add(published("r1", "r1", [s.add(good("r1")[0], sample=True)])),
            lambda s: s.add(published("r1", "r1", [s.add(tag("r1"), sample=True)])),
            lambda s: s.add(suspected(), sample=True),
            lambda s: (s.add(confirmed()), s.add(resolved("e0", "r1"), sample=True)),
            lambda s: s.add(synced("c2", [s.add(revised("c2"), sample=True)])),
            lambda s: s.add(synced("c2", [s.add(revised("c2"))]), sample=True),
            lambda s: s.add(confirmed(), sample=True),
            lambda s: s.add(report(), sample=True),
            lambda s: s.refresh(revised("c2"), sample=True),
        ],
    )
    def test_one_sample_event_is_enough(self, add):
        story = Story().listed()
        assert story.shown()["sample"] is False
        add(story)
        assert story.shown()["sample"] is True

    def test_a_rating_that_a_sample_holds_down_rests_on_it(self):
        story = Story().listed()
        story.review("r1", bad, sample=True)
        story.add(confirmed())
        story.review("r2")
        assert (story.shown()["quality"], story.shown()["sample"]) == ("bad", True)

    def test_a_rating_that_is_held_after_its_sample_was_superseded_still_rests_on_it(self):
        story = Story().listed()
        story.review("r1", bad, sample=True)
        story.add(confirmed())
        story.review("r2")
        story.add(superseded("r1"))
        assert (story.shown()["quality"], story.shown()["sample"]) == ("bad", True)

    def test_a_sample_that_nothing_shown_rests_on_any_more_is_forgotten(self):
        story = Story().listed()
        story.review("r1", sample=True)
        story.review("r2")
        assert story.shown()["sample"] is False
