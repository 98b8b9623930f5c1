"""Disregards: what one may name, and that it takes effect from its own position on."""

from __future__ import annotations

import pytest

from ledger.events import REGISTRY
from ledger.events.administration import EventDisregarded
from ledger.log.model import StoredEvent
from ledger.projections.disregards import against_disregard, disregardable, disregarded_at
from tests.projections.bench import Bench, listed
from tests.projections.conftest import Opener
from tests.rules import builders
from tests.server.doors import of

WHAT_RULES_READ = {"catalogue", "review", "defect", "difficulty", "attestation", "policy", "training", "export"}


def says(pos: int, event: str = "e") -> EventDisregarded:
    return EventDisregarded(pos=pos, event=event, reason="It was wrong.")


def stored(pos: int = 3, event: str = "e", type_: str = "defect.suspected") -> StoredEvent:
    return StoredEvent(pos, event, type_, "source/s", 1, 0, b"{}", bytes(32))


def test_what_rules_read_can_be_disregarded_and_the_logs_own_affairs_cannot() -> None:
    taken = {t.family for t in REGISTRY if disregardable(t.type)}
    left = {t.family for t in REGISTRY if not disregardable(t.type)}
    assert taken == WHAT_RULES_READ
    assert left == {"ledger"}
    assert taken.isdisjoint(left)
    assert not disregardable("an.unknown_type")


def test_a_disregard_of_an_event_that_is_there_has_nothing_against_it() -> None:
    assert against_disregard(says(3), stored(3), already=False) == []


@pytest.mark.parametrize(
    ("target", "already", "places"),
    [
        (None, False, ["/pos"]),
        (stored(3, "other"), False, ["/event"]),
        (stored(3, type_="key.introduced"), False, ["/pos"]),
        (stored(3), True, ["/pos"]),
        (stored(3, "other", "log.heads"), True, ["/event", "/pos", "/pos"]),
    ],
)
def test_every_reason_against_a_disregard_is_given_at_once(
    target: StoredEvent | None, already: bool, places: list[str]
) -> None:
    assert [p.place for p in against_disregard(says(3), target, already)] == places


def disregard(opened: Bench, pos: int, event: str) -> int:
    return opened.append(of(says(pos, event), "ledger"))


def test_a_disregard_changes_the_sizes_beyond_it_and_none_before(open_bench: Opener) -> None:
    with open_bench() as opened:
        listed(opened)
        clean = opened.shown_at(opened.live.size)
        pos = opened.append(of(builders.suspected(), id="s")) - 1
        opened.append(of(builders.suspected("d2")))
        size = disregard(opened, pos, "s")
        opened.projector.catch_up()
        assert opened.shown_at(pos) == clean
        assert opened.shown_at(size - 1) == opened.history()[size - 1]
        assert b'"d1"' in opened.shown_at(size - 1)[builders.SOURCE]
        assert b'"d1"' not in opened.shown_at(size)[builders.SOURCE]
        assert b'"d2"' in opened.shown_at(size)[builders.SOURCE]
        assert disregarded_at(opened.log.store, REGISTRY, size) == {pos}
        assert disregarded_at(opened.log.store, REGISTRY, size - 1) == frozenset()


def test_a_disregard_that_does_not_hold_changes_nothing(open_bench: Opener) -> None:
    with open_bench() as opened:
        listed(opened)
        pos = opened.append(of(builders.suspected(), id="s")) - 1
        opened.projector.catch_up()
        shown = opened.shown_at(pos + 1)
        nonsense = [(pos, "other"), (pos + 90, "s"), (pos + 3, "itself"), (opened.log.head().size + 9, "s")]
        for at, event in nonsense:
            opened.append(of(says(at, event), "ledger", id=event if event == "itself" else None))
        other = opened.log.store.event(pos + 1)
        assert other is not None
        size = disregard(opened, pos + 1, other.id)  # of a disregard
        opened.projector.catch_up()
        assert opened.shown_at(size) == shown
        assert disregarded_at(opened.log.store, REGISTRY, size) == frozenset()


def test_a_disregarded_policy_is_taken_back_from_every_source_at_once(open_bench: Opener) -> None:
    with open_bench() as opened:
        listed(opened)
        adopted = opened.log.store.event(1)
        assert adopted is not None
        assert adopted.type == "protocol.adopted"
        opened.append(of(builders.report()))
        size = disregard(opened, 1, adopted.id)
        opened.projector.catch_up()
        assert opened.shown_at(size) != opened.shown_at(size - 1)
        assert opened.shown_at(size) == opened.history()[-1]
        assert opened.projector.rebuild().equal
