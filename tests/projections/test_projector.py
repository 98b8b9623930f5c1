"""The projector among others: every generation follows the head, and no event is applied twice."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from ledger.log.postgres import PostgresStore
from ledger.projections.following import Follower
from ledger.projections.generations import SHADOW, Moved
from ledger.projections.projector import Projector
from ledger.rules import atlas_page_1, ledger_1
from tests.projections.bench import bench, identity_of, listed, postgres_bench, suspicion
from tests.projections.conftest import Opener


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


def test_a_follower_that_was_overtaken_writes_nothing(open_bench: Opener) -> None:
    with open_bench() as opened:
        listed(opened)
        slow = Follower(opened.log, opened.rules, opened.projector.generations, opened.live)
        size = opened.append(suspicion(1))
        opened.projector.catch_up()
        before = opened.shown_at(size)
        with pytest.raises(Moved):
            slow.advance(size)
        assert (opened.live.size, opened.shown_at(size)) == (size, before)


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


def test_the_projector_moves_every_generation_of_the_release_and_the_live_one_first(open_bench: Opener) -> None:
    with open_bench(atlas_page_1.RULES, ledger_1.RULES) as opened:
        listed(opened)
        shadow = opened.projector.rebuild(rules="ledger-1").generation
        assert shadow.status == SHADOW
        size = opened.append(suspicion(1))
        assert opened.projector.step() == size
        assert opened.projector.find("ledger-1").size < size
        opened.projector.step()
        assert opened.projector.find("ledger-1").size == size
        rows = dict(opened.projector.generations.states_at(shadow.id, size))
        assert rows == opened.history(ledger_1.RULES)[-1]


def test_a_shadow_is_moved_too_while_the_live_generation_is_far_behind(open_bench: Opener) -> None:
    with open_bench(atlas_page_1.RULES, ledger_1.RULES) as opened:
        listed(opened)
        opened.projector.rebuild(rules="ledger-1")
        before = opened.projector.find("ledger-1").size
        for start in range(0, 6_000, 1_000):
            opened.append(*(suspicion(number) for number in range(start, start + 1_000)))
        sizes = [opened.projector.step() for _ in range(5)]
        assert sizes == sorted(set(sizes))
        assert before < opened.projector.find("ledger-1").size < opened.log.head().size


def test_a_generation_is_brought_to_the_head_for_whoever_asks_for_its_rules(open_bench: Opener) -> None:
    with open_bench(atlas_page_1.RULES, ledger_1.RULES) as opened:
        listed(opened)
        opened.projector.rebuild(rules="ledger-1")
        live = opened.live.size
        size = opened.append(suspicion(1))
        assert opened.projector.catch_up("ledger-1") == size
        assert opened.live.size == live


def test_a_generation_of_another_release_is_left_to_its_own_servers(open_bench: Opener) -> None:
    with open_bench() as opened:
        listed(opened)
        before = opened.live
        other = opened.another_projector("d")
        opened.append(suspicion(1))
        assert other.step() == before.size
        assert opened.live == before
        assert other.generations.shown_status(before) == "stale"
        built = other.rebuild()
        assert (built.generation.status, built.compared_with, opened.live) == (SHADOW, "", before)
        assert other.step() == before.size
        assert other.find(opened.rules.id) == other.generations.get(built.generation.id)


def test_answers_come_from_a_generation_that_this_release_moves_if_there_is_one(open_bench: Opener) -> None:
    with open_bench() as opened:
        digest = identity_of(opened.rules.id).rules_digest
        old, new = opened.projector.generations, opened.another_projector("d").generations
        assert (old.answering(digest), new.answering(digest)) == (opened.live, opened.live)
        built = opened.another_projector("d").rebuild().generation
        again = new.answering(digest)
        assert again is not None
        assert again.id == built.id
        assert old.answering(digest) == opened.live
        assert old.answering("f" * 64) is None


def _until(holds: Callable[[], bool]) -> None:
    waited = threading.Event()
    for _ in range(400):
        if holds():
            return
        waited.wait(0.05)
    raise AssertionError("it never held")
