"""The tables of training_logs/: a row a step, a row a look at an engine, a row a trial, in CSV.

- Nothing is merged: a step that two attempts made has two rows, and says which attempt and whether it was abandoned.
- What was not recorded is an empty cell. NaN is NaN. Text is safe for spreadsheets, in headings too.
- A table without rows is not written.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from ledger.client.cells import safe
from ledger.client.logs.reading import RunReading, metric

STEP_COLUMNS: Final = ("log_file", "global_step", "attempt", "abandoned", "weight_version", "logged_at")
ENGINE_COLUMNS: Final = (
    "datetime_str", "engine", "attempt", "global_step", "phase", "weight_version", "scraped",
)  # fmt: skip
TRIALS: Final = (
    ("task_name", "task_name"),
    ("trial_name", "trial_name"),
    ("n_episodes", "episodes"),
    ("n_input_tokens", "input_tokens"),
    ("n_output_tokens", "output_tokens"),
    ("exception_type", "exception_type"),
    ("reward", "reward"),
    ("trial_duration", "seconds"),
    ("environment_setup_duration", "environment_setup_seconds"),
    ("agent_setup_duration", "agent_setup_seconds"),
    ("agent_execution_duration", "agent_execution_seconds"),
    ("verifier_duration", "verifier_seconds"),
)
"""Each column with the field of a trial that it holds."""
_NUMBERS: Final = frozenset(column for column, _ in TRIALS[2:] if column != "exception_type")

Row = Sequence[Any]


def write_steps(path: Path, run: RunReading, keys: Sequence[str]) -> int:
    """metrics.csv; gives the number of rows."""
    return _write(path, [*STEP_COLUMNS, *_headings(keys, STEP_COLUMNS)], _step_rows(run, keys))


def write_engines(path: Path, run: RunReading, keys: Sequence[str]) -> int:
    """vllm_metrics.csv; gives the number of rows."""
    return _write(path, [*ENGINE_COLUMNS, *_headings(keys, ENGINE_COLUMNS)], _engine_rows(run, keys))


def write_trials(path: Path, run: RunReading) -> int:
    """trial_stats.csv; gives the number of rows."""
    return _write(path, [column for column, _ in TRIALS], map(_trial_row, run.trials()))


def _write(path: Path, columns: Sequence[str], rows: Iterable[Row]) -> int:
    count = 0
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\r\n")
        writer.writerow([safe(column) for column in columns])
        for row in rows:
            writer.writerow([_cell(value) for value in row])
            count += 1
    if not count:
        path.unlink()
    return count


def _headings(keys: Iterable[str], taken: Sequence[str]) -> list[str]:
    """A metric that bears the name of another column is told apart."""
    return [f"metrics/{key}" if key in taken else key for key in keys]


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and not math.isfinite(value):
        return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
    return safe(value)


def _step_rows(run: RunReading, keys: Sequence[str]) -> Iterator[Row]:
    log_files = run.log_files()
    for row in run.steps():
        held = row.metrics
        yield [
            log_files.get(row.pos),
            row.step,
            row.attempt,
            row.abandoned,
            row.weight_version if row.HasField("weight_version") else None,
            row.logged_at if row.HasField("logged_at") else None,
            *(held.get(key) for key in keys),
        ]


def _engine_rows(run: RunReading, keys: Sequence[str]) -> Iterator[Row]:
    for event, sample in run.samples():
        held = sample["metrics"]
        yield [
            sample["sampled_at"],
            sample["engine"],
            event["attempt"],
            sample.get("step"),
            sample.get("phase"),
            sample.get("weight_version"),
            event.get("scraped", True),
            *(metric(held.get(key)) for key in keys),
        ]


def _trial_row(trial: dict[str, Any]) -> Row:
    # A number that is not finite is recorded by name; a task that is called NaN is not one.
    return [_trial_cell(column, trial.get(name)) for column, name in TRIALS]


def _trial_cell(column: str, value: Any) -> Any:
    return metric(value) if column in _NUMBERS and isinstance(value, str) else value
