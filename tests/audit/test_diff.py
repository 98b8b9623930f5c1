"""What differs between two answers, and that it is neither more nor less than the difference."""

from __future__ import annotations

from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from ledger.audit.briefs import SourceFilter
from ledger.audit.diff import difference
from ledger.projections import outcomes
from tests.audit.shown import defect, difficulty, reason, review, shown

EVERY = SourceFilter(include_retired=True)

states = st.builds(
    lambda quality, applies, rev, measured, defects, retired: shown(
        quality=quality,
        applicability=applies,
        review=rev and review(rev),
        difficulty=difficulty(measured),
        open_defects=[defect(d) for d in defects],
        retired=retired,
    ),
    st.sampled_from(["good", "bad", "unreviewed"]),
    st.sampled_from([None, "current", "stale"]),
    st.sampled_from([None, "r1", "r2"]),
    st.sampled_from(["current", "historical"]),
    st.sets(st.sampled_from(["d1", "d2"])).map(sorted),
    st.booleans(),
)
lists = st.dictionaries(st.sampled_from(["A:one", "A:two", "B:one"]), states)


def written(shown_: dict[str, dict[str, Any]]) -> dict[str, bytes]:
    return {key: orjson.dumps({**state, "id": key}) for key, state in shown_.items()}


def outcome_of(shown_: dict[str, dict[str, Any]], key: str) -> outcomes.Outcome:
    return outcomes.outcome(shown_.get(key))


@given(lists, lists)
def test_the_difference_applied_to_the_first_answer_gives_the_second(
    before: dict[str, dict[str, Any]], after: dict[str, dict[str, Any]]
) -> None:
    found = difference(written(before), written(after), EVERY)
    applied = {key: outcome_of(before, key) for key in {*before, *after}}
    for move in found.moves:
        for change in move.changes:
            assert applied[move.key][change.field] == change.before != change.after
            applied[move.key][change.field] = change.after
    assert applied == {key: outcome_of(after, key) for key in {*before, *after}}
    assert [m.key for m in found.moves] == sorted(m.key for m in found.moves)


@given(lists, lists)
def test_the_way_back_undoes_the_way_there(before: dict[str, dict[str, Any]], after: dict[str, dict[str, Any]]) -> None:
    there, back = (
        difference(*pair, EVERY)
        for pair in ((written(before), written(after)),) * 1 + ((written(after), written(before)),)
    )
    undone = [(m.key, [(c.field, c.after, c.before) for c in m.changes]) for m in back.moves]
    assert undone == [(m.key, [(c.field, c.before, c.after) for c in m.changes]) for m in there.moves]
    assert (there.digest == back.digest) == (not there.moves)


def test_what_only_reads_otherwise_does_not_differ() -> None:
    before = written({"A:one": shown(reasons=[reason("quality", 3, text="in these words")])})
    after = written({"A:one": shown(reasons=[reason("quality", 4, text="in others")])})
    found = difference(before, after, EVERY)
    assert (found.moves, found.counts, found.digest) == ((), {}, outcomes.digest([]))


def test_a_source_is_told_of_when_it_passes_the_filter_on_either_side() -> None:
    good, bad = written({"A:one": shown(quality="good")}), written({"A:one": shown(quality="bad")})
    for wanted, told in (({"good"}, 1), ({"bad"}, 1), ({"unrated"}, 0)):
        which = SourceFilter(qualities=frozenset(wanted))
        assert len(difference(good, bad, which).moves) == told
    gone = written({"A:one": shown(quality="good", retired=True)})
    assert len(difference(good, gone, SourceFilter()).moves) == 1
    assert difference(good, {}, SourceFilter()).counts["listed: yes -> none"] == 1


def test_the_reasons_of_the_fields_that_changed_stand_on_either_side() -> None:
    before = shown(quality="good", reasons=[reason("quality", 3), reason("difficulty", 4)])
    after = shown(quality="bad", reasons=[reason("quality", 7), reason("difficulty", 4)])
    (move,) = difference(written({"A:one": before}), written({"A:one": after}), EVERY).moves
    assert ([r["events"] for r in move.before], [r["events"] for r in move.after]) == ([[3]], [[7]])
    assert difference(written({"A:one": before}), written({"A:one": after}), EVERY).counts == {
        "quality: good -> bad": 1
    }
