"""`atlas-code-1`: what the applet's code does, one test a rule, its faults named as such."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from ledger.core import strictjson
from ledger.core.ids import sha256_hex
from ledger.events.registry import REGISTRY
from ledger.rules import EVERYTHING, atlas_code_1
from ledger.rules.atlas_code_1 import RULES
from ledger.rules.atlas_code_1.catalogue_rows import row_of
from ledger.wire import audit_pb2

from .builders import (
    DATA,
    ISSUE,
    SOURCE,
    Story,
    adopted,
    bad,
    confirmed,
    declared,
    defined,
    finding,
    fixed,
    good,
    judgment,
    published,
    reinstated,
    reopened,
    report,
    resolved,
    retired,
    revised,
    row,
    rules_adopted,
    run,
    sha,
    some_issues,
    superseded,
    suspected,
    synced,
    synthesis,
    tag,
    validation,
    withdrawn,
)
from .code_story import (
    BASE,
    CHECKLIST_JUDGE,
    GRADING,
    JUDGE,
    SUPPLEMENTAL_JUDGE,
    V3,
    V4_CHECKLIST,
    V4_JUDGE,
    CodeStory,
    authored,
    claim,
    claiming,
    followup,
    grading_proof,
    measured_by_code,
    outcome,
    supplemental,
)

CHECKLIST_SOURCE = "Task Trove:laion__nemotron-gym-safety-v3"


def rated(*parts: BaseModel, **fields: Any) -> str | None:
    """The rating that the publisher computes for a collection of these parts."""
    story = CodeStory().listed()
    story.review("r1", lambda _: parts, **fields)
    return story.shown()["review"]["rating"]


def reviewed(kind: Any = good, **fields: Any) -> CodeStory:
    """A listed source with one review."""
    story = CodeStory().listed(**fields)
    story.review("r1", kind)
    return story


class TestTheRatingOfACollection:
    @pytest.mark.parametrize(("kind", "rating"), [(good, "good"), (some_issues, "some_issues"), (bad, "bad")])
    def test_it_is_good_some_issues_or_bad(self, kind, rating):
        assert rated(*kind("r1")) == rating

    def test_without_judges_and_with_one_run_it_can_be_good(self):
        assert rated(run("r1"), synthesis("r1")) == "good"

    def test_the_majority_is_over_the_votes_of_all_tasks_pooled(self):
        votes = [judgment("r1", v, finding("high")) for v in ["reject"] * 5 + ["keep"] * 4]
        assert rated(run("r1"), *votes, synthesis("r1", "reject")) == "bad"
        assert rated(run("r1"), *votes[1:], synthesis("r1", "reject")) == "some_issues"

    def test_one_medium_issue_of_one_judge_blocks_good_though_the_synthesis_overrules_it(self):
        assert rated(run("r1"), judgment("r1", "keep", finding("medium")), synthesis("r1")) == "some_issues"

    def test_task_syntheses_human_judgments_and_findings_of_runs_never_move_it(self):
        parts = [
            run("r1", findings=[finding("critical")]),
            judgment("r1", "reject", finding("critical"), method="human_judgment"),
            synthesis("r1", "reject", finding("critical"), level="task"),
            synthesis("r1"),
        ]
        assert rated(*parts) == "good"

    @pytest.mark.parametrize("status", ["unavailable", "error", "skipped"])
    def test_one_run_that_is_not_verified_blocks_good(self, status):
        assert rated(run("r1"), run("r1", status=status), synthesis("r1")) == "some_issues"

    def test_a_supplemental_judge_makes_it_null_even_where_the_rest_is_bad(self):
        assert rated(*bad("r1"), judgment("r1", by=SUPPLEMENTAL_JUDGE)) is None


class TestTheRow:
    def test_a_supplemental_judge_erases_the_rating_and_moves_the_review_shown(self):
        story = reviewed()
        story.review("r2", supplemental)
        shown = story.shown()
        assert (shown["quality"], shown["review"]["id"]) == ("unrated", sha("r2"))
        assert story.rules_of("review")[0] == "review.supplemental-erases"

    def test_the_last_publication_wins_though_an_earlier_one_has_a_newer_date(self):
        story = CodeStory().listed()
        story.review("new", lambda c: [run(c), judgment(c, reviewed_at="2026-10-09T00:00:00Z"), synthesis(c)])
        story.review("old", lambda c: [*some_issues(c)[:1], judgment(c), synthesis(c, "conditional")])
        shown = story.shown()
        assert (shown["quality"], shown["review"]["id"]) == ("some_issues", sha("old"))
        assert story.rules_of("review")[0] == "review.last-wins-whatever-its-date"

    @pytest.mark.parametrize("role", ["verifier_defect", "verifier_revision_attestation"])
    def test_a_collection_in_a_supplemental_role_lies_beside_the_row(self, role):
        story = reviewed()
        story.review("r2", bad, review_pool_role=role)
        assert (story.shown()["quality"], story.shown()["review"]["id"]) == ("good", sha("r1"))
        assert "review.beside-the-row" in story.rules_of("review")

    def test_a_collection_without_exactly_one_source_synthesis_lies_beside_the_row(self):
        story = reviewed()
        story.review("r2", lambda c: [*bad(c), synthesis(c, "reject")])
        assert story.shown()["quality"] == "good"

    def test_supersession_moves_nothing(self):
        story = reviewed(some_issues)
        story.review("r2")
        story.add(superseded("r2", by="r1"))
        assert (story.shown()["quality"], story.shown()["review"]["id"]) == ("good", sha("r2"))
        assert "review.supersession-not-known" in story.rules_of("review")

    def test_the_review_date_is_the_newest_of_all_reviews_compared_as_text(self):
        story = CodeStory().listed()
        story.review(
            "r1",
            lambda c: [
                judgment(c, reviewed_at="2026-10-01T23:00:00-09:00"),
                run(c, reviewed_at="2026-10-02T00:00:00Z"),
                synthesis(c),
            ],
        )
        assert story.shown()["review"]["review_date"] == "2026-10-02T00:00:00Z"

    def test_a_review_date_that_nobody_gives_is_unknown(self):
        story = CodeStory().listed()
        story.review("r1", lambda c: [run(c), synthesis(c)])
        assert story.shown()["review"]["review_date"] is None
        assert "review.date-unknown" in story.rules_of("review")

    def test_the_verifier_revision_is_the_catalogues_at_publication_and_not_the_one_that_ran(self):
        story = CodeStory().listed(verifier_revision="in-the-catalogue")
        story.review("r1", verifier_revision="executed")
        story.revise("c2", verifier_revision="later")
        review = story.shown()["review"]
        assert (review["verifier_revision"], review["verifier_revision_basis"]) == ("in-the-catalogue", "catalogue")

    def test_a_part_that_was_recorded_before_the_review_and_closed_after_it_does_not_count_for_it(self):
        story = CodeStory().listed()
        waiting = story.add(revised("c2", verifier_revision="later"))
        story.review("r1")
        story.add(synced("c2", [waiting], replaces=story.environment.synced["MarinSkyRL"]))
        assert story.shown()["review"]["verifier_revision"] == "verifier-1"
        assert story.shown()["applicability"] == "stale"


class TestOpenDefects:
    @pytest.mark.parametrize(("kind", "quality"), [(good, "some_issues"), (some_issues, "some_issues"), (bad, "bad")])
    def test_the_stored_rating_is_capped_and_bad_stays(self, kind, quality):
        story = reviewed(kind)
        story.add(confirmed())
        assert story.shown()["quality"] == quality

    def test_bad_is_never_lifted_by_a_newer_review_while_open(self):
        story = reviewed(bad)
        story.add(confirmed())
        story.review("r2")
        assert story.shown()["quality"] == "bad"
        assert story.shown()["review"]["rating"] == "good"

    def test_a_publication_may_lower_to_bad(self):
        story = reviewed()
        story.add(confirmed())
        story.review("r2", bad)
        assert story.shown()["quality"] == "bad"

    def test_a_source_without_any_rating_becomes_some_issues(self):
        story = CodeStory().listed()
        story.add(confirmed())
        assert story.shown()["quality"] == "some_issues"

    def test_a_null_rating_published_while_open_becomes_some_issues(self):
        story = reviewed()
        story.add(confirmed())
        story.review("r2", supplemental)
        assert story.shown()["quality"] == "some_issues"

    def test_closing_the_last_one_changes_nothing_until_the_next_publication(self):
        story = reviewed()
        story.add(confirmed())
        story.review("fix", fixed)
        story.add(resolved("no-validation", "fix"))
        assert story.shown()["quality"] == "some_issues"
        assert story.rules_of("quality")[0] == "quality.waits-for-publication"
        story.review("r2")
        assert story.shown()["quality"] == "good"

    def test_a_withdrawal_changes_nothing_either(self):
        story = reviewed()
        story.add(confirmed())
        story.add(withdrawn())
        assert (story.shown()["quality"], story.shown()["open_defects"]) == ("some_issues", [])

    def test_a_reopened_one_caps_again(self):
        story = reviewed()
        story.add(confirmed())
        story.add(resolved("v", "r1"))
        story.review("r2")
        story.add(reopened())
        assert story.shown()["quality"] == "some_issues"

    def test_a_stale_source_shows_some_issues_and_not_that_it_needs_a_re_review(self):
        story = reviewed()
        story.add(confirmed())
        story.revise("c2", dataset_revision="data-2")
        assert (story.shown()["quality"], story.shown()["applicability"]) == ("some_issues", "stale")
        assert "quality.defect-before-stale" in story.rules_of("quality")

    def test_a_suspicion_changes_nothing(self):
        story = reviewed()
        story.add(suspected())
        assert story.shown()["quality"] == "good"


class TestApplicability:
    def test_a_changed_data_revision_is_stale_and_hides_the_rating(self):
        story = reviewed()
        story.revise("c2", dataset_revision="data-2")
        shown = story.shown()
        assert (shown["applicability"], shown["quality"]) == ("stale", "needs_re_review")
        assert (shown["review"]["id"], shown["review"]["rating"]) == (sha("r1"), "good")

    def test_the_data_revision_is_that_of_the_row_where_the_dataset_has_none(self):
        story = CodeStory().listed(dataset_revision=None, revision=DATA)
        story.review("r1")
        assert story.shown()["applicability"] == "current"
        story.revise("c2", dataset_revision=None, revision="other")
        assert story.shown()["applicability"] == "stale"

    def test_a_revision_that_the_catalogue_lost_is_stale(self):
        story = reviewed()
        story.revise("c2", dataset_revision=None)
        assert story.shown()["applicability"] == "stale"

    def test_a_changed_verifier_revision_is_stale(self):
        story = reviewed()
        story.revise("c2", verifier_revision="verifier-2")
        assert story.shown()["applicability"] == "stale"

    def test_a_null_verifier_revision_is_never_stale(self):
        story = reviewed(verifier_revision=None)
        story.revise("c2", verifier_revision="verifier-2")
        assert (story.shown()["applicability"], story.shown()["quality"]) == ("current", "good")
        assert story.rules_of("applicability") == ["applicability.verifier-revision-null"]

    def test_it_is_unknown_only_without_a_data_revision_and_then_shown_like_a_current_one(self):
        story = CodeStory().listed()
        story.review("r1", dataset_revision=None)
        assert (story.shown()["applicability"], story.shown()["quality"]) == ("unknown", "good")

    def test_an_unknown_one_can_be_stale_by_its_verifier(self):
        story = CodeStory().listed()
        story.review("r1", dataset_revision=None)
        story.revise("c2", verifier_revision="verifier-2")
        assert story.shown()["applicability"] == "stale"

    def test_there_is_none_without_a_review(self):
        assert CodeStory().listed().shown()["applicability"] is None


class TestGradingBindings:
    @staticmethod
    def bound(*proofs: BaseModel, grading: str | None = GRADING) -> CodeStory:
        story = reviewed(extra={"grading_revision": grading} if grading else {})
        for proof in proofs:
            story.add(proof)
        return story

    def test_a_source_without_one_is_judged_by_its_verifier_revision(self):
        assert self.bound().shown()["applicability"] == "current"

    def test_a_valid_binding_keeps_it_current_whatever_becomes_of_the_verifier_revision(self):
        story = self.bound(grading_proof())
        story.revise("c2", verifier_revision="verifier-2", extra={"grading_revision": GRADING})
        assert story.shown()["applicability"] == "current"
        assert "applicability.grading-bound" in story.rules_of("applicability")

    @pytest.mark.parametrize(
        "proof",
        [
            grading_proof("another"),
            grading_proof(equal=False),
            grading_proof(sha256=None),
            grading_proof(source_revision="data-0"),
            grading_proof(captured_verifier_revision="verifier-0"),
            grading_proof(grading_revision=sha("grading-2")),
        ],
        ids=["review", "program", "no-program", "data", "verifier", "grading"],
    )
    def test_one_that_differs_in_anything_enrols_and_makes_it_stale(self, proof):
        story = self.bound(proof)
        assert (story.shown()["applicability"], story.shown()["quality"]) == ("stale", "needs_re_review")
        assert story.rules_of("applicability") == ["applicability.grading-not-bound"]

    def test_the_first_of_a_key_stays_though_a_later_one_is_right(self):
        story = self.bound(grading_proof(equal=False), grading_proof())
        assert story.shown()["applicability"] == "stale"

    def test_the_first_of_a_key_stays_though_a_later_one_is_wrong(self):
        story = self.bound(grading_proof(), grading_proof(equal=False))
        assert story.shown()["applicability"] == "current"

    def test_once_enrolled_always_enrolled(self):
        story = self.bound(grading_proof())
        story.review("r2")
        assert story.shown()["applicability"] == "stale"

    def test_it_is_stale_when_the_catalogue_loses_the_grading_revision(self):
        assert self.bound(grading_proof(), grading=None).shown()["applicability"] == "stale"

    def test_changed_data_is_stale_before_any_binding(self):
        story = self.bound(grading_proof())
        story.revise("c2", dataset_revision="data-2", extra={"grading_revision": GRADING})
        assert story.rules_of("applicability") == ["applicability.revision-changed"]


class TestAuthoredReviews:
    @pytest.mark.parametrize("grade", ["good", "some_issues", "bad"])
    def test_one_shows_while_nothing_is_stored_and_links_to_nothing(self, grade):
        shown = CodeStory().listed(authored_review=authored(grade)).shown()
        assert (shown["quality"], shown["applicability"], shown["review"]) == (grade, "current", None)

    def test_one_without_a_grade_is_unreviewed(self):
        assert CodeStory().listed(authored_review=authored(None)).shown()["quality"] == "unreviewed"

    def test_one_can_be_stale(self):
        shown = CodeStory().listed(authored_review=authored("good", data="data-0")).shown()
        assert (shown["quality"], shown["applicability"]) == ("needs_re_review", "stale")

    def test_a_published_review_hides_it_even_with_a_null_rating(self):
        story = CodeStory().listed(authored_review=authored("good"))
        story.review("r1", supplemental)
        assert story.shown()["quality"] == "unrated"

    def test_an_authored_bad_is_upgraded_by_an_open_defect(self):
        story = CodeStory().listed(authored_review=authored("bad"))
        story.add(confirmed())
        assert story.shown()["quality"] == "some_issues"
        assert "quality.authored-bad-upgraded" in story.rules_of("quality")

    def test_it_does_not_come_back_when_the_defect_is_closed(self):
        story = CodeStory().listed(authored_review=authored("good"))
        story.add(confirmed())
        story.add(withdrawn())
        assert story.shown()["quality"] == "some_issues"


class TestResolving:
    @staticmethod
    def against(entry: dict[str, Any], *runs: BaseModel, verifier: str | None = "verifier-1") -> list[str]:
        story = CodeStory().listed(verifier_revision=verifier)
        story.add(confirmed())
        story.review("fix", claiming(entry, *runs))
        return [p.message for p in story.against(resolved("no-validation", "fix"))]

    def test_a_claim_and_a_verified_run_are_enough_without_any_validation(self):
        assert self.against(claim()) == []

    def test_claim_and_run_may_be_of_different_tasks_and_revisions(self):
        assert self.against(claim(), run("fix", dataset_revision="another", source_id="elsewhere")) == []

    def test_null_equals_null_for_the_verifier_revision(self):
        assert self.against(claim(verifier_revision=None), verifier=None) == []

    def test_the_key_of_the_verifier_revision_must_be_there(self):
        entry = claim()
        del entry["verifier_revision"]
        assert len(self.against(entry, verifier=None)) == 1

    @pytest.mark.parametrize(
        "changes",
        [
            {"fix_validated": "true"},
            {"fix_validated": False},
            {"issue_url": "https://github.com/example/atlas/issues/8"},
            {"dataset_revision": "data-0"},
            {"dataset_revision": None},
            {"verifier_revision": "verifier-0"},
            {"verifier_revision": None},
            {"verifier_revision": 1},
        ],
    )
    def test_a_claim_that_differs_in_anything_is_none(self, changes):
        (why,) = self.against(claim(**changes))
        assert ISSUE in why

    def test_a_data_revision_that_is_unknown_on_both_sides_equals_nothing(self):
        story = CodeStory().listed(dataset_revision=None)
        story.add(confirmed())
        story.review("fix", claiming(claim(dataset_revision=None)))
        assert len(story.against(resolved("v", "fix"))) == 1

    @pytest.mark.parametrize(
        "other", [run("fix", status="error"), run("fix", tests_executed=None), run("fix", method="static_inspection")]
    )
    def test_a_run_that_was_not_verified_or_ran_no_tests_is_none(self, other):
        (why,) = self.against(claim(), other)
        assert "native run" in why

    def test_a_review_from_before_the_defect_does_not_resolve_it(self):
        story = CodeStory().listed()
        story.review("fix", claiming(claim()))
        story.add(confirmed())
        (problem,) = story.against(resolved("v", "fix"))
        assert "before the defect" in problem.message

    def test_the_review_with_the_evidence_does_not_resolve_it(self):
        story = CodeStory().listed()
        story.add(confirmed(review=sha("fix")))
        story.review("fix", claiming(claim()))
        (problem,) = story.against(resolved("v", "fix"))
        assert "evidence" in problem.message

    def test_a_reopened_defect_is_resolved_by_the_same_review_again(self):
        story = CodeStory().listed()
        story.add(confirmed())
        story.review("fix", claiming(claim()))
        story.add(resolved("v", "fix"))
        story.add(reopened())
        assert story.against(resolved("v", "fix")) == ()

    def test_a_defect_that_was_withdrawn_and_confirmed_again_is_a_new_one(self):
        story = CodeStory().listed()
        story.add(confirmed())
        story.review("fix", claiming(claim()))
        story.add(withdrawn())
        story.add(confirmed())
        assert len(story.against(resolved("v", "fix"))) == 1

    def test_a_defect_without_an_issue_is_claimed_by_its_id(self):
        story = CodeStory().listed()
        story.add(confirmed("d1", issue=None))
        story.review("fix", claiming(claim(issue_url="d1")))
        assert story.against(resolved("v", "fix")) == ()

    def test_only_an_open_defect_and_a_published_review_will_do(self):
        story = CodeStory().listed()
        assert "unknown" in story.against(resolved("v", "fix"))[0].message
        story.add(confirmed())
        assert "published" in story.against(resolved("v", "fix"))[0].message


class TestDifficulty:
    def test_a_report_under_an_accepted_protocol_is_current(self):
        story = reviewed()
        story.add(measured_by_code())
        shown = story.difficulty()
        assert (shown["status"], shown["protocol"], shown["mismatches"]) == ("current", V3, [])
        assert [m["solved"] for m in shown["models"]] == [11, 17, 21]

    def test_what_was_adopted_in_the_log_changes_nothing(self):
        story = reviewed()
        story.add(measured_by_code())
        before = story.shown()
        story.add(adopted(story.add(defined("something-new")), "something-new", "atlas-difficulty-v2-65k16k"))
        assert story.shown() == before

    def test_the_adopted_protocol_of_the_page_is_historical(self):
        story = reviewed()
        story.add(report())
        assert (story.difficulty()["status"], len(story.difficulty()["models"])) == ("historical", 3)

    def test_a_new_review_id_orphans_the_report(self):
        story = reviewed()
        story.add(measured_by_code())
        story.review("r2")
        shown = story.difficulty()
        assert (story.shown()["quality"], shown["status"], shown["models"]) == ("good", "not_measured", [])
        assert story.rules_of("difficulty") == ["difficulty.orphaned"]

    def test_a_report_from_before_any_review_belongs_to_none(self):
        story = CodeStory().listed()
        story.add(measured_by_code())
        story.review("r1")
        assert story.difficulty()["status"] == "not_measured"

    def test_the_newest_report_of_the_review_is_shown_current_or_not(self):
        story = reviewed()
        story.add(measured_by_code())
        story.add(report())
        assert story.difficulty()["status"] == "historical"

    def test_revisions_of_a_report_are_not_looked_at(self):
        story = reviewed()
        story.add(measured_by_code(source_revision="data-0", verifier_revision="verifier-0"))
        assert story.difficulty()["status"] == "current"

    def test_it_shows_only_while_the_displayed_quality_is_good(self):
        story = reviewed(some_issues)
        story.add(measured_by_code())
        assert (story.difficulty()["status"], story.difficulty()["models"]) == ("not_measured", [])
        assert story.rules_of("difficulty") == ["difficulty.not-good"]

    def test_an_open_defect_withholds_it_and_closing_it_does_not_bring_it_back(self):
        story = reviewed()
        story.add(measured_by_code())
        story.add(confirmed())
        assert (story.difficulty()["status"], story.difficulty()["models"]) == ("withheld", [])
        story.add(withdrawn())
        assert story.difficulty()["status"] == "not_measured"

    def test_a_stale_review_hides_it(self):
        story = reviewed()
        story.add(measured_by_code())
        story.revise("c2", dataset_revision="data-2")
        assert story.difficulty()["status"] == "needs_re_review"

    def test_an_authored_good_has_no_review_that_a_report_could_be_stored_under(self):
        story = CodeStory().listed(authored_review=authored("good"))
        story.add(measured_by_code())
        assert (story.shown()["quality"], story.difficulty()["status"]) == ("good", "not_measured")


def outcomes(size: str, **fields: Any):
    """The three outcomes, one of them changed."""
    return [outcome(s, **(fields if s == size else {})) for s in ("small", "large", "hosted")]


def parameters(size: str, **changes: Any):
    known = outcome(size).generation_parameters
    kept = {k: v for k, v in {**known, **changes}.items() if v is not ...}
    return outcomes(size, generation_parameters=kept)


INVALID = {
    "thinking left enabled": parameters("large", chat_template_kwargs={"enable_thinking": True}),
    "thinking not recorded": parameters("large", chat_template_kwargs=...),
    "thinking disabled by a number": parameters("large", chat_template_kwargs={"enable_thinking": 0}),
    "the base top_p of large": parameters("large", top_p=0.95),
    "the base presence penalty of large": parameters("large", presence_penalty=0),
    "reasoning effort not recorded": parameters("hosted", reasoning_effort=...),
    "another reasoning effort": parameters("hosted", reasoning_effort="high"),
    "a parameter left out": parameters("small", top_k=...),
    "a parameter that is not set": parameters("small", seed=1),
    "a template where none is asked for": parameters("small", chat_template_kwargs={"enable_thinking": False}),
    "another model": outcomes("small", model="Qwen/Qwen3.5-9B"),
    "two models": outcomes("small")[:2],
    "four models": [*outcomes("small"), outcome("small")],
    "another size": [*outcomes("small")[:2], outcome("hosted").model_copy(update={"size": "huge"})],
}


class TestProtocols:
    @pytest.mark.parametrize("difference", INVALID)
    def test_a_report_that_breaks_its_protocol_is_invalid(self, difference):
        story = reviewed()
        story.add(report(*INVALID[difference], protocol=V3))
        shown = story.difficulty()
        assert shown["status"] == "invalid"
        assert len(shown["mismatches"]) in {1, 2}
        assert len(shown["models"]) == len(INVALID[difference])

    @pytest.mark.parametrize("limit", ["context_window", "max_input_tokens", "max_output_tokens"])
    @pytest.mark.parametrize("value", [None, 8192])
    def test_every_limit_must_be_recorded_as_it_is(self, limit, value):
        story = reviewed()
        story.add(measured_by_code(limits={limit: value}))
        assert [limit in m for m in story.difficulty()["mismatches"]] == [True]

    def test_other_keys_of_larges_chat_template_are_not_looked_at(self):
        story = reviewed()
        template = {"enable_thinking": False, "more": 1}
        story.add(report(*parameters("large", chat_template_kwargs=template), protocol=V3))
        assert story.difficulty()["status"] == "current"

    def test_numbers_are_compared_as_json(self):
        story = reviewed()
        story.add(report(*outcomes("small", generation_parameters={**BASE, "top_k": 20.0, "min_p": 0.0}), protocol=V3))
        assert story.difficulty()["status"] == "current"

    def test_the_v4_judge_must_be_configured_as_the_code_says(self):
        story = reviewed()
        story.add(measured_by_code(protocol=V4_JUDGE, verifier_configuration={"tasktrove_judge": JUDGE}))
        assert story.difficulty()["status"] == "current"

    @pytest.mark.parametrize(
        "configuration",
        [
            {},
            {"tasktrove_judge": "Qwen/Qwen3.5-9B"},
            {"tasktrove_judge": {**JUDGE, "model": "Qwen/Qwen3.5-122B-A10B"}},
            {"tasktrove_judge": {**JUDGE, "provider": "elsewhere"}},
            {"tasktrove_judge": {**JUDGE, "chat_template_kwargs": {"enable_thinking": True}}},
            {"tasktrove_judge": {**JUDGE, "chat_template_kwargs": {"enable_thinking": False, "more": 1}}},
            {"tasktrove_judge": {**JUDGE, "relay_script_sha256": ""}},
            {"tasktrove_judge": {k: v for k, v in JUDGE.items() if k != "relay_script_sha256"}},
        ],
    )
    def test_another_v4_judge_makes_it_invalid(self, configuration):
        story = reviewed()
        story.add(measured_by_code(protocol=V4_JUDGE, verifier_configuration=configuration))
        assert (story.difficulty()["status"], len(story.difficulty()["mismatches"])) == ("invalid", 1)

    @pytest.mark.parametrize(
        ("source", "changes", "status"),
        [
            (CHECKLIST_SOURCE, {}, "current"),
            (SOURCE, {}, "invalid"),
            (CHECKLIST_SOURCE, {"model": "deepseek-ai/DeepSeek-V4"}, "invalid"),
            (CHECKLIST_SOURCE, {"base_url": "https://elsewhere.example/v1"}, "invalid"),
            (CHECKLIST_SOURCE, {"api_key_reference": "none"}, "invalid"),
            (CHECKLIST_SOURCE, {"chat_template_kwargs": {"enable_thinking": False}}, "invalid"),
            (CHECKLIST_SOURCE, {"substitution_reason": ""}, "invalid"),
        ],
    )
    def test_the_v4_checklist_is_for_three_sources_and_one_judge(self, source, changes, status):
        story = reviewed()
        configuration = {"tasktrove_judge": {**CHECKLIST_JUDGE, **changes}}
        story.add(measured_by_code(protocol=V4_CHECKLIST, atlas_id=source, verifier_configuration=configuration))
        assert story.difficulty()["status"] == status


class TestFollowUps:
    def test_a_complete_one_is_shown_beside_its_report(self):
        story = reviewed()
        story.add(measured_by_code())
        story.add(followup())
        (shown,) = story.difficulty()["followups"]
        assert (shown["id"], shown["size"], shown["label"]) == ("f1", "followup", "generation setting follow-up")
        assert shown["outcome"]["solved"] == 7

    def test_an_alternate_checkpoint_is_hosted_and_without_a_changed_parameter_it_is_a_recheck(self):
        story = reviewed()
        story.add(measured_by_code())
        story.add(followup(kind="alternate_checkpoint", changed_parameter=None, checkpoint_change="step 200"))
        (shown,) = story.difficulty()["followups"]
        assert (shown["size"], shown["label"]) == ("hosted", "native verifier recheck")

    @pytest.mark.parametrize("other", [{"state": "incomplete"}, {"original_report": None, "state": "incomplete"}])
    def test_one_that_is_not_complete_is_not_shown(self, other):
        story = reviewed()
        story.add(measured_by_code())
        story.add(followup(**other))
        assert story.difficulty()["followups"] == []

    def test_one_of_another_report_is_not_shown(self):
        story = reviewed()
        story.add(measured_by_code())
        story.add(followup(original_report={"name": "difficulty.json", "sha256": sha("another")}))
        assert story.difficulty()["followups"] == []

    def test_it_is_orphaned_with_its_report(self):
        story = reviewed()
        story.add(measured_by_code())
        story.add(followup())
        story.review("r2")
        story.add(measured_by_code())
        assert (story.difficulty()["status"], story.difficulty()["followups"]) == ("current", [])


class TestOtherDecisions:
    def test_a_good_publication_is_not_refused(self):
        story = CodeStory().listed()
        ids = [story.add(part) for part in good("r1")]
        assert story.against(published("r1", "r1", ids)) == ()

    def test_a_publication_of_other_data_than_the_present_is_refused(self):
        story = CodeStory().listed(dataset_revision="data-2")
        ids = [story.add(part) for part in good("r1")]
        assert [p.place for p in story.against(published("r1", "r1", ids))] == ["/dataset_revision"]

    def test_protocols_may_be_adopted_beside_each_other_or_in_place_of_one(self):
        story = CodeStory().listed()
        v2 = "atlas-difficulty-v2-65k16k"
        definition = story.add(defined("v4"))
        assert story.against(adopted(definition, "v4")) == ()
        assert story.against(adopted(definition, "v4", v2)) == ()
        story.add(adopted(definition, "v4"))
        assert story.environment.adopted == (v2, "v4")
        story.add(adopted(story.add(defined("v5")), "v5", v2))
        assert story.environment.adopted == ("v4", "v5")

    def test_adopting_twice_or_in_place_of_what_is_not_adopted_is_refused(self):
        story = CodeStory().listed()
        v2 = "atlas-difficulty-v2-65k16k"
        definition = story.add(defined("v4"))
        assert [p.place for p in story.against(adopted(definition, "v4", "v3"))] == ["/replaces"]
        story.add(adopted(definition, "v4"))
        assert [p.place for p in story.against(adopted(definition, "v4"))] == ["/protocol"]
        assert [p.place for p in story.against(adopted(definition, "v4", v2))] == ["/protocol"]

    def test_an_adoption_names_a_definition_that_is_there(self):
        story = CodeStory().listed()
        assert [p.place for p in story.against(adopted("e1", "v4"))] == ["/protocol"]
        story.add(defined("v4"))
        assert [p.place for p in story.against(adopted("e1", "v4"))] == ["/definition"]

    def test_a_protocol_defined_otherwise_needs_a_new_id(self):
        story = CodeStory().listed()
        assert story.against(defined()) == ()
        assert [p.place for p in story.against(defined(sources=[SOURCE]))] == ["/protocol"]


def long_story() -> Story:
    """Something of everything."""
    story = CodeStory().listed(extra={"grading_revision": GRADING}, authored_review=authored("bad"))
    story.add(suspected("d2", "task-import"))
    story.review("r1")
    story.add(measured_by_code())
    story.add(followup())
    story.add(confirmed())
    story.review("fix", fixed)
    story.add(resolved("v", "fix"))
    story.add(superseded("r1"))
    story.review("r2", supplemental)
    story.review("r3", bad, review_pool_role="verifier_defect")
    story.review("r4")
    story.add(measured_by_code())
    story.add(followup())
    story.add(grading_proof("r4"))
    story.revise("c2", dataset_revision=DATA, input_rows=700, extra={"grading_revision": GRADING})
    story.refresh(retired("c3"))
    return story


class TestWhatIsShown:
    def test_the_state_is_that_of_the_wire_message(self):
        shown = long_story().shown()
        message = audit_pb2.Source(**shown)
        assert message == json_format.ParseDict(shown, audit_pb2.Source())
        assert (message.quality, message.difficulty.status, message.retired) == ("good", "current", True)
        assert [f.id for f in message.difficulty.followups] == ["f1"]
        assert set(shown["review"]) == set(audit_pb2.Review.DESCRIPTOR.fields_by_name)

    @pytest.mark.parametrize("size", range(3, 50, 3))
    def test_every_derived_value_has_a_reason_that_names_events_of_the_past(self, size):
        story = CodeStory()
        for event in long_story().events[:size]:
            story.append(event)
        shown = story.shown()
        assert {r["field"] for r in shown["reasons"]} >= {"quality", "applicability", "review", "difficulty"}
        assert all(r["rule"] and r["text"].endswith(".") for r in shown["reasons"])
        assert all(r["events"] and max(r["events"]) < size for r in shown["reasons"])

    def test_a_source_is_not_shown_before_it_is_in_the_catalogue(self):
        story = CodeStory()
        story.review("r1")
        assert RULES.show(SOURCE, story.facts_of(SOURCE), story.environment) is None

    def test_what_rests_on_a_sample_says_so(self):
        story = CodeStory().listed()
        story.review("r1")
        assert story.shown()["sample"] is False
        story.add(measured_by_code(), sample=True)
        assert story.shown()["sample"] is True

    def test_a_source_that_was_retired_and_reinstated_says_so(self):
        story = reviewed()
        story.refresh(retired("c2"))
        assert story.shown()["retired"] is True
        story.refresh(reinstated("c3"))
        assert story.rules_of("catalogue") == ["catalogue.reinstated"]


class TestCatalogueRows:
    @pytest.mark.parametrize(
        "fields",
        [
            {},
            {"is_benchmark": False, "input_rows": 0, "tags": ["math"], "extra": {"grading_revision": None, "more": []}},
            {"authored_review": {"grade": None}},
            {
                "counts": [
                    {"basis": "input", "rows": 0, "revision": None, "evidence": {"name": "f", "sha256": sha("f")}}
                ]
            },
        ],
    )
    def test_the_digest_of_a_row_is_over_what_differs_from_its_defaults(self, fields):
        written = row(**fields)
        expected = sha256_hex(strictjson.dumps(written.model_dump(exclude_defaults=True)))
        assert row_of(written.model_dump_json().encode()).sha256 == expected
        assert row_of(written.model_dump_json(exclude_defaults=True).encode()).sha256 == expected

    @pytest.mark.parametrize("recorded", [None, "", 7, ["x"]])
    def test_a_grading_revision_that_is_no_text_is_none(self, recorded):
        assert row_of(row(extra={"grading_revision": recorded}).model_dump_json().encode()).grading_revision is None


def test_the_set_stands_on_itself_and_on_nothing_that_payloads_are_made_of():
    names = {name for path in Path(atlas_code_1.__file__).parent.glob("*.py") for name in _imported(path)}
    shared = {n for n in names if n.startswith("ledger.") and not n.startswith("ledger.rules.atlas_code_1")}
    assert shared == {"ledger.core.errors", "ledger.core.ids", "ledger.core", "ledger.rules"}
    assert "pydantic" not in names


def _imported(path: Path) -> list[str]:
    found = [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.ImportFrom)]
    return [node.module or "" for node in found]


class TestTheEnvironment:
    def test_a_closing_touches_the_sources_of_its_parts(self):
        story = CodeStory().listed()
        ids = [story.add(revised("c2")), story.add(declared("c2", id="O:other"))]
        assert RULES.touched(story.environment, story.event(synced("c2", ids))) == {SOURCE, "O:other"}

    @pytest.mark.parametrize("payload", [adopted("e1"), defined("v3"), rules_adopted(), confirmed()])
    def test_policy_touches_nothing(self, payload):
        story = CodeStory().listed()
        assert RULES.touched(story.environment, story.event(payload)) == frozenset()
        assert RULES.touched(story.environment, story.event(payload)) is not EVERYTHING

    def test_its_types_are_those_that_change_it(self):
        story = CodeStory().listed()
        payloads = [declared("c9"), revised("c9"), retired("c9"), reinstated("c9"), synced("c8"), rules_adopted()]
        payloads += [defined("v3"), adopted("e1", "v3"), confirmed(), report(), superseded("r1"), *good("r1")]
        for event in map(story.event, payloads):
            changed = RULES.fold_environment(story.environment, event) != story.environment
            assert changed == (event.type in RULES.environment_types), event.type
        assert RULES.environment_types <= {t.type for t in REGISTRY}


def payloads() -> st.SearchStrategy[BaseModel]:
    """Events of one source and its surroundings, in any order, sensible or not."""
    names, defects = st.sampled_from("ab"), st.sampled_from(["d1", "d2"])
    refreshes, revision = st.sampled_from(["c1", "c2"]), st.sampled_from([None, "data-1", "data-2"])
    kinds = st.sampled_from([good, some_issues, bad, fixed, supplemental])
    grades = st.sampled_from([None, "good", "bad"])
    return st.one_of(
        st.builds(
            lambda c, r, g: declared(c, dataset_revision=r, authored_review=authored(g)), refreshes, revision, grades
        ),
        st.builds(
            lambda c, r: revised(c, verifier_revision=r, extra={"grading_revision": GRADING}), refreshes, revision
        ),
        st.builds(retired, refreshes),
        st.builds(reinstated, refreshes),
        st.builds(synced, refreshes),
        st.builds(lambda kind, c, n: kind(c)[n], kinds, names, st.integers(0, 2)),
        st.builds(lambda kind, c: kind(c)[-1], kinds, names),
        st.builds(lambda r, c, d: published(r, c, [], dataset_revision=d), names, names, revision),
        st.builds(superseded, names),
        st.builds(tag, st.none() | names),
        st.builds(suspected, defects),
        st.builds(confirmed, defects),
        st.builds(validation, defects),
        st.builds(lambda r, d: resolved("v", r, d), names, defects),
        st.builds(reopened, defects),
        st.builds(withdrawn, defects),
        st.builds(lambda p: measured_by_code(protocol=p), st.sampled_from([V3, V4_JUDGE, "earlier"])),
        st.builds(lambda s: followup(state=s), st.sampled_from(["complete", "incomplete"])),
        st.builds(lambda r, e: grading_proof(r, equal=e), names, st.booleans()),
        st.builds(defined),
        st.builds(lambda p: adopted("e1", p), st.sampled_from(["v3", "v4"])),
    )


class TestEveryOrderOfEvents:
    @settings(deadline=None, max_examples=60)
    @given(st.lists(st.tuples(payloads(), st.booleans()), max_size=25))
    def test_fold_show_and_decide_are_total_and_a_fold_resumes_anywhere(self, made):
        story, resumed = CodeStory().listed(), CodeStory().listed()
        for payload, sample in made:
            story.against(payload)
            story.add(payload, sample=sample)
            resumed.environment = RULES.decode_environment(RULES.encode_environment(resumed.environment))
            resumed.facts = {s: RULES.decode_facts(RULES.encode_facts(f)) for s, f in resumed.facts.items()}
            resumed.append(story.events[-1])
            assert (resumed.environment, resumed.facts) == (story.environment, story.facts)
            shown = story.shown()
            assert list(resumed.shown().items()) == list(shown.items())
            audit_pb2.Source(**shown)
            check_what_always_holds(story, shown)


def check_what_always_holds(story: CodeStory, shown: dict[str, Any]) -> None:
    assert story.facts_of(SOURCE).standing.open == len(shown["open_defects"])
    if shown["open_defects"]:
        assert shown["quality"] in {"some_issues", "bad"}
        assert shown["difficulty"]["status"] == "withheld"
    elif shown["applicability"] == "stale":
        assert (shown["quality"], shown["difficulty"]["status"]) == ("needs_re_review", "needs_re_review")
    if shown["difficulty"]["models"]:
        assert shown["quality"] == "good"
    if shown["quality"] in {"unrated", "unreviewed"}:
        assert (shown["review"] is None) == (shown["quality"] == "unreviewed")


TELL = """
import json
from {module} import RULES, long_story
story = long_story()
print(json.dumps(story.shown()))
print(RULES.encode_environment(story.environment).decode())
print([RULES.encode_facts(f).decode() for f in story.facts.values()])
"""


def test_two_processes_with_different_hash_seeds_show_the_same():
    told = [_told(seed) for seed in ("1", "2")]
    assert told[0] == told[1]
    assert json.loads(told[0].splitlines()[0])["id"] == SOURCE


def _told(seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    code = TELL.format(module=__name__)
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return done.stdout
