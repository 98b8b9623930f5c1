"""ledger projection: what is derived from the log, deriving it again, and letting other rules answer."""

from __future__ import annotations

from typing import Any

import click

from ledger.client.messages import to_dict
from ledger.core.errors import Broken
from ledger.wire import projections_pb2
from services.cli import words
from services.cli.asking import ask, yes_option
from services.cli.impact import show_changes, show_summary
from services.cli.options import Group
from services.cli.output import Cell
from services.cli.progress import rebuild_bar
from services.cli.state import Ledger, State

_REF = "GENERATION"
SOURCES = "sources"
"""The one projection whose rules are adopted and promoted."""


@click.group("projection", cls=Group, example="ledger projection list\nledger projection diff ledger-1")
def projections() -> None:
    """What is derived from the log, and deriving it again.

    There are two projections: sources, and runs (with exports and campaigns). A generation is the state of everything
    in one of them under one rule set. One is live and answers; others follow the log beside it. Those of sources can
    be compared with it, and can take over; runs are folded by the release's own rules. A generation is named by its
    id or by its rule set.
    """


@projections.command("list", example="ledger projection list --json")
@click.pass_obj
def list_(state: State) -> None:
    """List the generations: live, kept, shadow, building and stale."""
    with state.open() as ledger:
        answer = ledger.reader.generations()
    out = state.output
    if out.as_json:
        out.json([to_dict(g) | {"log_size": answer.log_size} for g in answer.generations])
        return
    columns = ["projection", "status", "rules", "size", "keys", "failed events", "in force since", "id"]
    out.table(columns, [_row(g) for g in answer.generations])
    out.say(f"The log has size {answer.log_size:,}.")


def _row(generation: projections_pb2.Generation) -> list[Cell]:
    g = generation
    since = ", ".join(str(pos + 1) for pos in g.promoted)
    if not since:
        since = "not adopted" if g.projection == SOURCES and not g.adopted else "-"
    return [g.projection, g.status, g.rules, g.size, g.keys or g.keys_done, g.failed_events, since, g.id]


@projections.command("rebuild", example="ledger projection rebuild\nledger projection rebuild --rules ledger-1")
@click.argument("projection", default="")
@click.option("--rules", default="", metavar="ID", help="The rule set to build; the one that answers when left out.")
@click.option(
    "--processes",
    type=click.IntRange(0, 64),
    default=0,
    metavar="N",
    help="Processes that fold; 0, the default, leaves it to the server.",
)
@click.pass_obj
def rebuild(state: State, projection: str, *, rules: str, processes: int) -> None:
    """Fold the log from its first event, and compare with what was there under the same rules.

    PROJECTION is sources or runs; left out, it is that of the rules, or else sources. Readers are served by what is
    live until the end. A build that was interrupted is gone on with. Under rules that no generation of sources holds
    yet the new one follows the log beside the live one: `ledger projection diff` shows what it would change. Exit
    code 3 says that a rebuild differs from what was shown.
    """
    out = state.output
    with state.open() as ledger, rebuild_bar(state) as report:
        result = ledger.reader.rebuild(projection, progress=report, rules=rules, processes=processes)
    built = result.generation.projection
    if not result.equal:
        raise Broken(
            f"the rebuilt {built} differ from what was shown, for at least {len(result.differing_keys)} {built}",
            remedy="The rebuilt generation has taken its place, and the one before it is kept. Report the difference "
            f"with the {built} named here.",
            details={"generation": result.generation.id, "differing_keys": ", ".join(result.differing_keys)},
        )
    if out.as_json:
        out.json(to_dict(result))
        return
    kept = f"{result.intervals:,} intervals of {result.generation.keys:,} keys"
    told = "equal to what was shown" if result.compared_with else "the first under these rules"
    resumed = ", gone on with from where it was interrupted" if result.resumed else ""
    size = f"rebuilt through size {result.generation.size:,} under {result.generation.rules}"
    out.line(f"OK: {built} {size}, {kept}, {told}{resumed}")


@projections.command("diff", example="ledger projection diff ledger-1\nledger projection diff atlas-code-1 --json")
@click.argument("generation", metavar=_REF)
@click.pass_obj
def diff(state: State, generation: str) -> None:
    """Show what would change for readers if a generation took over, and why. Nothing is changed."""
    with state.open() as ledger:
        _show(state, ledger.reader.diff_generation(generation))


@projections.command(
    "promote",
    example="ledger projection promote ledger-1 --dry-run\nledger projection promote ledger-1 --note 'as agreed'",
)
@click.argument("generation", metavar=_REF)
@click.option("--diff-digest", metavar="SHA256", help="The difference that was looked at; nothing else is promoted.")
@click.option("--note", default="", metavar="TEXT", help="Why, in a sentence; recorded with the promotion.")
@click.option("--dry-run", is_flag=True, help="Show what would change, and promote nothing: `ledger projection diff`.")
@yes_option
@click.pass_obj
def promote(state: State, generation: str, *, diff_digest: str | None, note: str, dry_run: bool, yes: bool) -> None:
    """Let a generation answer from here on: its rules are then in force.

    Its rule set must have been adopted (`ledger rules adopt`). Earlier moments keep being answered as they were; to
    roll back, promote the generation that was in force before.
    """
    with state.open() as ledger:
        if dry_run:
            _show(state, ledger.reader.diff_generation(generation))
            return
        digest = diff_digest or _confirmed(state, ledger, generation, yes=yes)
        answer = ledger.reader.promote(generation, digest, note=note, by=state.by)
    _told(state, answer)


def _confirmed(state: State, ledger: Ledger, generation: str, *, yes: bool) -> str:
    """The digest of the difference, once somebody has said yes to it."""
    found = ledger.reader.diff_generation(generation)
    out = state.output
    if not yes:
        if not out.as_json:
            show_summary(out, found)
        ask(
            out,
            f"Let {found.candidate.rules} answer, and move {words.counted(found.total, 'source')}?",
            otherwise=f"Look at `ledger projection diff {generation}`, then give --diff-digest {found.diff_digest}, "
            "or --yes for whatever it moves.",
        )
    return str(found.diff_digest)


def _told(state: State, answer: projections_pb2.PromoteResponse) -> None:
    out = state.output
    if out.as_json:
        out.json(to_dict(answer))
        return
    rules = answer.generation.rules
    if answer.already_in_force:
        out.line(f"Already in force: {rules}, generation {answer.generation.id}; nothing was recorded.")
        return
    moved = words.counted(answer.moved, "source")
    out.line(f"{rules} is in force from size {answer.size:,} on; the promotion moved {moved}.")


@projections.command("drop", example="ledger projection drop atlas-code-1")
@click.argument("generation", metavar=_REF)
@yes_option
@click.pass_obj
def drop(state: State, generation: str, *, yes: bool) -> None:
    """Delete the rows of a generation that does not answer. The log can build it again."""
    out = state.output
    with state.open() as ledger:
        if not yes:
            ask(out, f"Drop {generation}?", otherwise="Give --yes: the log can build the generation again.")
        dropped = ledger.reader.drop(generation)
    if out.as_json:
        out.json(to_dict(dropped))
        return
    again = f"`ledger projection rebuild --rules {dropped.rules}` builds it again"
    out.line(f"Dropped {dropped.id}, {dropped.rules}, of size {dropped.size:,}; {again}.")


def _show(state: State, found: projections_pb2.GenerationDiffResponse) -> None:
    out = state.output
    if out.as_json:
        whole: dict[str, Any] = to_dict(found)
        del whole["next_page_token"]
        out.json(whole)
        return
    show_summary(out, found)
    show_changes(out, found.changes)
    if found.candidate.id == found.live.id:
        out.say("Nothing was changed. This generation answers already.")
        return
    promote_it = f"ledger projection promote {found.candidate.rules} --diff-digest {found.diff_digest}"
    out.say(f"Nothing was changed. To let it answer: {promote_it}")
