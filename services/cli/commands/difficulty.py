"""ledger difficulty: publish how many tasks were solved."""

from __future__ import annotations

from pathlib import Path

import click

from ledger.client.difficulty import plan_difficulty, read_difficulty
from services.cli.listing import listed, note_unlisted
from services.cli.options import Group, dry_run_option
from services.cli.publishing import publish_source
from services.cli.state import State


@click.group("difficulty", cls=Group, example="ledger difficulty publish difficulty.json")
def difficulty() -> None:
    """Difficulty reports of the sources."""


@difficulty.command("publish", example="ledger difficulty publish difficulty.json --source MarinSkyRL:svamp")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--source", "source_id", metavar="ID", help="The source that the report must be of.")
@dry_run_option
@click.pass_obj
def publish_(state: State, file: Path, *, source_id: str | None, dry_run: bool) -> None:
    """Publish a difficulty report and its complete follow-ups. What was saved is recorded; nothing is recomputed."""
    wanted = source_id or read_difficulty(file).atlas_id
    publication = plan_difficulty(file, source_id=wanted, by=state.by)
    with state.open() as ledger:
        publish_source(state, ledger, publication, wanted, dry_run=dry_run)
        note_unlisted(state, listed(ledger, wanted), wanted)
