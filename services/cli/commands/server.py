"""ledger serve: run the ledger for others."""

from __future__ import annotations

import click

from services.cli import backend
from services.cli.options import Command, log_level_option
from services.cli.state import State


@click.command(
    "serve", cls=Command, example="ledger serve\nledger serve --host 127.0.0.1 --port 7410 --home /srv/ledger"
)
@click.option("--host", metavar="HOST", help="Address to bind to [LEDGER_HOST; default 127.0.0.1]")
@click.option("--port", metavar="PORT", help="Port to bind to, 0 for a free one [LEDGER_PORT; default 7410]")
@click.option("--artifacts", metavar="DIR", help="Folder of the evidence bytes [LEDGER_ARTIFACTS; default in the home]")
@click.option(
    "--first-rules",
    metavar="ID",
    help="Rule set that a new log starts under; an existing log keeps its own [LEDGER_FIRST_RULES]",
)
@log_level_option
@click.pass_obj
def serve(state: State, /, **given: str | None) -> None:
    """Serve the ledger over gRPC until it is interrupted or told to stop.

    What was accepted is finished before it ends. Without authentication it binds to the loopback interface only.
    """
    state.flags.update({name: value for name, value in given.items() if value is not None})
    if "address" in state.flags:
        raise click.UsageError("--address names a running ledger; to serve one, use --host and --port.")
    backend.serve(state.settings, lambda address: say_ready(state, address))


def say_ready(state: State, address: str) -> None:
    """Says where the ledger is served; a program reads it as JSON."""
    out = state.output
    if out.as_json:
        out.json_line({"address": address, "home": str(state.settings.home)})
    else:
        out.say(f"Serving the ledger in {state.settings.home} at {address}. Stop it with Ctrl-C.")
