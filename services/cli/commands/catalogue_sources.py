"""ledger catalogue count, retire, reinstate: one source of the catalogue, changed by a partial refresh."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click

from ledger.client.catalogue import plan_count, plan_reinstatement, plan_retirement
from ledger.client.drafts import Publication
from ledger.client.row_counts import BASES, Basis, Count, count_rows
from ledger.core.errors import LedgerError, Refused
from ledger.events.catalogue import CatalogueRow, SourceRetired
from ledger.wire import audit_pb2
from services.cli import catalogue_state
from services.cli.models import made
from services.cli.options import REVISION, SHA256, SOURCE, Command, dry_run_option
from services.cli.publishing import publish_source
from services.cli.refreshes import Base, overtaken, present_base
from services.cli.state import State


@click.command(
    "count",
    cls=Command,
    example="""ledger catalogue count data/train.parquet --source MarinSkyRL:gsm8k --revision 740312ad…
ledger catalogue count tasks.parquet --source 'Task Trove:a' --revision 9065fa56… --basis released --record""",
)
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--source", "source_id", type=SOURCE, required=True, metavar="ID", help="The source that they make up.")
@click.option("--revision", type=REVISION, required=True, metavar="REVISION", help="The revision that they must be of.")
@click.option(
    "--basis",
    type=click.Choice(BASES),
    default="input",
    show_default=True,
    help="What is counted: input rows before conversion, what curation left, or what a release holds.",
)
@click.option(
    "--files-sha256",
    "hashes",
    type=SHA256,
    multiple=True,
    metavar="SHA256",
    help="Hash that a file has at that revision, as its owner gives it; may be repeated.",
)
@click.option(
    "--revision-unchecked",
    "unchecked",
    is_flag=True,
    help="Count files of which nothing says their revision, which is then unknown.",
)
@click.option("--record", is_flag=True, help="Record the count of the source; it replaces the one of the same basis.")
@dry_run_option
@click.pass_obj
def count(
    state: State,
    files: tuple[Path, ...],
    *,
    source_id: str,
    revision: str,
    basis: Basis,
    hashes: tuple[str, ...],
    unchecked: bool,
    record: bool,
    dry_run: bool,
) -> None:
    """Count the rows of Parquet files by their footers, once it is known of which revision they are.

    A file counts where its download from the Hugging Face Hub says the revision, or where you name its hash. The same
    bytes count once. Name the files of one configuration: those of another hold the same rows again.
    """
    found = count_rows(files, source_id=source_id, revision=revision, basis=basis, hashes=hashes, unchecked=unchecked)
    _note_count(state, found)
    if not record:
        _tell(state, found)
        return

    def plan(source: Standing) -> Publication:
        return plan_count(
            source.row,
            found.as_row_count(),
            by=state.by,
            base=source.base.id,
            retracted=source.base.retracted,
            row_count=source.listed,
            uploads=[found.evidence],
        )

    _change(state, source_id, plan, from_retired=False, dry_run=dry_run)


@click.command("retire", cls=Command, example="ledger catalogue retire MarinSkyRL:svamp --reason 'Withdrawn upstream.'")
@click.argument("source_id", type=SOURCE, metavar="SOURCE")
@click.option("--reason", required=True, metavar="TEXT", help="Why it is no longer listed.")
@dry_run_option
@click.pass_obj
def retire(state: State, source_id: str, *, reason: str, dry_run: bool) -> None:
    """Take one source out of the catalogue. Its history stays, and so do the other sources of its origin."""
    made(SourceRetired, collection="retirement", reason=reason)

    def plan(source: Standing) -> Publication:
        return plan_retirement(
            source.row,
            reason,
            by=state.by,
            base=source.base.id,
            retracted=source.base.retracted,
            row_count=source.listed,
        )

    _change(state, source_id, plan, from_retired=False, dry_run=dry_run)


@click.command("reinstate", cls=Command, example="ledger catalogue reinstate MarinSkyRL:svamp")
@click.argument("source_id", type=SOURCE, metavar="SOURCE")
@dry_run_option
@click.pass_obj
def reinstate(state: State, source_id: str, *, dry_run: bool) -> None:
    """List a retired source again, as it was listed last."""

    def plan(source: Standing) -> Publication:
        return plan_reinstatement(
            source.row,
            by=state.by,
            base=source.base.id,
            retracted=source.base.retracted,
            row_count=source.listed,
        )

    _change(state, source_id, plan, from_retired=True, dry_run=dry_run)


@dataclass(frozen=True)
class Standing:
    """A source as it stands, and the refresh of its origin that a change of it follows."""

    row: CatalogueRow
    base: Base
    listed: int
    """Sources that its origin lists."""


def _change(
    state: State, source_id: str, plan: Callable[[Standing], Publication], *, from_retired: bool, dry_run: bool
) -> None:
    """Plans the change of a source that is listed, or retired, and publishes it.

    Raises:
        Refused: if the source stands otherwise, or if another refresh of its origin came first.
    """
    with state.open() as ledger:
        size = ledger.reader.info().size
        source = ledger.reader.source(source_id, min_size=size).source
        if source.retired != from_retired:
            raise _stands_otherwise(source)
        standing = Standing(
            row=catalogue_state.current_row(ledger.reader, source),
            base=present_base(ledger.reader, source.origin),
            listed=catalogue_state.listed_count(ledger.reader, source.origin, size),
        )
        try:
            publish_source(state, ledger, plan(standing), source_id, dry_run=dry_run)
        except LedgerError as error:
            raise overtaken(ledger.reader, error, {source.origin: standing.base.id}) from None


def _stands_otherwise(source: audit_pb2.Source) -> Refused:
    if source.retired:
        remedy = "`ledger catalogue reinstate` lists it again."
        return Refused(f"{source.id} is retired: it is not in the catalogue now", remedy=remedy)
    remedy = "`ledger source show` has it as it stands."
    return Refused(f"{source.id} is not retired: it is in the catalogue now", remedy=remedy)


def _tell(state: State, found: Count) -> None:
    """What was counted, without recording it."""
    out = state.output
    if out.as_json:
        out.json(
            {
                "source_id": found.source_id,
                "basis": found.basis,
                "rows": found.rows,
                "revision": found.revision,
                "files": [vars(file) for file in found.files],
                "repeated": list(found.repeated),
            }
        )
        return
    out.table(
        ["file", "rows", "bytes", "revision checked by", "sha256"],
        [[file.name, file.rows, file.size, file.checked_by, file.sha256] for file in found.files],
        whole=("file", "rows"),
        spare=("sha256", "bytes"),
    )
    out.say(f"{found.basis} rows: {found.rows:,} at revision {found.revision or 'unknown'}. --record records them.")


def _note_count(state: State, found: Count) -> None:
    """What would make the number larger than the source is, or smaller than it seems."""
    for name in found.repeated:
        state.output.say(f"Note: {name} holds bytes that were counted already: they count once.")
    if len(found.folders) > 1:
        where = ", ".join(folder or "." for folder in found.folders)
        state.output.say(
            f"Note: the files lie in several folders ({where}): those of one configuration make up a source."
        )
