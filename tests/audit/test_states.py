"""States are the same however they come to be known: from rows, or folded from the log one by one or all at once."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.audit import states
from ledger.rules import ledger_1
from ledger.rules.atlas_page_1 import RULES
from tests.audit.asking import Asking
from tests.projections.bench import sqlite_bench
from tests.projections.histories import LISTED, SOURCES, Step, Teller, histories


@settings(max_examples=25)
@given(steps=histories, data=st.data())
@pytest.mark.parametrize("rules", [RULES, ledger_1.RULES], ids=lambda rules: rules.id)
def test_rows_and_the_folded_log_show_the_same_bytes_in_the_same_order(
    rules: object, steps: list[Step], data: st.DataObject
) -> None:
    with sqlite_bench(rules) as bench:
        teller = Teller()
        for step in [*LISTED, *steps]:
            bench.append(*teller.tell(step))
        asking = Asking(bench)
        size = data.draw(st.integers(0, bench.log.head().size))
        rows, folded = (asking.sources.shelf.states(asking.moment(size, folded=way)) for way in (False, True))
        for key in SOURCES:
            assert folded.one(key) == rows.one(key)
        assert folded.all() == rows.all()
        order = [(orjson.loads(state)["origin"], key) for key, state in folded.all()]
        assert order == sorted(order)
        assert {key: folded.one(key) for key in SOURCES} == {key: rows.one(key) for key in SOURCES}
        assert (folded.one("nobody"), rows.one("nobody")) == (None, None)


def test_when_many_sources_are_asked_one_by_one_the_whole_list_is_folded_once_and_kept() -> None:
    with sqlite_bench() as bench:
        teller = Teller()
        for step in LISTED:
            bench.append(*teller.tell(step))
        asking = Asking(bench)
        shelf, moment = asking.sources.shelf, asking.moment(bench.log.head().size, folded=True)
        folded = shelf.states(moment)
        for _ in range(states.MAX_SINGLES):
            assert folded.one(SOURCES[0]) is not None
            assert shelf.kept(moment) is None
        assert folded.one(SOURCES[0]) is not None
        kept = shelf.kept(moment)
        assert kept is not None
        assert shelf.whole(moment) is kept


def test_only_the_last_lists_are_kept() -> None:
    with sqlite_bench() as bench:
        teller = Teller()
        for step in LISTED:
            bench.append(*teller.tell(step))
        asking = Asking(bench)
        moments = [asking.moment(2, folded=True, policy_size=2 + n) for n in range(states.KEPT_LISTS + 1)]
        for moment in moments:
            asking.sources.shelf.whole(moment)
        kept = [asking.sources.shelf.kept(moment) is not None for moment in moments]
        assert kept == [False, *[True] * states.KEPT_LISTS]
