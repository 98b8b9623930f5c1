"""Promotion: what it moves is shown first and checked again; rolling back is promoting what was in force before."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ledger.core.errors import LedgerError
from ledger.log.postgres import PostgresStore
from ledger.projections import outcomes
from ledger.projections.generations import BUILDING, KEPT, LIVE, SHADOW, GenerationRow
from ledger.projections.impact import Impact
from ledger.projections.projector import Progress
from ledger.rules import State
from ledger.rules.atlas_page_1 import RULES
from ledger.rules.atlas_page_1.environment import Environment
from ledger.rules.atlas_page_1.model import Facts
from ledger.rules.atlas_page_1.rule_set import AtlasPage1
from tests.projections.bench import Bench, bench, identity_of, listed, postgres_bench, suspicion
from tests.projections.conftest import Opener
from tests.rules import builders
from tests.server.doors import of


class Lenient(AtlasPage1):
    """Says Good of every source with a suspicion: rules whose effect is easy to foresee."""

    id = "lenient"

    def show(self, source_id: str, facts: Facts, environment: Environment) -> State | None:
        state = super().show(source_id, facts, environment)
        return state and {**state, "quality": "good" if state["suspected_defects"] else state["quality"]}


LENIENT = Lenient()


def nothing(_live: GenerationRow, _candidate: GenerationRow, _found: Impact) -> None:
    """Records no promotion."""


@contextmanager
def two_sets(open_bench: Opener) -> Iterator[Bench]:
    """A log that the live rules and a shadow of lenient ones show otherwise."""
    with open_bench(RULES, LENIENT) as opened:
        listed(opened)
        opened.append(suspicion(1))
        opened.projector.catch_up()
        opened.projector.rebuild(rules="lenient")
        yield opened


def statuses(opened: Bench) -> dict[str, str]:
    return {g.identity.rules: g.status for g in opened.projector.generations.all()}


def test_the_impact_names_every_source_that_moves_from_what_to_what(open_bench: Opener) -> None:
    with two_sets(open_bench) as opened:
        live, candidate, found = opened.projector.impact("lenient")
        assert (live.id, candidate.identity.rules) == (opened.live.id, "lenient")
        (move,) = found.moves
        assert (move.key, move.changes) == (
            builders.SOURCE,
            (outcomes.Change("quality", "unreviewed", "good"),),
        )
        assert found.size == opened.log.head().size
        assert found.digest == outcomes.digest(found.moves)
        assert opened.projector.impact(opened.live.id)[2].moves == ()


def test_a_promotion_records_first_and_then_lets_the_candidate_answer(open_bench: Opener) -> None:
    with two_sets(open_bench) as opened:
        _, _, found = opened.projector.impact("lenient")
        recorded: list[tuple[str, str, str]] = []

        def record(live: GenerationRow, candidate: GenerationRow, seen: Impact) -> None:
            recorded.append((live.identity.rules, candidate.identity.rules, seen.digest))
            assert statuses(opened) == {"atlas-page-1": LIVE, "lenient": SHADOW}

        assert opened.projector.promote("lenient", found.digest, record) == found
        assert recorded == [("atlas-page-1", "lenient", found.digest)]
        assert statuses(opened) == {"lenient": LIVE, "atlas-page-1": KEPT}
        size = opened.append(suspicion(2))
        opened.projector.catch_up()
        assert opened.shown_at(size) == opened.history(LENIENT)[-1]


def test_rolling_back_is_promoting_what_was_in_force_before_which_has_followed_the_log(open_bench: Opener) -> None:
    with two_sets(open_bench) as opened:
        projector = opened.projector
        projector.promote("lenient", projector.impact("lenient")[2].digest, nothing)
        size = opened.append(suspicion(2))
        back = projector.impact("atlas-page-1")[2]
        assert [(c.before, c.after) for m in back.moves for c in m.changes if c.field == "quality"] == [
            ("good", "unreviewed")
        ]
        opened.projector.catch_up("atlas-page-1")
        opened.projector.catch_up()
        projector.promote("atlas-page-1", projector.impact("atlas-page-1")[2].digest, nothing)
        assert statuses(opened) == {"atlas-page-1": LIVE, "lenient": KEPT}
        assert opened.shown_at(size) == opened.history()[-1]


def test_a_promotion_that_would_move_something_else_by_now_is_refused_with_the_new_digest(open_bench: Opener) -> None:
    with two_sets(open_bench) as opened:
        seen = opened.projector.impact("lenient")[2]
        opened.append(of(builders.withdrawn("d1")))
        recorded: list[str] = []
        with pytest.raises(LedgerError) as refused:
            opened.projector.promote("lenient", seen.digest, lambda *_: recorded.append("promoted"))
        now = opened.projector.impact("lenient")[2]
        assert refused.value.reason == "DIFF_MOVED"
        assert refused.value.details == {"diff_digest": now.digest, "moved": "0", "size": str(now.size)}
        assert (recorded, statuses(opened)) == ([], {"atlas-page-1": LIVE, "lenient": SHADOW})


def test_a_log_that_has_grown_without_moving_anything_does_not_refuse_a_promotion(open_bench: Opener) -> None:
    with two_sets(open_bench) as opened:
        seen = opened.projector.impact("lenient")[2]
        size = opened.append(suspicion(8))  # of the defect that is suspected already
        found = opened.projector.promote("lenient", seen.digest, nothing)
        assert (found.size, found.digest) == (size, seen.digest)


def test_a_promotion_that_cannot_be_recorded_changes_nothing(open_bench: Opener) -> None:
    with two_sets(open_bench) as opened:
        before = statuses(opened)

        def refuse(*_: object) -> None:
            raise LedgerError("not now")

        with pytest.raises(LedgerError, match="not now"):
            opened.projector.promote("lenient", opened.projector.impact("lenient")[2].digest, refuse)
        assert statuses(opened) == before


def test_promoting_the_live_generation_records_nothing(open_bench: Opener) -> None:
    with two_sets(open_bench) as opened:
        recorded: list[str] = []
        nothing_moves = opened.projector.impact("atlas-page-1")[2]
        opened.projector.promote("atlas-page-1", nothing_moves.digest, lambda *_: recorded.append("promoted"))
        assert recorded == []


def test_a_crash_between_record_and_swap_is_settled_at_the_next_start(open_bench: Opener) -> None:
    with two_sets(open_bench) as opened:

        def crash(*_: object) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            opened.projector.promote("lenient", opened.projector.impact("lenient")[2].digest, crash)
        started = opened.another_projector()
        started.settle("atlas-page-1")
        assert statuses(opened) == {"atlas-page-1": LIVE, "lenient": SHADOW}
        started.settle("lenient", identity_of("lenient", "e"))
        assert statuses(opened) == {"atlas-page-1": LIVE, "lenient": SHADOW}
        started.settle("lenient")
        assert statuses(opened) == {"atlas-page-1": KEPT, "lenient": LIVE}
        started.settle("lenient", identity_of("lenient"))
        assert statuses(opened) == {"atlas-page-1": KEPT, "lenient": LIVE}


def test_a_fold_of_another_release_is_replaced_by_promoting_the_generation_of_this_one(open_bench: Opener) -> None:
    with open_bench() as opened:
        listed(opened)
        other = opened.another_projector("d")
        other.rebuild()
        live, candidate, found = other.impact(opened.rules.id)
        assert (live.identity, candidate.identity) == (identity_of(opened.rules.id), identity_of(opened.rules.id, "d"))
        assert found.moves == ()
        opened.append(suspicion(1))  # the old generation is not this release's to move
        assert other.promote(opened.rules.id, found.digest, nothing).size == live.size
        assert opened.live.identity == identity_of(opened.rules.id, "d")


def test_the_live_generation_is_not_dropped_and_any_other_is(open_bench: Opener) -> None:
    with two_sets(open_bench) as opened:
        with pytest.raises(LedgerError) as refused:
            opened.projector.drop("atlas-page-1")
        assert (refused.value.reason, refused.value.details) == ("CONDITION_FAILED", {"generation": opened.live.id})
        dropped = opened.projector.drop("lenient")
        assert (dropped.status, statuses(opened)) == (SHADOW, {"atlas-page-1": LIVE})
        assert opened.projector.generations.count(dropped.id) == (0, 0)
        with pytest.raises(LedgerError) as unknown:
            opened.projector.drop("lenient")
        assert unknown.value.reason == "NOT_FOUND"


def test_what_is_not_built_cannot_be_compared_or_promoted(open_bench: Opener) -> None:
    with open_bench(RULES, LENIENT) as opened:
        listed(opened)

        def stop(_told: Progress) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            opened.projector.rebuild(stop, rules="lenient")
        assert statuses(opened)["lenient"] == BUILDING
        for ask in (opened.projector.impact, lambda ref: opened.projector.promote(ref, "", nothing)):
            with pytest.raises(LedgerError, match="not built yet"):
                ask("lenient")


def test_of_two_servers_that_promote_at_once_both_end_with_one_generation_that_answers(database: str) -> None:
    with postgres_bench(database, RULES, LENIENT) as one, bench(PostgresStore(database), RULES, LENIENT) as two:
        listed(one)
        one.append(suspicion(1))
        one.projector.catch_up()
        one.projector.rebuild(rules="lenient")
        digest = one.projector.impact("lenient")[2].digest
        both = threading.Barrier(2)

        def record(*_: object) -> None:
            both.wait(10)

        def promote(opened: Bench) -> None:
            opened.projector.promote("lenient", digest, record)

        threads = [threading.Thread(target=promote, args=(opened,)) for opened in (one, two)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert statuses(one) == statuses(two) == {"lenient": LIVE, "atlas-page-1": KEPT}
