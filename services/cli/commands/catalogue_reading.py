"""ledger catalogue versions, export: the refreshes that there were, and the catalogue as it was at any moment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from ledger.client.catalogue_document import catalogue_document
from ledger.client.reader import MAX_SIZE, Reader
from ledger.client.whole import whole
from ledger.events.catalogue import CatalogueSynced, CatalogueSyncFailed
from ledger.wire import audit_pb2
from services.cli import catalogue_state, coordinates, words
from services.cli.options import Command, at_option
from services.cli.output import Cell
from services.cli.refreshes import Refresh, all_refreshes, history_of, present
from services.cli.state import State


@click.command("versions", cls=Command, example="ledger catalogue versions --origin MarinSkyRL")
@click.option("--origin", "origins", multiple=True, metavar="NAME", help="Of this origin; repeat it for several.")
@click.pass_obj
def versions(state: State, *, origins: tuple[str, ...]) -> None:
    """List the refreshes, newest first: what each changed, who published it, and which failed.

    The id or the revision of an origin's present refresh is the base of the next one.
    """
    with state.open() as ledger:
        found = all_refreshes(ledger.reader, origins)
    newest = {refresh.origin: refresh.id for refresh in found if refresh.stands}
    found.reverse()
    out = state.output
    if out.as_json:
        out.json([_as_json(refresh, newest) for refresh in found])
        return
    columns = ["base", "origin", "revision", "recorded at", "by", "sources", "change", "standing"]
    out.table(
        columns,
        [_cells(refresh, newest) for refresh in found],
        whole=("base", "recorded at", "revision"),
        spare=("by", "sources"),
    )
    out.say("1 refresh." if len(found) == 1 else f"{len(found):,} refreshes.")


@click.command(
    "export",
    cls=Command,
    example="""ledger catalogue export --output catalogue.json
ledger catalogue export --origin MarinSkyRL --at 2026-10-01""",
)
@click.option("--origin", "origins", multiple=True, metavar="NAME", help="Of this origin; repeat it for several.")
@at_option
@click.option(
    "--min-size", type=click.IntRange(0, MAX_SIZE), metavar="N", help="Wait until the ledger has come to this size."
)
@click.option("--output", type=click.Path(path_type=Path), metavar="FILE", help="Write it there; stdout when left out.")
@click.pass_obj
def export(
    state: State, *, origins: tuple[str, ...], at: str | None, min_size: int | None, output: Path | None
) -> None:
    """Write the catalogue as it is, or was, as a document of schema 1, and publish nothing.

    The rows are those that were recorded, with every key that the ledger has no field for; the revision is the SHA-256
    that they hash to. What was imported from a document and is unchanged has the revision that it had there.
    """
    with state.open() as ledger:
        least = ledger.size_to_wait_for(at, min_size)
        wanted = audit_pb2.SourceFilter(origins=origins)
        pages = list(ledger.reader.sources(wanted, at=at, min_size=least))
        sources = [source for page in pages for source in page.sources if not source.retired]
        where = pages[0].coordinates
        document = catalogue_document(catalogue_state.rows_at(ledger.reader, sources, where.size))
        bases = _bases(ledger.reader, {source.origin for source in sources}, where.size)
    text = json.dumps(document, indent=1) + "\n"
    if output is None:
        click.echo(text, nl=False)
    else:
        with whole(output) as file:
            file.write(text.encode())
    counted = words.counted(len(sources), "source")
    state.output.say(f"{counted}, revision {document['revision']}. {coordinates.standing(where, at)}.")
    for origin, base in sorted(bases.items()):
        state.output.say(f"The base of a refresh that is made from it: --base '{origin}={base}'.")


def _bases(reader: Reader, origins: set[str], size: int) -> dict[str, str]:
    """The refresh of each origin that was the present one among the first `size` events."""
    history = history_of(reader, origins, to_size=size) if size else {}
    found = {origin: present(history, origin) for origin in history}
    return {origin: refresh.id for origin, refresh in found.items() if refresh is not None}


def _as_json(refresh: Refresh, newest: dict[str, str]) -> dict[str, Any]:
    said = refresh.said
    synced = said if isinstance(said, CatalogueSynced) else None
    return {
        "base": _base(refresh),
        "event": refresh.id,
        "origin": refresh.origin,
        "revision": refresh.revision,
        "recorded_at": refresh.recorded_at,
        "actor": refresh.actor,
        "pos": refresh.pos,
        "status": _status(refresh, newest),
        "disregarded_at": refresh.disregarded_at,
        "replaces": synced.replaces if synced else None,
        "forced": synced.forced if synced else False,
        "partial": synced.partial if synced else None,
        "row_count": synced.row_count if synced else None,
        "counts": synced.counts.model_dump() if synced else None,
        "error": said.error if isinstance(said, CatalogueSyncFailed) else None,
    }


def _cells(refresh: Refresh, newest: dict[str, str]) -> list[Cell]:
    said = refresh.said
    synced = said if isinstance(said, CatalogueSynced) else None
    change = said.error.partition("\n")[0] if isinstance(said, CatalogueSyncFailed) else refresh.counts
    standing = _status(refresh, newest) + (", forced" if synced and synced.forced else "")
    if refresh.disregarded_at is not None:
        standing = f"disregarded at {refresh.disregarded_at}"
    count = synced.row_count if synced else "-"
    return [
        _base(refresh) or "-",
        refresh.origin,
        refresh.revision,
        refresh.recorded_at,
        refresh.actor,
        count,
        change,
        standing,
    ]


def _base(refresh: Refresh) -> str | None:
    """The name by which a refresh is a base: one that failed, or counts for nothing, is nobody's."""
    return refresh.id if refresh.stands else None


def _status(refresh: Refresh, newest: dict[str, str]) -> str:
    if refresh.failed:
        return "failed"
    if refresh.disregarded_at is not None:
        return "disregarded"
    return "present" if newest.get(refresh.origin) == refresh.id else "past"
