"""ledger catalogue: what an inventory lists, and how that came to be so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import click

from ledger.client.catalogue import CurrentSource, plan_import
from ledger.client.drafts import Publication
from ledger.client.inventories import Inventory, read
from ledger.client.row_totals import totals
from ledger.core.errors import InvalidInput, LedgerError
from services.cli import catalogue_state
from services.cli.commands.aliases import aliases
from services.cli.commands.catalogue_reading import export, versions
from services.cli.commands.catalogue_sources import count, reinstate, retire
from services.cli.options import Group, dry_run_option
from services.cli.publishing import publish, show_plan
from services.cli.refreshes import (
    History,
    Refresh,
    following,
    history_of,
    named,
    overtaken,
    present,
    present_is,
    stale,
    standing,
    upon,
)
from services.cli.state import Ledger, State
from services.cli.sync_failures import record_failure
from services.cli.words import counted

_file = click.argument("file", type=click.Path(path_type=Path))


@click.group("catalogue", cls=Group, example="ledger catalogue import sources.jsonl --dry-run")
def catalogue() -> None:
    """What there is: the sources as their inventories list them."""


@catalogue.command("validate", example="ledger catalogue validate catalogue.json")
@_file
@click.pass_obj
def validate(state: State, file: Path) -> None:
    """Judge an inventory and record nothing: JSONL, or a catalogue document of schema 1.

    Every problem is told with its place. A document's revision must be the one that its rows hash to.
    """
    inventory = read(file)
    sources = Counter(row.origin for row in inventory.rows)
    revisions = {origin: stated.revision for origin, stated in inventory.revisions.items()}
    sums = totals(inventory.rows)
    out = state.output
    if out.as_json:
        out.json(
            {
                "file": str(file),
                "schema_version": None if inventory.revision is None else 1,
                "revision": inventory.revision,
                "sources": len(inventory.rows),
                "origins": [{"origin": o, "sources": sources[o], "revision": r} for o, r in revisions.items()],
                "totals": [vars(each) for each in sums],
            }
        )
        return
    out.table(
        ["origin", "sources", "revision"],
        [[origin, sources[origin], revision] for origin, revision in revisions.items()],
        whole=("origin", "revision"),
    )
    for each in sums:
        out.line(f"{each.basis} rows: {each.rows:,} of {counted(each.known, 'source')}; of {each.unknown:,} unknown")
    out.say(f"{file} is sound: {counted(len(inventory.rows), 'source')}.")


@catalogue.command(
    "import", example="ledger catalogue import sources.jsonl --dry-run\nledger catalogue import some.jsonl --partial"
)
@_file
@click.option("--partial", is_flag=True, help="The file names some sources and says nothing of the others.")
@dry_run_option
@click.pass_obj
def import_(state: State, file: Path, *, partial: bool, dry_run: bool) -> None:
    """Import an inventory: JSONL, one source a line, or a catalogue document of schema 1.

    A file is the whole of each origin that it names: sources that it leaves out retire, unless --partial. What equals
    the ledger appends nothing. It is imported upon whatever is there; `publish` names what it was made from.
    """
    inventory = read(file)
    with state.open() as ledger:
        history = history_of(ledger.reader, inventory.origins)
        bases = {origin: present(history, origin) for origin in inventory.origins}
        _refresh(state, ledger, inventory, history, bases, partial=partial, force=False, dry_run=dry_run)


@catalogue.command(
    "publish",
    example="""ledger catalogue publish catalogue.json --base none
ledger catalogue publish catalogue.json --base 37ec6c5b… --dry-run
ledger catalogue publish catalogue.json --base 'MarinSkyRL=37ec6c5b…' --base 'Task Trove=none'""",
)
@_file
@click.option(
    "--base",
    "given",
    multiple=True,
    metavar="[ORIGIN=]REFRESH",
    help="The refresh that the file was made from, by event id or revision as `ledger catalogue versions` prints them; "
    "none: there is none yet. Repeat it by origin where they differ.",
)
@click.option("--origin", "origins", multiple=True, metavar="NAME", help="The file must be of these origins.")
@click.option("--partial", is_flag=True, help="The file names some sources and says nothing of the others.")
@click.option("--force", is_flag=True, help="Record a refresh also of an origin of which nothing differs.")
@click.option(
    "--record-failure/--no-record-failure",
    "record",
    default=True,
    help="Record that the refresh failed, when the file is not sound; recorded when left out.",
)
@dry_run_option
@click.pass_obj
def publish_(
    state: State,
    file: Path,
    *,
    given: tuple[str, ...],
    origins: tuple[str, ...],
    partial: bool,
    force: bool,
    record: bool,
    dry_run: bool,
) -> None:
    """Publish an inventory as the refresh that follows another, and only that one.

    A base that is no longer the present refresh is refused with what changed since; of two who publish upon the same
    base one succeeds. A file that is not sound is recorded as a failed refresh, and the last good inventory stays.
    """
    try:
        inventory = read(file)
        _check_origins(inventory, origins)
    except InvalidInput as error:
        if record and not dry_run:
            error.remedy = f"{error.remedy} {record_failure(state, file, error, origins)}"
        raise
    with state.open() as ledger:
        history = history_of(ledger.reader, inventory.origins)
        _refresh(
            state, ledger, inventory, history, _bases(history, given), partial=partial, force=force, dry_run=dry_run
        )


catalogue.add_command(versions)
catalogue.add_command(export)
catalogue.add_command(count)
catalogue.add_command(retire)
catalogue.add_command(reinstate)
catalogue.add_command(aliases)


def _check_origins(inventory: Inventory, wanted: Sequence[str]) -> None:
    others = sorted(set(inventory.origins) - set(wanted)) if wanted else []
    if others:
        raise InvalidInput(
            f"{inventory.path} lists sources of {', '.join(others)} too",
            reason="INVALID_FILE",
            remedy="Name every origin that the file is to refresh, or publish the file that was meant.",
        )


def _bases(history: History, given: Iterable[str]) -> dict[str, Refresh | None]:
    """The refresh that each origin's was made from, as --base names it.

    Raises:
        InvalidInput: reason USAGE, if one is not named.
        Refused: if there is no such refresh.
    """
    own: dict[str, str] = {}
    for_all: list[str] = []
    for text in given:
        origin, equals, base = text.partition("=")
        if equals and origin in history:
            own[origin] = base
        else:
            for_all.append(text)
    if len(for_all) > 1:
        raise InvalidInput(
            "several bases for the same origin",
            reason="USAGE",
            remedy=f"Name each origin before its base: --base 'ORIGIN=REFRESH'. The file is of {', '.join(history)}.",
        )
    missing = history.keys() - own.keys() if not for_all else set()
    if missing:
        raise InvalidInput(
            f"no base is named for {', '.join(sorted(missing))}",
            reason="USAGE",
            remedy=present_is(history, sorted(missing)),
        )
    return {origin: named(history, origin, own.get(origin) or for_all[0]) for origin in history}


def _refresh(
    state: State,
    ledger: Ledger,
    inventory: Inventory,
    history: History,
    bases: Mapping[str, Refresh | None],
    *,
    partial: bool,
    force: bool,
    dry_run: bool,
) -> None:
    """Plans a refresh of each origin upon its base, and publishes it, or tells what it would be."""
    current = _current(ledger, history, bases)
    after = {origin: upon(history, origin, base) for origin, base in bases.items()}
    replaced = {origin: base.id for origin, base in after.items()}
    publications = plan_import(
        inventory.rows,
        current,
        by=state.by,
        partial=partial,
        base=replaced,
        retracted={origin: base.retracted for origin, base in after.items()},
        force=force,
        inventory=inventory.reference,
        uploads=[inventory.upload],
        revisions=inventory.revisions,
    )
    _check_bases(ledger, history, bases, publications)
    if dry_run:
        show_plan(state, ledger, publications)
    else:
        try:
            publish(state, ledger, publications)
        except LedgerError as error:
            own = {p.closing.id for p in publications if p.closing is not None}
            raise overtaken(ledger.reader, error, replaced, own) from None
    _note_retired(state, publications, sum(not source.retired for source in current.values()))


def _current(ledger: Ledger, history: History, bases: Mapping[str, Refresh | None]) -> dict[str, CurrentSource]:
    """The sources of each origin as a refresh upon its base finds them."""
    size = ledger.reader.info().size
    found: dict[str, CurrentSource] = {}
    for origin, base in bases.items():
        later = following(history, origin, base)
        if later is None:
            found |= catalogue_state.current_sources(ledger.reader, [origin], size)
        elif base is not None:
            found |= catalogue_state.current_sources(ledger.reader, [origin], size, at=later.pos)
    return found


def _check_bases(
    ledger: Ledger, history: History, bases: Mapping[str, Refresh | None], publications: Iterable[Publication]
) -> None:
    """Each base is the present refresh, or what is planned upon it is recorded already: then it is a repetition.

    Raises:
        Refused: reason CONDITION_FAILED, with what came since each stale base.
    """
    planned = {p.closing.stream: p.closing.id for p in publications if p.closing is not None}
    behind = {origin: base for origin, base in bases.items() if base != present(history, origin)}
    for origin in list(behind):
        if planned.get(f"origin/{origin}") in {refresh.id for refresh in standing(history, origin)}:
            del behind[origin]
    if behind:
        raise stale(ledger.reader, history, behind)


def _note_retired(state: State, publications: Iterable[Publication], active: int) -> None:
    """Says so when more goes than stays: a file of some sources was perhaps taken for a whole inventory."""
    retired = sum(part.type == "source.retired" for p in publications for part in p.parts)
    if retired > active - retired:
        state.output.say(f"{retired:,} retired; --partial keeps them.")
