"""ledger event: one event as it is stored."""

from __future__ import annotations

from typing import Any, Final

import click

from ledger.core import strictjson
from ledger.core.text import harmless
from ledger.wire import log_pb2
from services.cli.catalogue_state import header_of
from services.cli.options import Group
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
