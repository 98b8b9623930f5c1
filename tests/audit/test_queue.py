"""What there is to do about a source, from what is shown of it."""

from __future__ import annotations

from typing import Any

import pytest

from ledger.audit import queue
from ledger.audit.queue import Item, items
from tests.audit.shown import defect, difficulty, pooled, reason, review, shown
from tests.rules.builders import sha


def found(state: dict[str, Any], *unpublished: list[int]) -> list[Item]:
    return list(items(state, unpublished))


def only(state: dict[str, Any], *unpublished: list[int]) -> Item:
    (item,) = found(state, *unpublished)
    return item


GOOD: dict[str, Any] = {
    "quality": "good",
    "applicability": "current",
    "review": review(),
    "review_pool": [pooled("r1", 10)],
    "difficulty": difficulty("current"),
}


def test_a_good_source_with_a_current_report_needs_nothing() -> None:
    assert found(shown(**GOOD)) == []
    assert found(shown()) == []


def test_a_stale_review_has_to_be_done_again_and_rests_on_what_said_so() -> None:
    state = shown(**{**GOOD, "quality": "needs_re_review", "applicability": "stale"})
    state["reasons"] = [reason("applicability", 10, 3), reason("quality", 99)]
    state["dataset_revision"] = "data-2"
    item = only(state)
    assert (item.kind, item.events, item.reusable) == ("stale_review", (3, 10), ())
    assert "ledger review publish" in item.text


def test_earlier_collections_on_the_present_bytes_may_be_used_again_superseded_or_not() -> None:
    pool = [
        pooled("r1", 10, dataset_revision="data-2"),
        pooled("other", 9, dataset_revision="data-1", superseded=11),
        pooled("older", 7, dataset_revision="data-1"),
        pooled("unknown", 5, dataset_revision=None),
    ]
    state = shown(quality="needs_re_review", applicability="stale", review=review(), review_pool=pool)
    assert only(state).reusable == (9, 7)


def test_an_unknown_revision_is_the_same_as_no_other_unknown_one() -> None:
    pool = [pooled("old", 5, dataset_revision=None)]
    state = shown(applicability="stale", review=review(), review_pool=pool, dataset_revision=None)
    assert only(state).reusable == ()


def test_an_attestation_is_reusable_only_if_it_found_nothing_changed() -> None:
    attestations = [{"finding": "unchanged", "pos": 30}, {"finding": "changed", "pos": 31}]
    state = shown(applicability="stale", review=review(), attestations=attestations)
    assert only(state).reusable == (30,)


def test_each_open_defect_without_an_issue_is_an_item_and_one_with_an_issue_is_not() -> None:
    defects = [defect("d1", 20), defect("d2", 21, issue_url=None), defect("d3", 22, issue_url=None)]
    assert [(i.kind, i.events) for i in found(shown(open_defects=defects))] == [
        ("defect_without_issue", (21,)),
        ("defect_without_issue", (22,)),
    ]


@pytest.mark.parametrize("status", ["not_measured", "historical", "invalid"])
def test_a_good_source_without_a_current_report_has_to_be_measured(status: str) -> None:
    state = shown(**{**GOOD, "difficulty": difficulty(status)}, reasons=[reason("difficulty", 4)])
    item = only(state)
    assert (item.kind, item.events, item.reusable) == ("good_without_difficulty", (4,), ())


@pytest.mark.parametrize("status", ["current", "withheld", "needs_re_review"])
def test_what_is_measured_or_waits_for_something_else_is_not_asked_to_be_measured(status: str) -> None:
    assert found(shown(**{**GOOD, "difficulty": difficulty(status)})) == []


def test_a_historical_report_on_the_present_bytes_may_be_used_again() -> None:
    history = [{"pos": 12, "source_revision": "data-0"}, {"pos": 11, "source_revision": "data-1"}]
    measured = difficulty("historical", pos=15, source_revision="data-1", history=history)
    assert only(shown(**{**GOOD, "difficulty": measured})).reusable == (15, 11)


def test_judges_in_conflict_are_an_item_until_a_later_review_judged_again() -> None:
    conflict = {**GOOD, "panel": {"tasks_in_conflict": 2}}
    item = only(shown(**conflict))
    assert (item.kind, item.events) == ("judges_in_conflict", (10,))
    assert "2 tasks" in item.text
    later = [pooled("r2", 15, rating=None), pooled("r1", 10)]
    assert found(shown(**{**conflict, "review_pool": later})) == []
    superseded = [pooled("r2", 15, superseded=16), pooled("r1", 10)]
    assert only(shown(**{**conflict, "review_pool": superseded})).kind == "judges_in_conflict"
    nobody_judged = [pooled("r2", 15, judgments=0), pooled("r1", 10)]
    assert only(shown(**{**conflict, "review_pool": nobody_judged})).kind == "judges_in_conflict"


def test_an_imported_audit_that_was_never_brought_together_is_its_own_reusable_evidence() -> None:
    item = only(shown(), [7, 8])
    assert (item.kind, item.events, item.reusable) == ("audit_without_synthesis", (7, 8), (7, 8))
    reused = pooled("audit", 9, role="reused", rating=None)
    assert only(shown(review_pool=[reused])).events == (9,)
    assert found(shown(review_pool=[{**reused, "rating": "good"}])) == []
    assert found(shown(review_pool=[{**reused, "superseded": 12}])) == []


@pytest.mark.parametrize(("applies", "expected"), [("stale", 1), ("unknown", 1), ("current", 0), (None, 0)])
def test_a_resolution_that_does_not_hold_at_the_present_revisions_is_an_item(
    applies: str | None, expected: int
) -> None:
    told = found(shown(resolved_defects=[defect(applicability=applies)]))
    assert [i.kind for i in told] == ["resolution_not_current"] * expected


def test_good_with_unknown_applicability_asks_for_an_attestation_and_not_for_a_measurement() -> None:
    state = shown(**{**GOOD, "applicability": "unknown", "difficulty": difficulty("historical")})
    state["review_pool"] = [pooled("r1", 10), pooled("r0", 6)]
    item = only(state)
    assert (item.kind, item.reusable) == ("applicability_unknown", (6,))
    assert "ledger attest" in item.text


def test_a_suspicion_is_to_be_confirmed_or_withdrawn() -> None:
    item = only(shown(suspected_defects=[defect("d7", 40)]))
    assert (item.kind, item.events) == ("suspected_defect", (40,))
    assert "ledger defect confirm" in item.text
    assert "ledger defect withdraw" in item.text


def test_rules_that_keep_no_pool_no_panel_and_no_attestations_leave_their_kinds_out() -> None:
    state = shown(applicability="stale", review=review(), resolved_defects=[{"id": "d1", "pos": 3}])
    for name in ("review_pool", "attestations", "panel"):
        del state[name]
    state["difficulty"] = {"status": "not_measured", "models": [], "protocol": None, "estimated_at": None}
    assert [i.kind for i in found(state)] == ["stale_review"]
    assert [i.kind for i in found({**state, "quality": "good", "applicability": "current"})] == [
        "good_without_difficulty"
    ]


def test_only_the_kinds_that_are_asked_are_told_and_every_kind_can_be() -> None:
    state = shown(
        quality="good",
        applicability="current",
        review=review(),
        review_pool=[pooled("r1", 10), pooled("audit", 9, role="reused", rating=None)],
        panel={"tasks_in_conflict": 1},
        open_defects=[defect(issue_url=None)],
        suspected_defects=[defect("d2")],
        resolved_defects=[defect("d3", applicability="stale")],
    )
    assert {i.kind for i in found(state)} == set(queue.KINDS) - {"stale_review", "applicability_unknown"}
    assert [i.kind for i in items(state, kinds=["suspected_defect"])] == ["suspected_defect"]


def test_a_hostile_review_id_cannot_reach_a_terminal_through_an_item() -> None:
    hostile = pooled("r", 9, role="reused", rating=None, id="\x1b[31m" + sha("r"))
    assert "\x1b" not in only(shown(review_pool=[hostile])).text
