"""The `ledger` command: its tree, and what becomes of an error at the very end."""

from __future__ import annotations

import io
import os
import sys
import traceback
from collections.abc import Sequence
from importlib.metadata import version

import click

from ledger.core.errors import InvalidInput, LedgerError
from ledger.core.ids import sha256_hex
from ledger.core.strictjson import dumps
from ledger.events import REGISTRY
from services.cli import backend
from services.cli.commands.artifacts import artifacts
from services.cli.commands.attestations import attestations
from services.cli.commands.audit import audit
from services.cli.commands.backfill import backfill
from services.cli.commands.cards import card
from services.cli.commands.catalogue import catalogue
from services.cli.commands.checks import check
from services.cli.commands.config import config
from services.cli.commands.database import database
from services.cli.commands.defects import defects
from services.cli.commands.demo import demo
from services.cli.commands.difficulty import difficulty
from services.cli.commands.events import events
from services.cli.commands.export import export
from services.cli.commands.lineage import affected, lineage, turned
from services.cli.commands.logs import logs
from services.cli.commands.projections import projections
from services.cli.commands.protocols import protocols
from services.cli.commands.reviews import reviews
from services.cli.commands.rules import rules_
from services.cli.commands.runs import runs
from services.cli.commands.schema import schema
from services.cli.commands.server import serve
from services.cli.commands.sources import sources
from services.cli.commands.sweeps import sweeps
from services.cli.commands.sync import sync
from services.cli.commands.traces import traces
from services.cli.commands.train import train
from services.cli.commands.training_logs import training_logs
from services.cli.options import Group
from services.cli.output import Output
from services.cli.state import State

WIRE = "atlas.ledger.v1"


@click.group(
    "ledger",
    cls=Group,
    example="ledger demo --once\nledger source why MarinSkyRL:svamp --at 2026-10-01",
    invoke_without_command=True,
    no_args_is_help=True,
)
@click.option(
    "--version", "show_version", is_flag=True, help="Print the versions of software, wire, schema and database."
)
@click.pass_context
def cli(ctx: click.Context, *, show_version: bool) -> None:
    """Atlas Ledger: what was known of a source, when, and why.

    A command speaks to a running ledger (--address, or one that holds the home) or runs it within itself.
    """
    if show_version:
        _print_versions(ctx.ensure_object(State).output)
        ctx.exit()
    if ctx.invoked_subcommand is None:
        raise click.UsageError("Missing command.", ctx)


for command in (
    serve,
    demo,
    catalogue,
    sources,
    reviews,
    defects,
    difficulty,
    attestations,
    audit,
    events,
    logs,
    projections,
    sync,
    rules_,
    protocols,
    artifacts,
    backfill,
    schema,
    config,
    database,
    runs,
    sweeps,
    check,
    lineage,
    affected,
    turned,
    card,
    training_logs,
    traces,
    train,
    export,
):
    cli.add_command(command)


def main(args: Sequence[str] | None = None) -> int:
    """Runs the command line; gives the exit code."""
    arguments = list(sys.argv[1:] if args is None else args)
    state = State()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal of another encoding shows what it cannot write as an escape.
            stream.reconfigure(errors="backslashreplace")
    try:
        return _run(arguments, state)
    except BrokenPipeError:
        # Who reads has enough. Python would complain once more when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except LedgerError as error:
        failure = error
    except UnicodeEncodeError as error:
        failure = InvalidInput(
            f"an argument is not UTF-8: {error.object!a}", reason="USAGE", remedy="Write it in UTF-8."
        )
    except OSError as error:
        failure = LedgerError(
            f"{error.filename or 'the system'}: {error.strerror}",
            remedy="See that the place exists and is yours to use.",
        )
    except Exception as error:  # noqa: BLE001  # a fault of ours is told like any other error; -v shows where it is
        failure = LedgerError(
            f"{type(error).__name__}: {error}", remedy="This is a fault of the program: report what it prints with -v."
        )
        if state.verbose:
            traceback.print_exc()
    _output(state, arguments).error(failure)
    return failure.door.exit


def _run(arguments: list[str], state: State) -> int:
    try:
        result = cli.main(arguments, prog_name="ledger", standalone_mode=False, obj=state)
    except click.UsageError as error:
        raise _usage(error) from None
    except click.ClickException as error:
        raise InvalidInput(error.format_message(), reason="USAGE", remedy="See --help.") from None
    except (click.Abort, KeyboardInterrupt):
        raise LedgerError(
            "interrupted", reason="INTERRUPTED", remedy="What was recorded stays; repeating is safe."
        ) from None
    return result if isinstance(result, int) else 0


def _usage(error: click.UsageError) -> LedgerError:
    path = error.ctx.command_path if error.ctx is not None else "ledger"
    return InvalidInput(error.format_message(), reason="USAGE", remedy=f"`{path} --help` shows how it is used.")


def _output(state: State, arguments: list[str]) -> Output:
    """A usage error may come before --json was read."""
    out = state.output
    out.as_json = out.as_json or "--json" in arguments
    return out


def _print_versions(out: Output) -> None:
    kinds = [[kind.type, kind.version] for kind in REGISTRY]
    versions = {
        "software": version("atlas-ledger"),
        "wire": WIRE,
        "schema": f"{len(kinds)} event types, {sha256_hex(dumps(kinds))[:12]}",
        "database": backend.schema_revision(),
    }
    if out.as_json:
        out.json(versions)
        return
    for name, value in versions.items():
        out.line(f"{name} {value or 'unknown: the server extra is not installed'}")
