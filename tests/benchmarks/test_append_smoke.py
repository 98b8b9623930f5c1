"""The benchmark runs, counts what it says, and compares rates of one round only. How fast anything is, no test says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ledger.events import REGISTRY
from ledger.wire import log_pb2
from tests.benchmarks.contestants import LEDGER, LOCKERS, QUICK, RAW_COPY, Cell
from tests.benchmarks.ledger_server import check_answers, window
from tests.benchmarks.report import GOALS, Rate, Spread, ratios, table
from tests.benchmarks.workload import PAYLOAD_MAKERS, Workload

SCRIPT = Path(__file__).with_name("append.py")
CELL = (1, 100)


def test_a_quick_run_on_sqlite_appends_every_event_and_folds_it(tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    options = ["--quick", "--stores", "sqlite", "--no-rivals", "--data", str(tmp_path), "--json", str(results)]
    done = subprocess.run([sys.executable, SCRIPT, *options], capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stderr

    found = json.loads(results.read_text())
    assert {tuple(rate["key"]) for rate in found["rates"]} == {cell.key for cell in QUICK}
    assert {rate["contestant"] for rate in found["rates"]} == {LEDGER["sqlite"]}
    assert found["projector"][LEDGER["sqlite"]]["events"] >= sum(cell.events for cell in QUICK)
    assert all(goal.startswith("not measured") for goal in found["goals"])
    assert [p.name for p in tmp_path.iterdir()] == ["results.json"], "the run leaves no databases behind"


@pytest.mark.parametrize("event_type", PAYLOAD_MAKERS)
def test_every_payload_passes_the_quick_check(event_type: str) -> None:
    quick = REGISTRY.get(event_type, 1).quick
    assert quick is not None
    assert all(map(quick, Workload(event_type).payloads()))


def test_events_have_two_tags_and_ids_of_their_own() -> None:
    batches = Workload("tag.assigned").batches(300, 100)
    events = [event for batch in batches for event in batch]
    assert [len(batch) for batch in batches] == [100, 100, 100]
    assert len({event.id for event in events}) == 300
    assert {len(set(event.tags)) for event in events} == {2}


def test_a_ratio_never_crosses_rounds() -> None:
    # The second round ran on a machine ten times slower: the quotient of the medians would be 1.1, the truth is 2.
    rates = [
        Rate(0, CELL, LEDGER["postgres"], 200.0),
        Rate(0, CELL, RAW_COPY, 100.0),
        Rate(1, CELL, LEDGER["postgres"], 20.0),
        Rate(1, CELL, RAW_COPY, 10.0),
        Rate(2, CELL, RAW_COPY, 1_000.0),
    ]
    assert ratios(rates, (LEDGER["postgres"], CELL), (RAW_COPY, CELL)) == Spread(2.0, 2.0, 2.0)


@pytest.mark.parametrize(("rate", "verdict"), [(20_000.0, "reached"), (19_999.0, "NOT reached")])
def test_a_goal_is_reached_at_its_factor_and_not_below(rate: float, verdict: str) -> None:
    rates = [Rate(0, (32, 100), LEDGER["postgres"], rate), Rate(0, (32, 1), LOCKERS, 1_000.0)]
    assert GOALS[0].verdict(rates).startswith(f"{verdict}:")


def test_the_table_has_a_line_for_each_cell_and_contestant() -> None:
    rates = [Rate(0, CELL, LEDGER["sqlite"], 50.0), Rate(0, CELL, RAW_COPY, 100.0), Rate(0, (1, 1), RAW_COPY, 5.0)]
    lines = table(rates).splitlines()
    assert len(lines) == 2 + 3
    assert lines[2].split("|")[1:-1] == [" 1 ", " 100 ", f" {LEDGER['sqlite']} ", " 50 (50-50) ", " 1 "]
    assert lines[3].endswith("| 0.50 (0.50-0.50) |")


def test_an_event_that_was_there_before_ends_the_run() -> None:
    request = log_pb2.AppendRequest(drafts=[log_pb2.Draft(id="a"), log_pb2.Draft(id="b")])
    fresh, known = log_pb2.Receipt(pos=7), log_pb2.Receipt(pos=3, already_recorded=True)
    good = log_pb2.AppendStreamResponse(response=log_pb2.AppendResponse(receipts=[fresh, fresh]))
    bad = log_pb2.AppendStreamResponse(response=log_pb2.AppendResponse(receipts=[fresh, known]))
    check_answers([request], [good])
    with pytest.raises(RuntimeError, match="1 of 2 events were recorded"):
        check_answers([request], [bad])
    with pytest.raises(RuntimeError, match="after 0 of 1 messages"):
        check_answers([request], [])


def test_a_client_may_always_have_two_messages_unanswered() -> None:
    assert [window(Cell(1, size, size)) for size in (1, 100, 1_000, 20_000)] == [64, 40, 4, 2]
