"""ledger run: what was trained, how it went, which checkpoint was chosen and why; and recording what a file says."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click

from ledger.client.facts import plan_facts, read_facts
from ledger.client.messages import to_dict
from ledger.client.runs import Runs
from ledger.client.series_keys import keys_of
from ledger.rules.training_1.keys import Keys
from ledger.wire import audit_pb2, runs_pb2
from services.cli import run_words, words
from services.cli.coordinates import Where
from services.cli.exporting import Target, export, export_options
from services.cli.options import RUN, Group, at_option, dry_run_option, where_options
from services.cli.output import Cell, Output
from services.cli.publishing import publish_once
from services.cli.run_coordinates import asked, coordinates_dict, standing
from services.cli.run_lists import RUNS, run_filter_options
from services.cli.run_page import heading, show_run
from services.cli.state import State


@click.group("run", cls=Group, example="ledger run show tasktrove-dq-taco")
def runs() -> None:
    """Training runs: what was trained on what, how it ended, and which checkpoint was chosen."""


@runs.command(
    "list",
    example="""ledger run list --campaign tasktrove-dq --status failed
ledger run list --anomaly entropy_runaway --format csv --output runs.csv""",
)
@run_filter_options
@at_option
@export_options
@click.pass_obj
def list_(state: State, *, wanted: runs_pb2.RunFilter, at: str | None, target: Target) -> None:
    """List the runs, by campaign, then id."""
    out = state.output
    target.form(out)
    with state.open() as ledger:
        pages = Runs(ledger.connection).list(wanted, Where(at).coordinates(ledger))
        first, answer = asked(ledger, pages, "runs")
        count = export(out, RUNS, answer, target)
    if out.as_json:
        return
    to = f" written to {target.file}" if target.file is not None else ""
    out.say(f"{words.counted(count, 'run')}{to}. {standing(first.coordinates, at)}.")


@runs.command(
    "show",
    example="""ledger run show tasktrove-dq-taco
ledger run show tasktrove-dq-taco --steps --at 2026-10-01 --json""",
)
@click.argument("run_id", type=RUN, metavar="RUN")
@click.option("--steps", "with_steps", is_flag=True, help="With every step that was logged.")
@where_options
@click.pass_obj
def show(state: State, run_id: str, *, with_steps: bool, where: Where) -> None:
    """Show one run whole, as it is or was known: how it ended first, and which checkpoint was chosen and why.

    The Quality of its sources is told of three moments: when the run was declared, at its last selection, and now.
    """
    out = state.output
    with state.open() as ledger:
        asking = Runs(ledger.connection)
        found = asking.run(run_id, where.coordinates(ledger))
        steps = list(_steps(asking, found, with_all=out.as_json)) if with_steps else []
    if out.as_json:
        told: dict[str, Any] = {"steps": [to_dict(step) for step in steps]} if with_steps else {}
        out.json(to_dict(found) | told | {"coordinates": coordinates_dict(found.coordinates)})
        return
    show_run(out, found)
    if with_steps:
        _show_steps(out, steps, keys_of(found.run))
    out.say(f"{standing(found.coordinates, where.at)}. `ledger card {shlex.quote(run_id)}` writes its card.")


@runs.command(
    "record", example="ledger run record facts.json --dry-run\nledger run record facts.json --actor curator-1"
)
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@dry_run_option
@click.pass_obj
def record(state: State, file: Path, *, dry_run: bool) -> None:
    """Record what a file says of a run, its checkpoints and its exports, fact by fact.

    FILE is one JSON object: {"about": "…", "facts": [{"type": "run.declared", "payload": {…}}, …]}. `ledger schema
    show` prints what a payload holds. A fact that somebody claims says so in its basis. Recording a file twice is
    recording it once.
    """
    found = read_facts(file)
    planned = plan_facts(found.facts, by=state.by, summary=f"{file.name}: {words.counted(len(found.facts), 'fact')}")
    with state.open() as ledger:
        publish_once(state, ledger, planned, dry_run=dry_run)


def _steps(asking: Runs, found: runs_pb2.RunAsOfResponse, *, with_all: bool) -> Iterator[runs_pb2.StepRow]:
    """Every logged step, at the size of the answer: all its metrics, or those that the table shows."""
    at = audit_pb2.Coordinates(size=found.coordinates.size)
    keys = () if with_all else keys_of(found.run)
    for page in asking.steps(found.run.summary.id, at, keys=keys):
        yield from page.rows


def _show_steps(out: Output, steps: Iterable[runs_pb2.StepRow], keys: Keys) -> None:
    listed = list(steps)
    heading(out, "Steps")
    if not listed:
        out.line("  No metric of any step was recorded.")
    columns = ["  step", "attempt", "reward", "EMA", "entropy", "gradient norm", "pos", ""]
    out.table(columns, [_step(step, keys) for step in listed], whole=("  step",), spare=("pos", "gradient norm"))


def _step(step: runs_pb2.StepRow, keys: Keys) -> list[Cell]:
    figures = [run_words.metric(step.metrics, key) for key in keys]
    average = run_words.average(run_words.known(step, "ema")) or "-"
    made_again = "made again later" if step.abandoned else ""
    return [f"  {step.step}", step.attempt, figures[0], average, *figures[1:], step.pos, made_again]
