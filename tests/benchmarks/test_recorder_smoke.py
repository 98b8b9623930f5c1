"""The recorder's benchmark runs and counts what it says. How fast anything is, no test says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.benchmarks.recorder import BARE, CALLS, DOWN, UP, Sent, Timed, beyond, goals, ratios
from tests.benchmarks.report import Spread

SCRIPT = Path(__file__).with_name("recorder.py")


def test_a_quick_run_measures_every_case_and_names_the_rivals_that_are_left_out(tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    environment = {k: v for k, v in os.environ.items() if k not in {"MLFLOW_PYTHON", "MLMD_PYTHON"}}
    command = [sys.executable, SCRIPT, "--quick", "--data", str(tmp_path), "--json", str(results)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240, env=environment)
    assert done.returncode == 0, done.stderr
    assert "LEFT OUT: mlflow: set MLFLOW_PYTHON" in done.stderr
    assert "LEFT OUT: ml-metadata: set MLMD_PYTHON" in done.stderr
    found = json.loads(results.read_text())
    assert {(t["what"], t["paused"]) for t in found["timed"]} == {(w, p) for w in CALLS for p in (False, True)}
    assert {s["what"] for s in found["sent"]} == {"metrics", "records"}
    assert sum(goal.startswith("not measured") for goal in found["goals"]) == 3
    assert [p.name for p in tmp_path.iterdir()] == ["results.json"], "the run leaves nothing behind"


def test_a_step_is_compared_with_the_bare_write_of_its_own_round() -> None:
    timed = [Timed(0, BARE, False, 2.0, 9.0), Timed(0, UP, False, 30.0, 9.0)]
    timed += [Timed(1, BARE, False, 20.0, 9.0), Timed(1, UP, False, 75.0, 9.0)]
    assert beyond(timed, UP, paused=False) == [28.0, 55.0]


def test_a_ratio_never_crosses_rounds() -> None:
    sent = [Sent(0, "metrics", 100.0), Sent(0, "metrics, mlflow", 10.0), Sent(1, "metrics", 1_000.0)]
    assert ratios(sent, "metrics", "metrics, mlflow") == Spread(10.0, 10.0, 10.0)


def test_a_goal_is_reached_at_its_number_and_not_beyond() -> None:
    timed = [Timed(0, BARE, False, 1.0, 1.0), Timed(0, UP, False, 50.9, 1.0), Timed(0, DOWN, False, 51.0, 1.0)]
    sent = [Sent(0, "metrics", 200.0), Sent(0, "metrics, mlflow", 10.0)]
    assert [goal.partition(":")[0] for goal in goals(timed, sent)][:5] == [
        "reached",
        "NOT reached",
        *(["not measured"] * 2),
        "reached",
    ]
