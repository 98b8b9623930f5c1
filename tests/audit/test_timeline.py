"""Whatever the history: a timeline tells every event once, and its changes add up to what is shown."""

from __future__ import annotations

from collections.abc import Sequence

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.audit.timeline import Entry, Order
from ledger.core.errors import InvalidInput
from ledger.events.administration import EventDisregarded
from ledger.projections import outcomes
from tests.audit.asking import Asking
from tests.projections.bench import Bench, sqlite_bench
from tests.projections.histories import LISTED, SOURCES, Step, Teller, histories
from tests.rules import builders
from tests.server.doors import of

SOURCE = SOURCES[0]


def tell(bench: Bench, steps: Sequence[Step]) -> Asking:
    teller = Teller()
    for step in [*LISTED, *steps]:
        bench.append(*teller.tell(step))
    return Asking(bench)


def outcome(asking: Asking, size: int) -> outcomes.Outcome:
    state = asking.bench.shown_at(size).get(SOURCE)
    return outcomes.outcome(orjson.loads(state) if state else None)


def told(entries: Sequence[Entry]) -> list[tuple[object, ...]]:
    return [(e.event.pos, e.text, e.changes, e.parts, e.disregarded_by, e.elsewhere) for e in entries]


@settings(max_examples=40)
@given(steps=histories, data=st.data())
def test_a_timeline_tells_every_event_of_the_stream_once_and_its_changes_add_up(
    steps: list[Step], data: st.DataObject
) -> None:
    with sqlite_bench() as bench:
        asking = tell(bench, steps)
        size = data.draw(st.integers(len(LISTED), bench.log.head().size), label="size")
        moment = asking.moment(size)
        stream = {e.pos for e in asking.events.scan(size, streams=(f"source/{SOURCE}",))}
        for full in (False, True):
            entries = asking.entries(moment, Order(SOURCE, full=full), page=data.draw(st.sampled_from((0, 1, 3))))
            own = [e.event.pos for e in entries if not e.elsewhere] + [p for e in entries for p in e.parts]
            assert sorted(own) == sorted(stream)
            assert [e.event.pos for e in entries] == sorted({e.event.pos for e in entries})
            assert not any(e.parts for e in entries if full)
            newest = asking.entries(moment, Order(SOURCE, full=full, newest_first=True))
            assert told(newest) == told(entries)[::-1]
            shown = outcomes.outcome(None)
            for entry in entries:
                for change in entry.changes:
                    assert shown[change.field] == change.before
                    shown[change.field] = change.after
            assert shown == outcome(asking, size)


@settings(max_examples=25)
@given(steps=histories)
def test_a_timeline_that_is_folded_on_demand_is_the_one_that_rows_give(steps: list[Step]) -> None:
    with sqlite_bench() as bench:
        asking = tell(bench, steps)
        size = bench.log.head().size
        for order in (Order(SOURCE), Order(SOURCE, full=True)):
            rows, folded = (asking.entries(asking.moment(size, folded=way), order) for way in (False, True))
            assert told(folded) == told(rows)


def test_the_parts_of_a_closed_collection_stand_with_the_event_that_closes_them() -> None:
    with sqlite_bench() as bench:
        asking = tell(bench, [])
        parts = [of(p) for p in builders.good("r1")]
        size = bench.append(*parts, of(builders.published("r1", "r1", [p.id for p in parts])))
        loose = bench.append(of(builders.judgment("loose")))
        asking = Asking(bench)
        compact = asking.entries(asking.moment(loose), Order(SOURCE))
        assert [(e.event.type, len(e.parts), e.elsewhere) for e in compact] == [
            ("catalogue.synced", 1, True),
            ("review.published", 5, False),
            ("judgment.recorded", 0, False),
        ]
        assert compact[1].parts == tuple(range(size - 6, size - 1))
        assert {c.field for c in compact[1].changes} >= {"quality", "review"}
        unclosed = asking.entries(asking.moment(size - 1), Order(SOURCE))
        assert [e.event.type for e in unclosed][1:] == [p.type for p in parts]


def test_a_disregarded_event_says_by_which_event_from_there_on() -> None:
    with sqlite_bench() as bench:
        tell(bench, [])
        confirmed = of(builders.confirmed())
        size = bench.append(confirmed)
        said = EventDisregarded(pos=size - 1, event=confirmed.id, reason="of another source")
        bench.append(of(said, "ledger"))
        asking = Asking(bench)
        before = asking.entries(asking.moment(size), Order(SOURCE))[-1]
        entry, disregard = asking.entries(asking.moment(size + 1), Order(SOURCE))[-2:]
        assert (before.event.pos, before.disregarded_by) == (size - 1, None)
        assert (entry.event.pos, entry.disregarded_by) == (size - 1, size)
        assert (disregard.event.pos, disregard.elsewhere) == (size, True)
        assert [(c.field, c.after) for c in disregard.changes if c.field == "open_defects"] == [("open_defects", None)]


def test_a_closed_collection_whose_closing_is_disregarded_stands_open_again() -> None:
    with sqlite_bench() as bench:
        tell(bench, [])
        part = of(builders.judgment("r1"))
        closing = of(builders.published("r1", "r1", [part.id]))
        size = bench.append(part, closing)
        bench.append(of(EventDisregarded(pos=size - 1, event=closing.id, reason="too early"), "ledger"))
        asking = Asking(bench)
        assert [e.event.pos for e in asking.entries(asking.moment(size), Order(SOURCE))][1:] == [size - 1]
        after = asking.entries(asking.moment(size + 1), Order(SOURCE))
        assert [(e.event.pos, e.parts) for e in after][1:3] == [(size - 2, ()), (size - 1, ())]


def test_under_a_policy_of_another_time_a_timeline_is_refused_since_no_event_met_it() -> None:
    with sqlite_bench() as bench:
        asking = tell(bench, [])
        size = bench.append(of(builders.suspected()))
        with pytest.raises(InvalidInput, match="policy"):
            asking.entries(asking.moment(size - 1, folded=True, policy_size=size), Order(SOURCE))
