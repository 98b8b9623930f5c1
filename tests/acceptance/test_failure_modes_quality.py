"""How the original got a rating wrong, done again: the ledger caps, keeps, compares dates and asks for a panel.

A test bears the number of the failure in the domain's list. Where the applet's later code judges otherwise, its rules
are asked about the same events, so that what is corrected is seen beside what it corrects.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tests.acceptance.corrected import CODE, Corrected
from tests.acceptance.curated import BAD, SOME_ISSUES
from tests.publications.review_builder import issue

Edit = Callable[[dict[str, Any]], None]


def judged_by_task(*votes: str) -> Edit:
    """Gives each task its own verdicts, a letter a judge: r rejects, k keeps."""
    words = {"r": "reject", "k": "keep"}

    def edit(document: dict[str, Any]) -> None:
        for task, letters in enumerate(votes):
            for number, letter in enumerate(letters, start=1):
                judge = f"/task/row-{task}/judge/{number}"
                next(r for r in document["reviews"] if r["id"].endswith(judge))["verdict"] = words[letter]

    return edit


def without_judges(document: dict[str, Any]) -> None:
    judges = {r["id"] for r in document["reviews"] if r["method"] == "model_judgment"}
    document["reviews"] = [r for r in document["reviews"] if r["id"] not in judges]
    for review in document["reviews"]:
        review["derived_from_review_ids"] = [i for i in review["derived_from_review_ids"] if i not in judges]


def dirty_tree(document: dict[str, Any]) -> None:
    document["execution_provenance"]["marinskyrl_dirty"] = True


def of_judges(said: Callable[[int], Mapping[str, Any]]) -> Edit:
    """Adds attributes to each judge, by its place among all."""

    def edit(document: dict[str, Any]) -> None:
        judges = [r for r in document["reviews"] if r["method"] == "model_judgment"]
        for number, judge in enumerate(judges):
            judge["attributes"] |= said(number)

    return edit


def test_row_09_while_a_defect_is_open_bad_can_be_corrected_and_nothing_unrated_becomes_some_issues(
    judged: Corrected, neighbour: Corrected
) -> None:
    judged.review(**BAD)
    judged.confirm()
    before = judged.doors.size
    judged.review()

    shown = judged.shown()
    assert judged.quality(at=before) == "bad"
    assert (shown["quality"], shown["underlying_quality"]) == ("some_issues", "good")
    assert {"quality.open-defect", "quality.review-supports"} <= set(judged.because("quality"))
    assert judged.under(CODE)["quality"] == "bad"

    neighbour.confirm()

    shown = neighbour.shown()
    assert (shown["quality"], shown["underlying_quality"]) == ("unreviewed", None)
    assert [defect["id"] for defect in shown["open_defects"]] == ["d1"]
    assert neighbour.under(CODE)["quality"] == "some_issues"


def test_row_09_the_rating_underneath_comes_back_once_the_defect_is_closed_and_a_collection_says_so(
    judged: Corrected,
) -> None:
    judged.review()
    judged.confirm()
    judged.repair()
    resolved = judged.doors.size

    assert (judged.quality(), judged.shown()["underlying_quality"]) == ("some_issues", "good")
    assert "quality.waits-for-publication" in judged.because("quality")

    judged.review()

    assert judged.quality(at=resolved) == "some_issues"
    assert judged.quality() == "good"


def test_row_10_an_authored_bad_is_not_lifted_by_an_open_defect(judged: Corrected) -> None:
    judged.relist(authored_review={"grade": "bad", "dataset_revision": judged.dataset})
    before = judged.doors.size
    judged.confirm()

    assert (judged.quality(at=before), judged.quality()) == ("bad", "bad")
    shown = judged.shown()
    assert [review["role"] for review in shown["review_pool"]] == ["reused"]
    assert "review.authored" in judged.because("review")
    assert (judged.under(CODE, at=before)["quality"], judged.under(CODE)["quality"]) == ("bad", "some_issues")


def test_row_11_a_supplemental_collection_wipes_no_rating_and_moves_no_review(judged: Corrected) -> None:
    review = judged.review()
    judged.measure()
    before = judged.shown()

    supplement = judged.review(supplemental=True)

    after = judged.shown()
    for field in ("quality", "underlying_quality", "applicability", "review", "difficulty", "panel"):
        assert after[field] == before[field], field
    assert (after["quality"], after["review"]["id"], after["difficulty"]["status"]) == ("good", review, "current")
    pool = [(r["id"], r["role"], r["rating"]) for r in after["review_pool"]]
    assert pool == [(supplement, "supplemental", None), (review, "rating", "good")]
    assert "review.no-rating-moves-none" in judged.because("review")

    wiped = judged.under(CODE)
    assert (wiped["quality"], wiped["review"]["id"], wiped["review"]["rating"]) == ("unrated", supplement, None)


def test_row_12_an_older_collection_published_again_later_does_not_override_a_newer_rating(judged: Corrected) -> None:
    newer = judged.review(day="2026-10-09")
    before = judged.doors.size
    older = judged.review(day="2026-10-02", **SOME_ISSUES)

    shown = judged.shown()
    assert (shown["quality"], shown["review"]["id"]) == ("good", newer)
    assert [(r["id"], r["rating"]) for r in shown["review_pool"]] == [(older, "some_issues"), (newer, "good")]
    assert "review.older-judgment" in judged.because("review")
    last = judged.under(CODE)
    assert (last["quality"], last["review"]["id"]) == ("some_issues", older)

    judged.doors.record("review", "supersede", newer, "--by", older, "--reason", "The newer run graded other data.")

    shown = judged.shown()
    assert (shown["quality"], shown["review"]["id"]) == ("some_issues", older)
    assert [r["superseded"] is not None for r in shown["review_pool"]] == [False, True]
    assert judged.quality(at=before) == "good"


def test_row_19_without_judges_nothing_is_good(judged: Corrected) -> None:
    judged.review(edit=without_judges)

    shown = judged.shown()
    assert (shown["quality"], shown["review"]["rating"], shown["panel"]["judges"]) == ("unrated", None, 0)
    assert {"review.no-judges", "review.panel-size"} <= set(judged.because("review"))
    assert judged.under(CODE)["quality"] == "good"


def test_row_19_a_panel_of_two_and_a_dirty_tree_are_not_good_and_each_reason_is_named(
    judged: Corrected, neighbour: Corrected
) -> None:
    judged.review(judge_verdicts=("keep", "keep"))
    neighbour.review(edit=dirty_tree)

    for source, rule in ((judged, "review.panel-size"), (neighbour, "review.dirty-tree")):
        assert source.quality() == "unrated"
        assert rule in source.because("review")
        assert source.under(CODE)["quality"] == "good"

    judged.review()

    assert judged.quality() == "good"


def test_row_24_that_three_judges_are_one_model_is_shown_and_independence_is_no_constant(
    judged: Corrected, neighbour: Corrected
) -> None:
    judged.review()

    panel = judged.shown()["panel"]
    assert (panel["judges"], panel["models"], panel["conversations"]) == (3, 1, 0)
    assert "review.one-judge-model" in judged.because("review")
    said = [event.payload["attributes"]["independent_session"] for event in judged.events("judgment.recorded")]
    assert said == [True, True, True]
    assert judged.under(CODE)["panel"] is None

    def models(document: dict[str, Any]) -> None:
        judges = [r for r in document["reviews"] if r["method"] == "model_judgment"]
        for number, judge in enumerate(judges):
            judge["reviewer"] = {"id": f"model:example/{number}", "label": "Judge", "kind": "model"}
            judge["attributes"] |= {"conversation_id": f"talk-{number}", "request_ids": [f"request-{number}"]}

    neighbour.review(edit=models)

    panel = neighbour.shown()["panel"]
    assert (panel["judges"], panel["models"], panel["conversations"], panel["prompts"]) == (3, 3, 3, 1)
    assert "review.one-judge-model" not in neighbour.because("review")
    sessions = [event.payload["session"] for event in neighbour.events("judgment.recorded")]
    assert [(s["conversation_id"], s["request_ids"]) for s in sessions] == [
        (f"talk-{n}", [f"request-{n}"]) for n in range(3)
    ]


def test_row_24_judges_that_share_a_conversation_are_counted_as_one(judged: Corrected) -> None:
    judged.review(edit=of_judges(lambda number: {"conversation_id": f"talk-{number // 2}"}))

    panel = judged.shown()["panel"]
    assert (panel["judges"], panel["conversations"]) == (3, 2)


def test_row_42_votes_are_tallied_by_task_and_not_pooled(judged: Corrected, neighbour: Corrected) -> None:
    rejected = {"verdict": "reject", "findings": [issue("high")], "tasks": 3}
    judged.review(**rejected, edit=judged_by_task("rrr", "rkk", "rkk"))
    neighbour.review(**rejected, edit=judged_by_task("rrk", "rrk", "kkk"))

    # Five of nine votes reject in one, four of nine in the other; what counts is one task of three, and two.
    assert (judged.quality(), judged.under(CODE)["quality"]) == ("some_issues", "bad")
    assert (neighbour.quality(), neighbour.under(CODE)["quality"]) == ("bad", "some_issues")
    tallied = [source.shown()["panel"] for source in (judged, neighbour)]
    assert [(p["tasks"], p["tasks_rejected"], p["tasks_in_conflict"]) for p in tallied] == [(3, 1, 2), (3, 2, 2)]
    # Each task's own synthesis rejects: judges that keep are overruled by it, and are not forgotten.
    assert [p["overruled"] for p in tallied] == [4, 5]
