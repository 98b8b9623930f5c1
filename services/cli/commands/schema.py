"""ledger schema: the vocabulary that this release knows."""

from __future__ import annotations

import click

from ledger.core import strictjson
from ledger.events import REGISTRY, EventType
from ledger.events.examples import example
from services.cli.options import Group
from services.cli.state import State


@click.group("schema", cls=Group, example="ledger schema show defect.confirmed")
def schema() -> None:
    """The event types that this release knows, with JSON Schema and an example each."""


@schema.command("list", example="ledger schema list")
@click.pass_obj
def list_(state: State) -> None:
    """List the event types."""
    out = state.output
    if out.as_json:
        out.json([_about(kind) for kind in REGISTRY])
        return
    out.table(
        ["type", "version", "family", "streams", "recorded"],
        [
            [k.type, k.version, k.family, ", ".join(k.streams), "if the rules agree" if k.decision else "always"]
            for k in REGISTRY
        ],
    )


@schema.command("show", example="ledger schema show defect.confirmed\nledger schema show defect.confirmed --version 1")
@click.argument("type_", metavar="TYPE")
@click.option("--version", type=click.IntRange(min=1), help="The newest when left out.")
@click.pass_obj
def show(state: State, type_: str, version: int | None) -> None:
    """Print a type's JSON Schema and an example of its payload."""
    kind = REGISTRY.latest(type_) if version is None else REGISTRY.get(type_, version)
    sample = strictjson.parse(example(kind.type, kind.version))
    state.output.json(_about(kind) | {"schema": kind.model.model_json_schema(), "example": sample})


def _about(kind: EventType) -> dict[str, object]:
    return {
        "type": kind.type,
        "version": kind.version,
        "family": kind.family,
        "streams": list(kind.streams),
        "decision": kind.decision,
    }
