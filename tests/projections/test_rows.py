"""Reading the log for the fold: types by their index, streams as they lie, chunks of whole streams."""

from __future__ import annotations

import itertools

import pytest
from sqlalchemy import event as sqlalchemy_event
from sqlalchemy import text

from ledger.events.administration import EventDisregarded
from ledger.log.model import Filter
from ledger.log.reading import FEW_TYPES
from ledger.projections.folding import Folder, plain
from ledger.projections.rows import FIRST, LogHistory, chunks, holds_any, policy_rows, streams_of
from ledger.projections.subjects import RUNS
from ledger.projections.subjects import SOURCES as OF_SOURCES
from ledger.projections.workers import reading_engine
from tests.projections.bench import Bench, listed, sqlite_bench, suspicion
from tests.projections.conftest import Opener
from tests.projections.histories import SOURCES, Step, Teller
from tests.projections.toy_runs import TOY, claimed, declared
from tests.rules import builders
from tests.server.doors import alias, of


def long_log(opened: Bench) -> int:
    """Some thousands of suspicions with a few other events between them."""
    listed(opened)
    for start in range(0, 3_600, 600):
        opened.append(*(suspicion(number) for number in range(start, start + 600)), alias("x", f"a{start}"))
        opened.append(of(builders.rules_adopted(f"{start:064d}"), id=f"p{start}"))
    return opened.log.head().size


@pytest.mark.parametrize(
    "types",
    [("alias.mapped",), ("rules.adopted", "alias.mapped"), ("defect.suspected", "rules.adopted"), ("none.such",)],
)
def test_events_of_few_types_are_the_same_by_their_index_as_along_the_log(
    open_bench: Opener, types: tuple[str, ...]
) -> None:
    with open_bench() as opened:
        size = long_log(opened)
        every = list(opened.log.store.read_all(0, size))
        for start, end in [(0, size), (1, size), (700, 3_000), (size - 1_200, size), (5, 1_006)]:
            wanted = [e for e in every[start:end] if e.type in types]
            assert list(opened.log.store.read_all(start, end, match=Filter(types=types))) == wanted
            assert opened.log.store.read(start, end, match=Filter(types=types), limit=3) == wanted[:3]


def test_on_sqlite_few_types_are_looked_up_in_their_index_and_many_are_read_along_the_log() -> None:
    with sqlite_bench() as opened:
        size = long_log(opened)
        seen: list[tuple[str, tuple[object, ...]]] = []

        @sqlalchemy_event.listens_for(opened.log.store.engine, "before_cursor_execute")
        def see(_connection: object, _cursor: object, sql: str, values: tuple[object, ...], *_: object) -> None:
            seen.append((sql, values))

        def plan(types: tuple[str, ...]) -> list[str]:
            seen.clear()
            opened.log.store.read(0, size, match=Filter(types=types))
            sql, values = seen[0]
            with opened.log.store.engine.connect() as connection:
                return [row[-1] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}", values)]

        few = plan(("alias.mapped",))
        assert any("INDEX event_type" in step for step in few), few
        many = plan(tuple(f"type.{n}" for n in range(FEW_TYPES + 1)))
        assert many[0].startswith("SEARCH event USING INTEGER PRIMARY KEY"), many
        assert not any("ORDER BY" in step for step in many), "a page is read along the log, and nothing is sorted"


def test_streams_come_by_name_each_in_its_own_order(open_bench: Opener) -> None:
    with open_bench() as opened:
        teller = Teller()
        for number in range(9):
            opened.append(*teller.tell(Step("list", number % 3, 0, fold=False, restart=False)))
        size = opened.log.head().size
        every = [plain(e) for e in opened.log.store.read_all(0, size)]
        mine = [row for row in every if row[3].startswith("source/")]
        found = list(streams_of(opened.log.store.engine, OF_SOURCES, size))
        assert found == sorted(mine, key=lambda row: (row[3], row[0]))
        assert list(streams_of(opened.log.store.engine, OF_SOURCES, 4)) == sorted(mine[:4], key=lambda r: (r[3], r[0]))
        stream = f"source/{SOURCES[1]}"
        history = LogHistory(opened.log.store, Folder(opened.rules, opened.log.registry))
        assert list(history.stream(stream, size)) == [row for row in mine if row[3] == stream]
        assert history.event(2) == opened.log.store.event(2)


def test_chunks_are_whole_streams_and_cover_every_stream_once(open_bench: Opener) -> None:
    with open_bench() as opened:
        teller = Teller()
        for source in (0, 0, 0, 1, 2, 2):
            opened.append(*teller.tell(Step("suspect", source, 0, fold=False, restart=False)))
        size, engine = opened.log.head().size, opened.log.store.engine
        ordered = sorted(f"source/{s}" for s in SOURCES)
        counts = {f"source/{s}": n for s, n in zip(SOURCES, (3, 1, 2), strict=True)}
        one_each = list(chunks(engine, FIRST, size, 1))
        assert [(c.first, c.last, c.streams, c.events) for c in one_each] == [(s, s, 1, counts[s]) for s in ordered]
        (whole,) = chunks(engine, FIRST, size, 100)
        assert whole == (ordered[0], ordered[-1], 3, 6)
        assert [c.first for c in chunks(engine, ordered[0], size, 1)] == ordered[1:]
        for events in (1, 2, 3, 4, 5, 6):
            cut = list(chunks(engine, FIRST, size, events))
            assert all(c.events >= events for c in cut[:-1])
            assert [c.last < following.first for c, following in itertools.pairwise(cut)] == [True] * (len(cut) - 1)
            assert sum(c.events for c in cut) == 6


def test_chunks_of_runs_are_of_one_kind_each_and_go_on_where_an_earlier_build_stood(open_bench: Opener) -> None:
    streams = ["run/b", "run/a", "export/b", "export/a", "campaign/a"]
    with open_bench() as opened:
        listed(opened)
        assert not holds_any(opened.log.store.engine, RUNS)
        assert holds_any(opened.log.store.engine, OF_SOURCES)
        for stream in streams:
            opened.append(of(declared(stream), stream), of(claimed(*stream.split("/"), "It is so."), stream))
        opened.append(alias("runner"), of(builders.rules_adopted("0" * 64), "policy/rules"))
        size, engine = opened.log.head().size, opened.log.store.engine
        assert holds_any(engine, RUNS)
        whole = [(c.first, c.last, c.streams, c.events) for c in chunks(engine, FIRST, size, 100, RUNS)]
        assert whole == [("campaign/a",) * 2 + (1, 2), ("export/a", "export/b", 2, 4), ("run/a", "run/b", 2, 4)]
        one_each = [c.first for c in chunks(engine, FIRST, size, 1, RUNS)]
        assert one_each == sorted(streams)
        for number, stream in enumerate(one_each):
            assert [c.first for c in chunks(engine, stream, size, 1, RUNS)] == one_each[number + 1 :]
        assert [row[3] for row in streams_of(engine, RUNS, size)] == [s for s in one_each for _ in range(2)]
        assert {row[3] for row in streams_of(engine, RUNS, size, kinds=["export"])} == {"export/a", "export/b"}


def test_an_environment_without_types_has_no_events(open_bench: Opener) -> None:
    with open_bench() as opened:
        listed(opened)
        size, folder = opened.log.head().size, Folder(TOY, opened.log.registry, RUNS)
        assert list(LogHistory(opened.log.store, folder).environment(size)) == []
        assert list(policy_rows(opened.log.store, folder, size)) == []


def test_the_policys_rows_are_the_environments_events_and_the_disregards(open_bench: Opener) -> None:
    with open_bench() as opened:
        listed(opened)
        opened.append(suspicion(1))
        opened.append(of(EventDisregarded(pos=0, event="none", reason="It was wrong."), "ledger"))
        size = opened.log.head().size
        folder = Folder(opened.rules, opened.log.registry)
        types = [row[2] for row in policy_rows(opened.log.store, folder, size)]
        expected = ["protocol.defined", "protocol.adopted", "source.declared", "catalogue.synced", "event.disregarded"]
        assert types == expected


def test_nothing_is_written_by_those_who_fold_in_other_processes() -> None:
    with sqlite_bench() as opened:
        listed(opened)
        url = opened.log.store.engine.url.render_as_string(hide_password=False)
        engine = reading_engine(url)
        with engine.connect() as connection:
            assert connection.scalar(text("SELECT count(*) FROM event")) == opened.log.head().size
            with pytest.raises(Exception, match="readonly"):
                connection.execute(text("DELETE FROM generation"))
        engine.dispose()
