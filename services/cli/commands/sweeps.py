"""ledger sweep: campaigns, and their arms side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import click

from ledger.client.messages import to_dict
from ledger.client.runs import Coordinates, Runs
from ledger.wire import audit_pb2, runs_pb2
from services.cli import run_words, words
from services.cli.catalogue_state import header_of
from services.cli.coordinates import Where
from services.cli.disregarded import disregarded
from services.cli.options import Group, at_option
from services.cli.output import Cell
from services.cli.run_coordinates import coordinates_dict, standing
from services.cli.state import Ledger, State
from services.cli.sweep_page import show_sweep


@click.group("sweep", cls=Group, example="ledger sweep show tasktrove-dq")
def sweeps() -> None:
    """Campaigns: runs that are to be compared. What an arm came to is evidence, never a source's Quality."""


@sweeps.command("list", example="ledger sweep list --at 2026-10-01")
@at_option
@click.pass_obj
def list_(state: State, *, at: str | None) -> None:
    """List the campaigns: those that were declared, and those that a run names."""
    out = state.output
    with state.open() as ledger:
        asking = Runs(ledger.connection)
        names, where = _campaigns(ledger, Where(at).coordinates(ledger))
        found = [asking.sweep(name, audit_pb2.Coordinates(size=where.size)) for name in names]
    if out.as_json:
        out.json([_summary(sweep) | coordinates_dict(where) for sweep in found])
        return
    columns = ["campaign", "compares", "arms", "ended", "not recorded", "title"]
    out.table(columns, map(_row, found), whole=("campaign",), spare=("not recorded",))
    out.say(f"{words.counted(len(found), 'campaign')}. {standing(where, at)}.")


@sweeps.command(
    "show", example="ledger sweep show tasktrove-dq\nledger sweep show tasktrove-dq --compare-unlike --json"
)
@click.argument("campaign", metavar="CAMPAIGN")
@click.option("--compare-unlike", is_flag=True, help="Rank arms although they are unlike; it is said in what.")
@at_option
@click.pass_obj
def show(state: State, campaign: str, *, compare_unlike: bool, at: str | None) -> None:
    """Show the arms of a campaign side by side, and which of them may be compared.

    Arms are alike when base, revisions of data and verifier, objective, batch geometry, code and budget are the same
    and known of each. Unlike arms are shown and not ranked.
    """
    out = state.output
    with state.open() as ledger:
        where = Where(at).coordinates(ledger)
        found = Runs(ledger.connection).sweep(campaign, where, compare_unlike=compare_unlike)
    if out.as_json:
        out.json(to_dict(found) | {"coordinates": coordinates_dict(found.coordinates)})
        return
    show_sweep(out, found)
    out.say(f"{standing(found.coordinates, at)}.")


def _campaigns(ledger: Ledger, at: Coordinates) -> tuple[list[str], runs_pb2.RunCoordinates]:
    """The ids of all campaigns at one size."""
    pages = Runs(ledger.connection).list(at=at)
    first = next(pages)
    named = {run.campaign_id for page in (first, *pages) for run in page.runs if run.HasField("campaign_id")}
    return sorted(named | set(_declared(ledger, first.coordinates.size))), first.coordinates


def _declared(ledger: Ledger, size: int) -> Iterator[str]:
    """Campaigns of which somebody said something, also where no run of them is recorded."""
    if not size:
        return
    gone = disregarded(ledger.reader, to_size=size)
    for event in ledger.reader.events(to_size=size, types=["campaign.declared"], headers_only=True):
        header = header_of(event)
        if (event.pos, str(header["id"])) not in gone:
            yield str(header["stream"]).partition("/")[2]


def _summary(sweep: runs_pb2.SweepResponse) -> dict[str, object]:
    """A campaign in one object: `ledger sweep show` has the arms themselves."""
    return {
        "id": sweep.campaign.id,
        "campaign": to_dict(sweep.campaign),
        "runs": [arm.run.id for arm in sweep.arms],
        "statuses": _statuses(sweep.arms),
        "not_recorded": list(sweep.not_recorded),
    }


def _statuses(arms: Iterable[runs_pb2.SweepArm]) -> dict[str, int]:
    return dict(sorted(Counter(arm.run.status for arm in arms).items()))


def _row(sweep: runs_pb2.SweepResponse) -> list[Cell]:
    declared = sweep.campaign.declared
    ended = ", ".join(f"{count} {run_words.status(name).plain}" for name, count in _statuses(sweep.arms).items())
    return [
        sweep.campaign.id + (" (sample)" if sweep.campaign.sample else ""),
        run_words.known(declared, "compares"),
        len(sweep.arms),
        ended or "-",
        len(sweep.not_recorded),
        run_words.known(declared, "title") or "-",
    ]
