"""ledger protocol: under which terms difficulty is measured, and since when those of a protocol count."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
from pydantic import ValidationError

from ledger.client import faults
from ledger.client import protocols as shipped
from ledger.client.drafts import Draft, Publication, draft
from ledger.core import strictjson
from ledger.core.errors import InvalidInput, NotFound, Problem
from ledger.events.policy import ProtocolAdopted, ProtocolDefined, ProtocolModel
from ledger.events.wording import words
from services.cli.models import made
from services.cli.options import Group, at_option, dry_run_option
from services.cli.output import Cell, Output
from services.cli.policy_history import (
    PROTOCOLS_STREAM,
    Moment,
    ProtocolHistory,
    protocols_history,
    size_at,
    standing,
)
from services.cli.publishing import publish, show_plan
from services.cli.state import State


@click.group("protocol", cls=Group, example="ledger protocol list")
def protocols() -> None:
    """Difficulty protocols: fixed models and settings. Defined by one event, adopted by another."""


@protocols.command("list", example="ledger protocol list\nledger protocol list --at 2026-10-01")
@at_option
@click.pass_obj
def list_(state: State, *, at: str | None) -> None:
    """List the protocols that the log defines, and which of them stand."""
    with state.open() as ledger:
        size = size_at(ledger.reader, at)
        found = protocols_history(ledger.reader, size)
    out = state.output
    if out.as_json:
        out.json([_about(p) | {"size": size} for p in found.values()])
        return
    out.table(
        ["protocol", "defined at", "adopted at", "since", "replaced by"],
        [_row(p) for p in found.values()],
        whole=("protocol", "since"),
    )
    out.say(f"At size {size:,}.")
    if waiting := [name for name in shipped.known() if name not in found]:
        out.say(f"Shipped and not defined: {', '.join(waiting)}. `ledger protocol define NAME` defines one.")


@protocols.command("show", example="ledger protocol show atlas-difficulty-v2-65k16k")
@click.argument("name", metavar="ID")
@at_option
@click.pass_obj
def show(state: State, name: str, *, at: str | None) -> None:
    """Show a protocol's terms: as the log defines them, or as they are shipped where it does not."""
    with state.open() as ledger:
        size = size_at(ledger.reader, at)
        found = protocols_history(ledger.reader, size)
    known = found.get(name) or ProtocolHistory(name)
    terms = known.definition or _shipped(name, found)
    out = state.output
    if out.as_json:
        out.json(_about(known) | {"size": size, "terms": terms.model_dump(mode="json")})
        return
    out.pairs(_facts(known, terms))
    out.line()
    _show_models(out, terms.models)
    out.say(f"At size {size:,}.")


@protocols.command(
    "define",
    example="ledger protocol define atlas-difficulty-v4-checklist-judge\n"
    "ledger protocol define protocol.json --dry-run",
)
@click.argument("what", metavar="NAME|FILE")
@dry_run_option
@click.pass_obj
def define(state: State, what: str, *, dry_run: bool) -> None:
    """Define a shipped protocol, or one from a FILE.json. Reports are not judged by it before it is adopted."""
    terms = _read(Path(what)) if what.endswith(".json") else shipped.definition(what)
    with state.open() as ledger:
        known = protocols_history(ledger.reader, ledger.reader.info().size).get(terms.protocol)
        if known is not None and known.defined is not None and known.definition == terms:
            planned = Publication(summary=f"{terms.protocol} is defined so already, at position {known.defined.pos}")
        else:
            event = draft("protocol.defined", PROTOCOLS_STREAM, terms, by=state.by)
            planned = Publication(closing=event, summary=f"define {terms.protocol}")
        (show_plan if dry_run else publish)(state, ledger, [planned])


@protocols.command(
    "adopt",
    example="ledger protocol adopt atlas-difficulty-v3-65k16k-qwen-recommended-nonthinking\n"
    "ledger protocol adopt atlas-difficulty-v4-checklist-judge --beside",
)
@click.argument("name", metavar="ID")
@click.option("--replaces", metavar="ID", help="In the place of this one; of the one that stands when left out.")
@click.option("--beside", is_flag=True, help="Beside those that stand, where the rules in force permit it.")
@dry_run_option
@click.pass_obj
def adopt(state: State, name: str, *, replaces: str | None, beside: bool, dry_run: bool) -> None:
    """Adopt a defined protocol: from here on reports under it are current."""
    if beside and replaces is not None:
        raise click.UsageError("Give --replaces or --beside, not both.")
    with state.open() as ledger:
        found = protocols_history(ledger.reader, ledger.reader.info().size)
        known = _defined(name, found)
        if known.adopted is not None and known.stands:
            planned = Publication(summary=f"{name} is adopted already, since position {known.adopted.pos}")
        else:
            planned = _adopting(state, known, None if beside else replaces or _only(standing(found.values())))
        (show_plan if dry_run else publish)(state, ledger, [planned])


def _adopting(state: State, known: ProtocolHistory, replaces: str | None) -> Publication:
    assert known.defined is not None
    payload = made(ProtocolAdopted, protocol=known.name, definition=known.defined.event, replaces=replaces)
    event: Draft = draft("protocol.adopted", PROTOCOLS_STREAM, payload, by=state.by)
    place = f"in the place of {replaces}" if replaces else "beside those that stand"
    return Publication(closing=event, summary=f"adopt {known.name} {place}")


def _only(adopted: list[str]) -> str | None:
    """The one whose place is taken when nobody says which."""
    if len(adopted) > 1:
        raise InvalidInput(
            f"{len(adopted)} protocols stand: {', '.join(adopted)}",
            reason="USAGE",
            remedy="Say with --replaces whose place it takes, or give --beside.",
        )
    return adopted[0] if adopted else None


def _defined(name: str, found: dict[str, ProtocolHistory]) -> ProtocolHistory:
    known = found.get(name)
    if known is None or known.defined is None:
        raise NotFound(
            f"the log defines no protocol {name!r}",
            remedy=f"Define it first: `ledger protocol define {name}`."
            if name in shipped.known()
            else f"It defines {', '.join(found) or 'none'}; define another with `ledger protocol define`.",
        )
    return known


def _shipped(name: str, found: dict[str, ProtocolHistory]) -> ProtocolDefined:
    if name in shipped.known():
        return shipped.definition(name)
    raise NotFound(
        f"no protocol {name!r} is defined there, and none is shipped",
        remedy=f"Name one of: {', '.join(dict.fromkeys([*found, *shipped.known()]))}.",
    )


def _read(path: Path) -> ProtocolDefined:
    """The definition that a file holds.

    Raises:
        InvalidInput: reason INVALID_FILE, with everything that is wrong.
    """
    try:
        value = strictjson.parse(path.read_bytes())
    except OSError as error:
        raise faults.unreadable(path, error) from None
    except InvalidInput as error:
        raise _refused(path, error.problems) from None
    if not isinstance(value, dict):
        raise _refused(path, [Problem("", "not a JSON object")])
    try:
        return ProtocolDefined.model_validate(value)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        raise _refused(path, [Problem(strictjson.pointer(*f["loc"]), words(f)) for f in found]) from None


def _refused(path: Path, problems: Iterable[Problem]) -> InvalidInput:
    return faults.refused(
        path,
        "protocol definition",
        [Problem(f"{path}#{p.place}", p.message) for p in problems],
        remedy="Write the payload of a `protocol.defined`: `ledger schema show protocol.defined` shows one.",
    )


def _about(known: ProtocolHistory) -> dict[str, Any]:
    return {
        "protocol": known.name,
        "defined": _moment(known.defined),
        "adopted": _moment(known.adopted),
        "stands": known.stands,
        "replaced": _moment(known.replaced),
        "replaced_by": known.replaced_by,
    }


def _moment(moment: Moment | None) -> dict[str, Any] | None:
    return moment.to_dict() if moment else None


def _row(known: ProtocolHistory) -> list[Cell]:
    return [
        known.name,
        known.defined.pos if known.defined else "-",
        known.adopted.pos if known.adopted else "-",
        known.adopted.recorded_at if known.adopted else "-",
        f"{known.replaced_by} at {known.replaced.pos}" if known.replaced else "-",
    ]


def _facts(known: ProtocolHistory, terms: ProtocolDefined) -> list[tuple[str, Cell]]:
    judge: list[tuple[str, Cell]] = []
    if terms.judge is not None:
        judge = [
            ("judge", f"verifier_configuration.{terms.judge.key}"),
            *((f"  {name}", _json(value)) for name, value in terms.judge.required.items()),
            *((f"  {name}", "recorded, and not empty") for name in terms.judge.not_empty),
        ]
    return [
        ("protocol", terms.protocol),
        ("defined", f"at position {known.defined.pos}" if known.defined else "no: as it is shipped"),
        ("adopted", f"at position {known.adopted.pos} ({known.adopted.recorded_at})" if known.adopted else "no"),
        ("replaced by", f"{known.replaced_by} at position {known.replaced.pos}" if known.replaced else "-"),
        ("context window", terms.context_window),
        ("input tokens", terms.max_input_tokens),
        ("output tokens", terms.max_output_tokens),
        ("sources", ", ".join(terms.sources) or "every one"),
        *judge,
        ("note", terms.note or "-"),
    ]


def _show_models(out: Output, models: list[ProtocolModel]) -> None:
    out.table(["size", "model", "reasoning"], [[m.size, m.model, m.reasoning] for m in models], whole=("size", "model"))
    out.line()
    names = list(dict.fromkeys(name for m in models for name in m.generation_parameters))
    out.table(
        ["parameter", *(m.size for m in models)],
        [[name, *(_parameter(m, name) for m in models)] for name in names],
        whole=("parameter",),
    )


def _parameter(model: ProtocolModel, name: str) -> str:
    if name not in model.generation_parameters:
        return "-"
    written = _json(model.generation_parameters[name])
    return f"{written} (must be recorded)" if name in model.must_record else written


def _json(value: Any) -> str:
    return strictjson.dumps(value).decode()
