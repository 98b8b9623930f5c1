"""Runs beside sources: the same machinery, whole streams as keys, and the release's own rules without a promotion."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings

from ledger.core.errors import LedgerError, Unavailable
from ledger.events.administration import EventDisregarded
from ledger.log.postgres import PostgresStore
from ledger.projections import building, intervals
from ledger.projections.building import COMPARING, FOLDING_RUNS, Progress
from ledger.projections.facts import stream_facts
from ledger.projections.folding import BROKEN_RULE, FAILED_RULE, Folder
from ledger.projections.generations import BUILDING, KEPT, LIVE, Generations
from ledger.projections.prefix import states_of_prefix
from ledger.projections.rebuilding import Rebuilt
from ledger.projections.rows import LogHistory
from ledger.projections.runs import RunStates
from ledger.projections.subjects import RUNS
from ledger.projections.timelines import decode_kept, read_timeline
from ledger.projections.workers import CHECK_ROWS, ChunkFold
from ledger.rules.sets import RUN_RULE_SETS
from tests.projections.bench import Bench, Rules, bench, listed, postgres_bench, sqlite_bench
from tests.projections.conftest import Opener
from tests.projections.toy_runs import (
    KEYS,
    TOY,
    RunStep,
    RunTeller,
    declared,
    logged,
    run_histories,
    told_of_runs,
    without_failures,
)
from tests.rules import builders
from tests.server.databases import Databases
from tests.server.doors import of

SETS: tuple[Rules, ...] = (TOY, *RUN_RULE_SETS.values())
every_set = pytest.mark.parametrize("rules", SETS, ids=[rules.id for rules in SETS])


def live_through(opened: Bench, steps: Sequence[RunStep]) -> None:
    """Appends the history; the projector moves now and then, and forgets everything now and then."""
    teller = RunTeller()
    for step in steps:
        opened.append(*teller.tell(step))
        if step.restart:
            opened.projector = opened.another_projector()
        if step.fold:
            opened.projector.step()
    catch_up(opened)


def catch_up(opened: Bench) -> int:
    opened.projector.catch_up()
    return opened.projector.catch_up(opened.live_runs.identity.rules)


def shown(opened: Bench, size: int) -> dict[str, bytes]:
    return dict(states(opened).at(size))


def states(opened: Bench) -> RunStates:
    found = opened.projector.runs
    assert found is not None
    return found


def folded(opened: Bench, size: int, **which: Any) -> dict[str, bytes]:
    return states_of_prefix(opened.log, states(opened).rules, size, projection=RUNS, **which)


def check_every_size(opened: Bench, rules: Rules, *, processes: int = 1) -> None:
    expected = told_of_runs(opened.log.store.read_all(0, opened.log.head().size), rules)
    rows = [shown(opened, size) for size in range(len(expected))]
    for size, row in enumerate(rows):
        assert {key: without_failures(state) for key, state in row.items()} == expected[size], f"at size {size}"
        assert folded(opened, size) == row, f"at size {size}, from the log"
    rebuilt = opened.projector.rebuild(rules=rules.id, processes=processes)
    assert (rebuilt.equal, rebuilt.generation.status, rebuilt.processes) == (True, LIVE, processes)
    assert [shown(opened, size) for size in range(len(expected))] == rows


@every_set
@settings(max_examples=25)
@given(steps=run_histories)
def test_on_sqlite_the_rows_say_at_every_size_what_the_rules_say_of_the_events_before_it(
    rules: Rules, steps: list[RunStep]
) -> None:
    with sqlite_bench(runs=rules) as opened:
        live_through(opened, steps)
        check_every_size(opened, rules)


@every_set
@settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(steps=run_histories)
def test_on_postgres_the_rows_say_at_every_size_what_the_rules_say_of_the_events_before_it(
    postgres: Databases, rules: Rules, steps: list[RunStep]
) -> None:
    with postgres.fresh() as uri, postgres_bench(uri, runs=rules) as opened:
        live_through(opened, steps)
        check_every_size(opened, rules)


@pytest.mark.parametrize("rules", RUN_RULE_SETS.values(), ids=list(RUN_RULE_SETS))
@settings(max_examples=2, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(steps=run_histories)
def test_two_processes_say_the_same_of_any_history(
    small_chunks: None, postgres: Databases, rules: Rules, steps: list[RunStep]
) -> None:
    with sqlite_bench(runs=rules) as opened:
        live_through(opened, steps)
        check_every_size(opened, rules, processes=2)
    with postgres.fresh() as uri, postgres_bench(uri, runs=rules) as opened:
        live_through(opened, steps)
        check_every_size(opened, rules, processes=2)


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every stream is a chunk of its own."""
    monkeypatch.setattr(building, "CHUNK_EVENTS", 1)


STORY = tuple(
    RunStep(kind, stream, variant, fold=True)
    for kind, stream, variant in (
        ("declare", 0, 0), ("step", 0, 1), ("source", 0, 0), ("sample", 0, 0), ("declare", 2, 0), ("refuse", 0, 0),
        ("step", 0, 2), ("declare", 3, 0), ("end", 0, 2), ("claim", 2, 1), ("step", 0, 3), ("declare", 1, 0),
        ("end", 0, 0), ("claim", 0, 3),
    )
)  # fmt: skip


def test_a_key_is_a_whole_stream_and_one_id_may_be_a_runs_an_exports_and_a_campaigns(open_bench: Opener) -> None:
    with open_bench(runs=TOY) as opened:
        live_through(opened, STORY)
        size = opened.log.head().size
        assert list(shown(opened, size)) == sorted(KEYS)
        assert [key for key, _ in states(opened).at(size, kind="run")] == ["run/a", "run/b"]
        assert [key for key, _ in states(opened).at(size, kind="export")] == ["export/a"]
        some = states(opened).at(size, keys=["run/b", "campaign/a", "run/none", "source/a", "run/b"])
        assert [key for key, _ in some] == ["campaign/a", "run/b"]
        assert states(opened).one("run/a", size) == shown(opened, size)["run/a"]
        assert states(opened).one("run/a", 0) is None
        with opened.log.store.engine.connect() as connection:
            origins = connection.exec_driver_sql("SELECT DISTINCT origin FROM source_interval ORDER BY 1").scalars()
            assert list(origins) == ["campaign", "export", "run"]


def test_what_the_rules_cannot_do_is_told_with_its_positions(open_bench: Opener) -> None:
    with open_bench(runs=TOY) as opened:
        live_through(opened, STORY)
        reasons = [orjson.loads(shown(opened, size)["run/a"])["reasons"][1:] for size in (5, 6, 9, 11, 13)]
        refused = {"field": "facts", "rule": FAILED_RULE, "events": [5]}
        broken = {"field": "facts", "rule": BROKEN_RULE, "events": [8]}
        told = [[{k: v for k, v in r.items() if k != "text"} for r in some] for some in reasons]
        assert told == [[], [refused], [refused, broken], [refused, broken], [refused]]
        assert opened.live_runs.failed_events == 1
        assert opened.projector.rebuild(rules=TOY.id).generation.failed_events == 1


def test_sources_and_runs_do_not_see_each_other(open_bench: Opener) -> None:
    with open_bench(runs=TOY) as opened:
        listed(opened)
        before = opened.shown_at(opened.live.size)
        teller = RunTeller()
        for step in STORY:
            if step.kind != "source":
                opened.append(*teller.tell(step))
        catch_up(opened)
        size = opened.log.head().size
        assert opened.live.size == opened.live_runs.size == size
        assert opened.shown_at(size) == before
        assert opened.shown_at(size).keys() == {builders.SOURCE}
        assert set(shown(opened, size)) == set(KEYS)
        assert opened.projector.rebuild().keys == 1
        assert opened.projector.rebuild(rules=TOY.id).keys == len(KEYS)


def test_events_that_show_nothing_new_make_no_interval(open_bench: Opener) -> None:
    with open_bench(runs=TOY) as opened:
        opened.append(of(declared("run/a"), "run/a"))
        teller = RunTeller()
        for _ in range(5):
            opened.append(*teller.tell(RunStep("sample", 0, 0)))
        catch_up(opened)
        assert opened.projector.generations.count(opened.live_runs.id) == (1, 1)
        facts, version = stream_facts(opened.log, TOY, "run/a", 6)
        assert (facts.samples, version) == (5, 6)


def test_the_row_that_ends_is_sought_by_its_place_however_many_steps_a_run_has() -> None:
    with sqlite_bench(runs=TOY) as opened, opened.log.store.engine.connect() as connection:
        sql = intervals._END_SHOWN.text.replace(":g", "'g'").replace(":k", "'k'").replace(":p", "1")
        plan = [row[-1] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}")]
        assert plan[0].endswith("(generation=? AND key=? AND from_pos=?)"), plan


def test_a_build_ends_in_the_midst_of_a_run_when_it_must(open_bench: Opener) -> None:
    looks: list[int] = []

    def stopping() -> None:
        looks.append(1)
        if len(looks) > 2:
            raise Unavailable("the server is stopping", remedy="Wait.")

    with open_bench(runs=TOY) as opened:
        opened.append(of(declared("run/a"), "run/a"), *(of(logged("a", n), "run/a") for n in range(3 * CHECK_ROWS)))
        store, folder = opened.log.store, Folder(TOY, opened.log.registry, RUNS)
        line = read_timeline(folder, (), LogHistory(store, folder))
        fold = ChunkFold(store.engine, folder, opened.log.head().size, line)
        with pytest.raises(Unavailable, match="stopping"):
            fold.fold("run/a", "run/a", stopping)
        (whole,) = fold.fold("run/a", "run/a")
        assert len(whole.intervals) == 3 * CHECK_ROWS + 1


def test_a_disregard_changes_the_sizes_beyond_it_and_none_before(open_bench: Opener) -> None:
    with open_bench(runs=TOY) as opened:
        opened.append(of(declared("run/a"), "run/a"))
        pos = opened.append(of(logged("a", 3), "run/a", id="wrong")) - 1
        opened.append(of(logged("a", 1), "run/a"))
        catch_up(opened)
        size = opened.append(of(EventDisregarded(pos=pos, event="wrong", reason="It was wrong."), "ledger"))
        catch_up(opened)
        steps = [orjson.loads(shown(opened, n)["run/a"])["steps"] for n in (size - 1, size)]
        assert steps == [2, 1]
        assert opened.projector.rebuild(rules=TOY.id).equal


def test_a_reader_that_needs_more_than_is_folded_is_told_so(open_bench: Opener) -> None:
    with open_bench(runs=TOY) as opened:
        opened.append(of(declared("run/a"), "run/a"))
        size = catch_up(opened)
        opened.append(of(logged("a", 1), "run/a"))
        assert states(opened).size() == size
        assert states(opened).size(needed=size) == size
        for ask in (lambda: states(opened).size(needed=size + 1), lambda: states(opened).at(size + 1)):
            with pytest.raises(LedgerError, match="has folded 1 events, the question needs 2") as behind:
                ask()
            assert behind.value.reason == "BEHIND"
        with pytest.raises(LedgerError, match="the log holds 2 events, the question needs 9"):
            states(opened).at(9)
        catch_up(opened)
        assert states(opened).size(needed=size + 1) == size + 1


def test_an_older_log_is_answered_from_its_events_until_its_runs_are_built(open_bench: Opener) -> None:
    with open_bench(runs=TOY) as opened:
        live_through(opened, STORY)
        size = opened.log.head().size
        expected = [shown(opened, n) for n in range(size + 1)]
        opened.forget_runs()
        opened.projector = opened.another_projector()
        assert opened.projector.generations.live(RUNS) is None, "opening waits for no build"
        assert opened.projector.step() == size
        assert [shown(opened, n) for n in range(size + 1)] == expected
        assert states(opened).at(size, kind="run") == [(k, s) for k, s in expected[-1].items() if k.startswith("run/")]
        assert states(opened).at(size, keys=["export/a", "source/x"]) == [("export/a", expected[-1]["export/a"])]
        assert states(opened).size(needed=size) == size
        with pytest.raises(LedgerError, match=f"the log holds {size} events, the question needs {size + 1}"):
            states(opened).at(size + 1)
        built = opened.projector.build_runs()
        assert built is not None
        assert (built.generation.status, built.generation.size, built.compared_with) == (LIVE, size, "")
        assert opened.projector.build_runs() is None
        assert opened.live_runs.id == built.generation.id
        assert [shown(opened, n) for n in range(size + 1)] == expected
        assert opened.log.head().size == size, "nothing is recorded of it"


def test_a_log_without_runs_has_their_generation_from_the_start(open_bench: Opener) -> None:
    with open_bench(runs=TOY) as opened:
        listed(opened)
        opened.forget_runs()
        opened.projector = opened.another_projector()
        assert (opened.live_runs.size, opened.projector.build_runs()) == (0, None)
        assert catch_up(opened) == opened.log.head().size


def test_a_changed_fold_builds_its_own_runs_which_take_the_old_ones_place_without_a_promotion(
    open_bench: Opener,
) -> None:
    with open_bench(runs=TOY) as opened:
        live_through(opened, STORY)
        old, size = opened.live_runs, opened.log.head().size
        expected = shown(opened, size)
        opened.projector = opened.another_projector("d")
        assert opened.live_runs.id == old.id
        assert shown(opened, size) == expected, "another release's rows are left alone, and the log is folded"
        built = opened.projector.build_runs()
        assert built is not None
        assert (opened.live_runs.id, opened.live_runs.identity.fold_digest) == (built.generation.id, "d" * 64)
        assert opened.projector.generations.get(old.id) is None
        assert opened.projector.generations.count(old.id) == (0, 0)
        assert (shown(opened, size), opened.log.head().size) == (expected, size)


def test_a_build_of_runs_that_was_cut_off_is_gone_on_with(small_chunks: None, open_bench: Opener) -> None:
    def cut_off(told: Progress) -> None:
        if told.phase == FOLDING_RUNS and told.done >= 3:
            raise KeyboardInterrupt

    with open_bench(runs=TOY) as opened:
        live_through(opened, STORY)
        expected = shown(opened, opened.log.head().size)
        opened.forget_runs()
        with pytest.raises(KeyboardInterrupt):
            opened.projector.rebuild(cut_off, rules=TOY.id)
        (left,) = [g for g in opened.projector.generations.all() if g.status == BUILDING]
        assert (left.built_through, left.identity.projection) == ("export/a", RUNS.name)
        opened.projector = opened.another_projector()
        built = opened.projector.build_runs()
        assert built is not None
        assert (built.resumed, built.generation.id, built.keys) == (True, left.id, len(KEYS))
        assert shown(opened, opened.log.head().size) == expected


def test_a_rebuild_of_runs_finds_damage_and_keeps_what_was_shown(open_bench: Opener) -> None:
    with open_bench(runs=TOY) as opened:
        live_through(opened, STORY)
        size, old = opened.log.head().size, opened.live_runs
        expected = shown(opened, size)
        opened.damage("run/a")
        rebuilt = opened.projector.rebuild(rules=TOY.id)
        assert (rebuilt.equal, rebuilt.differing_keys, rebuilt.compared_with) == (False, ["run/a"], old.id)
        assert shown(opened, size) == expected
        assert opened.live_runs.id == rebuilt.generation.id
        kept = opened.projector.find(old.id)
        assert kept.status == KEPT
        assert opened.projector.drop(old.id).id == old.id
        assert opened.projector.generations.get(old.id) is None


def test_runs_are_neither_compared_nor_promoted_and_what_answers_is_not_dropped(open_bench: Opener) -> None:
    def never(*_told: object) -> None:
        raise AssertionError("it was recorded")

    with open_bench(runs=TOY) as opened:
        live_through(opened, STORY)
        for refuse in (
            lambda: opened.projector.impact(TOY.id),
            lambda: opened.projector.promote(opened.live_runs.id, "0" * 64, never),
        ):
            with pytest.raises(LedgerError, match="runs have one rule set a release") as refused:
                refuse()
            assert refused.value.reason == "NOT_SUPPORTED"
            assert f"--rules {TOY.id}" in refused.value.remedy
        with pytest.raises(LedgerError, match="cannot be dropped") as refused:
            opened.projector.drop(TOY.id)
        assert f"rebuild --rules {TOY.id}" in refused.value.remedy
        opened.projector.settle(opened.rules.id)
        assert [g.status for g in opened.projector.generations.all()] == [LIVE, LIVE]


def test_two_servers_on_one_database_fold_every_event_of_a_run_once(database: str) -> None:
    with postgres_bench(database, runs=TOY) as one, bench(PostgresStore(database), runs=TOY) as two:
        assert one.live_runs.id == two.live_runs.id
        over = threading.Event()

        def step(opened: Bench) -> None:
            while not over.is_set():
                opened.projector.step()

        stepping = [threading.Thread(target=step, args=(opened,)) for opened in (one, two)]
        for thread in stepping:
            thread.start()
        one.append(of(declared("run/a"), "run/a"))
        for number in range(100):
            (one, two)[number % 2].append(of(logged("a", number), "run/a"))
        for opened in (one, two):
            catch_up(opened)
        over.set()
        for thread in stepping:
            thread.join(30)
        assert [orjson.loads(shown(two, n)["run/a"])["steps"] for n in range(1, 102)] == list(range(101))
        assert one.projector.rebuild(rules=TOY.id).equal


def test_of_two_servers_that_build_runs_at_once_one_generation_is_left(database: str) -> None:
    with postgres_bench(database, runs=TOY) as one, bench(PostgresStore(database), runs=TOY) as two:
        live_through(one, STORY)
        expected = shown(one, one.log.head().size)
        one.forget_runs()
        both = threading.Barrier(2)
        found: list[Rebuilt] = []

        def build(opened: Bench) -> None:
            def report(told: Progress) -> None:
                if told.phase == COMPARING:
                    both.wait(20)

            found.append(opened.projector.rebuild(report, rules=TOY.id))

        building_now = [threading.Thread(target=build, args=(opened,)) for opened in (one, two)]
        for thread in building_now:
            thread.start()
        for thread in building_now:
            thread.join(30)
        assert [built.equal for built in found] == [True, True]
        assert [g.status for g in one.projector.generations.all()] == [LIVE, LIVE]
        for opened in (one, two):
            assert shown(opened, opened.log.head().size) == expected


def test_a_reader_whose_generation_is_replaced_meanwhile_reads_the_new_one(
    open_bench: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_bench(runs=TOY) as opened:
        live_through(opened, STORY)
        size = opened.log.head().size
        expected = shown(opened, size)
        stale = opened.live_runs
        opened.projector.rebuild(rules=TOY.id)
        asked = [stale, opened.live_runs]
        generations = opened.projector.generations
        reader = RunStates(opened.log, _Remembering(generations, asked), TOY)
        assert dict(reader.at(size)) == expected
        assert asked == []


class _Remembering(Generations):
    """Names generations as a reader may have seen them a moment ago."""

    def __init__(self, generations: Generations, rows: list[Any]) -> None:
        self.__dict__.update(generations.__dict__)
        self._rows = rows

    def live(self, projection: Any = None) -> Any:
        return self._rows.pop(0)


@every_set
def test_the_facts_of_a_stream_are_those_of_the_fold_at_every_size(rules: Rules, open_bench: Opener) -> None:
    disregards = (RunStep("disregard", 0, 0, target=1), RunStep("disregard", 0, 0, target=6))
    with open_bench(runs=rules) as opened:
        teller = RunTeller()
        for step in (*STORY, *disregards):
            size = opened.append(*teller.tell(step))
            catch_up(opened)
            for key, (kept, _) in opened.projector.generations.load(opened.live_runs.id, KEYS).items():
                facts, version = stream_facts(opened.log, rules, key, size)
                assert rules.encode_facts(facts) == decode_kept(kept)[2], f"{key} at size {size}"
                assert version == opened.log.store.stream_version(key)
        counting, _ = stream_facts(opened.log, rules, "run/a", size, disregarded=())
        assert rules.encode_facts(counting) != rules.encode_facts(stream_facts(opened.log, rules, "run/a", size)[0])
        assert stream_facts(opened.log, rules, "run/a", 1)[1] == 1
        assert stream_facts(opened.log, rules, "policy/rules", size) == (rules.initial_facts(), 0)
