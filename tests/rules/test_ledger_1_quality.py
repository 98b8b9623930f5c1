"""Quality under the corrected rules, a class for each failure that they answer (rows of the domain's list)."""

from __future__ import annotations

import pytest

from ledger.events.catalogue import AuthoredReview

from . import builders
from .builders import confirmed, finding, judgment, reopened, run, sha, superseded, suspected, synthesis, withdrawn
from .ledger_1_builders import (
    DATA,
    OTHER_DATA,
    VERIFIER,
    Told,
    good,
    judged_on,
    of_task,
    provenance,
    session,
)

SUPPLEMENTAL_JUDGE = "model:Qwen/Qwen3-Coder-30B-A3B-Instruct"
EARLIER, LATER = "2026-10-01T00:00:00Z", "2026-10-09T00:00:00Z"


def told(*parts, **fields) -> Told:
    """A story with one published collection of these parts."""
    story = Told().listed()
    story.review("r1", lambda _: parts, **fields)
    return story


def rating(*parts, **fields) -> str | None:
    return told(*parts, **fields).shown()["review"]["rating"]


def some_issues(collection: str):
    return builders.some_issues(collection)


def bad(collection: str):
    return builders.bad(collection)


class TestRow6And9AnOpenDefectCapsARatingAndReplacesNone:
    @pytest.mark.parametrize(
        ("kind", "displayed", "underneath"),
        [(good, "some_issues", "good"), (some_issues, "some_issues", "some_issues"), (bad, "bad", "bad")],
    )
    def test_the_rating_underneath_is_kept(self, kind, displayed, underneath):
        story = Told().listed()
        story.review("r1", kind)
        story.add(confirmed())
        assert story.quality() == (displayed, underneath)
        assert story.has("quality.open-defect")
        assert story.has("quality.review-supports")

    def test_without_a_defect_the_rating_is_the_quality(self):
        assert told(*good("r1")).quality() == ("good", "good")

    def test_bad_is_lifted_to_the_cap_by_a_newer_review_while_the_defect_is_open(self):
        story = told(*bad("r1"))
        story.add(confirmed())
        story.review("r2")
        assert story.quality() == ("some_issues", "good")

    def test_a_newer_review_may_lower_it_to_bad_while_the_defect_is_open(self):
        story = told(*good("r1"))
        story.add(confirmed())
        story.review("r2", bad)
        assert story.quality() == ("bad", "bad")

    def test_an_unreviewed_source_stays_unreviewed_with_its_defect_listed(self):
        story = Told().listed()
        story.add(confirmed())
        assert story.quality() == ("unreviewed", None)
        assert story.has("quality.open-defect-listed")
        assert [d["id"] for d in story.shown()["open_defects"]] == ["d1"]

    def test_an_unrated_source_stays_unrated_with_its_defect_listed(self):
        story = told(*good("r1"), review_pool_role="verifier_defect")
        story.add(confirmed())
        assert story.quality() == ("unrated", None)
        assert story.has("quality.open-defect-listed")

    def test_a_stale_rating_stays_hidden_with_an_open_defect(self):
        story = told(*good("r1"))
        story.add(confirmed())
        story.revise("c2", dataset_revision=OTHER_DATA)
        assert story.quality() == ("needs_re_review", None)
        assert story.has("quality.open-defect-listed")
        assert story.shown()["difficulty"]["status"] == "withheld"

    def test_a_suspicion_caps_nothing(self):
        story = told(*good("r1"))
        story.add(suspected())
        assert story.quality() == ("good", "good")

    def test_a_second_defect_keeps_the_cap_when_the_first_is_closed(self):
        story = told(*good("r1"))
        story.add(confirmed("d1"))
        story.add(confirmed("d2"))
        story.add(withdrawn("d1"))
        story.review("r2")
        assert story.quality() == ("some_issues", "good")
        assert "d2" in story.text_of("quality.open-defect")


class TestGoodAfterADefectWaitsForANewPublication:
    @pytest.mark.parametrize("closing", ["resolved", "withdrawn"])
    def test_good_from_before_the_closing_stays_capped(self, closing):
        story = told(*good("r1"))
        story.add(confirmed())
        if closing == "resolved":
            story.resolve()
        else:
            story.add(withdrawn())
        assert story.quality() == ("some_issues", "good")
        assert story.has("quality.waits-for-publication")

    def test_good_published_after_the_closing_is_good(self):
        story = told(*good("r1"))
        story.add(confirmed())
        story.resolve()
        story.review("r2")
        assert story.quality() == ("good", "good")
        assert not story.has("quality.waits-for-publication")

    def test_a_later_supplement_ends_no_waiting(self):
        story = told(*good("r1"))
        story.add(confirmed())
        story.resolve()
        story.review("r2", review_pool_role="verifier_defect")
        assert story.quality() == ("some_issues", "good")

    def test_bad_waits_for_nothing(self):
        story = told(*bad("r1"))
        story.add(confirmed())
        story.add(withdrawn())
        assert story.quality() == ("bad", "bad")
        assert not story.has("quality.waits-for-publication")

    def test_a_withdrawn_suspicion_was_no_closing(self):
        story = told(*good("r1"))
        story.add(suspected())
        story.add(withdrawn())
        assert story.quality() == ("good", "good")

    def test_a_reopened_defect_caps_again(self):
        story = told(*good("r1"))
        story.add(confirmed())
        story.resolve()
        story.review("r2")
        story.add(reopened())
        assert story.quality() == ("some_issues", "good")


class TestRow10TheLowerOfTwoRatingsIsShownAndAnAuthoredOneOnlyStandsIn:
    AUTHORED = AuthoredReview(grade="bad", reviewed_at=EARLIER, dataset_revision=DATA, verifier_revision=VERIFIER)

    def test_an_authored_rating_is_shown_while_no_collection_rates(self):
        story = Told().listed(authored_review=self.AUTHORED)
        shown = story.shown()
        assert story.quality() == ("bad", "bad")
        assert (shown["review"]["id"], shown["review"]["rating"], shown["panel"]) == ("", "bad", None)
        assert [(r["role"], r["rating"]) for r in shown["review_pool"]] == [("reused", "bad")]
        assert story.cited_by("quality.authored") == ["source.declared", "catalogue.synced"]

    def test_an_authored_bad_is_not_upgraded_by_an_open_defect(self):
        story = Told().listed(authored_review=self.AUTHORED)
        story.add(confirmed())
        assert story.quality() == ("bad", "bad")

    def test_an_authored_good_is_capped_by_an_open_defect(self):
        story = Told().listed(authored_review=self.AUTHORED.model_copy(update={"grade": "good"}))
        story.add(confirmed())
        assert story.quality() == ("some_issues", "good")

    def test_a_collection_that_rates_takes_its_place(self):
        story = Told().listed(authored_review=self.AUTHORED)
        story.review("r1")
        assert story.quality() == ("good", "good")
        assert [r["role"] for r in story.shown()["review_pool"]] == ["rating"]

    def test_a_collection_without_a_rating_does_not(self):
        story = Told().listed(authored_review=self.AUTHORED)
        story.review("r1", review_pool_role="verifier_defect")
        assert story.quality() == ("bad", "bad")
        assert [r["role"] for r in story.shown()["review_pool"]] == ["resolution", "reused"]

    def test_its_verifier_is_the_word_of_the_catalogue_and_so_unknown(self):
        story = Told().listed(authored_review=self.AUTHORED)
        assert story.shown()["applicability"] == "unknown"

    def test_its_data_revision_may_be_stale(self):
        old = self.AUTHORED.model_copy(update={"dataset_revision": OTHER_DATA})
        story = Told().listed(authored_review=old)
        assert story.quality() == ("needs_re_review", None)

    def test_without_a_grade_it_rates_nothing(self):
        story = Told().listed(authored_review=AuthoredReview(grade=None))
        assert story.quality() == ("unreviewed", None)
        assert story.shown()["review"] is None


class TestRow11ASupplementalCollectionMovesNothing:
    @pytest.mark.parametrize("why", ["role", "judge", "precondition"])
    def test_rating_review_and_difficulty_stay_and_it_is_in_the_pool(self, why):
        story = told(*good("r1"))
        story.report()
        before = story.shown()
        parts = {
            "role": good,
            "judge": lambda c: [*good(c), judgment(c, by=SUPPLEMENTAL_JUDGE)],
            "precondition": lambda c: [run(c), judgment(c), synthesis(c)],
        }[why]
        role = "verifier_defect" if why == "role" else None
        story.review("r2", parts, review_pool_role=role)
        after = story.shown()
        for field in ("quality", "underlying_quality", "review", "difficulty", "panel"):
            assert after[field] == before[field], field
        assert after["difficulty"]["status"] == "current"
        pooled = after["review_pool"][0]
        assert (pooled["id"], pooled["rating"]) == (sha("r2"), None)
        assert pooled["role"] == ("resolution" if why == "role" else "supplemental")
        assert story.has("review.no-rating-moves-none")


class TestRow12ACollectionThatWasJudgedEarlierDoesNotTakeOver:
    def told(self, first: str | None, second: str | None) -> Told:
        story = Told().listed()
        story.review("r1", lambda c: judged_on(c, first, "keep"))
        story.review("r2", lambda c: judged_on(c, second, "conditional"))
        return story

    def test_later_judgments_take_over(self):
        assert self.told(EARLIER, LATER).quality() == ("some_issues", "some_issues")

    def test_earlier_judgments_do_not_though_published_later(self):
        story = self.told(LATER, EARLIER)
        assert story.quality() == ("good", "good")
        assert story.cited_by("review.older-judgment") == ["review.published"]
        assert [r["rating"] for r in story.shown()["review_pool"]] == ["some_issues", "good"]

    def test_the_same_moment_in_another_zone_is_not_earlier(self):
        assert self.told("2026-10-01T02:00:00+02:00", EARLIER).quality() == ("some_issues", "some_issues")

    def test_the_latest_of_its_judgments_counts_however_times_are_written(self):
        story = Told().listed()
        story.review("r1", lambda c: judged_on(c, EARLIER))
        mixed = ["2026-10-01T00:00:00.5Z", "2026-09-30", "2026-10-01T05:00:00+05:00"]
        parts = [judgment("r2", "conditional", reviewed_at=at) for at in mixed]
        story.review("r2", lambda c: [run(c), *parts, synthesis(c, "conditional")])
        assert story.shown()["review"]["review_date"] == "2026-10-01T00:00:00.5Z"

    def test_a_moment_counts_and_not_how_late_its_text_looks(self):
        assert self.told("2026-10-01T02:00:00+00:00", "2026-10-01T09:00:00+09:00").quality() == ("good", "good")
        story = Told().listed()
        parts = [judgment("r1", reviewed_at=at) for at in ("2026-10-01T02:00:00+00:00", "2026-10-01T09:00:00+09:00")]
        story.review("r1", lambda c: [run(c), *parts, synthesis(c, "conditional")])
        assert story.shown()["review"]["review_date"] == "2026-10-01T02:00:00+00:00"

    def test_of_equal_moments_the_first_judgment_dates_the_review(self):
        story = Told().listed()
        parts = [judgment("r1", reviewed_at=at) for at in ("2026-10-01", EARLIER)]
        story.review("r1", lambda c: [run(c), *parts, synthesis(c, "conditional")])
        assert story.shown()["review"]["review_date"] == "2026-10-01"

    @pytest.mark.parametrize("known", [EARLIER, "1969-12-31T00:00:00Z"])
    def test_an_unknown_date_is_not_taken_as_newer_than_a_known_one(self, known):
        assert self.told(known, None).quality() == ("good", "good")

    def test_a_known_date_takes_over_an_unknown_one(self):
        assert self.told(None, EARLIER).quality() == ("some_issues", "some_issues")

    def test_of_two_unknown_dates_the_later_publication_counts(self):
        assert self.told(None, None).quality() == ("some_issues", "some_issues")

    def test_an_explicit_supersession_lets_it_take_over(self):
        story = self.told(LATER, EARLIER)
        story.add(superseded("r1", by="r2"))
        assert story.quality() == ("some_issues", "some_issues")

    def test_what_supersedes_takes_the_place_also_against_others(self):
        story = Told().listed()
        story.review("r0", lambda c: judged_on(c, "2026-10-05T00:00:00Z", "keep"))
        story.review("r1", lambda c: judged_on(c, LATER, "keep"))
        story.review("r2", lambda c: judged_on(c, EARLIER, "conditional"))
        story.add(superseded("r1", by="r2"))
        assert story.quality() == ("some_issues", "some_issues")

    def test_a_supersession_by_nothing_leaves_the_one_before(self):
        story = self.told(EARLIER, LATER)
        story.add(superseded("r2"))
        assert story.quality() == ("good", "good")

    def test_two_collections_that_supersede_each_other_rate_nothing(self):
        story = self.told(EARLIER, LATER)
        story.add(superseded("r1", by="r2"))
        story.add(superseded("r2", by="r1"))
        assert story.quality() == ("unrated", None)


class TestRow19GoodHasPreconditions:
    def test_three_judges_a_natively_run_task_and_a_clean_tree_are_good(self):
        assert rating(*good("r1"), execution_provenance=provenance(dirty=False)) == "good"

    def test_zero_judges_can_never_be_good(self):
        story = told(run("r1"), synthesis("r1"))
        assert story.quality() == ("unrated", None)
        assert story.has("review.no-judges")
        assert story.has("review.panel-size")

    def test_one_natively_run_task_with_two_judges_is_too_few(self):
        story = told(*good("r1"), *of_task("t2", run("r1"), judgment("r1"), judgment("r1")))
        assert story.quality() == ("unrated", None)
        assert story.cited_by("review.panel-size") == ["observation.recorded", "review.published"]

    def test_a_native_run_of_the_source_itself_needs_no_panel(self):
        assert rating(*good("r1"), run("r1", level="source", dataset_revision=DATA)) == "good"

    def test_a_human_judgment_fills_no_panel(self):
        human = judgment("r1", method="human_judgment")
        assert rating(run("r1"), judgment("r1"), judgment("r1"), human, synthesis("r1")) is None

    def test_a_dirty_tree_is_not_good(self):
        story = told(*good("r1"), execution_provenance=provenance(dirty=True))
        assert story.quality() == ("unrated", None)
        assert story.has("review.dirty-tree")

    def test_each_precondition_that_fails_is_named(self):
        story = told(run("r1"), synthesis("r1"), execution_provenance=provenance(dirty=True))
        assert {"review.no-judges", "review.panel-size", "review.dirty-tree"} <= set(story.rules_of("review"))

    def test_some_issues_and_bad_need_none_of_them(self):
        dirty = provenance(dirty=True)
        assert rating(run("r1"), synthesis("r1", "conditional"), execution_provenance=dirty) == "some_issues"
        assert rating(*bad("r1"), execution_provenance=dirty) == "bad"

    def test_without_a_native_run_it_is_some_issues_as_before(self):
        assert rating(*[judgment("r1")] * 3, synthesis("r1")) == "some_issues"


class TestRow24ThePanelSaysHowDiverseItIs:
    def test_one_model_is_said(self):
        story = told(*good("r1"))
        assert story.shown()["panel"]["models"] == 1
        assert story.has("review.one-judge-model")

    def test_several_models_are_not(self):
        judges = [judgment("r1", by=f"model:example/{n}") for n in "abc"]
        story = told(run("r1"), *judges, synthesis("r1"))
        assert story.shown()["panel"]["models"] == 3
        assert not story.has("review.one-judge-model")

    def test_conversations_and_prompts_are_counted_where_they_are_recorded(self):
        judges = [
            judgment("r1", session=session("c1", "p1")),
            judgment("r1", session=session("c1", "p1")),
            judgment("r1", attributes={"conversation_id": "c2", "prompt": "Judge it."}),
            judgment("r1", attributes={"conversation_id": 7, "prompt": ["no", "text"]}),
        ]
        panel = told(run("r1"), *judges, synthesis("r1")).shown()["panel"]
        assert (panel["judges"], panel["conversations"], panel["prompts"]) == (4, 2, 2)

    def test_the_fewest_and_the_most_judgments_of_a_task_are_told(self):
        panel = told(*good("r1"), *of_task("t2", judgment("r1"))).shown()["panel"]
        assert (panel["tasks"], panel["fewest"], panel["most"]) == (2, 1, 3)


class TestRow42VerdictsAreTalliedByTask:
    def panel_of(self, *verdicts: str) -> list:
        return [judgment("r1", verdict, finding("high")) for verdict in verdicts]

    def tasks(self, **verdicts: str) -> list:
        words = {"r": "reject", "k": "keep"}
        parts = [run("r1"), synthesis("r1", "reject")]
        for name, letters in verdicts.items():
            parts += of_task(name, *self.panel_of(*(words[letter] for letter in letters)))
        return parts

    def test_most_tasks_must_be_rejected_and_not_most_votes(self):
        # Five of nine votes reject, and only one task of three is rejected by most of its own judges.
        assert rating(*self.tasks(a="rrr", b="rkk", c="rkk")) == "some_issues"

    def test_two_of_three_tasks_are_most(self):
        story = told(*self.tasks(a="rrk", b="rrk", c="kkk"))
        assert story.quality() == ("bad", "bad")
        assert story.shown()["panel"]["tasks_rejected"] == 2

    def test_half_of_the_tasks_are_not_most(self):
        assert rating(*self.tasks(a="rrr", b="kkk")) == "some_issues"

    def test_half_of_a_tasks_judges_do_not_reject_it(self):
        assert rating(*self.tasks(a="rk")) == "some_issues"

    def test_conflicts_and_overruled_judges_are_counted(self):
        parts = [
            *self.tasks(a="rrk", b="kkk"),
            *of_task("a", synthesis("r1", "keep", level="task")),
            *of_task("b", synthesis("r1", "keep", level="task")),
        ]
        panel = told(*parts).shown()["panel"]
        assert (panel["tasks_in_conflict"], panel["overruled"]) == (1, 2)

    def test_a_judge_of_the_source_itself_judges_no_task(self):
        on_source = judgment("r1", "reject").model_copy(update={"subject": synthesis("r1").subject})
        panel = told(*good("r1"), on_source).shown()["panel"]
        assert (panel["judges"], panel["tasks"], panel["tasks_in_conflict"]) == (4, 1, 0)

    def test_only_issues_have_an_impact(self):
        assert rating(*good("r1"), judgment("r1", "keep", finding("high", "unknown"))) == "good"
        assert rating(*good("r1"), judgment("r1", "keep", finding("high", "issue"))) == "some_issues"

    def test_rejection_without_a_severe_issue_is_not_bad(self):
        judges = [judgment("r1", "reject", finding("medium"))] * 3
        assert rating(run("r1"), *judges, synthesis("r1", "reject")) == "some_issues"


class TestRow41NativeRunsUnderSeveralContractsAreSaid:
    def runs(self, *contracts: str | None):
        return [
            run("r1", verification={"status": "verified", "score": 1.0, "scoring_contract": contract})
            for contract in contracts
        ]

    def test_two_contracts_do_not_compare(self):
        story = told(*self.runs("sum/1", "mean/2"), *good("r1")[1:])
        assert story.has("review.scoring-contracts-differ")

    def test_a_known_and_an_unknown_one_do_not_either(self):
        assert told(*self.runs("sum/1", None), *good("r1")[1:]).has("review.scoring-contracts-differ")

    def test_one_contract_is_nothing_to_say(self):
        assert not told(*self.runs("sum/1", "sum/1"), *good("r1")[1:]).has("review.scoring-contracts-differ")


class TestRow7And15AVerifierRevisionCountsWhereTheExecutionShowedIt:
    def test_executed_it_is_current(self):
        assert told(*good("r1")).shown()["applicability"] == "current"

    @pytest.mark.parametrize("basis", ["catalogue", "publisher", None])
    def test_on_another_basis_the_rating_is_shown_and_its_applicability_unknown(self, basis):
        story = told(*good("r1"), verifier_revision_basis=basis)
        story.report()
        shown = story.shown()
        assert (shown["quality"], shown["applicability"]) == ("good", "unknown")
        assert shown["difficulty"]["status"] == "historical"
        assert story.has("quality.applicability-unknown")
        assert story.has("difficulty.review-unknown")

    @pytest.mark.parametrize("basis", ["catalogue", "publisher"])
    def test_a_claim_of_another_revision_makes_stale_and_says_whose_word_it_is(self, basis):
        story = told(*good("r1"), verifier_revision="9" * 40, verifier_revision_basis=basis)
        assert (story.shown()["quality"], story.shown()["applicability"]) == ("needs_re_review", "stale")
        assert f"instead of {'9' * 40} (as the {basis} names it" in story.text_of("applicability.revision-changed")

    @pytest.mark.parametrize("basis", ["catalogue", "publisher"])
    def test_a_claim_of_another_kind_of_revision_says_nothing(self, basis):
        story = told(*good("r1"), verifier_revision="9" * 64, verifier_revision_basis=basis)
        assert story.shown()["applicability"] == "unknown"

    def test_row_29_an_unknown_revision_is_said_and_not_taken_as_equal(self):
        story = told(*good("r1"), verifier_revision=None, verifier_revision_basis=None)
        story.revise("c2", verifier_revision=None)
        assert story.shown()["applicability"] == "unknown"
        assert "the review and the catalogue do not say" in story.text_of("applicability.revision-unknown")
