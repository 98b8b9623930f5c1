"""ledger db: the schema of the database."""

from __future__ import annotations

import click

from services.cli import backend
from services.cli.options import Group
from services.cli.state import State


@click.group("db", cls=Group, example="ledger db upgrade --db postgresql://ledger@db/ledger")
def database() -> None:
    """The database that holds the log."""


@database.command("upgrade", example="ledger db upgrade --db postgresql://ledger@db/ledger")
@click.pass_obj
def upgrade(state: State) -> None:
    """Bring the schema to this release's. Running it again changes nothing; no recorded byte is ever re-written."""
    if "address" in state.flags:
        raise click.UsageError("An upgrade changes the store itself: name it with --home or --db, without --address.")
    steps = backend.upgrade(state.settings)
    out = state.output
    if out.as_json:
        out.json([{"step": step} for step in steps])
        return
    for step in steps:
        out.line(step)
    out.say(_conclusion(len(steps)))


def _conclusion(steps: int) -> str:
    if not steps:
        return "The schema is this release's."
    return "1 step." if steps == 1 else f"{steps} steps."
