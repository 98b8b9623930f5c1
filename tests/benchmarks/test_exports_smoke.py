"""The benchmark of exports runs, and its ratios never cross rounds. How fast anything is, no test says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.benchmarks.exports import COPY, EXPORT, HASH, TORCH, VERIFY, main, ratio
from tests.benchmarks.report import Spread


def test_a_quick_run_measures_every_case_and_leaves_nothing_behind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = tmp_path / "results.json"
    main(["--quick", "--data", str(tmp_path), "--json", str(results)])
    (found,) = json.loads(results.read_text())["rounds"]
    assert set(found) == {COPY, TORCH, EXPORT, HASH, VERIFY}
    assert "export over copy" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == [results]


def test_a_ratio_is_taken_inside_a_round() -> None:
    rounds = [{EXPORT: 10.0, COPY: 1.0}, {EXPORT: 1_000.0, COPY: 100.0}]
    assert ratio(rounds, EXPORT, COPY) == Spread(10.0, 10.0, 10.0)
