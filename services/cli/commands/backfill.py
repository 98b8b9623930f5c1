"""ledger backfill: read what was written before anybody recorded it, and append it once."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, cast

import click

from services.adapters.backfill.checkpoint_folders import plan_checkpoints
from services.adapters.backfill.clocks import zone
from services.adapters.backfill.declaring import Declaration
from services.adapters.backfill.export_folders import plan_export
from services.adapters.backfill.file_order import ORDERS, Order
from services.adapters.backfill.harbor_jobs import HarborOptions, plan_harbor, read_treatments
from services.adapters.backfill.mlflow_stores import plan_mlflow
from services.adapters.backfill.skyrl import LogOptions, plan_skyrl
from services.adapters.backfill.wandb_histories import plan_wandb
from services.cli.backfilling import carry_out
from services.cli.options import SHA256, Function, Group, dry_run_option, with_options
from services.cli.state import State


def _id(what: str) -> Callable[[str], str]:
    """An id as a stream's name can end with."""

    def read(value: str) -> str:
        if not (value.isascii() and value.isprintable() and 0 < len(value) <= 500) or value != value.strip():
            raise click.BadParameter(f"{value!r} will not do: give {what} of 1 to 500 printable ASCII characters.")
        return value

    return read


def _run_options(function: Function) -> Function:
    """--run, and how the run may be declared with what is imported of it; given as `run` and `declared`."""

    @wraps(function)
    def with_run(*args: Any, **kwargs: Any) -> Any:
        asked = Declaration(
            run_id=kwargs["run"],
            file=kwargs.pop("declare"),
            campaign_id=kwargs.pop("campaign"),
            atlas_ids=kwargs.pop("sources"),
        )
        return function(*args, declared=asked, **kwargs)

    return with_options(
        function,
        with_run,
        click.option("--run", type=_id("a run's id"), required=True, metavar="ID", help="The run that it is of."),
        click.option(
            "--declare",
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="Declare the run too: a JSON file with what `ledger schema show run.declared` lists.",
        ),
        click.option("--campaign", type=_id("a campaign's id"), metavar="ID", help="Declare the run's campaign."),
        click.option(
            "--source", "sources", multiple=True, metavar="ID", help="Declare a source that it trained on, by Atlas id."
        ),
        dry_run_option,
    )


def _order_options(function: Function) -> Function:
    """--attempt and --attempt-order."""
    return click.option(
        "--attempt",
        "first_attempt",
        type=click.IntRange(1),
        default=1,
        metavar="N",
        help="The first file's attempt; 1.",
    )(
        click.option(
            "--attempt-order",
            "order",
            type=click.Choice(ORDERS),
            default="auto",
            help="Order of the files: as given, by the times in them (log), by mtime; auto takes log, else mtime.",
        )(function)
    )


def _zone_option(function: Function) -> Function:
    return click.option(
        "--timezone", "zone_name", metavar="ZONE", help="Zone of times that have none; they are unknown without it."
    )(function)


@click.group("backfill", cls=Group, example="ledger backfill skyrl train.log --run taco-arm-3 --dry-run")
def backfill() -> None:
    """Import what was written before: logs, trials, trackers, checkpoints and exports. Importing again adds nothing."""


@backfill.command(
    "skyrl",
    example="""ledger backfill skyrl train.log --run taco-arm-3 --dry-run
ledger backfill skyrl logs/first.log.gz logs/second.log --run taco-arm-3 --timezone Europe/Berlin --year 2026""",
)
@click.argument("logs", nargs=-1, required=True, type=click.Path(path_type=Path))
@_run_options
@_order_options
@_zone_option
@click.option("--year", type=click.IntRange(1970, 9998), metavar="YEAR", help="Of the engines' lines, which have none.")
@click.option("--expect-steps", type=click.IntRange(0), metavar="N", help="Warn if the last step is below this one.")
@click.pass_obj
def skyrl(
    state: State,
    logs: tuple[Path, ...],
    *,
    run: str,
    declared: Declaration,
    order: str,
    first_attempt: int,
    zone_name: str | None,
    year: int | None,
    expect_steps: int | None,
    dry_run: bool,
) -> None:
    """Import SkyRL training logs, plain or gzipped: steps, evaluations, configurations, engines, groups, attempts.

    Several logs are the restarts of one run. A step that was redone is kept under each attempt that made it.
    """
    options = LogOptions(
        order=cast("Order", order),
        zone=zone(zone_name) if zone_name else None,
        year=year,
        first_attempt=first_attempt,
        expected_steps=expect_steps,
    )
    carry_out(state, plan_skyrl(logs, run_id=run, by=state.by, options=options), declared, dry_run=dry_run)


@backfill.command(
    "harbor",
    example="ledger backfill harbor jobs/2026-07-29 --run taco-arm-3 --treatments treatments.json",
)
@click.argument("job", type=click.Path(path_type=Path))
@_run_options
@click.option("--attempt", type=click.IntRange(1), metavar="N", help="The attempt that the trials are of.")
@click.option("--phase", type=click.Choice(["train", "eval"]), help="What the trials were run for.")
@click.option(
    "--treatments",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="JSON with mask_exceptions, zero_exceptions, passthrough_exceptions, default_error_treatment.",
)
@_zone_option
@click.pass_obj
def harbor(
    state: State,
    job: Path,
    *,
    run: str,
    declared: Declaration,
    attempt: int | None,
    phase: str | None,
    treatments: Path | None,
    zone_name: str | None,
    dry_run: bool,
) -> None:
    """Import a Harbor job: its trial folders, and archives of trials, which tell the step.

    What is counted: trials started, finished, verified. How many were consumed or trained on, no trial says.
    """
    options = HarborOptions(
        attempt=attempt,
        phase=cast("Any", phase),
        treatments=read_treatments(treatments) if treatments else None,
        zone=zone(zone_name) if zone_name else None,
    )
    carry_out(state, plan_harbor(job, run_id=run, by=state.by, options=options), declared, dry_run=dry_run)


@backfill.command("wandb", example="ledger backfill wandb history.jsonl restarted.csv --run taco-arm-3")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@_run_options
@_order_options
@click.pass_obj
def wandb_(
    state: State,
    files: tuple[Path, ...],
    *,
    run: str,
    declared: Declaration,
    order: str,
    first_attempt: int,
    dry_run: bool,
) -> None:
    """Import W&B histories: rows of scan_history as JSON lines, a CSV, or the .wandb file of an offline run.

    Each file, or folder of an offline run, is one W&B run. A restart makes a new one: several are one run's attempts.
    """
    found = plan_wandb(files, run_id=run, by=state.by, order=cast("Order", order), first_attempt=first_attempt)
    carry_out(state, found, declared, dry_run=dry_run)


@backfill.command(
    "mlflow",
    example="""ledger backfill mlflow mlruns/1/0a1b2c --run taco-arm-3
ledger backfill mlflow mlflow.db --run taco-arm-3 --mlflow-run 0a1b2c --mlflow-run 3d4e5f""",
)
@click.argument("stores", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--mlflow-run", "chosen", multiple=True, metavar="ID", help="A run of the store; all when left out.")
@_run_options
@click.option(
    "--attempt", "first_attempt", type=click.IntRange(1), default=1, metavar="N", help="The first attempt; 1."
)
@click.pass_obj
def mlflow_(
    state: State,
    stores: tuple[Path, ...],
    *,
    chosen: tuple[str, ...],
    run: str,
    declared: Declaration,
    first_attempt: int,
    dry_run: bool,
) -> None:
    """Import MLflow runs from a file store's run folders, or from mlflow.db. Each MLflow run is one attempt."""
    found = plan_mlflow(stores, chosen, run_id=run, by=state.by, first_attempt=first_attempt)
    carry_out(state, found, declared, dry_run=dry_run)


@backfill.command("checkpoints", example="ledger backfill checkpoints ckpts/taco-arm-3 --run taco-arm-3 --attempt 1")
@click.argument("folder", type=click.Path(path_type=Path))
@_run_options
@click.option("--attempt", type=click.IntRange(1), metavar="N", help="The attempt that saved them; unknown without it.")
@click.option(
    "--last-step",
    type=click.IntRange(0),
    metavar="N",
    help="The last update that was made: a checkpoint labelled N + 1 then holds the weights after it.",
)
@click.pass_obj
def checkpoints(
    state: State,
    folder: Path,
    *,
    run: str,
    declared: Declaration,
    attempt: int | None,
    last_step: int | None,
    dry_run: bool,
) -> None:
    """Import a folder of SkyRL checkpoints. Its files are hashed and never unpickled.

    One that is incomplete, or ahead of the latest, is not committed: it is the trace of a save that failed.
    """
    found = plan_checkpoints(folder, run_id=run, by=state.by, attempt=attempt, last_step=last_step)
    carry_out(state, found, declared, dry_run=dry_run)


@backfill.command(
    "export",
    example="ledger backfill export exports/global_step_15 --export taco-step-15 --run taco-arm-3 --step 15",
)
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--export", "export_id", type=_id("an export's id"), required=True, metavar="ID", help="The export's id.")
@click.option("--run", type=_id("a run's id"), required=True, metavar="ID", help="The run that it is an export of.")
@click.option("--step", type=click.IntRange(0), required=True, metavar="N", help="The checkpoint's step.")
@click.option("--attempt", type=click.IntRange(1), metavar="N", help="The attempt that saved the checkpoint.")
@click.option("--checkpoint-digest", type=SHA256, metavar="SHA256", help="The checkpoint's digest, its identity.")
@click.option(
    "--route",
    type=click.Choice(["in_trainer", "rerun", "offline", "unknown"]),
    default="unknown",
    help="How it was exported; the files do not say.",
)
@dry_run_option
@click.pass_obj
def export(
    state: State,
    folder: Path,
    *,
    export_id: str,
    run: str,
    step: int,
    attempt: int | None,
    checkpoint_digest: str | None,
    route: str,
    dry_run: bool,
) -> None:
    """Import a Hugging Face export, and check it: its index against the headers of its shards, in both directions.

    Where every check passes, the ledger is asked to record it as verified; otherwise the failure is recorded.
    """
    found = plan_export(
        folder,
        export_id=export_id,
        run_id=run,
        step=step,
        attempt=attempt,
        checkpoint_digest=checkpoint_digest,
        route=cast("Any", route),
        by=state.by,
    )
    carry_out(state, found, None, dry_run=dry_run)
