"""ledger traces: the trials of a run as a dataset, and where it was published."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from ledger.client.drafts import Actor
from ledger.client.facts import Fact, plan_facts
from ledger.client.writer import raise_refused
from ledger.core.text import harmless
from services.adapters.traces.datasets import ROWS_PER_SHARD, Built, build
from services.adapters.traces.published import published
from services.cli import words
from services.cli.options import Group
from services.cli.output import Output
from services.cli.renewing import renewed
from services.cli.republishing import recorded_before, without
from services.cli.state import State

_NAMED: Final = 3
"""Places of one reason that people are told; JSON has more."""


@click.group("traces", cls=Group, example="ledger traces build runs/arm-0 --to traces")
def traces() -> None:
    """Datasets of a run's trials, with the step, the weights and the group of each."""


@traces.command(
    "build",
    example="""ledger traces build runs/arm-0 --to traces
ledger traces build jobs/arm-0 --to traces --run arm-0 --force --published lab/arm-0-traces --commit 4f2a9c1""",
)
@click.argument("places", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="PLACE...")
@click.option(
    "--to",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    metavar="DIR",
    help="Write the folder here.",
)
@click.option("--run", metavar="ID", help="Of this run alone; the trials of a Harbor job, which name no run, are its.")
@click.option(
    "--episodes",
    type=click.Choice(["last"]),
    default="last",
    show_default=True,
    expose_value=False,
    help="Which episodes of a trial: the last, which holds those before it.",
)
@click.option(
    "--rows", type=click.IntRange(1), default=ROWS_PER_SHARD, show_default=True, metavar="N", help="Rows of a shard."
)
@click.option("--force", is_flag=True, help="Replace traces that were built there; nothing else is ever replaced.")
@click.option("--published", "repository", metavar="REPO", help="Record that these files were published there.")
@click.option("--commit", metavar="SHA", help="The commit of the repository that has them.")
@click.option("--url", metavar="URL", help="Where the repository is.")
@click.pass_obj
def build_(
    state: State,
    places: tuple[Path, ...],
    *,
    to: Path,
    run: str | None,
    rows: int,
    force: bool,
    repository: str | None,
    commit: str | None,
    url: str | None,
) -> None:
    """Build a dataset of the last episode of each trial: Parquet shards, a manifest, a card.

    PLACE is a trainer's run folder, or the folder of a Harbor job, its archives too. Secrets are replaced by their
    shape and counted; what cannot be read is counted and named. The same places give the same bytes: build, publish
    the folder, then build again with --force and --published to record where it went.
    """
    if repository is None and (commit is not None or url is not None):
        raise click.UsageError("--commit and --url say where it was published: give --published too.")
    by = state.by  # before anything is built: it may be wrong
    built = build(places, to, run_id=run, rows_per_shard=rows, force=force)
    fact = None if repository is None else published(built, repository, commit=commit, url=url, run_id=run)
    _tell(state.output, built, None if fact is None else _record(state, fact, by))


def _record(state: State, fact: Fact, by: Actor) -> dict[str, Any]:
    """Records a publication once, whoever recorded it before; gives where it stands."""
    with state.open() as ledger:
        planned = renewed(ledger.reader, plan_facts([fact], by=by, summary="The publication")).publication
        (draft,) = planned.drafts
        known = recorded_before(ledger.reader, planned)
        rest = without(planned, known)
        receipts = ledger.writer.publish(rest) if rest.drafts else []
        raise_refused(rest.drafts, receipts)
        pos = receipts[0].pos if receipts else known[draft.id].pos
    return {"type": draft.type, "stream": draft.stream, "id": draft.id, "pos": pos, "already_recorded": not receipts}


def _tell(out: Output, built: Built, recorded: dict[str, Any] | None) -> None:
    said = built.manifest
    if out.as_json:
        out.json({"folder": str(built.folder), "digest": built.files.digest, **said, "recorded": recorded})
        return
    out.table(
        ["shard", "rows", "bytes", "sha256"],
        [[s["path"], s["rows"], s["size"], s["sha256"]] for s in said["shards"]],
        whole=("shard", "sha256"),
    )
    out.pairs(
        [(stage, "not known" if count is None else count) for stage, count in said["coverage"].items()]
        + [("left out", f"{each['count']:,} {reason}") for reason, each in said["left_out"].items()]
        + [("odd", f"{each['count']:,} {what}") for what, each in said["odd"].items()]
        + [("redacted", f"{count:,} {shape}") for shape, count in said["redactions"].items()]
        + [("digest", built.files.digest)]
    )
    _conclude(out, built, recorded)


def _conclude(out: Output, built: Built, recorded: dict[str, Any] | None) -> None:
    for reason, each in built.manifest["left_out"].items():
        # A file's name may hold line feeds, and must not begin a line of its own.
        out.say(harmless(f"Left out, {reason}: {', '.join(each['places'][:_NAMED])}"))
    out.say(f"Wrote {words.counted(built.manifest['rows'], 'row')} to {harmless(str(built.folder))}.")
    if recorded is not None:
        done = "Already recorded" if recorded["already_recorded"] else "Recorded"
        out.say(f"{done} as {recorded['type']} of {harmless(recorded['stream'])}, at position {recorded['pos']}.")
