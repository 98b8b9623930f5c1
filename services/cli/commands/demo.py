"""ledger demo: a ledger to look at, in a home of its own.

It loads the real inventory, what public pages claim of three real runs, and made-up sample reviews, defects and
difficulty reports, through the doors that everyone uses. All ids are fixed, so that a second run changes nothing. It
never touches a home that it did not make, nor a database or a ledger that the settings name: samples have no place
there.
"""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Final

import click

from ledger.client.messages import source_dict
from ledger.client.writer import raise_refused
from ledger.core.errors import LedgerError
from ledger.wire import audit_pb2
from services.cli import backend, coordinates, words
from services.cli.commands.server import say_ready
from services.cli.commands.sources import show_table
from services.cli.demo_plan import E2EGIT, TACO, demo_publications
from services.cli.options import Command, log_level_option
from services.cli.settings import Setting, Settings
from services.cli.state import State

DEMO_HOME: Final = ".ledger-demo"
MARKER: Final = ".demo"
_NAMED: Final = {"flag", "environment"}


@click.command("demo", cls=Command, example="ledger demo --once\nledger demo --home /tmp/demo --port 7411")
@click.option("--once", is_flag=True, help="Load, print and exit; do not serve.")
@click.option("--port", metavar="PORT", help="Port to serve at, 0 for a free one [LEDGER_PORT; default 7410]")
@log_level_option
@click.pass_obj
def demo(state: State, *, once: bool, port: str | None, log_level: str | None) -> None:
    """Load the Atlas inventory, three real runs and sample reviews into a home of its own, show and serve them.

    The home is .ledger-demo unless --home or LEDGER_HOME names another. Samples are marked as such everywhere.
    """
    if {"db", "address"} & state.flags.keys():
        raise click.UsageError("The demonstration has a home of its own: name one with --home, not --db or --address.")
    given = {"port": port, "log_level": log_level}
    state.flags.update({name: value for name, value in given.items() if value is not None})
    home = demo_home(state.settings)
    state.settings = _within(state.settings, home)
    claim(home)
    _load_and_show(state)
    if not once:
        backend.serve(state.settings, lambda address: say_ready(state, address))


def demo_home(settings: Settings) -> Path:
    """Where the demonstration lives: a home that a file names is somebody's own, and is left alone."""
    return settings.home if settings["home"].source in _NAMED else Path(DEMO_HOME)


def claim(home: Path) -> None:
    """Marks a home that is new or empty as the demonstration's.

    Raises:
        LedgerError: reason WRONG_HOME, if something else is in it.
    """
    marker = home / MARKER
    if marker.exists():
        return
    if home.exists() and (not home.is_dir() or any(home.iterdir())):
        raise LedgerError(
            f"{home} was not made by the demonstration",
            reason="WRONG_HOME",
            remedy="Name an empty or new folder with --home.",
            details={"home": str(home)},
        )
    backend.make_home(home)
    marker.write_text("This home holds a demonstration. It may be deleted.\n", encoding="utf-8")


def _within(settings: Settings, home: Path) -> Settings:
    """The settings with that home and nothing else to reach a ledger by."""
    own = {"home": Setting(str(home), "flag"), "db": Setting(None, "flag"), "address": Setting(None, "flag")}
    return replace(settings, by_name={**settings.by_name, **own})


def _load_and_show(state: State) -> None:
    out = state.output
    recorded = 0
    with state.open() as ledger:
        for publication in demo_publications():
            receipts = ledger.writer.publish(publication)
            raise_refused(publication.drafts, receipts)
            recorded += sum(not r.already_recorded for r in receipts)
        pages = list(ledger.reader.sources(min_size=ledger.writer.size))
    found = [source for page in pages for source in page.sources]
    if out.as_json:
        out.json([source_dict(source, pages[0].coordinates) for source in found])
    else:
        show_table(out, found)
        out.line()
        show_table(out, [source for source in found if _is_known_of(source)])
    standing = coordinates.standing(pages[0].coordinates, None)
    out.say(f"{words.counted(len(found), 'source')}: {words.qualities(found)}.")
    out.say(f"{words.counted(recorded, 'event')} recorded by this run. {standing}.")
    out.say(_where_to_look(state.settings.home, next((s.id for s in found if s.open_defects), found[0].id)))


def _is_known_of(source: audit_pb2.Source) -> bool:
    """Whether anything was found out: a review or a defect."""
    return bool(source.HasField("review") or source.open_defects or source.suspected_defects or source.resolved_defects)


def _where_to_look(home: Path, source_id: str) -> str:
    """Lines that can be pasted, from whatever folder."""
    at_home = ["--home", str(home.absolute())]
    commands = (
        ["source", "why", source_id],
        ["source", "list", "--quality", "good"],
        ["run", "list"],
        ["run", "show", TACO],
        ["card", E2EGIT],
        ["log", "tail"],
    )
    lines = (f"  {_program()} {shlex.join([*command, *at_home])}" for command in commands)
    return "\n".join(("Where to look:", *lines))


def _program() -> str:
    """How this program was started, as a shell takes it."""
    started = Path(sys.argv[0])
    if started.name == "__main__.py":
        return f"{shlex.quote(sys.executable)} -m services.cli"
    return shlex.quote(str(started.absolute())) if os.sep in sys.argv[0] else "ledger"
