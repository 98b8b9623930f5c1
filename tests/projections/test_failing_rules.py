"""Rules that trip over an event: the state says so, the log goes on, and a rebuild says the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest

from ledger.events import REGISTRY
from ledger.events.catalogue import CatalogueSynced
from ledger.events.policy import ProtocolAdopted
from ledger.projections.folding import FAILED_RULE, Fold, Kept
from ledger.rules import RuleEvent, State
from ledger.rules.atlas_page_1.environment import Environment
from ledger.rules.atlas_page_1.model import Facts
from ledger.rules.atlas_page_1.rule_set import AtlasPage1
from tests.projections.bench import Bench, sqlite_bench
from tests.projections.conftest import Opener
from tests.projections.histories import LISTED, Teller
from tests.rules import builders
from tests.server.doors import of


class FailsInFold(AtlasPage1):
    def fold(self, facts: Facts, event: RuleEvent) -> Facts:
        if event.type == "defect.suspected":
            raise LookupError("a rule with a fault")
        return super().fold(facts, event)


class FailsInShow(AtlasPage1):
    def show(self, source_id: str, facts: Facts, environment: Environment) -> State | None:
        if "d1" in facts.defects and facts.defects["d1"].status == "suspected":
            raise ZeroDivisionError
        return super().show(source_id, facts, environment)


class FailsInEnvironment(AtlasPage1):
    def fold_environment(self, environment: Environment, event: RuleEvent) -> Environment:
        if isinstance(event.payload, ProtocolAdopted):
            raise KeyError("adopted")
        return super().fold_environment(environment, event)


class FailsInTouched(AtlasPage1):
    def touched(self, environment: Environment, event: RuleEvent) -> Any:
        if isinstance(event.payload, CatalogueSynced) and event.payload.collection == "late":
            raise RecursionError
        return super().touched(environment, event)


def listed(opened: Bench) -> None:
    teller = Teller()
    for step in LISTED:
        opened.append(*teller.tell(step))
    opened.projector.catch_up()


def shown(opened: Bench, size: int | None = None) -> dict[str, Any]:
    states = opened.shown_at(opened.live.size if size is None else size)
    state: dict[str, Any] = orjson.loads(states[builders.SOURCE])
    return state


def failures_of(state: dict[str, Any]) -> list[list[int]]:
    return [r["events"] for r in state["reasons"] if r["rule"] == FAILED_RULE]


@pytest.mark.parametrize("rules", [FailsInFold, FailsInShow])
def test_an_event_that_the_rules_cannot_take_becomes_a_state_that_names_it(rules: type, open_bench: Opener) -> None:
    with open_bench(rules()) as opened:
        listed(opened)
        before = opened.live.size
        pos = opened.append(of(builders.suspected("d1"))) - 1
        opened.projector.catch_up()
        assert failures_of(shown(opened)) == [[pos]]
        assert failures_of(shown(opened, before)) == []
        assert shown(opened)["suspected_defects"] == []
        assert opened.live.failed_events == 1

        opened.append(of(builders.suspected("d2")) if rules is FailsInShow else of(builders.confirmed("d2")))
        opened.append(of(builders.withdrawn("d1")) if rules is FailsInShow else of(builders.withdrawn("d2")))
        opened.projector.catch_up()
        assert pos in failures_of(shown(opened))[0], "what failed once is said for ever"
        assert opened.live.size == opened.log.head().size


@pytest.mark.parametrize("rules", [FailsInFold, FailsInShow, FailsInEnvironment, FailsInTouched])
@pytest.mark.parametrize("every", [1, 2, 100])
def test_failures_are_the_same_in_pages_of_any_size_after_a_restart_and_in_a_rebuild(rules: type, every: int) -> None:
    with sqlite_bench(rules()) as opened:
        listed(opened)
        payloads = [builders.suspected("d1"), builders.suspected("d1"), builders.confirmed("d1"),
                    builders.adopted("none"), builders.suspected("d2"), builders.withdrawn("d1"),
                    builders.synced("late"), builders.report()]  # fmt: skip
        for number, payload in enumerate(payloads):
            opened.append(of(payload))
            if number % every == 0:
                opened.projector = opened.another_projector()
                opened.projector.catch_up()
        opened.projector.catch_up()
        live = opened.live
        rows = [opened.shown_at(size) for size in range(live.size + 1)]
        assert live.failed_events > 0
        rebuilt = opened.projector.rebuild()
        assert (rebuilt.equal, rebuilt.generation.failed_events) == (True, live.failed_events)
        assert [opened.shown_at(size) for size in range(live.size + 1)] == rows


def test_a_failure_in_the_environment_leaves_it_as_it_was(open_bench: Opener) -> None:
    with open_bench(FailsInEnvironment()) as opened:
        listed(opened)
        environment = opened.rules.decode_environment(opened.live.environment)
        assert environment.adopted is None
        assert builders.SOURCE in environment.origins
        assert opened.live.failed_events == 1


def test_an_event_whose_payload_is_gone_is_named_in_the_state() -> None:
    with sqlite_bench() as opened:
        listed(opened)
        opened.append(of(builders.suspected()))
        events = list(opened.log.store.read_all(0, opened.log.head().size))
        fold = Fold(
            rules=opened.rules,
            registry=REGISTRY,
            environment=opened.rules.initial_environment(),
            load=lambda _keys: {},
            load_all=dict[str, Kept],
        )
        for event in events[:-1]:
            fold.apply(event)
        (interval,) = fold.apply(replace(events[-1], payload=None))
        assert failures_of(orjson.loads(interval.state)) == [[events[-1].pos]]
