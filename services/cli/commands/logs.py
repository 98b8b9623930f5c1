"""ledger log: the log itself, whole or from its end."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from itertools import chain
from queue import Empty, Queue
from threading import Thread
from typing import Final

import click

from ledger.core.errors import Broken
from ledger.events import REGISTRY
from ledger.wire import log_pb2
from services.cli import backend
from services.cli.catalogue_state import header_of
from services.cli.commands.events import event_dict
from services.cli.options import Group
from services.cli.output import Cell, Output
from services.cli.state import Ledger, State

_COLUMNS: Final = ("pos", "recorded at", "type", "stream", "actor", "id")
_WHOLE: Final = ("pos", "recorded at", "type", "stream", "id")


@click.group("log", cls=Group, example="ledger log tail --follow")
def logs() -> None:
    """The log itself."""


@logs.command("fsck", example="ledger log fsck --home .ledger")
@click.pass_obj
def fsck(state: State) -> None:
    """Derive everything again from the stored bytes and name each difference."""
    if "address" in state.flags:
        raise click.UsageError(
            "fsck reads the store itself: run it where the home or the database is, without --address."
        )
    report = backend.fsck(state.settings)
    out = state.output
    if not report.ok:
        raise Broken(
            f"fsck found {len(report.problems)} differences in a log of size {report.size}",
            remedy="Stop writing to this log, keep a copy of it as it is, and restore it from a backup that is clean.",
            details={"size": str(report.size), **{k: str(v) for k, v in report.checked.items()}},
            problems=report.problems,
        )
    if out.as_json:
        out.json({"ok": True, "size": report.size, "checked": dict(report.checked), "problems": []})
        return
    out.line(f"OK: a log of size {report.size:,}")
    out.table(["checked", "count"], [[name, count] for name, count in report.checked.items()])


@logs.command("tail", example="ledger log tail -n 20\nledger log tail --follow --json --type review.published")
@click.option("-n", "count", type=click.IntRange(min=0), default=10, show_default=True, help="So many from the end.")
@click.option("--follow", is_flag=True, help="Then wait for more; with --json one object a line.")
@click.option("--type", "types", multiple=True, metavar="TYPE", help="Of this type; repeat it for alternatives.")
@click.option(
    "--stream", "streams", multiple=True, metavar="STREAM", help="Of this stream; repeat it for alternatives."
)
@click.option("--content", is_flag=True, help="With --json: the payloads too.")
@click.pass_obj
def tail(
    state: State, *, count: int, follow: bool, types: tuple[str, ...], streams: tuple[str, ...], content: bool
) -> None:
    """Show the newest events."""
    out = state.output
    _check_types(types)
    with state.open() as ledger:
        size = ledger.reader.info().size
        last = _last(ledger, size, count, types, streams, content=content)
        if not follow:
            _show(out, last, content=content)
            return
        more = ledger.reader.follow(size, types=types, streams=streams, headers_only=not content)
        for event in chain(last, _in_background(more)):
            _show_next(out, event, content=content)


def _check_types(types: tuple[str, ...]) -> None:
    """An unknown type would match nothing, for ever."""
    known = sorted({kind.type for kind in REGISTRY})
    for name in types:
        if name not in known:
            near = difflib.get_close_matches(name, known, cutoff=0.5)
            hint = f"Near it: {', '.join(near)}." if near else "`ledger schema list` lists them."
            raise click.UsageError(f"There is no event type {name!r}. {hint}")


def _last(
    ledger: Ledger, size: int, count: int, types: tuple[str, ...], streams: tuple[str, ...], *, content: bool
) -> list[log_pb2.Event]:
    """The newest `count` that match: looked for from the end, in windows that double."""
    found: list[log_pb2.Event] = []
    window, until = max(count, 1), size
    while len(found) < count and until > 0:
        start = max(0, until - window)
        events = ledger.reader.events(start, to_size=until, types=types, streams=streams, headers_only=not content)
        found = [*events, *found]
        window, until = window * 2, start
    return found[-count:] if count else []


def _in_background(events: Iterator[log_pb2.Event]) -> Iterator[log_pb2.Event]:
    """The events, read by a thread of their own.

    An interrupt strikes the main thread; within gRPC, while a call is being started, it would leave a call behind that
    nobody can end, and the command would hang on its way out.
    """
    arrived: Queue[log_pb2.Event | Exception] = Queue(maxsize=1_000)

    def read() -> None:
        try:
            for event in events:
                arrived.put(event)
        except Exception as error:  # noqa: BLE001  # raised by who waits, if anyone still does
            arrived.put(error)

    Thread(target=read, name="follow", daemon=True).start()
    while True:
        try:
            # Not for ever: an interrupt that strikes just before the wait is seen only after it.
            item = arrived.get(timeout=0.5)
        except Empty:
            continue
        if isinstance(item, Exception):
            raise item
        yield item


def _show(out: Output, events: list[log_pb2.Event], *, content: bool) -> None:
    if out.as_json:
        out.json([event_dict(e, content=content) for e in events])
        return
    out.table(_COLUMNS, [_cells(e) for e in events], whole=_WHOLE, spare=("actor", "id"))
    if not events:
        out.say("No event matches.")


def _show_next(out: Output, event: log_pb2.Event, *, content: bool) -> None:
    if out.as_json:
        out.json_line(event_dict(event, content=content))
    else:
        out.line("  ".join(str(cell) for cell in _cells(event)), whole=True)


def _cells(event: log_pb2.Event) -> list[Cell]:
    header = header_of(event)
    said_by = header["actor"]
    name = said_by.get("id") if isinstance(said_by, dict) else said_by
    return [event.pos, *(str(header[key]) for key in ("recorded_at", "type", "stream")), str(name), str(header["id"])]
