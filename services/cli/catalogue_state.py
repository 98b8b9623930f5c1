"""What a catalogue command must know of the ledger before it plans: present rows, and the refresh that comes before."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ledger.client.catalogue import CurrentSource, row_digest
from ledger.client.reader import Reader
from ledger.core import strictjson
from ledger.core.errors import LedgerError
from ledger.events import REGISTRY
from ledger.events.catalogue import CatalogueRow, SourceDeclared, SourceReinstated, SourceRevised
from ledger.wire import audit_pb2, log_pb2

_WITH_ROW = ("source.declared", "source.revised", "source.reinstated")


def current_sources(reader: Reader, origins: Iterable[str], min_size: int) -> dict[str, CurrentSource]:
    """Every source of the origins, retired ones included, as it stands."""
    wanted = audit_pb2.SourceFilter(origins=sorted(origins), include_retired=True)
    return {
        source.id: CurrentSource(source.row_sha256, source.origin, source.retired)
        for page in reader.sources(wanted, min_size=min_size)
        for source in page.sources
    }


def last_refresh(reader: Reader, origin: str) -> str | None:
    """The id of the origin's newest `catalogue.synced`; None before the first."""
    newest = None
    for event in reader.events(streams=[f"origin/{origin}"], types=["catalogue.synced"], headers_only=True):
        newest = event
    return None if newest is None else str(header_of(newest)["id"])


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
    for event in reader.events(streams=[f"source/{source.id}"], types=_WITH_ROW):
        row = _row(event)
        if row is not None and row_digest(row) == source.row_sha256:
            found = row
    if found is None:
        raise LedgerError(
            f"no event of {source.id} holds the row that is shown of it",
            remedy="Import the source's inventory again; `ledger log fsck` tells whether the store is whole.",
        )
    return found


def header_of(event: log_pb2.Event) -> dict[str, Any]:
    """A stored header as JSON values."""
    header = strictjson.parse(event.header)
    assert isinstance(header, dict)
    return header


def _row(event: log_pb2.Event) -> CatalogueRow | None:
    if not event.HasField("payload"):
        return None
    header = header_of(event)
    payload = REGISTRY.read(header["type"], header["tv"], event.payload)
    return payload.row if isinstance(payload, (SourceDeclared, SourceRevised, SourceReinstated)) else None
