"""What `ledger-1` need not compute twice, and that nothing is spared that could differ."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import fields, replace

from ledger.rules.ledger_1 import RULES
from ledger.rules.ledger_1.model import Settled
from ledger.rules.ledger_1.remembering import MOST, remembered
from ledger.rules.ledger_1.rule_set import Ledger1

from .builders import SOURCE, adopted, defined, revised, suspected, synced
from .ledger_1_builders import ON_PRESENT, Told, alias, report

rules = Ledger1()


def shown_from(story: Told) -> list[int]:
    return [id(one) for one in rules.shown_from(SOURCE, story.facts_of(SOURCE), story.environment)]


def of_the_policy(story: Told) -> None:
    definition = story.add(defined("v3"))
    story.add(adopted(definition, "v3", replaces="atlas-difficulty-v2-65k16k"))


def test_everything_that_is_kept_but_the_catalogue_parts_is_what_the_state_is_shown_from() -> None:
    story = Told().listed()
    before = rules.shown_from(SOURCE, story.facts_of(SOURCE), story.environment)
    for name in (field.name for field in fields(Settled) if field.name != "parts"):
        value = object()
        facts = replace(story.facts_of(SOURCE), settled=replace(story.facts_of(SOURCE).settled, **{name: value}))
        after = rules.shown_from(SOURCE, facts, story.environment)
        assert any(one is value for one in after), name
        assert not any(one is value for one in before)


def test_a_catalogue_part_bears_on_the_state_from_its_closing_on() -> None:
    story = Told().listed()
    before = shown_from(story)
    part = story.add(revised("c2", name="renamed", **ON_PRESENT))
    assert (shown_from(story), story.shown()["name"]) == (before, "svamp")
    story.add(synced("c2", [part]))
    assert shown_from(story) != before
    assert story.shown()["name"] == "renamed"


def test_the_policy_bears_on_the_state_of_a_source_with_a_report_alone() -> None:
    with_report, without = Told().listed(), Told().listed()
    with_report.add(report())
    for story, bears in ((with_report, True), (without, False)):
        before, state = shown_from(story), story.shown()
        of_the_policy(story)
        assert (shown_from(story) != before) == bears
        assert (story.shown() != state) == bears


@pytest.mark.parametrize("happens", [lambda s: s.add(suspected("d1")), lambda s: s.add(alias("svamp-old", SOURCE))])
def test_a_defect_and_an_alias_bear_on_the_state(happens: Callable[[Told], object]) -> None:
    story = Told().listed()
    before = shown_from(story)
    happens(story)
    assert shown_from(story) != before


def test_a_function_is_asked_once_for_the_same_objects() -> None:
    asked: list[tuple[object, object]] = []

    @remembered
    def both(one: object, other: object) -> tuple[object, object]:
        asked.append((one, other))
        return one, other

    first, second = [1], [1]
    assert [both(first, second), both(first, second)] == [([1], [1])] * 2
    assert len(asked) == 1
    assert both(second, first)[0] is second
    assert len(asked) == 2


def test_what_is_remembered_is_let_go_when_it_is_too_much() -> None:
    asked: list[object] = []
    ask = remembered(asked.append)
    kept = [object() for _ in range(MOST + 1)]
    for one in kept:
        ask(one)
    ask(kept[-1])
    assert len(asked) == MOST + 1
    ask(kept[0])
    assert asked[-1] is kept[0]


def test_a_remembered_judgment_of_a_report_is_the_one_that_is_made_anew() -> None:
    story = Told().listed()
    story.add(report(limits={"context_window": 1}))
    again = RULES.decode_facts(RULES.encode_facts(story.facts_of(SOURCE)))
    assert RULES.show(SOURCE, again, story.environment) == story.shown() == story.shown()
    assert story.shown()["difficulty"]["mismatches"] != []
