"""ledger source: what is shown of the sources, at any moment, why, and at which revisions they are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import click

from ledger.client.auditing import Auditor
from ledger.client.catalogue import plan_revision
from ledger.client.messages import coordinates_dict, to_dict
from ledger.client.runs import Runs
from ledger.core import clock
from ledger.core.errors import LedgerError, Refused
from ledger.wire import audit_pb2, runs_pb2
from services.cli import catalogue_state, words
from services.cli.coordinates import Where, standing
from services.cli.exporting import Target, View, export, export_options
from services.cli.filters import source_filter_options
from services.cli.options import REVISION, SOURCE, Group, dry_run_option, where_options
from services.cli.output import Cell, Output
from services.cli.publishing import publish_source
from services.cli.questions import asked, source_as_of, source_pages
from services.cli.refreshes import present_base
from services.cli.run_lists import show_consumers
from services.cli.source_facts import facts, named
from services.cli.state import Ledger, State

_EXPLAINED: Final = ("id", "quality", "applicability", "difficulty", "reasons", "retired")


@click.group("source", cls=Group, example="ledger source list --quality good --at 2026-10-01")
def sources() -> None:
    """What is shown of the sources, now and at any moment, and why."""


@sources.command(
    "list",
    example="""ledger source list --quality good --origin MarinSkyRL
ledger source list --defects --at 2026-10-01 --format csv --output sources.csv""",
)
@source_filter_options
@where_options
@export_options
@click.pass_obj
def list_(state: State, *, wanted: audit_pb2.SourceFilter, where: Where, target: Target) -> None:
    """List the sources, by origin, then id."""
    out = state.output
    target.form(out)
    with state.open() as ledger:
        first, answer = asked(ledger, source_pages(ledger, wanted, where.coordinates(ledger)), "sources")
        count = export(out, _TABLE, replace(answer, json_stamp=coordinates_dict(first.coordinates)), target)
    if out.as_json:
        return
    to = f" written to {target.file}" if target.file is not None else ""
    out.say(f"{words.counted(count, 'source')}{to}. {standing(first.coordinates, where.at)}.")


@sources.command(
    "show", example="ledger source show MarinSkyRL:svamp\nledger source show MarinSkyRL:svamp --at 1204 --json"
)
@click.argument("source_id", type=SOURCE, metavar="ID")
@where_options
@click.pass_obj
def show(state: State, source_id: str, *, where: Where) -> None:
    """Show one source as it stands, or as it stood."""
    with state.open() as ledger:
        answer = source_as_of(ledger, source_id, where.coordinates(ledger))
        consumers = [] if state.output.as_json else _consumers(ledger, source_id, answer.coordinates.size, where.rules)
    out = state.output
    if out.as_json:
        out.json(to_dict(answer.source) | coordinates_dict(answer.coordinates))
        return
    out.pairs(facts(answer.source))
    show_consumers(out, consumers)
    out.say(f"{standing(answer.coordinates, where.at)}. `ledger source why` names the events behind it.")


def _consumers(ledger: Ledger, source_id: str, size: int, rules: str) -> list[runs_pb2.Affected]:
    """The runs that took the source, at the size at which it is shown; JSON has them in `ledger affected`."""
    at = audit_pb2.Coordinates(size=size, rules=rules)
    try:
        return list(Runs(ledger.connection).blast_radius(source_id, at).affected)
    except LedgerError as error:
        if error.reason != "NOT_SUPPORTED":
            raise
        return []  # a server that knows no runs yet still shows its sources


@sources.command("why", example="ledger source why MarinSkyRL:svamp --at 2026-10-01")
@click.argument("source_id", type=SOURCE, metavar="ID")
@where_options
@click.pass_obj
def why(state: State, source_id: str, *, where: Where) -> None:
    """Say why a source is shown as it is: each reason with its events."""
    with state.open() as ledger:
        answer = Auditor(ledger.connection).why(source_id, where.coordinates(ledger))
    out = state.output
    if out.as_json:
        source = answer.source
        shown = {name: value for name, value in to_dict(source).items() if name in _EXPLAINED}
        out.json(shown | {"events": [to_dict(e) for e in answer.events]} | coordinates_dict(answer.coordinates))
        return
    _show_reasons(out, answer)
    out.say(f"{standing(answer.coordinates, where.at)}.")


@sources.command("revise", example="ledger source revise MarinSkyRL:svamp --verifier-revision 0f3c…")
@click.argument("source_id", type=SOURCE, metavar="ID")
@click.option("--dataset-revision", type=REVISION, metavar="REVISION", help="The data's new revision.")
@click.option("--verifier-revision", type=REVISION, metavar="REVISION", help="The verifier's new revision.")
@dry_run_option
@click.pass_obj
def revise(
    state: State, source_id: str, *, dataset_revision: str | None, verifier_revision: str | None, dry_run: bool
) -> None:
    """Put a source at another dataset or verifier revision; everything else of it stays."""
    if dataset_revision is None and verifier_revision is None:
        raise click.UsageError("Name --dataset-revision, --verifier-revision or both.")
    with state.open() as ledger:
        reader = ledger.reader
        size = reader.info().size
        source = reader.source(source_id, min_size=size).source
        _check_listed(source)
        base = present_base(reader, source.origin)
        publication = plan_revision(
            catalogue_state.current_row(reader, source),
            by=state.by,
            base=base.id,
            retracted=base.retracted,
            row_count=catalogue_state.listed_count(reader, source.origin, size),
            dataset_revision=dataset_revision,
            verifier_revision=verifier_revision,
        )
        publish_source(state, ledger, publication, source_id, dry_run=dry_run)


def _check_listed(source: audit_pb2.Source) -> None:
    if source.retired:
        raise Refused(
            f"{source.id} is retired: its origin's inventory no longer lists it",
            remedy="Import an inventory that lists it, with `ledger catalogue import`; then revise it.",
        )


def show_table(out: Output, found: Iterable[audit_pb2.Source]) -> None:
    """The sources as the catalogue page lists them."""
    out.table(_TABLE.columns, map(_TABLE.cells, found), whole=_TABLE.whole, spare=_TABLE.spare)


def _cells(source: audit_pb2.Source) -> list[Cell]:
    family = source.family if source.HasField("family") else None
    review_date, defects = _review_date(source), len(source.open_defects)
    return [named(source), family, words.rated(source), words.measured(source), review_date, defects]


def _review_date(source: audit_pb2.Source) -> str | None:
    """A source without a review has no date; one of a review may be unknown."""
    if not source.HasField("review"):
        return "-"
    return source.review.review_date[:10] if source.review.HasField("review_date") else None


def _show_reasons(out: Output, answer: audit_pb2.WhyResponse) -> None:
    events = {event.pos: event for event in answer.events}
    out.pairs([("id", named(answer.source)), ("quality", words.rated(answer.source))])
    for reason in answer.source.reasons:
        out.line()
        out.line(f"{reason.field}: {reason.text} [{reason.rule}]")
        out.table(
            ["  pos", "type", "recorded at", "actor"],
            [_event_cells(pos, events.get(pos)) for pos in reason.events],
            whole=("  pos", "recorded at"),
        )


def _event_cells(pos: int, event: audit_pb2.WhyEvent | None) -> list[str | None]:
    if event is None:
        return [f"  {pos}", None, None, None]
    kind = event.type + (" (sample)" if event.sample else "")
    return [f"  {pos}", kind, clock.to_text(event.recorded_at_us), event.actor or None]


_TABLE: Final = View(
    row=audit_pb2.Source,
    columns=("id", "family", "quality", "difficulty", "review date", "open defects"),
    cells=_cells,
    noun="source",
    whole=("id", "review date"),
    spare=("family", "open defects"),
)
