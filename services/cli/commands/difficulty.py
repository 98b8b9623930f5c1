"""ledger difficulty: publish how many tasks were solved, and what else is known of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ledger.client.difficulty import plan_difficulty, read_difficulty
from ledger.client.difficulty_context import plan_context
from ledger.core.errors import Refused
from services.cli import coordinates, words
from services.cli.commands.reviews import rests_on_option
from services.cli.coordinates import Where
from services.cli.difficulty_history import measurements
from services.cli.listing import listed, note_unlisted
from services.cli.options import SOURCE, Group, dry_run_option, where_options
from services.cli.output import Cell
from services.cli.policy_history import protocols_history, standing
from services.cli.publishing import publish_source
from services.cli.questions import source_as_of
from services.cli.resting import check_rests_on
from services.cli.state import Ledger, State


@click.group("difficulty", cls=Group, example="ledger difficulty publish difficulty.json")
def difficulty() -> None:
    """Difficulty reports of the sources."""


@difficulty.command(
    "publish",
    example="""ledger difficulty publish difficulty.json --source MarinSkyRL:svamp
ledger difficulty publish difficulty/history/2026-08.json --archived""",
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--source", "source_id", metavar="ID", help="The source that the report must be of.")
@click.option("--archived", is_flag=True, help="An earlier report, under a protocol that is not adopted now.")
@rests_on_option
@dry_run_option
@click.pass_obj
def publish_(
    state: State, file: Path, *, source_id: str | None, archived: bool, rests_on: tuple[str, ...], dry_run: bool
) -> None:
    """Publish a difficulty report and its complete follow-ups. What was saved is recorded; nothing is recomputed.

    An archived report keeps its date and its protocol; one from before protocols had names is under `unnamed`. It is
    historical, and does not take the place of a current report.
    """
    reported = read_difficulty(file, archived=archived)
    wanted = source_id or reported.atlas_id
    publication = plan_difficulty(file, source_id=wanted, by=state.by, archived=archived, rests_on=rests_on)
    with state.open() as ledger:
        if archived:
            _check_archived(ledger, reported.protocol.id)
        check_rests_on(ledger.reader, wanted, rests_on)
        publish_source(state, ledger, publication, wanted, dry_run=dry_run)
        note_unlisted(state, listed(ledger, wanted), wanted)


@difficulty.command("context", example="ledger difficulty context difficulty/context.json --source MarinSkyRL:svamp")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--source", "source_id", type=SOURCE, required=True, metavar="ID", help="The source that it is about.")
@dry_run_option
@click.pass_obj
def context(state: State, file: Path, *, source_id: str, dry_run: bool) -> None:
    """Record what was known before any measurement: the solver's initial counts, and earlier evidence.

    It is shown beside the reports and never as one.
    """
    publication = plan_context(file, source_id=source_id, by=state.by)
    with state.open() as ledger:
        publish_source(state, ledger, publication, source_id, dry_run=dry_run)
        note_unlisted(state, listed(ledger, source_id), source_id)


@difficulty.command("history", example="ledger difficulty history MarinSkyRL:svamp --at 2026-10-01")
@click.argument("source_id", type=SOURCE, metavar="SOURCE")
@where_options
@click.pass_obj
def history(state: State, source_id: str, *, where: Where) -> None:
    """List everything that was recorded of a source's difficulty, newest first: reports, follow-ups and context."""
    with state.open() as ledger:
        answer = source_as_of(ledger, source_id, where.coordinates(ledger))
        found = measurements(ledger.reader, answer.source, answer.coordinates.size)
    out = state.output
    if out.as_json:
        out.json(found)
        return
    out.table(
        ["pos", "what", "protocol", "standing", "estimated at", "solved", "recorded at"],
        [_cells(each) for each in found],
        whole=("pos", "recorded at"),
        spare=("recorded at",),
    )
    out.say(f"{words.counted(len(found), 'record')}. {coordinates.standing(answer.coordinates, where.at)}.")


def _cells(each: dict[str, Any]) -> list[Cell]:
    solved = "; ".join(f"{m['model']} {m['solved']}/{m['verified']}" for m in each["models"])
    status: Cell = words.difficulty(each["status"]) if each["status"] else "-"
    if each["disregarded_at"] is not None:
        status = f"disregarded at {each['disregarded_at']}"
    dated = each["estimated_at"] if each["what"] != "context" else "-"
    return [each["pos"], each["what"], each["protocol"] or "-", status, dated, solved or "-", each["recorded_at"]]


def _check_archived(ledger: Ledger, protocol: str) -> None:
    adopted = standing(protocols_history(ledger.reader, ledger.reader.info().size).values())
    if protocol in adopted:
        raise Refused(
            f"the report is under {protocol}, which is adopted now: it is no archived one",
            remedy="Publish it without --archived: the rules then judge whether it is current.",
        )
