"""What stands against training on a source, and what is only said of it."""

from __future__ import annotations

from typing import Any

import pytest

from ledger.audit.checks import ANY, GOOD, MAX_SOURCES, SOME_ISSUES, Demand, Verdict, verdict
from ledger.core.errors import InvalidInput
from tests.audit.shown import defect, difficulty, review, shown

NAME = "A:one"
GOOD_NOW: dict[str, Any] = {"quality": "good", "applicability": "current", "review": review()}
PINNED: dict[str, Any] = {"dataset_revisions": {NAME: "data-1"}, "verifier_revisions": {NAME: "verifier-1"}}


def judged(require: str = GOOD, demand: dict[str, Any] | None = None, **state: Any) -> Verdict:
    known = {**GOOD_NOW, "difficulty": difficulty("current"), **state}
    return verdict(NAME, shown(NAME, **known), Demand((NAME,), require, **(PINNED if demand is None else demand)))


def open_defect(**fields: Any) -> dict[str, Any]:
    return defect("d1", kind="verifier", summary="it rewards wrong answers", **fields)


def test_a_good_source_whose_review_holds_for_what_is_taken_passes_without_a_word() -> None:
    found = judged()
    assert (found.passed, found.reasons, found.warnings) == (True, (), ())


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ({"quality": "some_issues"}, "Quality is Some issues; Good is required."),
        ({"quality": "bad"}, "Quality is Bad; Good is required."),
        ({"quality": "unreviewed", "review": None, "applicability": None}, "Quality is Unreviewed; Good is required."),
        ({"quality": "needs_re_review"}, "Quality is Needs re-review; Good is required."),
        ({"applicability": "stale"}, "Stale: the source changed since its review."),
        (
            {"applicability": "unknown"},
            "Good, applicability unknown: nothing shows that the review covers the present revisions.",
        ),
        ({"applicability": None, "review": None}, "Good, and no review says of which revisions."),
        ({"retired": True}, "Retired: the catalogue no longer offers it."),
        ({"atlas_status": "Excluded"}, "Excluded from the Atlas."),
        ({"dataset_revision": "data-2"}, "The data is data-1, and the source stands at data-2."),
        ({"verifier_revision": None}, "The present verifier revision is not known, so verifier verifier-1 cannot be"),
    ],
)
def test_good_is_refused_to_a_source(state: dict[str, Any], reason: str) -> None:
    found = judged(**state)
    assert not found.passed
    assert [said for said in found.reasons if said.startswith(reason)]


def test_the_revision_that_the_review_is_of_is_told_beside_the_one_that_is_taken() -> None:
    (told,) = judged(dataset_revision="data-2", review=review(dataset_revision="data-0")).reasons
    assert told == "The data is data-1, and the source stands at data-2; the review shown is of data-0."
    (told,) = judged(dataset_revision="data-2", review=review(dataset_revision="data-1")).reasons
    assert told.endswith("; the review shown is of data-1.")


def test_an_open_defect_stands_against_good_and_is_only_told_where_issues_are_taken() -> None:
    told = "Open verifier defect d1: it rewards wrong answers (https://example.org/1)"
    assert told in judged(quality="some_issues", open_defects=[open_defect()]).reasons
    found = judged(SOME_ISSUES, quality="some_issues", open_defects=[open_defect()])
    assert (found.passed, told in found.warnings) == (True, True)
    assert judged(open_defects=[open_defect(issue_url=None)]).reasons[0].endswith("(no issue filed)")


@pytest.mark.parametrize(("require", "passes"), [(GOOD, False), (SOME_ISSUES, False), (ANY, True)])
def test_a_stale_review_is_enough_only_where_any_source_is(require: str, passes: bool) -> None:
    assert judged(require, applicability="stale").passed is passes


@pytest.mark.parametrize(("require", "passes"), [(GOOD, False), (SOME_ISSUES, True), (ANY, True)])
def test_unknown_applicability_is_told_where_it_does_not_stand_against(require: str, passes: bool) -> None:
    found = judged(require, applicability="unknown")
    assert found.passed is passes
    assert any("applicability unknown" in said for said in (*found.reasons, *found.warnings))


@pytest.mark.parametrize("quality", ["bad", "unrated", "unreviewed", "needs_re_review"])
def test_any_takes_every_quality_that_is_listed_and_says_which_it_is(quality: str) -> None:
    found = judged(ANY, quality=quality)
    assert found.passed
    assert any(said.startswith("Quality is ") for said in found.warnings)
    assert not judged(ANY, quality=quality, retired=True).passed


def test_another_revision_than_the_present_one_stands_against_every_requirement() -> None:
    for require in (GOOD, SOME_ISSUES, ANY):
        assert not judged(require, dataset_revision="data-2").passed


def test_the_inventorys_one_revision_stands_for_the_datas_where_it_says_no_other() -> None:
    assert judged(dataset_revision=None, revision="data-1").passed
    assert not judged(dataset_revision=None, revision="data-2").passed


def test_what_is_not_pinned_is_said() -> None:
    found = judged(demand={})
    assert found.passed
    assert found.warnings == ("No data revision was given: nobody can say that what is trained on was reviewed.",)


def test_what_a_reader_should_know_of_a_source_that_passes_is_said() -> None:
    found = judged(difficulty=difficulty("withheld"), is_benchmark=True, sample=True, suspected_defects=[open_defect()])
    assert found.passed
    assert found.warnings == (
        "1 suspected defect, not confirmed: d1.",
        "Difficulty is withheld while verifier issues are open.",
        "It is a benchmark: what is trained on it cannot be measured by it.",
        "What is shown rests on sample events, made up for a demonstration.",
    )


def test_a_source_that_is_not_listed_fails_whatever_is_required() -> None:
    found = verdict("A:none", None, Demand(("A:none",), ANY))
    assert (found.passed, found.state) == (False, None)
    assert found.reasons == ("The Atlas does not list it: nothing is known of it.",)


def test_recorded_text_in_a_reason_is_harmless() -> None:
    hostile = open_defect(issue_url="https://example.org/\x1b[31m")
    hostile["summary"] = "\x1b]0;owned\x07" + "x" * 500
    (told,) = judged(open_defects=[hostile]).reasons
    assert told.isprintable()
    assert len(told) < 400


@pytest.mark.parametrize(
    ("demand", "place"),
    [
        ({"require": "excellent"}, "require"),
        ({"dataset_revisions": {"B:other": "r"}}, "dataset_revisions"),
        ({"verifier_revisions": {NAME: ""}}, "verifier_revisions"),
        ({"sources": ("",)}, "source_ids"),
        ({"sources": tuple(f"A:{n}" for n in range(MAX_SOURCES + 1))}, "source_ids"),
    ],
)
def test_a_demand_that_makes_no_sense_is_refused_with_its_place(demand: dict[str, Any], place: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Demand(**{"sources": (NAME,), **demand})
    assert place in {problem.place for problem in refused.value.problems}


def test_to_ask_of_no_source_is_an_error() -> None:
    with pytest.raises(InvalidInput, match="no source is named"):
        Demand(())
