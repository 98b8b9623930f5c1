"""How far judges agree: against the literature, against hand-made tables, and whatever the judgments."""

from __future__ import annotations

import random
from collections import Counter
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.audit.agreement import Agreement, Opinion, agreement, report
from ledger.core.errors import InvalidInput

FLEISS = (
    (0, 0, 0, 0, 14),
    (0, 2, 6, 4, 2),
    (0, 0, 3, 5, 6),
    (0, 3, 9, 2, 0),
    (2, 2, 8, 1, 1),
    (7, 7, 0, 0, 0),
    (3, 2, 6, 3, 0),
    (2, 5, 3, 2, 2),
    (6, 5, 2, 1, 0),
    (0, 2, 2, 3, 7),
)
"""Fourteen raters, ten subjects, five categories: the worked example that textbooks give of Fleiss' kappa."""

tables = st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=6), min_size=1, max_size=12)


def panel(counts: tuple[int, ...]) -> dict[str, int]:
    return {str(category): count for category, count in enumerate(counts, 1)}


def opinions(table: list[list[str]]) -> list[Opinion]:
    return [
        Opinion(task, f"judge-{number}", verdict)
        for task, verdicts in enumerate(table)
        for number, verdict in enumerate(verdicts)
    ]


def test_the_fourteen_raters_of_the_literature_agree_with_a_kappa_of_0_210() -> None:
    found = agreement("diagnosis", [panel(counts) for counts in FLEISS])
    assert (found.tasks, found.judgments, found.left_out, found.unanimous) == (10, 140, 0, 1)
    assert found.raw == pytest.approx(0.378, abs=5e-4)
    assert found.kappa == pytest.approx(0.210, abs=5e-4)
    assert found.categories == {"1": 20, "2": 28, "3": 39, "4": 21, "5": 32}


@pytest.mark.parametrize(
    ("table", "raw", "kappa"),
    [
        # P = (1 + 1) / 2; p = (3/6, 3/6); P_e = 1/2
        (["aaa", "bbb"], 1.0, 1.0),
        # P = (1/3 + 1/3) / 2; p = (1/2, 1/2); kappa = (1/3 - 1/2) / (1/2)
        (["aab", "abb"], 1 / 3, -1 / 3),
        # panels of two and of four: P = (0 + 6/12) / 2; p = (4/6, 2/6); P_e = 5/9
        (["ab", "aaab"], 1 / 4, (1 / 4 - 5 / 9) / (4 / 9)),
    ],
)
def test_small_tables_agree_as_reckoned_by_hand(table: list[str], raw: float, kappa: float) -> None:
    found = agreement("verdict", [Counter(judges) for judges in table])
    assert (found.raw, found.kappa) == (pytest.approx(raw), pytest.approx(kappa))


def test_where_chance_alone_would_always_agree_there_is_no_kappa() -> None:
    found = agreement("verdict", [Counter("aa"), Counter("aaa")])
    assert (found.raw, found.kappa, found.unanimous) == (1.0, None, 2)


def test_a_task_with_one_judgment_says_nothing_and_is_counted_as_left_out() -> None:
    found = agreement("verdict", [Counter("a"), Counter("aab"), Counter("b")])
    assert (found.tasks, found.judgments, found.left_out) == (1, 3, 2)
    assert found.categories == {"a": 2, "b": 1}


def test_without_tasks_nothing_is_said_of_agreement() -> None:
    assert agreement("verdict", []) == Agreement("verdict", 0, 0, 0, None, None, {}, 0)
    assert agreement("verdict", [Counter("a")]).raw is None


@given(tables)
def test_raw_agreement_is_the_share_of_agreeing_pairs_averaged_over_tasks(table: list[list[str]]) -> None:
    panels = [judges for judges in table if len(judges) > 1]
    found = report(opinions(table)).verdicts
    if not panels:
        assert found.raw is None
        return
    shares = []
    for judges in panels:
        pairs = list(combinations(judges, 2))
        shares.append(sum(one == other for one, other in pairs) / len(pairs))
    assert found.raw == pytest.approx(sum(shares) / len(shares))


@given(tables, st.randoms(use_true_random=False))
def test_neither_the_order_of_judgments_nor_the_names_of_tasks_change_anything(
    table: list[list[str]], chance: random.Random
) -> None:
    told = opinions(table)
    shuffled = [Opinion(f"t{o.task}", o.reviewer, o.verdict) for o in told]
    chance.shuffle(shuffled)
    assert report(shuffled) == report(told)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(2, 6)), min_size=1, max_size=10))
def test_judges_who_always_agree_have_a_kappa_of_one_unless_they_only_know_one_word(
    tasks: list[tuple[str, int]],
) -> None:
    found = report(opinions([[verdict] * judges for verdict, judges in tasks])).verdicts
    assert found.raw == 1.0
    assert found.kappa == (1.0 if len({verdict for verdict, _ in tasks}) > 1 else None)
    assert found.unanimous == found.tasks == len(tasks)


def opinion(task: Any, by: str = "judge", verdict: str = "keep", **fields: Any) -> Opinion:
    return Opinion(task, by, verdict, **fields)


def test_each_dimension_in_which_an_issue_was_found_is_told_by_issue_and_no_issue() -> None:
    told = [
        opinion("t1", "a", issues=frozenset({"grading", "format"})),
        opinion("t1", "b", issues=frozenset({"grading"})),
        opinion("t2", "a"),
        opinion("t2", "b", issues=frozenset({"format"})),
        opinion("alone", "a", issues=frozenset({"grading"})),
    ]
    format_, grading = report(told).dimensions
    assert (format_.of, dict(format_.categories), format_.unanimous) == ("format", {"issue": 2, "no issue": 2}, 0)
    assert (grading.of, dict(grading.categories), grading.unanimous) == ("grading", {"issue": 2, "no issue": 2}, 2)
    assert (format_.raw, grading.raw, grading.kappa, grading.left_out) == (0.0, 1.0, 1.0, 1)


def test_dimensions_are_free_text_so_only_those_with_most_issues_are_told() -> None:
    told = [
        opinion(f"t{n}", by, issues=frozenset({"rare"} if n == 0 else {"often", "seldom"} if n == 1 else {"often"}))
        for n in range(3)
        for by in "ab"
    ]
    assert [d.of for d in report(told, max_dimensions=2).dimensions] == ["often", "rare"]


def test_a_judge_is_overruled_as_often_as_the_synthesis_of_the_same_subject_says_otherwise() -> None:
    told = [
        opinion("t1", "b", overruled=True),
        opinion("t1", "a", overruled=False),
        opinion("t2", "b", overruled=None),
        opinion(None, "b", overruled=True),
    ]
    found = report(told)
    assert [(j.reviewer, j.judgments, j.synthesised, j.overruled) for j in found.judges] == [
        ("a", 1, 1, 0),
        ("b", 3, 2, 2),
    ]
    assert (found.verdicts.tasks, found.verdicts.judgments) == (1, 2)


def test_more_judgments_than_are_held_at_once_are_refused() -> None:
    assert report((opinion(n) for n in range(3)), max_judgments=3).verdicts.left_out == 3
    with pytest.raises(InvalidInput) as raised:
        report((opinion(n) for n in range(4)), max_judgments=3)
    assert raised.value.reason == "TOO_LARGE"


def test_of_very_many_judges_the_busiest_are_told_by_name() -> None:
    told = [opinion("t", by) for by in ("rare", "b", "a", "b", "a", "a")]
    assert [j.reviewer for j in report(told, max_judges=2).judges] == ["a", "b"]
