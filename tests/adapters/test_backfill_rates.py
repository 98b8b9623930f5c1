"""How fast a long log is read, and that its length takes no memory."""

from __future__ import annotations

import json
import time
import tracemalloc
from itertools import repeat
from pathlib import Path

import pytest

from services.adapters.backfill.skyrl import plan_skyrl
from tests.adapters.builders import ME

STEP_BYTES = 150 * 400
METRICS = {f"policy/metric_{n}": n / 7 for n in range(100)} | {"policy/raw_grad_norm": float("nan")}


def long_log(path: Path, size: int) -> Path:
    """A log of which a hundredth part is metrics, as it is where agents run."""
    line = (
        "(skyrl_entrypoint pid=4242) 2026-07-27 08:00:00.101 | INFO     | examples.agents:run:77 - " + "x" * 60 + "\n"
    )
    with path.open("w") as file:
        for step in range(1, size // STEP_BYTES + 1):
            file.writelines(repeat(line, 400))
            file.write(f"WANDB_MIRROR kind=train step={step} metrics={json.dumps(METRICS | {'step': step})}\n")
    return path


@pytest.mark.slow
def test_a_hundred_megabytes_are_read_at_twenty_megabytes_a_second_and_more(tmp_path):
    path = long_log(tmp_path / "long.log", 100_000_000)
    begun = time.process_time()
    found = plan_skyrl([path], run_id="r", by=ME)
    took = time.process_time() - begun
    assert found.account.rows == 100_000_000 // STEP_BYTES
    assert path.stat().st_size / took > 20e6


@pytest.mark.slow
def test_a_log_ten_times_as_long_takes_no_more_memory(tmp_path):
    peaks = []
    for size in (2_000_000, 20_000_000):
        path = long_log(tmp_path / f"{size}.log", size)
        tracemalloc.start()
        found = plan_skyrl([path], run_id="r", by=ME)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        kept = sum(len(draft.SerializeToString()) for draft in found.drafts())
    assert peaks[1] - peaks[0] < kept * 2.5, "only what was understood is kept"
