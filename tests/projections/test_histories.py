"""Whatever the history: live fold, rebuild and the rules themselves say the same at every size."""

from __future__ import annotations

import random
from collections.abc import Sequence

import orjson
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.projections.bench import Bench, postgres_bench, sqlite_bench
from tests.projections.histories import LISTED, Step, Teller, histories
from tests.server.databases import Databases


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


def check_every_size(bench: Bench) -> None:
    expected = bench.history()
    assert bench.live.size == bench.log.head().size == len(expected) - 1
    assert bench.live.failed_events == 0
    for size, states in enumerate(expected):
        assert bench.shown_at(size) == states, f"at size {size}"
    rebuilt = bench.projector.rebuild()
    assert (rebuilt.equal, rebuilt.differing_keys) == (True, [])
    for size in random.Random(len(expected)).sample(range(len(expected)), min(5, len(expected))):
        assert bench.shown_at(size) == expected[size], f"at size {size}, after the rebuild"


@settings(max_examples=25)
@given(steps=histories, listed=st.booleans())
def test_on_sqlite_the_rows_say_at_every_size_what_the_rules_say_of_the_events_before_it(
    steps: list[Step], listed: bool
) -> None:
    with sqlite_bench() as bench:
        live_through(bench, [*LISTED, *steps] if listed else steps)
        check_every_size(bench)


@settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(steps=histories)
def test_on_postgres_the_rows_say_at_every_size_what_the_rules_say_of_the_events_before_it(
    postgres: Databases, steps: list[Step]
) -> None:
    with postgres.fresh() as uri, postgres_bench(uri) as bench:
        live_through(bench, [*LISTED, *steps])
        check_every_size(bench)


STORY = (("measure", 3), ("review", 0), ("define", 1), ("adopt", 1), ("define", 0), ("adopt", 0), ("confirm", 0),
         ("validate", 0), ("review", 3), ("resolve", 0), ("reopen", 0), ("revise", 1), ("close", 0), ("supersede", 0),
         ("review", 2), ("retire", 0), ("close", 0), ("reinstate", 2), ("close", 0), ("suspect", 1))  # fmt: skip


def test_a_history_that_shows_something_of_every_kind_is_told_the_same_in_pages_of_any_size() -> None:
    shown = []
    for every in (1, 3, len(STORY) + 1):
        steps = [
            Step(kind, 0, variant, fold=n % every == 0, restart=n % 5 == 0) for n, (kind, variant) in enumerate(STORY)
        ]
        with sqlite_bench() as bench:
            live_through(bench, [*LISTED, *steps])
            check_every_size(bench)
            shown.append([bench.shown_at(size) for size in range(bench.live.size + 1)])
    assert shown[0] == shown[1] == shown[2]
    states = [orjson.loads(state) for states in shown[0] for state in states.values()]
    assert {s["quality"] for s in states} >= {"unreviewed", "good", "some_issues"}
    assert {s["difficulty"]["status"] for s in states} >= {"not_measured", "current", "historical"}
    assert {s["retired"] for s in states} == {True, False}
    assert any(s["resolved_defects"] for s in states)
