"""ledger event: one event as it is stored, and taking back what it counts for."""

from __future__ import annotations

from typing import Any, Final

import click

from ledger.client.drafts import Draft, Publication, draft
from ledger.client.reader import MAX_SIZE
from ledger.core import strictjson
from ledger.core.ids import digest_id
from ledger.core.text import harmless
from ledger.events.administration import EventDisregarded
from ledger.wire import log_pb2
from services.cli.asking import ask, yes_option
from services.cli.catalogue_state import header_of
from services.cli.models import made
from services.cli.options import Group, dry_run_option
from services.cli.publishing import publish, show_plan
from services.cli.state import State

_FIRST: Final = ("pos", "type", "stream", "sv", "id", "recorded_at", "occurred_at", "actor")


@click.group("event", cls=Group, example="ledger event show 1204")
def events() -> None:
    """Events as they are stored."""


@events.command("show", example="ledger event show 1204\nledger event show 0199b0c4-… --content")
@click.argument("key", metavar="POS|ID")
@click.option("--content", is_flag=True, help="The payload too, not only the header.")
@click.pass_obj
def show(state: State, key: str, *, content: bool) -> None:
    """Show an event by its position or its id. Its header is checked against its leaf hash."""
    with state.open() as ledger:
        event = ledger.reader.event(int(key) if _is_position(key) else key)
    out = state.output
    if out.as_json:
        out.json(event_dict(event, content=content))
        return
    header = header_of(event)
    out.pairs((name, _shown(header[name])) for name in sorted(header, key=_rank))
    out.pairs([("leaf hash", event.leaf_hash.hex()), ("redacted by", _redacted(event))])
    if content:
        out.line()
        out.line(_content(event))


@events.command(
    "disregard",
    example="ledger event disregard 1204 --reason 'recorded for the wrong source'\n"
    "ledger event disregard 1204 --reason 'a test' --dry-run",
)
@click.argument("pos", type=click.IntRange(0, MAX_SIZE))
@click.option("--reason", required=True, metavar="TEXT", help="Why it is to count for nothing; recorded.")
@dry_run_option
@yes_option
@click.pass_obj
def disregard(state: State, pos: int, *, reason: str, dry_run: bool, yes: bool) -> None:
    """Let an event count for nothing from here on. It stays in the log, and earlier moments are answered with it.

    There is no way back but recording again what it said: what is published again is a new event.
    """
    out = state.output
    with state.open() as ledger:
        event = ledger.reader.event(pos)
        header = header_of(event)
        summary = f"{header['type']} at position {pos}, on {header['stream']}, of {header['recorded_at']}"
        planned = Publication(closing=_disregarding(state, header, reason), summary=f"disregard {summary}")
        if dry_run:
            show_plan(state, ledger, [planned])
            return
        if not yes:
            if not out.as_json:
                out.line(summary)
                out.line(_content(event))
            ask(
                out,
                "Let it count for nothing from here on?",
                otherwise="Look at it with --dry-run, then give --yes.",
            )
        publish(state, ledger, [planned])


def _disregarding(state: State, header: dict[str, Any], reason: str) -> Draft:
    """The same disregard by the same actor has the same id, so that repeating the command is safe."""
    payload = made(EventDisregarded, pos=header["pos"], event=header["id"], reason=reason)
    by = state.by
    event_id = digest_id(header["log"], "event.disregarded", header["pos"], reason, by.id, by.kind)
    return draft("event.disregarded", "ledger", payload, by=by, id=event_id)


def event_dict(event: log_pb2.Event, *, content: bool) -> dict[str, Any]:
    """An event as JSON: the header as it is stored, and the payload when it is asked for."""
    shown: dict[str, Any] = {
        "pos": event.pos,
        "header": header_of(event),
        "leaf_hash": event.leaf_hash.hex(),
        "redacted_by": event.redacted_by if event.HasField("redacted_by") else None,
    }
    if content:
        shown["payload"] = strictjson.parse(event.payload) if event.HasField("payload") else None
        shown["salt"] = event.salt.hex() if event.HasField("salt") else None
    return shown


def _rank(name: str) -> tuple[int, str]:
    """What a reader looks for first, then the rest by name."""
    return (_FIRST.index(name) if name in _FIRST else len(_FIRST)), name


def _is_position(key: str) -> bool:
    return key.isascii() and key.isdigit() and len(key) < 20


def _redacted(event: log_pb2.Event) -> str:
    return str(event.redacted_by) if event.HasField("redacted_by") else "-"


def _shown(value: object) -> str:
    """A header's value on one line; null is a dash, since nothing of it is unknown."""
    if value is None:
        return "-"
    return value if isinstance(value, str) else strictjson.dumps(value).decode()


def _content(event: log_pb2.Event) -> str:
    if not event.HasField("payload"):
        return "The payload was redacted."
    return harmless(event.payload.decode("utf-8", "replace"))
