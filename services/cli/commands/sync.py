"""ledger sync: sends what recorders left in their spools."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final, NoReturn

import click

from ledger.client.recording import RefusedDraft, Synced, folders
from ledger.client.recording import sync as sync_one
from ledger.client.retry import Patience, is_repeatable
from ledger.core.errors import REASONS, LedgerError, Problem, Refused
from services.cli.options import Command
from services.cli.output import Cell, Output
from services.cli.state import PATIENCE_SECONDS, Ledger, State

WATCH_SECONDS: Final = 2.0


@click.command(
    "sync",
    cls=Command,
    example="ledger sync\nledger sync /scratch/run-7/spool --address ledger.example:7410\nledger sync DIR --watch",
)
@click.argument("spools", nargs=-1, metavar="[DIR]...", type=click.Path(path_type=Path))
@click.option("--watch", is_flag=True, help="Go on until interrupted, sending what is still being recorded.")
@click.pass_obj
def sync(state: State, spools: tuple[Path, ...], *, watch: bool) -> None:
    """Send what recorders left in their spools, and what they are recording with no ledger in reach.

    DIR is a spool, or a folder that holds spools; without one, all spools of this user are sent. Sending again is safe.
    What the ledger refused lies in the spool's folder `refused`, and is named.
    """
    out = state.output
    with state.open() as ledger:
        if watch:
            _watch(out, ledger, spools)
        done = _send_all(out, ledger, _found(spools))
    refused = [r for one in done for r in one.newly_refused]
    if not (refused and out.as_json):
        _show(out, done)
    if refused:
        raise _refused(refused, done)


def _watch(out: Output, ledger: Ledger, spools: tuple[Path, ...]) -> NoReturn:
    """Sends again and again; whatever is refused or fails meanwhile is said once a time and does not end it."""
    told: str = ""
    while True:
        try:
            _show(out, [one for one in _send_all(out, ledger, _found(spools), quiet=True) if one.moved], lines=True)
            told = ""
        except LedgerError as error:
            if not is_repeatable(error):
                raise
            if error.message != told:
                out.say(f"{error.message} [{error.reason}]: trying again.")
            told = error.message
        time.sleep(WATCH_SECONDS)


def _found(named: tuple[Path, ...]) -> list[Path]:
    """The spools that are meant, in order.

    Raises:
        InvalidInput: reason INVALID_FILE, if a folder that was named is no spool and holds none.
    """
    if not named:
        root = folders.default_root()
        return _within(root) if root.is_dir() else []
    found: list[Path] = []
    for place in named:
        spools = [place] if folders.is_spool(place) else _within(place)
        if not spools:
            raise folders.no_spool(place)
        found += spools
    return list(dict.fromkeys(found))


def _within(root: Path) -> list[Path]:
    return sorted(file.parent for file in root.glob("*/spool.json"))


def _send_all(out: Output, ledger: Ledger, spools: list[Path], *, quiet: bool = False) -> list[Synced]:
    """Every spool in turn. One that its own recorder is sending is left to it."""
    done: list[Synced] = []
    for spool in spools:
        try:
            done.append(sync_one(spool, ledger.connection, patience=Patience(total=PATIENCE_SECONDS)))
        except LedgerError as error:
            if error.reason != "IN_USE":
                raise
            if not quiet:
                out.say(f"{spool}: its recorder sends it, or another process does.")
    return done


def _show(out: Output, done: list[Synced], *, lines: bool = False) -> None:
    if out.as_json and not lines:
        out.json([one.to_dict() for one in done])
        return
    if out.as_json:
        for one in done:
            out.json_line(one.to_dict())
        return
    columns = ["run", "sent", "known already", "refused", "left", "recording", "spool"]
    out.table(columns, [_row(one) for one in done], whole=("spool",))
    for refused in (r for one in done for r in one.refused):
        out.say(f"refused: {refused.type} {refused.id}: {refused.message} [{refused.reason}]; see {refused.file}")
    if not done and not lines:
        out.say("Nothing was sent.")


def _row(one: Synced) -> list[Cell]:
    recording = "yes" if one.recording else "no"
    return [one.run, one.sent, one.known, len(one.refused), one.left, recording, str(one.spool)]


def _refused(refused: list[RefusedDraft], done: list[Synced]) -> LedgerError:
    """Names each draft that was refused just now; what else was sent is sent."""
    first = refused[0]
    return Refused(
        f"the ledger refused {len(refused)} of the drafts; the first, {first.type}: {first.message}",
        reason=first.reason if first.reason in REASONS else None,
        remedy=first.remedy or "Look at the files in the spool's folder refused.",
        details={
            "sent": str(sum(one.sent for one in done)),
            "known": str(sum(one.known for one in done)),
            "left": str(sum(one.left for one in done)),
        },
        problems=[Problem(f"{r.type} {r.id}", f"{r.message} [{r.reason}], kept in {r.file}") for r in refused],
    )
