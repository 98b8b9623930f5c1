"""ledger catalogue: what an inventory lists."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click

from ledger.client.catalogue import inventory_artifact, plan_import, read_inventory
from ledger.client.drafts import Publication
from services.cli import catalogue_state
from services.cli.options import Group, dry_run_option
from services.cli.publishing import publish, show_plan
from services.cli.state import State


@click.group("catalogue", cls=Group, example="ledger catalogue import sources.jsonl --dry-run")
def catalogue() -> None:
    """What there is: the sources as their inventories list them."""


@catalogue.command(
    "import", example="ledger catalogue import sources.jsonl --dry-run\nledger catalogue import some.jsonl --partial"
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--partial", is_flag=True, help="The file names some sources and says nothing of the others.")
@dry_run_option
@click.pass_obj
def import_(state: State, file: Path, *, partial: bool, dry_run: bool) -> None:
    """Import an inventory: JSONL, one source a line.

    A file is the whole of each origin that it names: sources that it leaves out retire, unless --partial. What equals
    the ledger appends nothing.
    """
    rows = read_inventory(file)
    origins = {row.origin for row in rows}
    reference, upload = inventory_artifact(file)
    with state.open() as ledger:
        size = ledger.reader.info().size
        current = catalogue_state.current_sources(ledger.reader, origins, size)
        publications = plan_import(
            rows,
            current,
            by=state.by,
            partial=partial,
            base={origin: catalogue_state.last_refresh(ledger.reader, origin) for origin in origins},
            inventory=reference,
            uploads=[upload],
        )
        if dry_run:
            show_plan(state, ledger, publications)
        else:
            publish(state, ledger, publications)
    _note_retired(state, publications, sum(not source.retired for source in current.values()))


def _note_retired(state: State, publications: Iterable[Publication], active: int) -> None:
    """Says so when more goes than stays: a file of some sources was perhaps taken for a whole inventory."""
    retired = sum(part.type == "source.retired" for p in publications for part in p.parts)
    if retired > active - retired:
        state.output.say(f"{retired:,} retired; --partial keeps them.")
