"""ledger source: what is shown of the sources, at any moment, why, and at which revisions they are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import click

from ledger.client.catalogue import plan_revision
from ledger.client.messages import coordinates_dict, source_dict, to_dict
from ledger.core import clock
from ledger.core.errors import Refused
from ledger.wire import audit_pb2
from services.cli import catalogue_state, words
from services.cli.options import REVISION, SOURCE, Group, dry_run_option, where_options
from services.cli.output import Output
from services.cli.publishing import publish_source
from services.cli.state import State

_EXPLAINED: Final = ("id", "quality", "applicability", "difficulty", "reasons", "retired")


@click.group("source", cls=Group, example="ledger source list --quality good --at 2026-10-01")
def sources() -> None:
    """What is shown of the sources, now and at any moment, and why."""


@sources.command(
    "list", example="ledger source list --quality good --origin MarinSkyRL\nledger source list --defects --json"
)
@click.option("--origin", "origins", multiple=True, metavar="NAME", help="Of this origin; repeat it for alternatives.")
@click.option("--family", "families", multiple=True, metavar="NAME", help="Of this family.")
@click.option("--quality", "qualities", multiple=True, type=click.Choice(list(words.QUALITY)), help="Shown so.")
@click.option(
    "--difficulty", "difficulties", multiple=True, type=click.Choice(list(words.DIFFICULTY)), help="Shown so."
)
@click.option("--status", "atlas_statuses", multiple=True, metavar="STATUS", help="Available or Excluded.")
@click.option(
    "--defects/--no-defects", "has_open_defects", default=None, help="With an open confirmed defect, or none."
)
@click.option("--benchmark/--no-benchmark", "is_benchmark", default=None, help="A benchmark, or none.")
@click.option("--search", default="", metavar="TEXT", help="Part of an id, name, dataset id or family.")
@click.option("--retired", "include_retired", is_flag=True, help="Retired sources too.")
@where_options
@click.pass_obj
def list_(state: State, /, *, at: str | None, rules: str, min_size: int | None, **wanted: Any) -> None:
    """List the sources, by origin, then id."""
    with state.open() as ledger:
        least = ledger.size_to_wait_for(at, min_size)
        pages = list(ledger.reader.sources(audit_pb2.SourceFilter(**wanted), at=at, rules=rules, min_size=least))
    found = [source for page in pages for source in page.sources]
    out = state.output
    if out.as_json:
        out.json([source_dict(source, pages[0].coordinates) for source in found])
        return
    show_table(out, found)
    out.say(f"{words.counted(len(found), 'source')}. {words.standing(pages[0].coordinates, at)}.")


@sources.command(
    "show", example="ledger source show MarinSkyRL:svamp\nledger source show MarinSkyRL:svamp --at 1204 --json"
)
@click.argument("source_id", type=SOURCE, metavar="ID")
@where_options
@click.pass_obj
def show(state: State, source_id: str, *, at: str | None, rules: str, min_size: int | None) -> None:
    """Show one source as it stands, or as it stood."""
    with state.open() as ledger:
        least = ledger.size_to_wait_for(at, min_size)
        answer = ledger.reader.source(source_id, at=at, rules=rules, min_size=least)
    out = state.output
    if out.as_json:
        out.json(source_dict(answer.source, answer.coordinates))
        return
    out.pairs(_facts(answer.source))
    out.say(f"{words.standing(answer.coordinates, at)}. `ledger source why` names the events behind it.")


@sources.command("why", example="ledger source why MarinSkyRL:svamp --at 2026-10-01")
@click.argument("source_id", type=SOURCE, metavar="ID")
@where_options
@click.pass_obj
def why(state: State, source_id: str, *, at: str | None, rules: str, min_size: int | None) -> None:
    """Say why a source is shown as it is: each reason with its events."""
    with state.open() as ledger:
        least = ledger.size_to_wait_for(at, min_size)
        answer = ledger.reader.why(source_id, at=at, rules=rules, min_size=least)
    out = state.output
    if out.as_json:
        source = answer.source
        shown = {name: value for name, value in to_dict(source).items() if name in _EXPLAINED}
        out.json(shown | {"events": [to_dict(e) for e in answer.events]} | coordinates_dict(answer.coordinates))
        return
    _show_reasons(out, answer)
    out.say(f"{words.standing(answer.coordinates, at)}.")


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
        publication = plan_revision(
            catalogue_state.current_row(reader, source),
            by=state.by,
            base=catalogue_state.last_refresh(reader, source.origin),
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
    out.table(
        ["id", "family", "quality", "difficulty", "review date", "open defects"],
        [
            [
                _named(source),
                source.family if source.HasField("family") else None,
                words.rated(source),
                words.measured(source),
                _review_date(source),
                len(source.open_defects),
            ]
            for source in found
        ],
        whole=("id", "review date"),
        spare=("family", "open defects"),
    )


def _named(source: audit_pb2.Source) -> str:
    return source.id + (" (retired)" if source.retired else "")


def _review_date(source: audit_pb2.Source) -> str | None:
    """A source without a review has no date; one of a review may be unknown."""
    if not source.HasField("review"):
        return "-"
    return source.review.review_date[:10] if source.review.HasField("review_date") else None


def _facts(source: audit_pb2.Source) -> Iterable[tuple[str, Any]]:
    yield "id", _named(source)
    yield "quality", words.rated(source)
    if source.HasField("applicability"):
        yield "applicability", words.APPLICABILITY.get(source.applicability, source.applicability)
    yield from _review(source)
    yield "difficulty", words.difficulty(source.difficulty.status)
    for model in source.difficulty.models:
        yield f"  {model.size}", f"{model.model}: {words.solve_rate(model)}"
    for found in (*source.open_defects, *source.suspected_defects, *source.resolved_defects):
        yield "defect", words.defect(found)
    for name in ("origin", "name", "family", "url", "dataset_id", "dataset_revision", "revision", "verifier_revision"):
        yield name.replace("_", " "), _known(source, name)
    for name in ("atlas_status", "intended_use", "is_benchmark", "input_rows"):
        yield name.replace("_", " "), _known(source, name)
    if source.sample:
        yield "sample", "rests on sample events, made up for a demonstration"
    for reason in source.reasons:
        yield "because", reason.text


def _review(source: audit_pb2.Source) -> Iterable[tuple[str, Any]]:
    if not source.HasField("review"):
        yield "review", "none"
        return
    review = source.review
    yield "review", f"{review.id}, traces: {review.traces}, judgments: {review.judgments}"
    yield "review date", _known(review, "review_date")
    yield "execution commit", _known(review, "executed_commit")
    yield "reference commit", _known(review, "reference_commit")
    yield "verifier revision reviewed", _reviewed_revision(review)


def _reviewed_revision(review: audit_pb2.Review) -> str | None:
    """The verifier revision that the rating covers, and who says so."""
    revision, basis = _known(review, "verifier_revision"), _known(review, "verifier_revision_basis")
    return f"{revision}, as the {basis} says" if revision and basis else revision


def _known(message: Any, name: str) -> str | None:
    """The field's text, or None when it is unknown."""
    field = message.DESCRIPTOR.fields_by_name[name]
    if field.has_presence and not message.HasField(name):
        return None
    value = getattr(message, name)
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _show_reasons(out: Output, answer: audit_pb2.WhyResponse) -> None:
    events = {event.pos: event for event in answer.events}
    out.pairs([("id", _named(answer.source)), ("quality", words.rated(answer.source))])
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
