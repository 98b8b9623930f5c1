"""Questions over history: judgments and how far they agree, timelines, differences, explanations, work to do.

Each takes coordinates as the wire has them (`ledger.client.reader.coordinates` makes them). What comes in pages is
given page by page, all at the coordinates of the first.

    auditor = Auditor(connection)
    for page in auditor.judgments(audit_pb2.JudgmentFilter(verdicts=["reject"])):
        ...
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from ledger.client.connection import Connection
from ledger.wire import audit_pb2

PAGE_SIZE: Final = 1_000

Coordinates = audit_pb2.Coordinates | None


class Auditor:
    """Asks one ledger. Safe to use from several threads."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._audit = connection.audit

    def why(self, source_id: str, at: Coordinates = None) -> audit_pb2.WhyResponse:
        """Why a source is shown as it is.

        Raises:
            NotFound: if there was no such source.
        """
        return self._connection.call(self._audit.Why, audit_pb2.WhyRequest(id=source_id, coordinates=at))

    def judgments(
        self,
        filter: audit_pb2.JudgmentFilter | None = None,  # noqa: A002  # the wire's word
        at: Coordinates = None,
        *,
        page_size: int = PAGE_SIZE,
    ) -> Iterator[audit_pb2.JudgmentsResponse]:
        """Judgments, syntheses and observations that pass, in log order. A page may be short, or even empty."""
        request = audit_pb2.JudgmentsRequest(coordinates=at, filter=filter, page_size=page_size)
        return self._pages(self._audit.Judgments, request)

    def agreement(
        self,
        filter: audit_pb2.JudgmentFilter | None = None,  # noqa: A002  # the wire's word
        at: Coordinates = None,
    ) -> audit_pb2.AgreementResponse:
        """How far the judges agree whose judgments pass, and how often each is overruled."""
        return self._connection.call(self._audit.Agreement, audit_pb2.AgreementRequest(coordinates=at, filter=filter))

    def timeline(
        self,
        source_id: str,
        at: Coordinates = None,
        *,
        newest_first: bool = False,
        full: bool = False,
        page_size: int = PAGE_SIZE,
    ) -> Iterator[audit_pb2.TimelineResponse]:
        """What happened to a source, and what each event changed."""
        request = audit_pb2.TimelineRequest(
            id=source_id, coordinates=at, page_size=page_size, newest_first=newest_first, full=full
        )
        return self._pages(self._audit.Timeline, request)

    def diff(
        self,
        before: Coordinates = None,
        after: Coordinates = None,
        filter: audit_pb2.SourceFilter | None = None,  # noqa: A002  # the wire's word
        *,
        page_size: int = PAGE_SIZE,
    ) -> Iterator[audit_pb2.DiffResponse]:
        """The sources that are shown otherwise at one place than at another."""
        request = audit_pb2.DiffRequest(before=before, after=after, filter=filter, page_size=page_size)
        return self._pages(self._audit.Diff, request)

    def queue(
        self,
        kinds: Iterable[str] = (),
        filter: audit_pb2.SourceFilter | None = None,  # noqa: A002  # the wire's word
        at: Coordinates = None,
        *,
        page_size: int = PAGE_SIZE,
    ) -> Iterator[audit_pb2.QueueResponse]:
        """What there is to do, the items with reusable evidence first."""
        request = audit_pb2.QueueRequest(coordinates=at, kinds=kinds, filter=filter, page_size=page_size)
        return self._pages(self._audit.Queue, request)

    def _pages(self, method: Any, request: Any) -> Iterator[Any]:
        while True:
            page = self._connection.call(method, request)
            yield page
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token
