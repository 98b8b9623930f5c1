"""ledger card: a run's model card, derived from its events."""

from __future__ import annotations

from pathlib import Path

import click

from ledger.client.cards.model_card import card_of
from ledger.client.whole import whole
from ledger.core.text import harmless
from services.cli.coordinates import Where
from services.cli.options import Command, at_option
from services.cli.state import State


@click.command(
    "card",
    cls=Command,
    example="""ledger card word-problems-arm-0
ledger card word-problems-arm-0 --at 2026-10-01 --to README.md""",
)
@click.argument("run_id", metavar="RUN")
@at_option
@click.option("--export", "export_id", metavar="ID", help="Of this export alone; all of the run's when left out.")
@click.option(
    "--to",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write it there rather than to stdout; the file appears when it is whole.",
)
@click.pass_obj
def card(state: State, run_id: str, *, at: str | None, export_id: str | None, to: Path | None) -> None:
    """Write a run's model card: every sentence comes from events, and names them.

    It says what was known at that moment, who claims what is only claimed, and what nobody recorded. The same moment
    gives the same bytes again.
    """
    out = state.output
    with state.open() as ledger:
        text = card_of(ledger.connection, run_id, Where(at).coordinates(ledger), export_id=export_id)
    if to is not None:
        with whole(to) as file:
            file.write(text.encode())
        out.say(f"The card of {run_id} was written to {to}.")
    if out.as_json:
        out.json({"run": run_id, "file": None if to is None else str(to), "card": text})
    elif to is None:
        click.echo(harmless(text, lines=True) if out.to_terminal else text, nl=False)
