"""ledger projection: what is derived from the log."""

from __future__ import annotations

import click

from ledger.client import Reader
from ledger.client.messages import to_dict
from ledger.core.errors import Broken, NotFound
from ledger.wire import projections_pb2
from services.cli.options import Group
from services.cli.output import Cell
from services.cli.state import State


@click.group("projection", cls=Group, example="ledger projection list")
def projections() -> None:
    """What is derived from the log, and deriving it again."""


@projections.command("list", example="ledger projection list --json")
@click.pass_obj
def list_(state: State) -> None:
    """List the generations, live and building."""
    with state.open() as ledger:
        answer = ledger.reader.generations()
    out = state.output
    if out.as_json:
        out.json([to_dict(g) | {"log_size": answer.log_size} for g in answer.generations])
        return
    columns = ["projection", "status", "rules", "size", "keys", "failed events", "id"]
    rows: list[list[Cell]] = [
        [g.projection, g.status, g.rules, g.size, g.keys, g.failed_events, g.id] for g in answer.generations
    ]
    out.table(columns, rows)
    out.say(f"The log has size {answer.log_size:,}.")


def _check_known(reader: Reader, projection: str) -> None:
    known = sorted({g.projection for g in reader.generations().generations})
    if projection not in known:
        raise NotFound(f"there is no projection {projection!r}", remedy=f"Name one of: {', '.join(known)}.")


@projections.command("rebuild", example="ledger projection rebuild")
@click.argument("projection", default="sources")
@click.pass_obj
def rebuild(state: State, projection: str) -> None:
    """Fold the log from its first event and compare with what was live.

    Readers are served by the old generation until the new one takes its place. Exit code 3 says that they differ.
    """
    out = state.output

    def report(message: projections_pb2.RebuildResponse) -> None:
        if out.talks_to_terminal:
            out.say(f"Folded {message.size:,} of {message.log_size:,} events.")

    with state.open() as ledger:
        _check_known(ledger.reader, projection)
        result = ledger.reader.rebuild(projection, progress=report)
    if not result.equal:
        raise Broken(
            f"the rebuilt {projection} differ from what was shown, for at least {len(result.differing_keys)} sources",
            remedy="The rebuilt generation is live. Report the difference with the sources named here.",
            details={"generation": result.generation.id, "differing_keys": ", ".join(result.differing_keys)},
        )
    if out.as_json:
        out.json(to_dict(result))
        return
    kept = f"{result.intervals:,} intervals of {result.generation.keys:,} keys"
    out.line(f"OK: {projection} rebuilt through size {result.generation.size:,}, {kept}, equal to what was shown")
