"""Rules that trip over an event: the state says so, the log goes on, and a rebuild says the same."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from ledger.client.drafts import Draft
from ledger.events import REGISTRY
from ledger.events.administration import EventDisregarded
from ledger.events.catalogue import CatalogueSynced
from ledger.events.policy import ProtocolAdopted
from ledger.projections.folding import BROKEN_RULE, FAILED_RULE, Folder, plain
from ledger.projections.prefix import states_of_prefix
from ledger.projections.rows import LogHistory
from ledger.projections.timelines import fold_streams, read_timeline
from ledger.rules import RuleEvent, State
from ledger.rules.atlas_page_1.environment import Environment
from ledger.rules.atlas_page_1.model import Facts
from ledger.rules.atlas_page_1.rule_set import AtlasPage1
from tests.projections.bench import Bench, listed, sqlite_bench
from tests.projections.conftest import Opener
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


def shown(opened: Bench, size: int | None = None) -> dict[str, Any]:
    states = opened.shown_at(opened.live.size if size is None else size)
    state: dict[str, Any] = orjson.loads(states[builders.SOURCE])
    return state


def failures_of(state: dict[str, Any], rule: str = FAILED_RULE) -> list[list[int]]:
    return [r["events"] for r in state["reasons"] if r["rule"] == rule]


def test_an_event_that_the_rules_cannot_take_becomes_a_state_that_names_it_for_as_long_as_it_counts(
    open_bench: Opener,
) -> None:
    with open_bench(FailsInFold()) as opened:
        listed(opened)
        before = opened.live.size
        pos = opened.append(of(builders.suspected("d1"), id="bad")) - 1
        opened.projector.catch_up()
        assert failures_of(shown(opened)) == [[pos]]
        assert failures_of(shown(opened, before)) == []
        assert shown(opened)["suspected_defects"] == []
        assert opened.live.failed_events == 1

        opened.append(of(builders.confirmed("d2")), of(builders.withdrawn("d2")))
        opened.projector.catch_up()
        assert failures_of(shown(opened)) == [[pos]], "later events do not mend it"
        size = opened.append(disregard(pos, "bad"))
        opened.projector.catch_up()
        assert failures_of(shown(opened, size - 1)) == [[pos]]
        assert failures_of(shown(opened)) == []
        assert opened.live.failed_events == 0


def test_while_the_rules_cannot_derive_a_state_the_last_good_one_is_shown_and_since_when(open_bench: Opener) -> None:
    with open_bench(FailsInShow()) as opened:
        listed(opened)
        good = shown(opened)
        pos = opened.append(of(builders.suspected("d1"))) - 1
        opened.append(of(builders.suspected("d2")))
        opened.projector.catch_up()
        broken = shown(opened)
        assert failures_of(broken, BROKEN_RULE) == [[pos]]
        assert {**broken, "reasons": []} == {**good, "reasons": []}
        assert opened.live.failed_events == 1

        opened.append(of(builders.withdrawn("d1")))
        opened.projector.catch_up()
        assert failures_of(shown(opened), BROKEN_RULE) == []
        assert [d["id"] for d in shown(opened)["suspected_defects"]] == ["d2"], (
            "nothing of what came in between is lost"
        )
        assert opened.live.failed_events == 0


class FailsOnTheProtocol(AtlasPage1):
    """Cannot show anything under another protocol: a disregard of its adoption mends every source at once."""

    def show(self, source_id: str, facts: Facts, environment: Environment) -> State | None:
        if environment.adopted is not None and environment.adopted.protocol == "other":
            raise ZeroDivisionError
        return super().show(source_id, facts, environment)


EVERY_FAULT = [FailsInFold, FailsInShow, FailsInEnvironment, FailsInTouched, FailsOnTheProtocol]


@pytest.mark.parametrize("rules", EVERY_FAULT)
@pytest.mark.parametrize("every", [1, 2, 100])
def test_failures_are_the_same_in_pages_of_any_size_after_a_restart_in_a_rebuild_and_from_the_log(
    rules: type, every: int
) -> None:
    with sqlite_bench(rules()) as opened:
        listed(opened)
        start = opened.log.head().size
        payloads = [builders.suspected("d1"), builders.suspected("d1"), builders.confirmed("d1"),
                    builders.adopted("none"), builders.suspected("d2"), builders.adopted("none", "other"),
                    builders.report(), builders.withdrawn("d1"), builders.synced("late"), builders.report()]  # fmt: skip
        drafts = [of(payload, id=f"f{number}") for number, payload in enumerate(payloads)]
        drafts += [disregard(start + number, f"f{number}") for number in (1, 0, 5, 3, 4)]
        for number, draft in enumerate(drafts):
            opened.append(draft)
            if number % every == 0:
                opened.projector = opened.another_projector()
                opened.projector.catch_up()
        opened.projector.catch_up()
        live = opened.live
        rows = [opened.shown_at(size) for size in range(live.size + 1)]
        assert any(b".failed" in state for states in rows for state in states.values()) or live.failed_events
        rebuilt = opened.projector.rebuild()
        assert (rebuilt.equal, rebuilt.generation.failed_events) == (True, live.failed_events)
        assert [opened.shown_at(size) for size in range(live.size + 1)] == rows
        assert [states_of_prefix(opened.log, opened.rules, size) for size in range(live.size + 1)] == rows


def test_a_failure_in_the_environment_leaves_it_as_it_was(open_bench: Opener) -> None:
    with open_bench(FailsInEnvironment()) as opened:
        listed(opened)
        environment = opened.rules.decode_environment(opened.live.environment)
        assert environment.adopted is None
        assert builders.SOURCE in environment.origins
        assert opened.live.failed_events == 1


class FailsOnRevisions(AtlasPage1):
    def fold_environment(self, environment: Environment, event: RuleEvent) -> Environment:
        if event.type == "source.revised":
            raise KeyError("row")
        return super().fold_environment(environment, event)


def test_a_part_that_only_the_environment_cannot_take_is_named_by_its_source(open_bench: Opener) -> None:
    with open_bench(FailsOnRevisions()) as opened:
        listed(opened)
        pos = opened.append(of(builders.revised("c9"), f"source/{builders.SOURCE}")) - 1
        opened.append(of(builders.suspected("d1")))
        opened.projector.catch_up()
        assert failures_of(shown(opened)) == [[pos]]
        assert opened.live.failed_events == 1
        assert opened.projector.rebuild().equal


def test_an_event_whose_payload_is_gone_is_named_in_the_state() -> None:
    with sqlite_bench() as opened:
        listed(opened)
        opened.append(of(builders.suspected()))
        *before, last = map(plain, opened.log.store.read_all(0, opened.log.head().size))
        gone = (*last[:-1], None)
        folder = Folder(opened.rules, REGISTRY)
        line = read_timeline(folder, before, LogHistory(opened.log.store, folder))
        mine = [row for row in (*before, gone) if row[3] == f"source/{builders.SOURCE}"]
        (folded,) = fold_streams(opened.rules, REGISTRY, line, [(f"source/{builders.SOURCE}", mine)])
        assert folded.failures == 1
        assert failures_of(orjson.loads(folded.intervals[-1].state)) == [[last[0]]]


def disregard(pos: int, event: str) -> Draft:
    return of(EventDisregarded(pos=pos, event=event, reason="It was wrong."), "ledger")
