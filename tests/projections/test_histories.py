"""Whatever the history: live fold, rebuild, prefix and the rules themselves say the same at every size."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Sequence

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from ledger.core.ids import sha256_hex
from ledger.projections.prefix import states_of_prefix
from ledger.rules import atlas_page_1, ledger_1
from ledger.rules.sets import RULE_SETS
from tests.projections.bench import Bench, Rules, States, postgres_bench, sqlite_bench, told
from tests.projections.histories import KINDS, LISTED, SOURCES, Step, Teller, histories
from tests.server.databases import Databases

every_set = pytest.mark.parametrize("rules", RULE_SETS.values(), ids=list(RULE_SETS))


def live_through(bench: Bench, steps: Sequence[Step]) -> None:
    """Appends the history; the projector moves now and then, and forgets everything now and then."""
    teller = Teller()
    for step in steps:
        bench.append(*teller.tell(step))
        if step.restart:
            bench.projector = bench.another_projector()
        if step.fold:
            bench.projector.step()
    bench.projector.catch_up()


def live_through_quickly(bench: Bench, steps: Sequence[Step]) -> None:
    """The same with many steps in one append."""
    teller = Teller()
    for start in range(0, len(steps), 50):
        bench.append(*(draft for step in steps[start : start + 50] for draft in teller.tell(step)))
        if start % 400 == 0:
            bench.projector = bench.another_projector()
            bench.projector.step()
    bench.projector.catch_up()


def check_every_size(bench: Bench, *, processes: int = 0) -> None:
    expected = bench.history()
    assert bench.live.size == bench.log.head().size == len(expected) - 1
    assert bench.live.failed_events == 0
    check_rows(bench, expected)
    rebuilt = bench.projector.rebuild(processes=processes)
    assert (rebuilt.equal, rebuilt.differing_keys) == (True, [])
    check_rows(bench, expected)
    for size in some_of(range(len(expected)), 12):
        assert states_of_prefix(bench.log, bench.rules, size) == expected[size], f"at size {size}, from the log"


def check_rows(bench: Bench, expected: Sequence[States]) -> None:
    for size, states in enumerate(expected):
        assert bench.shown_at(size) == states, f"at size {size}"


def some_of(sizes: Sequence[int], count: int) -> list[int]:
    return random.Random(len(sizes)).sample(sizes, min(count, len(sizes)))


@every_set
@settings(max_examples=20)
@given(steps=histories, listed=st.booleans())
def test_on_sqlite_the_rows_say_at_every_size_what_the_rules_say_of_the_events_before_it(
    rules: Rules, steps: list[Step], listed: bool
) -> None:
    with sqlite_bench(rules) as bench:
        live_through(bench, [*LISTED, *steps] if listed else steps)
        check_every_size(bench)


@every_set
@settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(steps=histories)
def test_on_postgres_the_rows_say_at_every_size_what_the_rules_say_of_the_events_before_it(
    postgres: Databases, rules: Rules, steps: list[Step]
) -> None:
    with postgres.fresh() as uri, postgres_bench(uri, rules) as bench:
        live_through(bench, [*LISTED, *steps])
        check_every_size(bench)


@every_set
@settings(max_examples=10)
@given(steps=histories, sizes=st.tuples(st.floats(0, 1), st.floats(0, 1)))
def test_with_the_policy_of_a_later_size_the_rules_see_its_events_and_no_others(
    rules: Rules, steps: list[Step], sizes: tuple[float, float]
) -> None:
    with sqlite_bench(rules) as bench:
        live_through(bench, [*LISTED, *steps])
        head = bench.log.head().size
        size, policy_size = sorted(round(share * head) for share in sizes)
        events = list(bench.log.store.read_all(0, policy_size))
        of_policy = {e.pos for e in events if e.stream.startswith("policy/")}

        def is_seen(pos: int) -> bool:
            said = orjson.loads(events[pos].payload or b"")
            return pos < size or pos in of_policy or (events[pos].stream == "ledger" and said["pos"] in of_policy)

        expected = told((event for event in events if is_seen(event.pos)), rules)[-1]
        assert states_of_prefix(bench.log, rules, size, policy_size=policy_size) == expected
        some = sorted(expected)[:1]
        asked = states_of_prefix(bench.log, rules, size, policy_size=policy_size, keys=some)
        assert asked == {key: expected[key] for key in some}


@every_set
def test_a_history_of_thousands_says_the_same_live_rebuilt_by_two_processes_and_from_the_log(rules: Rules) -> None:
    with sqlite_bench(rules) as bench:
        live_through_quickly(bench, many_steps(1_500))
        head = bench.log.head().size
        assert head > 2_000
        sizes = some_of(range(head), 8)
        shown = [bench.shown_at(size) for size in sizes]
        assert [states_of_prefix(bench.log, rules, size) for size in sizes] == shown
        rebuilt = bench.projector.rebuild(processes=2)
        assert (rebuilt.equal, rebuilt.processes, rebuilt.keys) == (True, 2, len(SOURCES))
        assert [bench.shown_at(size) for size in sizes] == shown


def test_on_postgres_a_history_of_thousands_says_the_same_live_rebuilt_by_two_processes_and_from_the_log(
    database: str,
) -> None:
    with postgres_bench(database, ledger_1.RULES) as bench:
        live_through_quickly(bench, many_steps(700))
        sizes = some_of(range(bench.log.head().size), 5)
        shown = [bench.shown_at(size) for size in sizes]
        assert [states_of_prefix(bench.log, bench.rules, size) for size in sizes] == shown
        rebuilt = bench.projector.rebuild(processes=2)
        assert (rebuilt.equal, rebuilt.processes) == (True, 2)
        assert [bench.shown_at(size) for size in sizes] == shown


def many_steps(count: int) -> list[Step]:
    """A long history, always the same; disregards are fewer than in the short ones."""
    chance = random.Random(7)
    kinds = [kind for kind in KINDS if kind != "disregard"]
    steps = list(LISTED)
    for number in range(count):
        kind = "disregard" if number % 150 == 149 else chance.choice(kinds)
        target = chance.randrange(number + 1)
        steps.append(Step(kind, chance.randrange(3), chance.randrange(4), fold=True, restart=False, target=target))
    return steps


@settings(max_examples=2, suppress_health_check=[HealthCheck.too_slow])
@given(steps=histories)
def test_two_processes_say_the_same_of_any_history(steps: list[Step]) -> None:
    with sqlite_bench(ledger_1.RULES) as bench:
        live_through(bench, [*LISTED, *steps])
        check_every_size(bench, processes=2)


def digest_of_a_history() -> str:
    """Of everything that is stored of a long history; printed by a process with a hash seed of its own."""
    with sqlite_bench(ledger_1.RULES) as bench:
        live_through_quickly(bench, many_steps(150))
        bench.projector.rebuild()
        with bench.log.store.engine.connect() as connection:
            tables = [
                connection.execute(text(sql)).all()
                for sql in (
                    "SELECT key, from_pos, to_pos, state FROM source_interval ORDER BY key, from_pos",
                    "SELECT key, facts FROM source_facts ORDER BY key",
                    "SELECT environment, size FROM generation",
                )
            ]
    return sha256_hex(repr(tables).encode())


def test_no_hash_seed_changes_a_byte() -> None:
    code = "from tests.projections.test_histories import digest_of_a_history as d; print(d())"
    found = set()
    for seed in ("0", "1", "4242"):
        run = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
        found.add(run.stdout.strip())
    assert len(found) == 1
    assert len(found.pop()) == 64


STORY = (("measure", 3), ("review", 0), ("define", 1), ("adopt", 1), ("define", 0), ("adopt", 0), ("confirm", 0),
         ("validate", 0), ("review", 3), ("resolve", 0), ("reopen", 0), ("revise", 1), ("close", 0), ("supersede", 0),
         ("review", 2), ("retire", 0), ("close", 0), ("reinstate", 2), ("close", 0), ("suspect", 1))  # fmt: skip


@every_set
def test_a_history_that_shows_something_of_every_kind_is_told_the_same_in_pages_of_any_size(rules: Rules) -> None:
    shown = []
    for every in (1, 3, len(STORY) + 1):
        steps = [
            Step(kind, 0, variant, fold=n % every == 0, restart=n % 5 == 0) for n, (kind, variant) in enumerate(STORY)
        ]
        with sqlite_bench(rules) as bench:
            live_through(bench, [*LISTED, *steps])
            check_every_size(bench)
            shown.append([bench.shown_at(size) for size in range(bench.live.size + 1)])
    assert shown[0] == shown[1] == shown[2]
    states = [orjson.loads(state) for states in shown[0] for state in states.values()]
    assert {s["retired"] for s in states} == {True, False}
    assert any(s["resolved_defects"] for s in states)
    if rules is atlas_page_1.RULES:
        assert {s["quality"] for s in states} >= {"unreviewed", "good", "some_issues"}
        assert {s["difficulty"]["status"] for s in states} >= {"not_measured", "current", "historical"}


@every_set
def test_every_event_of_that_history_can_be_disregarded_and_every_size_before_stays_as_it_was(rules: Rules) -> None:
    told_once = [Step(kind, 0, variant, fold=True, restart=False) for kind, variant in STORY]
    with sqlite_bench(rules) as bench:
        live_through(bench, [*LISTED, *told_once])
        count = bench.log.head().size
    takes_back = [Step("disregard", 0, 0, fold=n % 3 == 0, restart=n % 7 == 0, target=n) for n in range(count)]
    with sqlite_bench(rules) as bench:
        live_through(bench, [*LISTED, *told_once, *takes_back])
        check_every_size(bench)
        assert bench.shown_at(count) != {}
        assert bench.shown_at(bench.live.size) == {}, "nothing is left that would show a source"
