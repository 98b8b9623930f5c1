"""Rebuilds: damage is found, readers are not disturbed, and what was left half-way is gone on with."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from ledger.core.errors import LedgerError
from ledger.core.ids import sha256_hex
from ledger.log.postgres import PostgresStore
from ledger.projections import building
from ledger.projections.building import COMPARING, FOLDING, FOLLOWING, READING, Progress
from ledger.projections.differences import EMPTY_DIFF, difference
from ledger.projections.generations import BUILDING, KEPT, LIVE, SHADOW, GenerationRow
from ledger.projections.rebuilding import Rebuilt
from ledger.rules import atlas_page_1, ledger_1
from tests.projections.bench import Bench, bench, identity_of, listed, postgres_bench, sqlite_bench, suspicion
from tests.projections.conftest import Opener
from tests.projections.histories import Step, Teller
from tests.rules import builders


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every stream is a chunk of its own."""
    monkeypatch.setattr(building, "CHUNK_EVENTS", 1)


def several_sources(opened: Bench) -> None:
    """Three sources with something to tell of each, and an event that is disregarded."""
    teller = Teller()
    kinds = [("define", 0), ("adopt", 0), ("list", 0), ("close", 0), ("review", 0), ("confirm", 0), ("measure", 0)]
    for source in (0, 1, 2):
        for kind, variant in kinds:
            opened.append(*teller.tell(Step(kind, source, variant, fold=False, restart=False)))
    opened.append(*teller.tell(Step("disregard", 0, 0, fold=False, restart=False, target=8)))
    opened.projector.catch_up()


def rows_of(opened: Bench, generation: GenerationRow) -> dict[str, list[Any]]:
    """Everything that is stored of a generation but its id."""
    found: dict[str, list[Any]] = {}
    with opened.log.store.engine.connect() as connection:
        for table, order in (("source_interval", "key, from_pos"), ("source_facts", "key")):
            sql = text(f"SELECT * FROM {table} WHERE generation = :g ORDER BY {order}")
            found[table] = [tuple(row)[1:] for row in connection.execute(sql, {"g": generation.id})]
    row = opened.projector.generations.get(generation.id)
    assert row is not None
    found["generation"] = [row.size, row.environment, row.failures, row.failed_events]
    return found


class Killed(BaseException):
    """Ends a build as a kill would: nothing that handles errors sees it."""


def killed_after(chunks: int) -> Callable[[Progress], None]:
    left = iter(range(chunks))

    def report(told: Progress) -> None:
        if told.phase == FOLDING and next(left, None) is None:
            raise Killed

    return report


def test_damage_to_a_row_is_found_by_a_rebuild_named_repaired_and_kept_to_be_looked_at(open_bench: Opener) -> None:
    with open_bench() as opened:
        listed(opened)
        damaged = opened.live
        opened.damage(builders.SOURCE)
        assert opened.shown_at(opened.live.size) != opened.history()[-1]
        found = opened.projector.rebuild()
        assert (found.equal, found.differing_keys, found.compared_with) == (False, [builders.SOURCE], damaged.id)
        assert opened.shown_at(opened.live.size) == opened.history()[-1]
        statuses = {g.id: g.status for g in opened.projector.generations.all()}
        assert statuses == {found.generation.id: LIVE, damaged.id: KEPT}
        again = opened.projector.rebuild()
        assert (again.equal, again.compared_with) == (True, found.generation.id)
        assert opened.projector.drop(damaged.id).id == damaged.id
        assert _generations_with_rows(opened) == {again.generation.id}


def test_a_rebuild_while_events_come_ends_at_the_head_and_equals_what_it_replaces(open_bench: Opener) -> None:
    with open_bench() as opened:
        listed(opened)
        opened.projector.start()
        over = threading.Event()

        def append() -> None:
            number = 0
            while not over.is_set():
                opened.append(suspicion(number))
                number += 1

        appending = threading.Thread(target=append)
        appending.start()
        rebuilds = [opened.projector.rebuild() for _ in range(5)]
        over.set()
        appending.join(30)
        assert [r.equal for r in rebuilds] == [True] * 5
        assert len({r.generation.id for r in rebuilds}) == 5
        opened.projector.catch_up()
        assert opened.shown_at(opened.live.size) == opened.history()[-1]


def test_a_rebuild_gives_to_the_byte_what_the_live_fold_wrote_facts_and_environment_too(
    open_bench: Opener, small_chunks: None
) -> None:
    with open_bench() as opened:
        several_sources(opened)
        before = rows_of(opened, opened.live)
        assert len(before["source_facts"]) == 3
        rebuilt = opened.projector.rebuild()
        assert (rebuilt.equal, rebuilt.keys, rebuilt.processes) == (True, 3, 1)
        assert rows_of(opened, opened.live) == before


def test_processes_of_their_own_give_to_the_byte_the_same(open_bench: Opener, small_chunks: None) -> None:
    with open_bench(ledger_1.RULES) as opened:
        several_sources(opened)
        before = rows_of(opened, opened.live)
        rebuilt = opened.projector.rebuild(processes=2)
        assert (rebuilt.equal, rebuilt.processes) == (True, 2)
        assert rows_of(opened, opened.live) == before


def test_a_rebuild_tells_how_far_it_has_come(open_bench: Opener, small_chunks: None) -> None:
    with open_bench() as opened:
        several_sources(opened)
        size = opened.log.head().size
        told: list[Progress] = []
        rebuilt = opened.projector.rebuild(told.append)
        assert list(dict.fromkeys(p.phase for p in told)) == [READING, FOLDING, FOLLOWING, COMPARING]
        folding = [p for p in told if p.phase == FOLDING]
        assert len(folding) == 3
        assert (folding[-1].done, folding[-1].total) == (folding[-1].total, sum(1 for _ in _of_sources(opened)))
        assert (told[-1].size, told[-1].log_size) == (size, size)
        assert (rebuilt.generation.status, rebuilt.generation.keys_done) == (LIVE, 3)


def test_a_build_that_was_killed_is_gone_on_with_and_ends_as_if_it_never_had_been(
    open_bench: Opener, small_chunks: None
) -> None:
    with open_bench() as opened:
        several_sources(opened)
        before, live = rows_of(opened, opened.live), opened.live
        with pytest.raises(Killed):
            opened.projector.rebuild(killed_after(1))
        (left,) = [g for g in opened.projector.generations.all() if g.status == BUILDING]
        assert (left.keys_done, left.size, left.target) == (2, 0, live.size)
        assert opened.live == live
        opened.append(suspicion(1))  # what came since is followed after the build
        opened.projector.catch_up()
        folded: list[Progress] = []
        rebuilt = opened.another_projector().rebuild(folded.append)
        assert (rebuilt.resumed, rebuilt.equal, rebuilt.generation.id) == (True, True, left.id)
        assert len([p for p in folded if p.phase == FOLDING]) == 1, "two streams were written already"
        assert rows_of(opened, opened.live) != before
        assert opened.shown_at(opened.live.size) == opened.history()[-1]
        resumed = rows_of(opened, opened.live)
        fresh = opened.projector.rebuild()
        assert (fresh.resumed, fresh.equal) == (False, True)
        assert rows_of(opened, opened.live) == resumed


def test_a_chunk_is_written_whole_or_not_at_all(
    open_bench: Opener, small_chunks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_bench() as opened:
        several_sources(opened)
        before = rows_of(opened, opened.live)
        opened.forbid_facts_of(sorted(k for k, _ in before["source_facts"])[1])
        with pytest.raises(Exception, match="forbidden"):
            opened.projector.rebuild()
        (left,) = [g for g in opened.projector.generations.all() if g.status == BUILDING]
        assert left.keys_done == 1
        assert {key for key, _ in rows_of(opened, left)["source_facts"]} == {before["source_facts"][0][0]}
        opened.permit_facts()
        rebuilt = opened.projector.rebuild()
        assert (rebuilt.resumed, rebuilt.equal) == (True, True)
        assert rows_of(opened, opened.live) == before


def test_a_rebuild_ends_when_the_server_stops_and_the_next_one_goes_on(open_bench: Opener) -> None:
    with open_bench() as opened:
        listed(opened)
        opened.projector.stop_building()
        with pytest.raises(LedgerError) as stopped:
            opened.projector.rebuild()
        assert stopped.value.reason == "UNAVAILABLE"
        assert [g.status for g in opened.projector.generations.all()] == [LIVE, BUILDING]
        assert opened.another_projector().rebuild().resumed
        assert [g.status for g in opened.projector.generations.all()] == [LIVE]


def test_what_another_release_left_half_way_is_dropped_at_the_next_start(open_bench: Opener) -> None:
    with open_bench() as opened:
        listed(opened)
        live = opened.live
        with pytest.raises(Killed):
            opened.projector.rebuild(_killed_at_once)
        opened.another_projector()
        assert [g.status for g in opened.projector.generations.all()] == [LIVE, BUILDING]
        opened.another_projector("d")
        assert opened.projector.generations.all() == [live]
        assert _generations_with_rows(opened) == {live.id}


def test_a_build_that_somebody_works_on_is_neither_gone_on_with_nor_dropped(open_bench: Opener) -> None:
    with open_bench() as opened:
        listed(opened)
        live = opened.live
        generations = opened.projector.generations
        with generations.build(live.identity, live.environment, live.size) as (row, resumed):
            assert not resumed
            opened.another_projector("d")
            with pytest.raises(LedgerError, match="is being built"):
                opened.projector.drop(row.id)
            other = opened.another_projector().rebuild()
            assert (other.resumed, other.equal) == (False, True)
            assert {g.id for g in generations.all()} == {other.generation.id, row.id}
        assert opened.projector.drop(row.id).status == BUILDING
        assert [g.id for g in generations.all()] == [other.generation.id]


def test_on_postgres_the_build_of_a_builder_that_died_is_free(database: str) -> None:
    with postgres_bench(database) as opened:
        listed(opened)
        live = opened.live
        with opened.projector.generations.build(live.identity, live.environment, live.size) as (row, _):
            kill_who_builds(opened)
            rebuilt = opened.another_projector().rebuild()
            assert (rebuilt.resumed, rebuilt.generation.id) == (True, row.id)


def test_a_build_that_is_dropped_under_its_builder_ends_with_an_error_and_leaves_nothing(
    small_chunks: None,
) -> None:
    with sqlite_bench() as opened:
        several_sources(opened)
        live = opened.live

        def drop(told: Progress) -> None:
            if told.phase == FOLDING:
                with opened.log.store.write_gate, opened.log.store.engine.begin() as connection:
                    connection.execute(text("DELETE FROM generation WHERE status = 'building'"))

        with pytest.raises(LedgerError, match="dropped or taken over"):
            opened.projector.rebuild(drop)
        assert opened.projector.generations.all() == [live]


def test_rules_without_a_generation_get_a_shadow_that_says_at_every_size_what_they_say(open_bench: Opener) -> None:
    with open_bench(atlas_page_1.RULES, ledger_1.RULES) as opened:
        several_sources(opened)
        rebuilt = opened.projector.rebuild(rules="ledger-1")
        assert (rebuilt.generation.status, rebuilt.compared_with, rebuilt.equal) == (SHADOW, "", True)
        for size, states in enumerate(opened.history(ledger_1.RULES)):
            assert dict(opened.projector.generations.states_at(rebuilt.generation.id, size)) == states
        again = opened.projector.rebuild(rules="ledger-1")
        assert (again.generation.status, again.compared_with, again.equal) == (SHADOW, rebuilt.generation.id, True)
        assert opened.live.identity == identity_of("atlas-page-1")


def test_of_two_servers_that_build_the_same_at_once_one_generation_is_left(database: str) -> None:
    with (
        postgres_bench(database, atlas_page_1.RULES, ledger_1.RULES) as one,
        bench(PostgresStore(database), atlas_page_1.RULES, ledger_1.RULES) as two,
    ):
        several_sources(one)
        both = threading.Barrier(2)
        found: list[Rebuilt] = []

        def build(opened: Bench) -> None:
            def report(told: Progress) -> None:
                if told.phase == COMPARING:
                    both.wait(20)

            found.append(opened.projector.rebuild(report, rules="ledger-1"))

        building_now = [threading.Thread(target=build, args=(opened,)) for opened in (one, two)]
        for thread in building_now:
            thread.start()
        for thread in building_now:
            thread.join(30)
        first, second = found
        assert (first.equal, second.equal) == (True, True)
        assert {first.compared_with, second.compared_with} == {"", first.generation.id}
        assert [g.status for g in one.projector.generations.all()] == [LIVE, SHADOW]


def test_rules_that_the_release_does_not_carry_are_named_with_those_that_it_does(open_bench: Opener) -> None:
    with open_bench() as opened:
        with pytest.raises(LedgerError) as unknown:
            opened.projector.rebuild(rules="none")
        assert (unknown.value.reason, unknown.value.remedy) == ("NOT_FOUND", "It carries atlas-page-1.")


def test_a_difference_names_the_keys_that_moved_and_has_a_digest_of_its_own() -> None:
    same = difference(9, {"a": "1", "b": "2"}, {"a": "1", "b": "2"})
    moved = difference(9, {"a": "1", "b": "2"}, {"b": "3", "c": "4"})
    assert (same.moved, same.digest) == ((), EMPTY_DIFF)
    assert moved.moved == ("a", "b", "c")
    assert moved.digest == sha256_hex(b'[["a","1",null],["b","2","3"],["c",null,"4"]]')
    assert sha256_hex(b"[]") == EMPTY_DIFF


def kill_who_builds(opened: Bench) -> None:
    """Ends the session that holds this database's advisory lock, and waits until it is gone."""
    mine = "locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    with opened.log.store.engine.connect() as connection:
        killed = connection.execute(text(f"SELECT pg_terminate_backend(pid) FROM pg_locks WHERE {mine}")).all()
        assert killed == [(True,)]
        for _ in range(500):
            if not connection.scalar(text(f"SELECT count(*) FROM pg_locks WHERE {mine}")):
                return
            time.sleep(0.02)
    raise AssertionError("the session lives on")


def _killed_at_once(_told: Progress) -> None:
    raise Killed


def _of_sources(opened: Bench) -> Iterator[int]:
    for event in opened.log.store.read_all(0, opened.log.head().size):
        if event.stream.startswith("source/"):
            yield event.pos


def _generations_with_rows(opened: Bench) -> set[str]:
    with opened.log.store.engine.connect() as connection:
        found: set[str] = set()
        for table in ("source_interval", "source_facts"):
            found.update(connection.execute(text(f"SELECT DISTINCT generation FROM {table}")).scalars())
        return found


ORPHAN = """
import multiprocessing, os, time
from concurrent.futures import ProcessPoolExecutor
from ledger.projections.workers import begin
if __name__ == "__main__":
    pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"), initializer=begin)
    print(pool.submit(os.getpid).result(), flush=True)
    time.sleep(60)
"""


def test_a_process_that_folds_ends_with_the_server_even_when_that_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "server.py"
    script.write_text(ORPHAN)
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        folding = int(server.stdout.readline())
        os.kill(folding, 0)
        server.kill()
        server.wait()
        for _ in range(500):
            if not _runs(folding):
                return
            time.sleep(0.02)
        os.kill(folding, signal.SIGKILL)
    raise AssertionError("it lives on")


def _runs(pid: int) -> bool:
    """Not ended, and not merely waiting for somebody to ask how it ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
