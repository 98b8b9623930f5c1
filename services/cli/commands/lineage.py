"""ledger lineage, affected and turned: what came of what, whom a defect reaches, and what changed after it was used."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import click

from ledger.client.messages import to_dict
from ledger.client.reader import MAX_SIZE
from ledger.client.runs import Coordinates, Runs
from ledger.core.errors import NotFound
from ledger.wire import runs_pb2
from services.cli import lineage_forms, words
from services.cli.coordinates import Where
from services.cli.exporting import Target, View, export, export_options
from services.cli.options import RUN, SOURCE, Command, where_options
from services.cli.output import Output
from services.cli.run_coordinates import asked, coordinates_dict, standing
from services.cli.run_lists import AFFECTED, TURNS
from services.cli.state import State

KINDS: Final = ("source", "dataset", "base", "run", "checkpoint", "export", "model", "traces", "logs")
"""How a node's name begins; a name without one of them is a source's or a run's."""


@click.command(
    "lineage",
    cls=Command,
    example="""ledger lineage tasktrove-dq-taco
ledger lineage model/laion/tasktrove-dq-taco-step15-30b-a3b --direction up --dot""",
)
@click.argument("node", metavar="NODE")
@click.option("--depth", type=click.IntRange(0, 1_000), default=0, help="At most so many edges away; 0: all.")
@click.option(
    "--direction",
    type=click.Choice(["up", "down", "both"]),
    default="both",
    show_default=True,
    help="What it comes from, what came of it, or both.",
)
@click.option("--dot", "form", flag_value="dot", help="As a graph for Graphviz.")
@click.option("--mermaid", "form", flag_value="mermaid", help="As a graph for Mermaid.")
@where_options
@click.pass_obj
def lineage(state: State, node: str, *, depth: int, direction: str, form: str | None, where: Where) -> None:
    """Show what a node comes from and what came of it.

    NODE is the id of a source or a run, or a kind and an id: source/ID, run/ID, checkpoint/RUN@STEP, export/ID,
    model/REPOSITORY, traces/REPOSITORY, logs/REPOSITORY, base/REPOSITORY, or dataset/NAME for data that is of no known
    source.
    """
    out = state.output
    if form is not None and out.as_json:
        raise click.UsageError(f"--json prints JSON: leave out --{form}.")
    with state.open() as ledger:
        found = _found(Runs(ledger.connection), node, where.coordinates(ledger), depth=depth, direction=direction)
    if out.as_json:
        out.json(to_dict(found) | {"coordinates": coordinates_dict(found.coordinates)})
        return
    if form is None:
        lineage_forms.show_tree(out, found)
    else:
        click.echo(lineage_forms.dot(found) if form == "dot" else lineage_forms.mermaid(found))
    told = f"{words.counted(len(found.nodes), 'node')}, {words.counted(len(found.edges), 'edge')}"
    out.say(f"{told}. {standing(found.coordinates, where.at)}.")


def _found(runs: Runs, node: str, at: Coordinates, *, depth: int, direction: str) -> runs_pb2.LineageResponse:
    """The lineage of the first thing that bears the name."""
    names = list(_names(node))
    for name in names[:-1]:
        try:
            return runs.lineage(name, at, depth=depth, direction=direction)
        except NotFound:
            continue
    return runs.lineage(names[-1], at, depth=depth, direction=direction)


def _names(node: str) -> Iterator[str]:
    """What a name may mean, the likeliest first: an origin and a colon are a source's."""
    if node.partition("/")[0] in KINDS and "/" in node:
        yield node
        return
    first, second = ("source", "run") if ":" in node else ("run", "source")
    yield f"{first}/{node}"
    yield f"{second}/{node}"


@click.command(
    "affected",
    cls=Command,
    example="""ledger affected MarinSkyRL:svamp
ledger affected 1204 --format csv --output affected.csv""",
)
@click.argument("of", type=SOURCE, metavar="SOURCE|POS")
@where_options
@export_options
@click.pass_obj
def affected(state: State, of: str, *, where: Where, target: Target) -> None:
    """List every run, checkpoint, export and model that a source reaches, also through another run's weights.

    POS is the position of an event about a source, such as a defect: then it is told whether a run took the revision
    that the event names, and whether the event was known when it began.
    """
    target.form(state.output)
    concern = int(of) if of.isascii() and of.isdigit() and int(of) <= MAX_SIZE else of
    with state.open() as ledger:
        pages = iter([Runs(ledger.connection).blast_radius(concern, where.coordinates(ledger))])
        first, answer = asked(ledger, pages, "affected")
        count = export(state.output, AFFECTED, answer, target)
    _conclude(state.output, count, AFFECTED, target, f"{_concern(first)}{standing(first.coordinates, where.at)}")


def _concern(found: runs_pb2.BlastRadiusResponse) -> str:
    """What the event said, where one was asked about."""
    if not found.HasField("event_type"):
        return f"{found.source_id}. "
    pins = (("data", "dataset_revision"), ("verifier", "verifier_revision"))
    told = [f"{what} {getattr(found, name)}" for what, name in pins if getattr(found, name)]
    return f"{found.event_type} of {found.source_id}, {', '.join(told) or 'which names no revision'}. "


@click.command(
    "turned",
    cls=Command,
    example="""ledger turned --run tasktrove-dq-taco
ledger turned --since 1204 --json""",
)
@click.option("--run", "runs", multiple=True, type=RUN, metavar="RUN", help="Of this run's sources; may be repeated.")
@click.option("--since", type=click.IntRange(0, MAX_SIZE), default=0, metavar="SIZE", help="Recorded at it or later.")
@where_options
@export_options
@click.pass_obj
def turned(state: State, runs: tuple[str, ...], *, since: int, where: Where, target: Target) -> None:
    """List what changed about sources after runs had consumed them, the newest last.

    To go on from where one has read, give the size that the answer names as --since.
    """
    target.form(state.output)
    with state.open() as ledger:
        pages = iter([Runs(ledger.connection).turned(runs, where.coordinates(ledger), since=since)])
        first, answer = asked(ledger, pages, "turns")
        count = export(state.output, TURNS, answer, target)
    _conclude(state.output, count, TURNS, target, standing(first.coordinates, where.at))


def _conclude(out: Output, count: int, view: View, target: Target, said: str) -> None:
    if not out.as_json:
        to = f" written to {target.file}" if target.file is not None else ""
        out.say(f"{words.counted(count, view.noun)}{to}. {said}.")
