"""The fold's benchmark runs, its history is a real one, and what it says is counted. How fast anything is, no test says."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import orjson
import pytest

from ledger.core.ids import ids_digest
from ledger.events import REGISTRY
from ledger.projections.generations import LIVE
from tests.benchmarks.as_of import ON_STORE, OVER_GRPC, Latency, Loop, Past, loop
from tests.benchmarks.fold import QUICK_EVENTS
from tests.benchmarks.fold_report import (
    PROCESSES,
    REPLAY,
    Pace,
    Rate,
    Reading,
    as_of_ratio,
    fold,
    goals,
    rate_table,
    ratios,
    reading_table,
    rebuild,
)
from tests.benchmarks.histories import NAMED_PARTS, Event, history, source_count
from tests.benchmarks.report import Spread
from tests.benchmarks.written_logs import written

SCRIPT = Path(__file__).with_name("fold.py")
ONE = rebuild("sqlite", 1)
FEW = 4_000


@pytest.fixture(scope="module")
def told() -> list[Event]:
    return list(history(4_000))


def test_every_payload_is_valid_and_passes_the_quick_check(told: list[Event]) -> None:
    for event in told:
        REGISTRY.check(event.type, 1, event.body)
        quick = REGISTRY.get(event.type, 1).quick
        assert quick is None or quick(event.body), event.type


def test_the_history_is_the_same_every_time_and_a_list_of_new_events(told: list[Event]) -> None:
    assert list(history(4_000)) == told
    assert len({event.id for event in told}) == 4_000
    assert [event.id for event in told] == sorted(event.id for event in told)


def test_most_of_the_history_is_reviews_of_sixteen_parts_or_more(told: list[Event]) -> None:
    parts = Counter(e.payload["collection"] for e in told if e.type.endswith(".recorded") and e.tags)
    assert sum(parts.values()) / len(told) > 0.7
    closed = [e.payload["collection"] for e in told if e.type == "review.published"]
    assert {parts[collection] for collection in closed} == {16}


def test_a_closing_event_names_the_parts_before_it_and_no_others(told: list[Event]) -> None:
    waiting: dict[str, list[str]] = {}
    closings = 0
    for event in told:
        collection = event.payload.get("collection")
        if collection is None:
            continue
        assert event.tags == (f"collection:{collection}",)
        if (named := event.payload.get("parts")) is None:
            waiting.setdefault(collection, []).append(event.id)
            continue
        ids = waiting.pop(collection, [])
        closings += 1
        assert (named["count"], named["digest"]) == (len(ids), ids_digest(ids))
        assert named.get("ids") == (ids if len(ids) <= NAMED_PARTS else None)
    assert closings > 100


def test_a_longer_history_has_more_sources_and_more_events_of_each() -> None:
    assert [source_count(n) for n in (10_000, 100_000, 1_000_000)] == [500, 1_581, 5_000]


def test_the_rules_make_every_kind_of_state_of_it_and_refuse_no_event(tmp_path: Path) -> None:
    with written(tmp_path, "ledger-1", FEW).opened() as (log, projector):
        projector.rebuild(processes=1)
        live = projector.generations.live()
        assert live is not None
        assert (live.status, live.size, live.failed_events) == (LIVE, log.head().size, 0)
        states: list[dict[str, Any]] = [
            orjson.loads(state) for _, state in projector.generations.states_at(live.id, live.size)
        ]
    assert len(states) == source_count(FEW)
    assert {s["quality"] for s in states} >= {"good", "some_issues", "bad", "needs_re_review"}
    assert any(s["open_defects"] for s in states)
    assert any(s["resolved_defects"] for s in states)
    assert {s["difficulty"]["status"] for s in states} >= {"current", "historical", "not_measured"}


def test_a_home_is_found_again_and_written_anew_when_it_is_another_history(tmp_path: Path) -> None:
    home = written(tmp_path, "ledger-1", 50)
    file = home.settings.database_file
    first = file.stat().st_ino
    assert written(tmp_path, "ledger-1", 50) == home
    assert file.stat().st_ino == first
    marker = file.with_name("history.json")
    marker.write_text(json.dumps({**json.loads(marker.read_text()), "history": "another"}))
    written(tmp_path, "ledger-1", 50)
    with home.opened() as (log, _):
        assert [e.id for e in log.store.read_all(0, 100)][-50:] == [e.id for e in islice(history(50), 50)]


@pytest.mark.slow
def test_a_quick_run_measures_everything_but_the_rivals_and_leaves_nothing_behind(tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    command = [sys.executable, str(SCRIPT), "--quick", "--no-rivals", "--json", str(results)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=240, env={"TMPDIR": str(tmp_path)}
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(results.read_text())
    assert [rate["contestant"] for rate in found["rates"]] == [
        *(rebuild("sqlite", n) for n in PROCESSES),
        *(fold(n) for n in PROCESSES),
    ]
    assert {rate["events"] for rate in found["rates"]} == {QUICK_EVENTS}
    assert all(rate["pace"]["rate"] > 0 for rate in found["rates"])
    assert [reading["door"] for reading in found["readings"]] == [ON_STORE, OVER_GRPC]
    assert [goal.partition(":")[0] for goal in found["goals"]].count("not measured") == 1
    assert [p.name for p in tmp_path.iterdir()] == ["results.json"]


def test_ratios_never_cross_rounds() -> None:
    # The second round ran on a machine ten times slower: the quotient of the medians would be 1.1, the truth is 2.
    rates = [
        Rate(0, 10, ONE, Pace(200.0)),
        Rate(0, 10, REPLAY, Pace(100.0)),
        Rate(1, 10, ONE, Pace(20.0)),
        Rate(1, 10, REPLAY, Pace(10.0)),
        Rate(2, 10, REPLAY, Pace(1_000.0)),
    ]
    assert ratios(rates, (10, ONE), (10, REPLAY)) == Spread(2.0, 2.0, 2.0)


@pytest.mark.parametrize(("rate", "verdict"), [(300.0, "reached"), (299.0, "NOT reached")])
def test_the_rebuild_must_reach_three_times_the_replay_at_every_size(rate: float, verdict: str) -> None:
    rates = [Rate(0, 10, ONE, Pace(rate)), Rate(0, 10, REPLAY, Pace(100.0)), Rate(0, 20, ONE, Pace(500.0))]
    found = [goal for goal in goals(rates, []) if "repository.get" in goal]
    assert [goal.partition(":")[0] for goal in found] == [verdict, "not measured"]


def test_a_goal_says_the_ratio_by_cpu_time_too_where_both_are_known() -> None:
    rates = [Rate(0, 10, ONE, Pace(100.0, 400.0)), Rate(0, 10, REPLAY, Pace(100.0, 100.0))]
    (goal,) = [goal for goal in goals(rates, []) if "repository.get" in goal]
    assert goal.startswith("NOT reached:")
    assert goal.endswith("1.00 (1.00-1.00), at least 3.0; by CPU time 4.00 (4.00-4.00)")


@pytest.mark.parametrize(("then", "verdict"), [(1.2, "reached"), (1.21, "NOT reached")])
def test_a_past_read_may_take_a_fifth_longer_and_no_more(then: float, verdict: str) -> None:
    readings = [Reading(0, 10, ON_STORE, Loop(now=Latency(0.5, 1.0), then=Latency(0.5, then)))]
    assert as_of_ratio(readings, 10, ON_STORE) == Spread(then, then, then)
    assert [goal.partition(":")[0] for goal in goals([], readings)] == [verdict]


def test_the_tables_have_a_line_for_each_history_and_contestant() -> None:
    paces = (Rate(0, 10, ONE, Pace(300.0, 400.0)), Rate(0, 10, REPLAY, Pace(100.0, 200.0)))
    rates = [*paces, Rate(0, 20, ONE, Pace(500.0))]
    lines = rate_table(rates).splitlines()
    assert lines[2:] == [
        f"| 10 | {ONE} | 300 (300-300) | 3.00 (3.00-3.00) | 400 (400-400) | 2.00 (2.00-2.00) |",
        f"| 10 | {REPLAY} | 100 (100-100) | 1.00 (1.00-1.00) | 200 (200-200) | 1.00 (1.00-1.00) |",
        f"| 20 | {ONE} | 500 (500-500) |  |  |  |",
    ]
    readings = [Reading(0, 10, ON_STORE, Loop(now=Latency(0.5, 1.0), then=Latency(0.5, 1.1)))]
    assert reading_table(readings).splitlines()[-1].endswith("| 1.10 (1.10-1.10) |")


def test_a_loop_reads_each_source_now_and_at_a_size_at_which_it_is_listed() -> None:
    where = [Past("a", listed=3, size=9), Past("b", listed=7, size=9)]
    asked: list[tuple[str, int | None]] = []

    def read(source: str, size: int | None) -> str:
        asked.append((source, size))
        return source

    loop(read, where, turns=40, seed=1)
    assert len(asked) == 2 * (40 + 4)
    for first, second in zip(asked[::2], asked[1::2], strict=True):
        assert first[0] == second[0]
        assert [first[1], second[1]].count(None) == 1
    assert {size for source, size in asked if source == "b" and size is not None} == {7, 8, 9}
    assert [pair[1] is None for pair in asked[::2]].count(True) == 22


def test_a_loop_refuses_an_answer_about_another_source() -> None:
    with pytest.raises(RuntimeError, match="asked for a, answered with b"):
        loop(lambda _source, _size: "b", [Past("a", 1, 2)], turns=2, seed=1)
