"""Lists of runs: as the list of all, as what a source touched, and as what turned after it was consumed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import wraps
from typing import Any, Final

import click
from rich.text import Text

from ledger.core import clock
from ledger.wire import runs_pb2
from services.cli import run_words, words
from services.cli.exporting import View
from services.cli.options import Function, with_options
from services.cli.output import Cell, Output


def run_filter_options(function: Function) -> Function:
    """Which runs, given to the command as `wanted`."""

    @wraps(function)
    def with_filter(*args: Any, **kwargs: Any) -> Any:
        named = {name: kwargs.pop(name) for name in _FIELDS}
        return function(*args, wanted=runs_pb2.RunFilter(**named), **kwargs)

    return with_options(function, with_filter, *_FIELDS.values())


def _run_cells(run: runs_pb2.RunSummary) -> Sequence[Cell]:
    step = f"{run.last_step:,}" if run.HasField("last_step") else None
    chosen = ", ".join(f"{step:,}" for step in run.selected_steps) or "-"
    average = run_words.average(run_words.known(run, "last_ema")) or "-"
    flags = words.counted(run.flags, "flag") if run.flags else "-"
    marks = (*(["sample"] if run.sample else []), *([run.basis] if run.basis not in {"", "recorded"} else []))
    return [
        run.id + "".join(f" ({mark})" for mark in marks),
        run_words.status(run.status),
        step,
        chosen,
        average,
        _anomalies(run),
        flags,
        run.campaign_id or "-",
        _listed(run.sources),
    ]


def _anomalies(run: runs_pb2.RunSummary) -> str:
    told = (f"{kind} (claimed)" if kind in run.claimed_anomalies else kind for kind in run.anomalies)
    kinds = ", ".join(map(run_words.spaced, told))
    return f"{kinds} from {run.anomaly_onset:,} on" if run.HasField("anomaly_onset") else kinds or "-"


def _affected_cells(row: runs_pb2.Affected) -> Sequence[Cell]:
    run = row.run
    name = run.id + (f" (by {row.through})" if row.HasField("through") else "")
    known = {True: "yes", False: "no"}.get(run_words.known(row, "known_at_start"), "")
    quality = words.quality(row.quality_at_start) if row.HasField("quality_at_start") else "-"
    steps = ", ".join(saved.removeprefix(f"{run.id}@") for saved in row.checkpoints) or "-"
    return [
        name,
        _role(row),
        run_words.MATCH.get(row.match, row.match),
        known,
        quality,
        run_words.status(run.status),
        steps,
        _listed(row.exports),
        _listed(row.models),
        _listed(row.traces),
    ]


def _role(row: runs_pb2.Affected) -> str:
    role = run_words.spaced(row.role) or "its weights"
    return f"{role}, later left out" if row.withdrawn else role


def show_consumers(out: Output, found: Sequence[runs_pb2.Affected]) -> None:
    """Below a source: the runs that took it. What an arm came to is evidence, never the source's Quality."""
    if not found:
        return
    out.line()
    out.line(Text("Runs that consumed it (evidence of runs; its Quality rests on reviews alone)", style="bold"))
    out.table(
        ["  run", "role", "quality then", "ended", "step", "chosen", "anomalies"],
        map(_consumer_cells, found),
        whole=("  run",),
        spare=("role",),
    )


def _consumer_cells(row: runs_pb2.Affected) -> Sequence[Cell]:
    name, role, _, _, quality, *_ = _affected_cells(row)
    _, ended, step, chosen, _, anomalies, *_ = _run_cells(row.run)
    return [f"  {name}", role, quality, ended, step, chosen, anomalies]


def _turn_cells(row: runs_pb2.Turn) -> Sequence[Cell]:
    before, after = (words.quality(side).plain if side else "not listed" for side in _sides(row))
    quality = f"{before} → {after}" if before != after else after
    return [
        row.pos,
        clock.to_text(row.recorded_at_us),
        row.event_type,
        row.source_id,
        quality,
        "; ".join(row.changes) or "-",
        _listed(row.runs),
    ]


def _sides(row: runs_pb2.Turn) -> tuple[str, str]:
    return row.before_quality, row.after_quality


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "-"


RUNS: Final = View(
    row=runs_pb2.RunSummary,
    columns=("run", "ended", "step", "chosen", "EMA", "anomalies", "flags", "campaign", "sources"),
    cells=_run_cells,
    noun="run",
    whole=("run", "sources"),
    spare=("campaign", "sources", "EMA", "flags"),
)
AFFECTED: Final = View(
    row=runs_pb2.Affected,
    columns=(
        "run",
        "role",
        "took",
        "known then",
        "quality then",
        "ended",
        "checkpoints",
        "exports",
        "models",
        "traces",
    ),
    cells=_affected_cells,
    noun="run",
    whole=("run", "models", "traces"),
    spare=("ended", "exports", "role"),
    unless_zero=("took", "known then"),
)
TURNS: Final = View(
    row=runs_pb2.Turn,
    columns=("pos", "recorded at", "event", "source", "quality", "what else", "runs"),
    cells=_turn_cells,
    noun="turn",
    whole=("pos", "recorded at", "source"),
    spare=("event",),
)

_FIELDS: Final = {
    "campaigns": click.option(
        "--campaign", "campaigns", multiple=True, metavar="ID", help="Of this campaign; repeat it for alternatives."
    ),
    "sources": click.option("--source", "sources", multiple=True, metavar="ID", help="Trained on this source."),
    "statuses": click.option(
        "--status", "statuses", multiple=True, type=click.Choice(list(run_words.STATUS)), help="Which ended so."
    ),
    "anomalies": click.option(
        "--anomaly",
        "anomalies",
        multiple=True,
        type=click.Choice(run_words.ANOMALIES),
        help="With such an anomaly, derived or claimed.",
    ),
    "has_flags": click.option(
        "--flagged/--no-flags", "has_flags", default=None, help="With facts that contradict each other, or none."
    ),
    "selected": click.option(
        "--selected/--not-selected", "selected", default=None, help="Of which a checkpoint was chosen, or none."
    ),
    "search": click.option("--search", default="", metavar="TEXT", help="Part of an id, arm, source or RL start."),
}
