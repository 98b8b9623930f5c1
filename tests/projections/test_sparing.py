"""What the fold spares: showing a source on which nothing bears, and asking for what is written one by one."""

from __future__ import annotations

import gc
from collections.abc import Collection
from typing import Any

import pytest

from ledger.projections.generations import Generations
from ledger.projections.intervals import Written
from ledger.rules.ledger_1.rule_set import Ledger1
from tests.projections.bench import Bench, listed, sqlite_bench, suspicion
from tests.projections.conftest import Opener
from tests.projections.histories import LISTED, SOURCES, Step, Teller


class Counting(Ledger1):
    """Counts how often it shows which source."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def show(self, source_id: str, *arguments: Any) -> Any:
        self.shown.append(source_id)
        return super().show(source_id, *arguments)


class Stumbling(Counting):
    """Cannot show anything for a while."""

    stumbles = False

    def show(self, source_id: str, *arguments: Any) -> Any:
        state = super().show(source_id, *arguments)
        if self.stumbles:
            raise RuntimeError("stumbled")
        return state


class Watching(Ledger1):
    """Remembers how many new objects had to be there for a search for cycles."""

    def __init__(self) -> None:
        self.thresholds: list[int] = []

    def show(self, source_id: str, *arguments: Any) -> Any:
        self.thresholds.append(gc.get_threshold()[0])
        return super().show(source_id, *arguments)


def adopt(opened: Bench, teller: Teller) -> None:
    """Changes the policy, which touches every source."""
    for kind in ("define", "adopt"):
        opened.append(*teller.tell(Step(kind, 0, 1, fold=False, restart=False)))
    opened.projector.catch_up()


def told(opened: Bench) -> Teller:
    teller = Teller()
    for step in LISTED:
        opened.append(*teller.tell(step))
    opened.projector.catch_up()
    return teller


def test_a_source_is_not_shown_again_when_nothing_that_bears_on_it_has_changed(open_bench: Opener) -> None:
    rules = Counting()
    with open_bench(rules) as opened:
        teller = told(opened)
        rules.shown.clear()
        adopt(opened, teller)
        assert rules.shown == []
        opened.append(suspicion(1))
        opened.projector.catch_up()
        assert rules.shown == [SOURCES[0]]
        expected = opened.history()
        assert [opened.shown_at(size) for size in range(len(expected))] == expected


def test_a_source_that_could_not_be_shown_is_shown_again_with_the_next_chance() -> None:
    rules = Stumbling()
    with sqlite_bench(rules) as opened:
        teller = told(opened)
        rules.stumbles = True
        opened.append(suspicion(1))
        opened.projector.catch_up()
        assert opened.live.failed_events == 1
        rules.stumbles = False
        adopt(opened, teller)
        assert opened.live.failed_events == 0
        assert opened.shown_at(opened.live.size) == opened.history()[-1]


def test_a_page_asks_once_for_all_the_sources_that_it_folds(monkeypatch: pytest.MonkeyPatch) -> None:
    with sqlite_bench() as opened:
        teller = told(opened)
        opened.projector = opened.another_projector()
        asked: list[Collection[str]] = []
        load = Generations.load

        def counted(self: Generations, generation_id: str, keys: Collection[str]) -> Written:
            asked.append(sorted(keys))
            return load(self, generation_id, keys)

        monkeypatch.setattr(Generations, "load", counted)
        for source in range(3):
            opened.append(*teller.tell(Step("suspect", source, 0, fold=False, restart=False)))
        opened.projector.catch_up()
        assert asked == [sorted(SOURCES)]
        assert opened.shown_at(opened.live.size) == opened.history()[-1]


def test_a_rebuild_searches_for_cycles_seldom_and_then_as_often_as_before() -> None:
    rules, before = Watching(), gc.get_threshold()
    with sqlite_bench(rules) as opened:
        listed(opened)
        assert set(rules.thresholds) == {before[0]}
        rules.thresholds.clear()
        assert opened.projector.rebuild(processes=1).equal
        assert min(rules.thresholds) > before[0]
    assert gc.get_threshold() == before
