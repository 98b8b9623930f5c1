"""training_logs/: what a run logged, as the files that readers of a checkpoint look for.

    metrics.csv · vllm_metrics.csv · trial_stats.csv · report.md · reward_plot.png · entropy_plot.png · manifest.json

- The folder appears whole or not at all. One that is there and holds something is replaced only when asked, and only if
  it holds nothing but such files.
- What was never recorded has no file: the manifest and the report say so.
- Equal coordinates give equal bytes (of plots, with the same drawing program). Rows are streamed, never held.

    write_training_logs(connection, "arm-0", Path("training_logs"), disregarded={})
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from ledger.client.connection import Connection
from ledger.client.logs import plots as drawing
from ledger.client.logs.reading import Disregarded, RunReading, read_run
from ledger.client.logs.report import report
from ledger.client.logs.summary import Summary, summarise
from ledger.client.logs.tables import write_engines, write_steps, write_trials
from ledger.client.messages import to_dict
from ledger.client.reader import Reader
from ledger.client.runs import Coordinates, Runs
from ledger.client.whole import take_place
from ledger.core.errors import InvalidInput, Refused

METRICS: Final = "metrics.csv"
ENGINES: Final = "vllm_metrics.csv"
TRIALS: Final = "trial_stats.csv"
REPORT: Final = "report.md"
REWARD_PLOT: Final = "reward_plot.png"
ENTROPY_PLOT: Final = "entropy_plot.png"
MANIFEST: Final = "manifest.json"
FILES: Final = (METRICS, ENGINES, TRIALS, REPORT, REWARD_PLOT, ENTROPY_PLOT, MANIFEST)
_NEVER: Final = {
    METRICS: "no metric of any step was recorded",
    ENGINES: "no counter of a rollout engine was recorded",
    TRIALS: "no trial was recorded by name",
    REWARD_PLOT: "no reward of any step was recorded",
    ENTROPY_PLOT: "no entropy of any step was recorded",
}


@dataclass(frozen=True)
class Written:
    """What was written, and what was not and why."""

    folder: Path
    size: int
    rows: Mapping[str, int]
    """Of each table."""
    absent: Mapping[str, str]
    manifest: Mapping[str, Any]


def write_training_logs(
    connection: Connection,
    run_id: str,
    to: Path,
    at: Coordinates = None,
    *,
    disregarded: Disregarded,
    plots: bool = True,
    force: bool = False,
) -> Written:
    """Writes the logs of a run as they were known there.

    Raises:
        NotFound: if nothing of the run was recorded by then.
        InvalidInput: reason USAGE, if the folder cannot be written.
        Refused: reason IN_USE, if it holds something.
        LedgerError: reason EXTRA_MISSING, if plots are asked for and cannot be drawn.
    """
    if plots:
        drawing.require()
    _check_place(to, force=force)
    run = read_run(Runs(connection), Reader(connection), run_id, at, disregarded=disregarded)
    return write_logs(run, to, plots=plots, force=force)


def write_logs(run: RunReading, to: Path, *, plots: bool = True, force: bool = False) -> Written:
    """As `write_training_logs`, of a run that is read already."""
    _check_place(to, force=force)
    to = Path(os.path.abspath(to))  # noqa: PTH100  # of `.` too; a path's own method keeps `..`, which has no name
    partial = to.with_name(f".{to.name}.{uuid4().hex}")
    try:
        partial.mkdir(parents=True)
        written = _fill(partial, to, run, plots=plots)
        take_place(partial, to)
    except OSError as error:
        raise InvalidInput(
            f"{to} cannot be written: {error.strerror}", reason="USAGE", remedy="Name a folder that can be."
        ) from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return written


def _fill(folder: Path, to: Path, run: RunReading, *, plots: bool) -> Written:
    summary = summarise(run)
    rows = {
        METRICS: write_steps(folder / METRICS, run, sorted(summary.steps.keys)),
        ENGINES: write_engines(folder / ENGINES, run, sorted(summary.engines.keys)),
        TRIALS: write_trials(folder / TRIALS, run),
    }
    (folder / REPORT).write_text(report(run, summary), encoding="utf-8")
    absent = {name: _NEVER[name] for name, count in rows.items() if not count}
    absent |= _draw(folder, run, summary) if plots else dict.fromkeys((REWARD_PLOT, ENTROPY_PLOT), "left out, as asked")
    rows = {name: count for name, count in rows.items() if count}
    manifest = _manifest(folder, run, rows, absent)
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="ascii")
    return Written(folder=to, size=run.size, rows=rows, absent=absent, manifest=manifest)


def _draw(folder: Path, run: RunReading, summary: Summary) -> dict[str, str]:
    """Draws what there is; gives what there is not."""
    marks = drawing.Marks.of(run.dossier.run)
    drawn = {
        REWARD_PLOT: drawing.plot_reward(folder / REWARD_PLOT, run.id, summary, marks),
        ENTROPY_PLOT: drawing.plot_entropy(folder / ENTROPY_PLOT, run.id, summary, marks),
    }
    return {name: _NEVER[name] for name, there in drawn.items() if not there}


def _manifest(folder: Path, run: RunReading, rows: Mapping[str, int], absent: Mapping[str, str]) -> dict[str, Any]:
    # Whether later events can still change the answer is of the moment of asking: equal coordinates give equal bytes.
    where = to_dict(run.dossier.coordinates)
    files = [_described(folder / name, rows.get(name)) for name in FILES if (folder / name).is_file()]
    return {
        "run": run.id,
        "coordinates": {name: value for name, value in where.items() if name != "final"},
        "files": files,
        "absent": [{"path": name, "because": absent[name]} for name in FILES if name in absent],
    }


def _described(path: Path, rows: int | None) -> dict[str, Any]:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"path": path.name, "sha256": digest, "size": path.stat().st_size, "rows": rows}


def _check_place(to: Path, *, force: bool) -> None:
    """Looks before anything is read, and again before it is written."""
    if to.is_symlink() or (to.exists() and not to.is_dir()):
        raise InvalidInput(f"{to} is no folder", reason="USAGE", remedy="Name a folder, or a place where none is yet.")
    held = sorted(path.name for path in to.iterdir()) if to.is_dir() else []
    others = [name for name in held if name not in FILES]
    if others:
        raise Refused(
            f"{to} holds something else than training logs: {others[0]!a}",
            reason="IN_USE",
            remedy="Name another folder: what others put there is never deleted.",
            details={"folder": str(to), "others": str(len(others))},
        )
    if held and not force:
        raise Refused(
            f"{to} holds training logs already",
            reason="IN_USE",
            remedy="Replace them with --force, or name another folder.",
            details={"folder": str(to)},
        )
