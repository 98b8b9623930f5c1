"""ledger logs: what a run logged, as the folder training_logs/ that readers of a checkpoint look for."""

from __future__ import annotations

from pathlib import Path

import click

from ledger.client.logs.training_logs import Written, write_training_logs
from services.cli.coordinates import Where
from services.cli.disregarded import disregarded
from services.cli.options import Command, at_option
from services.cli.output import Output
from services.cli.state import State


@click.command(
    "logs",
    cls=Command,
    example="""ledger logs word-problems-arm-0 --to training_logs
ledger logs word-problems-arm-0 --to training_logs --at 2026-10-01 --force""",
)
@click.argument("run_id", metavar="RUN")
@click.option(
    "--to",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    metavar="DIR",
    help="Write the folder here.",
)
@at_option
@click.option("--no-plots", is_flag=True, help="Draw no plots: they need the extra plots.")
@click.option("--force", is_flag=True, help="Replace training logs that are there; nothing else is ever replaced.")
@click.pass_obj
def training_logs(state: State, run_id: str, *, to: Path, at: str | None, no_plots: bool, force: bool) -> None:
    """Write what a run logged: tables of steps, engines and trials, a report, plots, and their hashes.

    Nothing is merged: a step that two attempts made has a row of each. What was never recorded has no file.
    """
    with state.open() as ledger:
        where = Where(at).coordinates(ledger)
        written = write_training_logs(
            ledger.connection,
            run_id,
            to,
            where,
            disregarded=disregarded(ledger.reader),
            plots=not no_plots,
            force=force,
        )
    _tell(state.output, written)


def _tell(out: Output, written: Written) -> None:
    if out.as_json:
        out.json({"folder": str(written.folder), **written.manifest})
        return
    files = written.manifest["files"]
    out.table(
        ["file", "rows", "bytes", "sha256"],
        [[f["path"], "-" if f["rows"] is None else f["rows"], f["size"], f["sha256"]] for f in files],
        whole=("file", "sha256"),
    )
    for name, because in written.absent.items():
        out.say(f"No {name}: {because}.")
    out.say(f"Written to {written.folder}, as of size {written.size:,}.")
