"""Questions about the sources, and answers that come page by page, all pages at the coordinates of the first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from ledger.client.messages import coordinates_dict
from ledger.wire import audit_pb2
from services.cli.coordinates import stamp
from services.cli.exporting import Answer
from services.cli.state import Ledger


def source_as_of(ledger: Ledger, source_id: str, where: audit_pb2.Coordinates) -> audit_pb2.SourceAsOfResponse:
    """One source, at coordinates that may name a policy."""
    request = audit_pb2.SourceAsOfRequest(id=source_id, coordinates=where)
    return ledger.connection.call(ledger.connection.audit.SourceAsOf, request)


def source_pages(
    ledger: Ledger, wanted: audit_pb2.SourceFilter, where: audit_pb2.Coordinates
) -> Iterator[audit_pb2.ListSourcesResponse]:
    """The sources that pass, at coordinates that may name a policy."""
    request = audit_pb2.ListSourcesRequest(coordinates=where, filter=wanted)
    while True:
        page = ledger.connection.call(ledger.connection.audit.ListSources, request)
        yield page
        if not page.next_page_token:
            return
        request.page_token = page.next_page_token


def asked(ledger: Ledger, pages: Iterator[Any], field: str) -> tuple[Any, Answer]:
    """The first page, and its rows and those of the later ones, each page taken when its rows are."""
    first, rows = _first(pages, field)
    where = first.coordinates
    return first, Answer(rows, stamp(where), stamp(where), about(ledger, where))


def compared(ledger: Ledger, pages: Iterator[audit_pb2.DiffResponse]) -> tuple[audit_pb2.DiffResponse, Answer]:
    """As `asked`, for a difference: its rows stand at two coordinates."""
    first, rows = _first(pages, "changes")
    stamped = stamp(first.after) | stamp(first.before, "ledger_before")
    earlier = {f"before_{name}": value for name, value in coordinates_dict(first.before).items()}
    whole = about(ledger, first.after) | earlier | {"digest": first.digest, "total": first.total}
    return first, Answer(rows, stamped, stamped, whole)


def about(ledger: Ledger, where: audit_pb2.AnswerCoordinates) -> dict[str, Any]:
    """What a file says of itself: of which log it is, and where its answer stands."""
    return {"origin": ledger.reader.info().origin, **coordinates_dict(where)}


def _first(answers: Iterator[Any], field: str) -> tuple[Any, Iterator[Sequence[Any]]]:
    first = next(answers)
    return first, (getattr(page, field) for page in chain([first], answers))
