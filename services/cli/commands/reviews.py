"""ledger review: publish what was reviewed, say which review speaks for a source no more, list them all."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple, get_args

import click

from ledger.client.drafts import Publication, draft
from ledger.client.reviews import Basis, ReviewRun, Role, covered_verifier, plan_review, read_review
from ledger.core.ids import digest_id
from ledger.events.reviews import ReviewPublished, ReviewSuperseded
from services.cli import coordinates, words
from services.cli.coordinates import Where
from services.cli.defect_history import said_by
from services.cli.models import made
from services.cli.options import REVISION, SOURCE, Function, Group, dry_run_option, where_options
from services.cli.output import Cell
from services.cli.publishing import publish_source
from services.cli.questions import source_as_of
from services.cli.renewing import standing_event
from services.cli.resting import check_rests_on
from services.cli.review_pool import as_json, published, sole_source
from services.cli.state import Ledger, State

ROLES: tuple[Role, ...] = get_args(Role)


def rests_on_option(function: Function) -> Function:
    """--rests-on: what a publication vouches by for what it did not run itself."""
    return click.option(
        "--rests-on",
        "rests_on",
        multiple=True,
        metavar="EVENT",
        help="Id of an attestation of the source that shows no change; may be repeated.",
    )(function)


@click.group("review", cls=Group, example="ledger review publish runs/svamp --atlas-id MarinSkyRL:svamp")
def reviews() -> None:
    """Reviews of the sources."""


@reviews.command("publish", example="ledger review publish runs/svamp --atlas-id MarinSkyRL:svamp --dry-run")
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--atlas-id", metavar="ID", help="The source that the review must be of.")
@click.option(
    "--verifier-revision",
    type=REVISION,
    metavar="REVISION",
    help="The verifier revision that the rating covers; the catalogue's present one when left out.",
)
@click.option(
    "--role", type=click.Choice(ROLES), help="What a supplemental review is for, where its document does not say it."
)
@rests_on_option
@dry_run_option
@click.pass_obj
def publish_(
    state: State,
    directory: Path,
    *,
    atlas_id: str | None,
    verifier_revision: str | None,
    role: Role | None,
    rests_on: tuple[str, ...],
    dry_run: bool,
) -> None:
    """Publish a review run's directory, in the Atlas review format 0.3.0.

    The run is read whole or refused whole. Its evidence is stored first; its parts and the event that publishes them
    take effect together. Publishing it twice is one publication. A verifier revision counts as executed where the run's
    own record shows that it graded with that one.
    """
    run = read_review(directory, atlas_id=atlas_id)
    with state.open() as ledger:
        check_rests_on(ledger.reader, run.source_id, rests_on)
        publication = _planned(state, ledger, run, _Asked(verifier_revision, role, rests_on))
        publish_source(state, ledger, publication, run.source_id, dry_run=dry_run)


@reviews.command(
    "supersede",
    example="ledger review supersede 3f2a… --by 9c41… --reason 'The first run graded with a dirty checkout.'",
)
@click.argument("review")
@click.option("--by", metavar="REVIEW", help="The review that speaks for the source in its place; none when left out.")
@click.option("--reason", required=True, metavar="TEXT", help="Why it speaks for the source no more.")
@dry_run_option
@click.pass_obj
def supersede(state: State, review: str, *, by: str | None, reason: str, dry_run: bool) -> None:
    """Record that a published review no longer speaks for its source. It stays readable.

    A review is named by the SHA-256 of its document, or by as much of its beginning as is like no other's.
    """
    with state.open() as ledger:
        known = [each for each in published(ledger.reader) if each.stands]
        old = sole_source(known, review)
        new = sole_source((each for each in known if each.source_id == old.source_id), by) if by is not None else None
        payload = made(ReviewSuperseded, review=old.review, superseded_by=new.review if new else None, reason=reason)
        stream = f"source/{old.source_id}"
        text = payload.model_dump_json(exclude_defaults=True)
        event_id = digest_id(None, stream, "review.superseded", text)
        event = draft("review.superseded", stream, payload, by=state.by, id=event_id)
        summary = f"{old.source_id}: review {old.review[:12]} is superseded"
        publication = Publication(closing=event, summary=summary)
        publish_source(state, ledger, publication, old.source_id, dry_run=dry_run)


@reviews.command("list", example="ledger review list MarinSkyRL:svamp --at 2026-10-01")
@click.argument("source_id", type=SOURCE, metavar="SOURCE")
@where_options
@click.pass_obj
def list_(state: State, source_id: str, *, where: Where) -> None:
    """List every published review of a source, newest first: its role, and whether it holds at present revisions."""
    with state.open() as ledger:
        answer = source_as_of(ledger, source_id, where.coordinates(ledger))
        found = published(ledger.reader, source_id=source_id, to_size=answer.coordinates.size)
    pool = {each.id: each for each in answer.source.review_pool}
    shown = answer.source.review.id if answer.source.HasField("review") else None
    rows = [as_json(each, pool, shown) for each in reversed(found)]
    out = state.output
    if out.as_json:
        out.json(rows)
        return
    columns = ["review", "role", "rating", "applicability", "review date", "verifier revision", "published", "standing"]
    out.table(
        columns, [_cells(row) for row in rows], whole=("review", "published"), spare=("verifier revision", "role")
    )
    out.say(f"{words.counted(len(rows), 'review')}. {coordinates.standing(answer.coordinates, where.at)}.")


def _cells(row: dict[str, Any]) -> list[Cell]:
    standing = "shown" if row["shown"] else "in the pool"
    if row["disregarded_at"] is not None:
        standing = f"disregarded at {row['disregarded_at']}"
    if row["superseded"]:
        standing = f"superseded: {row['superseded_because']}"
    basis = f" ({row['verifier_revision_basis']})" if row["verifier_revision_basis"] else ""
    return [
        row["review"],
        row["role"] or "-",
        words.quality(row["rating"]) if row["rating"] else "-",
        row["applicability"],
        row["review_date"],
        f"{row['verifier_revision']}{basis}" if row["verifier_revision"] else None,
        row["recorded_at"],
        standing,
    ]


class _Asked(NamedTuple):
    """What the publisher says of a run."""

    verifier_revision: str | None
    role: Role | None
    rests_on: tuple[str, ...]


def _planned(state: State, ledger: Ledger, run: ReviewRun, asked: _Asked) -> Publication:
    """The publication; of a review that is published already, as it was, in all that is not named."""

    def plan(revision: str | None, basis: Basis | None, said: _Asked) -> Publication:
        return plan_review(
            run,
            by=state.by,
            verifier_revision=revision,
            verifier_revision_basis=basis,
            role=said.role,
            rests_on=said.rests_on,
        )

    source = ledger.reader.source(run.source_id, min_size=ledger.reader.info().size).source
    present = source.verifier_revision if source.HasField("verifier_revision") else None
    revision, basis = covered_verifier(run, catalogue=present, named=asked.verifier_revision)
    first = plan(revision, basis, asked)
    assert first.closing is not None
    known = said_by(standing_event(ledger.reader, first.closing.id), ReviewPublished)
    if known is None:
        return first
    if asked.verifier_revision is None:
        revision, basis = known.verifier_revision, known.verifier_revision_basis
    same = _Asked(revision, asked.role or known.review_pool_role, asked.rests_on or tuple(known.rests_on))
    return plan(revision, basis, same)
