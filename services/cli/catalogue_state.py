"""What a catalogue command must know of the ledger before it plans: the sources, their rows, how many there are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from ledger.client.catalogue import CurrentSource, row_digest
from ledger.client.reader import At, Reader
from ledger.core import strictjson
from ledger.core.errors import LedgerError
from ledger.events import REGISTRY
from ledger.events.catalogue import CatalogueRow, SourceDeclared, SourceReinstated, SourceRevised
from ledger.wire import audit_pb2, log_pb2

WITH_ROW: Final = ("source.declared", "source.revised", "source.reinstated")


def current_sources(
    reader: Reader, origins: Iterable[str], min_size: int, *, at: At = None
) -> dict[str, CurrentSource]:
    """Every source of the origins, retired ones included, as it stands, or as it stood."""
    wanted = audit_pb2.SourceFilter(origins=sorted(origins), include_retired=True)
    return {
        source.id: CurrentSource(source.row_sha256, source.origin, source.retired)
        for page in reader.sources(wanted, at=at, min_size=min_size)
        for source in page.sources
    }


def listed_count(reader: Reader, origin: str, min_size: int) -> int:
    """How many sources the origin lists."""
    page = next(reader.sources(audit_pb2.SourceFilter(origins=[origin]), min_size=min_size, page_size=1))
    return page.total


def current_row(reader: Reader, source: audit_pb2.Source) -> CatalogueRow:
    """The whole row that a source is shown by: parts that were never closed are passed over.

    Raises:
        LedgerError: if no event holds it, as after a redaction.
    """
    found = None
    for event in reader.events(streams=[f"source/{source.id}"], types=WITH_ROW):
        row = row_in(event)
        if row is not None and row_digest(row) == source.row_sha256:
            found = row
    if found is None:
        raise _no_row(source.id)
    return found


def rows_at(reader: Reader, sources: Iterable[audit_pb2.Source], size: int) -> list[CatalogueRow]:
    """The whole rows that sources were shown by among the first `size` events, read in one pass.

    Raises:
        LedgerError: if no event holds one of them, as after a redaction.
    """
    wanted = {source.id: source.row_sha256 for source in sources}
    found: dict[str, CatalogueRow] = {}
    for event in reader.events(types=WITH_ROW, to_size=size) if wanted else ():
        row = row_in(event)
        if row is not None and row.id in wanted and row_digest(row) == wanted[row.id]:
            found[row.id] = row
    for source_id in wanted.keys() - found.keys():
        raise _no_row(source_id)
    return [found[source_id] for source_id in sorted(wanted)]


def header_of(event: log_pb2.Event) -> dict[str, Any]:
    """A stored header as JSON values."""
    header = strictjson.parse(event.header)
    assert isinstance(header, dict)
    return header


def row_in(event: log_pb2.Event) -> CatalogueRow | None:
    """The row that an event holds; None if it holds none, or none any more."""
    if not event.HasField("payload"):
        return None
    header = header_of(event)
    payload = REGISTRY.read(header["type"], header["tv"], event.payload)
    return payload.row if isinstance(payload, (SourceDeclared, SourceRevised, SourceReinstated)) else None


def _no_row(source_id: str) -> LedgerError:
    return LedgerError(
        f"no event of {source_id} holds the row that is shown of it",
        remedy="Import the source's inventory again; `ledger log fsck` tells whether the store is whole.",
    )
