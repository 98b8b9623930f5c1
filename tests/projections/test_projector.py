"""The projector among others: damage is found, rebuilds disturb nobody, and no event is applied twice."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
from sqlalchemy import text

from ledger.core.errors import LedgerError
from ledger.core.ids import sha256_hex
from ledger.log.postgres import PostgresStore
from ledger.projections.differences import EMPTY_DIFF, Difference, difference
from ledger.projections.generations import BUILDING, LIVE, Identity, Moved
from ledger.projections.projector import Projector
from tests.projections.bench import IDENTITY, Bench, bench, postgres_bench, sqlite_bench
from tests.projections.conftest import Opener
from tests.projections.histories import LISTED, Teller
from tests.rules import builders
from tests.server.doors import of

OTHER = Identity(IDENTITY.rules, IDENTITY.rules_digest, "d" * 64, IDENTITY.upcaster_digest)


def listed(opened: Bench) -> None:
    teller = Teller()
    for step in LISTED:
        opened.append(*teller.tell(step))
    opened.projector.catch_up()


def suspicion(number: int) -> object:
    return of(builders.suspected(f"d{number % 7}"), id=f"s{number}")


def test_damage_to_a_row_is_found_by_a_rebuild_named_and_repaired(open_bench: Opener) -> None:
    with open_bench() as opened:
        listed(opened)
        opened.damage(builders.SOURCE)
        assert opened.shown_at(opened.live.size) != opened.history()[-1]
        found = opened.projector.rebuild()
        assert (found.equal, found.differing_keys) == (False, [builders.SOURCE])
        assert opened.shown_at(opened.live.size) == opened.history()[-1]
        assert opened.projector.rebuild().equal


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


def test_a_rebuild_tells_how_far_it_has_come(open_bench: Opener) -> None:
    with open_bench() as opened:
        listed(opened)
        for start in range(0, 2_000, 500):
            opened.append(*(suspicion(n) for n in range(start, start + 500)))
        told: list[tuple[int, int]] = []
        rebuilt = opened.projector.rebuild(lambda size, log_size: told.append((size, log_size)))
        size = opened.log.head().size
        assert told[-1] == (size, size)
        assert len(told) > 2
        assert told == sorted(told)
        assert (rebuilt.keys, rebuilt.generation.status) == (1, LIVE)


def test_a_rebuild_that_is_broken_off_leaves_the_live_generation_and_nothing_else(open_bench: Opener) -> None:
    with open_bench() as opened:
        listed(opened)
        before = opened.live

        def break_off(_size: int, _log_size: int) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            opened.projector.rebuild(break_off)
        assert opened.projector.generations.all() == [before]
        assert _generations_with_rows(opened) == {before.id}


def test_a_rebuild_ends_when_the_server_stops(open_bench: Opener) -> None:
    with open_bench() as opened:
        listed(opened)
        opened.projector.stop_building()
        with pytest.raises(LedgerError) as stopped:
            opened.projector.rebuild()
        assert stopped.value.reason == "UNAVAILABLE"
        assert [g.status for g in opened.projector.generations.all()] == [LIVE]


def test_what_a_killed_builder_left_is_dropped_at_the_next_start_and_never_read() -> None:
    with sqlite_bench() as opened:
        listed(opened)
        live = opened.live
        with opened.projector.generations.building(IDENTITY, live.environment) as row:  # and never dropped
            opened.projector._advance(row, opened.projector._fold(row))
        assert {g.status for g in opened.projector.generations.all()} == {LIVE, BUILDING}
        assert opened.live == live
        opened.another_projector()
        assert opened.projector.generations.all() == [live]
        assert _generations_with_rows(opened) == {live.id}
        with pytest.raises(Moved):
            opened.projector.generations.digests(row.id, 1)


def test_on_postgres_a_builder_that_lives_keeps_its_generation_and_one_that_died_loses_it(database: str) -> None:
    with postgres_bench(database) as opened:
        listed(opened)
        live = opened.live
        with opened.projector.generations.building(IDENTITY, live.environment) as row:
            opened.another_projector()
            assert {g.id for g in opened.projector.generations.all()} == {live.id, row.id}
            kill_who_builds(opened)
            opened.another_projector()
            assert opened.projector.generations.all() == [live]


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


def test_two_projectors_on_one_database_apply_every_event_once(open_bench: Opener) -> None:
    with open_bench() as opened:
        listed(opened)
        others = [opened.another_projector() for _ in range(2)]
        over = threading.Event()

        def step(projector: Projector) -> None:
            while not over.is_set():
                projector.step()

        stepping = [threading.Thread(target=step, args=(p,)) for p in others]
        for thread in stepping:
            thread.start()
        for number in range(150):
            opened.append(suspicion(number))
        for projector in others:
            projector.catch_up()
        over.set()
        for thread in stepping:
            thread.join(30)
        expected = opened.history()
        for size in range(len(expected)):
            assert opened.shown_at(size) == expected[size]
        assert opened.projector.rebuild().equal


def test_a_projector_that_was_overtaken_writes_nothing_and_reads_everything_again(open_bench: Opener) -> None:
    with open_bench() as opened:
        listed(opened)
        slow, fast = opened.another_projector(), opened.another_projector()
        row, fold = slow._open_live()
        opened.append(suspicion(1))
        fast.catch_up()
        with pytest.raises(Moved):
            slow._advance(row, fold)
        opened.append(suspicion(2))
        assert slow.catch_up() == opened.log.head().size
        assert opened.shown_at(opened.live.size) == opened.history()[-1]


def test_a_rival_that_keeps_up_is_left_to_it_and_one_that_stops_is_replaced(database: str) -> None:
    with postgres_bench(database) as one, bench(PostgresStore(database)) as two:
        listed(one)
        for opened in (one, two):
            opened.projector.start()
        for number in range(60):
            one.append(suspicion(number))
        _until(lambda: one.live.size == one.log.head().size)
        one.projector.close()
        size = two.append(suspicion(99))
        _until(lambda: two.live.size == size)
        assert two.shown_at(size) == two.history()[-1]


def test_a_generation_of_another_release_is_left_to_its_own_servers(open_bench: Opener) -> None:
    with open_bench() as opened:
        listed(opened)
        before = opened.live
        other = opened.another_projector(OTHER)
        opened.append(suspicion(1))
        assert other.step() == before.size
        assert opened.live == before
        with pytest.raises(LedgerError) as refused:
            other.rebuild()
        assert refused.value.reason == "CONDITION_FAILED"
        told: list[Difference] = []
        taken = other.rebuild(promote=told.append)
        assert (opened.live.identity, taken.equal) == (OTHER, True)
        assert told == [Difference(before.size, (), EMPTY_DIFF)]
        size = opened.append(suspicion(2))
        assert opened.projector.step() < size
        assert other.step() == size
        assert opened.shown_at(size) == opened.history()[-1]


def test_a_rebuild_whose_promotion_is_refused_changes_nothing(open_bench: Opener) -> None:
    with open_bench() as opened:
        listed(opened)
        before = opened.projector.generations.all()

        def refuse(_found: Difference) -> None:
            raise LedgerError("not now")

        with pytest.raises(LedgerError, match="not now"):
            opened.another_projector(OTHER).rebuild(promote=refuse)
        assert opened.projector.generations.all() == before


def test_a_difference_names_the_keys_that_moved_and_has_a_digest_of_its_own() -> None:
    same = difference(9, {"a": "1", "b": "2"}, {"a": "1", "b": "2"})
    moved = difference(9, {"a": "1", "b": "2"}, {"b": "3", "c": "4"})
    assert (same.moved, same.digest) == ((), EMPTY_DIFF)
    assert moved.moved == ("a", "b", "c")
    assert moved.digest == sha256_hex(b'[["a","1",null],["b","2","3"],["c",null,"4"]]')
    assert sha256_hex(b"[]") == EMPTY_DIFF


def _until(holds: Callable[[], bool]) -> None:
    waited = threading.Event()
    for _ in range(400):
        if holds():
            return
        waited.wait(0.05)
    raise AssertionError("it never held")


def _generations_with_rows(opened: Bench) -> set[str]:
    with opened.log.store.engine.connect() as connection:
        found = set()
        for table in ("source_interval", "source_facts"):
            found.update(connection.execute(text(f"SELECT DISTINCT generation FROM {table}")).scalars())
        return found
