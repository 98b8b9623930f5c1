"""Lists of sources: whichever earlier list one is carried on from, it is what the states say."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.audit import listings
from ledger.audit.briefs import DIFFICULTIES, QUALITIES, SourceFilter, brief_of
from ledger.audit.listings import Listings
from ledger.core.errors import InvalidInput
from ledger.rules import ledger_1
from ledger.rules.atlas_page_1 import RULES
from tests.audit.asking import Asking
from tests.audit.shown import shown
from tests.projections.bench import sqlite_bench
from tests.projections.histories import LISTED, SOURCES, Step, Teller, histories
from tests.rules import builders
from tests.server.doors import of

EVERY = SourceFilter(include_retired=True)


@settings(max_examples=25)
@given(steps=histories, data=st.data())
@pytest.mark.parametrize("rules", [RULES, ledger_1.RULES], ids=lambda rules: rules.id)
def test_a_list_carried_on_from_an_earlier_one_is_what_the_states_say(
    rules: object, steps: list[Step], data: st.DataObject
) -> None:
    with sqlite_bench(rules) as bench:
        teller = Teller()
        for step in [*LISTED, *steps]:
            bench.append(*teller.tell(step))
        asking = Asking(bench)
        kept, size = Listings(asking.sources.shelf), st.integers(0, bench.log.head().size)
        for asked in data.draw(st.lists(size, min_size=1, max_size=6)):
            folded = data.draw(st.booleans())
            moment = asking.moment(asked, folded=folded)
            said = [brief_of(state) for _, state in asking.sources.shelf.states(moment).all()]
            assert list(kept.of(moment)) == said
            page = asking.sources.page(moment, EVERY, size=2)
            whole = [orjson.loads(state) for _, state in asking.sources.shelf.states(moment).all()]
            assert (page.states, page.total) == (whole[:2], len(whole))
            assert list(asking.sources.passing(moment, EVERY)) == whole


def test_a_list_is_read_once_and_only_what_changed_is_read_for_a_later_one(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    monkeypatch.setattr(listings, "brief_of", lambda state: (read.append(""), brief_of(state))[1])
    with sqlite_bench() as bench:
        parts = [of(builders.declared("c1", id=source)) for source in SOURCES[:2]]
        size = bench.append(*parts, of(builders.synced("c1", [part.id for part in parts])))
        asking = Asking(bench)
        kept = Listings(asking.sources.shelf)
        first = kept.of(asking.moment(size))
        assert len(read) == len(first) == 2
        assert kept.of(asking.moment(size)) is first
        bench.append(of(builders.suspected()))
        bench.projector.catch_up()
        read.clear()
        assert len(kept.of(asking.moment(size + 1))) == 2
        assert len(read) == 1


def test_only_the_last_lists_are_kept() -> None:
    with sqlite_bench() as bench:
        teller = Teller()
        for step in LISTED:
            bench.append(*teller.tell(step))
        asking = Asking(bench)
        kept = Listings(asking.sources.shelf)
        moments = [asking.moment(size) for size in range(2, 3 + listings.KEPT)]
        made = [kept.of(moment) for moment in moments]
        assert [kept.of(moment) is found for moment, found in zip(moments[1:], made[1:], strict=True)] == [
            True
        ] * listings.KEPT
        assert kept.of(moments[0]) is not made[0]


@pytest.mark.parametrize(("field", "known"), [("qualities", QUALITIES), ("difficulties", DIFFICULTIES)])
def test_a_word_that_no_source_can_be_shown_with_is_refused_with_those_that_can(
    field: str, known: tuple[str, ...]
) -> None:
    SourceFilter(**{field: frozenset(known)})
    with pytest.raises(InvalidInput, match=f"filter.{field}: 'excellent'") as refused:
        SourceFilter(**{field: frozenset({"excellent", known[0]})})
    assert all(word in refused.value.remedy for word in known)


def test_origins_families_and_statuses_are_anybody_s_words() -> None:
    which = SourceFilter(
        origins=frozenset({"Nowhere"}), families=frozenset({"riddles"}), atlas_statuses=frozenset({"Paused"})
    )
    assert not which.takes(brief_of(orjson.dumps(shown())))
    assert which.takes(brief_of(orjson.dumps(shown("Nowhere:x", family="riddles", atlas_status="Paused"))))
