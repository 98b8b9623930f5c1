"""ledger catalogue alias: names used elsewhere, and the sources that they mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import click

from ledger.client.aliases import plan_alias
from ledger.client.drafts import Upload
from ledger.client.evidence import upload_of
from ledger.client.reader import Reader
from ledger.core.errors import LedgerError, Refused
from ledger.events import REGISTRY
from ledger.events.catalogue import AliasMapped
from ledger.events.fields import ArtifactRef
from ledger.wire import log_pb2
from services.cli import coordinates
from services.cli.catalogue_state import header_of
from services.cli.disregarded import disregarded
from services.cli.listing import listed, note_unlisted
from services.cli.models import made
from services.cli.options import SOURCE, Group, at_option, dry_run_option
from services.cli.publishing import publish, show_plan
from services.cli.state import State

STATUSES = ("confirmed", "ambiguous", "unresolved")
APPLICABILITIES = ("exact_revision", "historical", "unknown")


@click.group("alias", cls=Group, example="ledger catalogue alias list")
def aliases() -> None:
    """Names used elsewhere, such as on a model's card, and the sources that they mean."""


@aliases.command(
    "map",
    example="""ledger catalogue alias map DCAgent/exp_rpt_e2egit-large \\
    --source 'Task Trove:DCAgent__exp_rpt_e2egit-large' \\
    --status confirmed --applicability historical --evidence card.md
ledger catalogue alias map some/dataset --status unresolved --applicability unknown""",
)
@click.argument("name")
@click.option("--source", "source_ids", type=SOURCE, multiple=True, metavar="ID", help="A source that it means.")
@click.option(
    "--status",
    type=click.Choice(STATUSES),
    required=True,
    help="confirmed: exactly one source, with evidence; ambiguous: one of several; unresolved: nobody knows.",
)
@click.option(
    "--applicability",
    type=click.Choice(APPLICABILITIES),
    required=True,
    help="Whether it holds for exactly the revision that was used, for an earlier one, or for an unknown one.",
)
@click.option(
    "--evidence",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A file that shows it; may be repeated.",
)
@click.option("--note", metavar="TEXT", help="What a reader should know of it.")
@dry_run_option
@click.pass_obj
def map_(
    state: State,
    name: str,
    *,
    source_ids: tuple[str, ...],
    status: Literal["confirmed", "ambiguous", "unresolved"],
    applicability: Literal["exact_revision", "historical", "unknown"],
    evidence: tuple[Path, ...],
    note: str | None,
    dry_run: bool,
) -> None:
    """Record what a name means. The latest mapping of a name counts; the earlier ones stay in its history."""
    uploads = [upload_of(path) for path in evidence]
    mapping = made(
        AliasMapped,
        alias=name,
        source_ids=list(source_ids),
        status=status,
        applicability=applicability,
        evidence=[_cited(path, upload) for path, upload in zip(evidence, uploads, strict=True)],
        note=note,
    )
    with state.open() as ledger:
        now = mappings(ledger.reader, name).get(f"alias/{name}")
        plan = plan_alias(
            mapping,
            by=state.by,
            previous=(now.id, now.said) if now else None,
            version=now.version if now else 0,
            uploads=uploads,
        )
        if dry_run:
            show_plan(state, ledger, [plan])
        else:
            try:
                publish(state, ledger, [plan])
            except LedgerError as error:
                raise _overtaken(error, name) from None
        for source_id in source_ids:
            note_unlisted(state, listed(ledger, source_id), source_id)


@aliases.command("list", example="ledger catalogue alias list --at 2026-10-01")
@click.option("--source", "source_id", type=SOURCE, metavar="ID", help="Only names that mean this source.")
@at_option
@click.pass_obj
def list_(state: State, *, source_id: str | None, at: str | None) -> None:
    """List the names, each with what it means now, or meant then."""
    with state.open() as ledger:
        least = ledger.size_to_wait_for(at, None)
        where = next(ledger.reader.sources(at=at, min_size=least, page_size=1)).coordinates
        found = mappings(ledger.reader, to_size=where.size) if where.size else {}
    said = [mapped.said for mapped in found.values() if mapped.said is not None]
    shown = [mapping for mapping in said if source_id is None or source_id in mapping.source_ids]
    shown.sort(key=lambda mapping: mapping.alias)
    out = state.output
    if out.as_json:
        out.json([mapping.model_dump() for mapping in shown])
        return
    out.table(
        ["alias", "status", "applicability", "sources", "note"],
        [[m.alias, m.status, m.applicability, ", ".join(m.source_ids) or "-", m.note or "-"] for m in shown],
        whole=("alias",),
        spare=("note",),
    )
    aliases = "1 alias" if len(shown) == 1 else f"{len(shown):,} aliases"
    out.say(f"{aliases}. {coordinates.standing(where, at)}.")


@dataclass(frozen=True)
class Mapped:
    """What a name means by its latest event that counts."""

    id: str
    """Of the latest event, whether it counts or not: what is mapped next comes after it."""
    said: AliasMapped | None
    """None: no mapping counts, or its payload is gone and nothing is known of what it said."""
    version: int
    """How many events the name's stream has."""


def mappings(reader: Reader, name: str | None = None, *, to_size: int = 0) -> dict[str, Mapped]:
    """What each name means, by its stream."""
    found: dict[str, Mapped] = {}
    gone = disregarded(reader, to_size=to_size)
    streams = [f"alias/{name}"] if name is not None else []
    for event in reader.events(streams=streams, types=["alias.mapped"], to_size=to_size):
        header = header_of(event)
        stream, event_id = str(header["stream"]), str(header["id"])
        before = found[stream].said if stream in found else None
        said = before if (event.pos, event_id) in gone else _said(event, header)
        found[stream] = Mapped(event_id, said, int(header["sv"]))
    return found


def _said(event: log_pb2.Event, header: Mapping[str, Any]) -> AliasMapped | None:
    said = REGISTRY.read(header["type"], header["tv"], event.payload) if event.HasField("payload") else None
    return said if isinstance(said, AliasMapped) else None


def _cited(path: Path, upload: Upload) -> ArtifactRef:
    return ArtifactRef(name=path.name, sha256=upload.sha256, size=upload.size)


def _overtaken(error: LedgerError, name: str) -> LedgerError:
    if error.reason != "CONDITION_FAILED":
        return error
    return Refused(
        f"{name} was mapped by somebody else in the meantime",
        reason="CONDITION_FAILED",
        remedy="Look at `ledger catalogue alias list`, then map it again. Nothing was recorded.",
        problems=error.problems,
    )
