"""ledger review: publish what was reviewed."""

from __future__ import annotations

from pathlib import Path

import click

from ledger.client.drafts import Publication
from ledger.client.reviews import ReviewRun, plan_review, read_review
from ledger.events.reviews import ReviewPublished
from services.cli.defect_history import recorded
from services.cli.options import REVISION, Group, dry_run_option
from services.cli.publishing import publish_source
from services.cli.state import Ledger, State


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
@dry_run_option
@click.pass_obj
def publish_(
    state: State, directory: Path, *, atlas_id: str | None, verifier_revision: str | None, dry_run: bool
) -> None:
    """Publish a review run's directory, in the Atlas review format 0.3.0.

    The run is read whole or refused whole. Its evidence is stored first; its parts and the event that publishes them
    take effect together. Publishing it twice is one publication.
    """
    run = read_review(directory, atlas_id=atlas_id)
    with state.open() as ledger:
        publication = _planned(state, ledger, run, verifier_revision)
        publish_source(state, ledger, publication, run.source_id, dry_run=dry_run)


def _planned(state: State, ledger: Ledger, run: ReviewRun, verifier_revision: str | None) -> Publication:
    """The publication; of a review that is published already, as it was, unless a revision is named."""
    if verifier_revision is not None:
        return plan_review(run, by=state.by, verifier_revision=verifier_revision, verifier_revision_basis="publisher")
    source = ledger.reader.source(run.source_id, min_size=ledger.reader.info().size).source
    present = source.verifier_revision if source.HasField("verifier_revision") else None
    plan = plan_review(run, by=state.by, verifier_revision=present, verifier_revision_basis="catalogue")
    published = recorded(ledger.reader, plan.closing.id if plan.closing else None, ReviewPublished)
    if published is None:
        return plan
    return plan_review(
        run,
        by=state.by,
        verifier_revision=published.verifier_revision,
        verifier_revision_basis=published.verifier_revision_basis,
    )
