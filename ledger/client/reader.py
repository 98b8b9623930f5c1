"""Questions to a ledger: its sources at any moment, why they are shown so, and the events themselves.

`at` is where to stand: None is now, an integer or digits a size (the first N events), a date or an RFC 3339 time a
recorded moment. `rules` names a rule set, "now" for the one in force at the head, empty for the one in force there.
`policy` is the size whose protocols and other policy count, or "head"; None: those of `at`. `min_size` waits until the
ledger has come as far: pass `Writer.size` to read what was just written. Every answer says where it stands.

    Reader(connection).source("MarinSkyRL:svamp", at="2026-10-01", rules="now", policy="head")  # now about then
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from ledger.client.connection import STREAM_TIMEOUT, Connection
from ledger.client.retry import Patience
from ledger.core import clock, merkle
from ledger.core.errors import Broken, InvalidInput, LedgerError, Unavailable
from ledger.wire import audit_pb2, log_pb2, projections_pb2

At = str | int | None
Policy = int | str | None
HEAD: Final = "head"
MAX_SIZE: Final = 2**63 - 1
PAGE_SIZE: Final = 1_000
REBUILD_TIMEOUT: Final = 86_400.0
"""Of a rebuild, which tells how far it is; one that was left half-way is resumed by the next."""


def parse_at(text: str) -> audit_pb2.Coordinates:
    """Digits are a size; a date is 00:00Z; anything else an RFC 3339 time with an offset.

    Raises:
        InvalidInput: reason USAGE.
    """
    if text.isascii() and text.isdigit():
        if len(text) > 19 or int(text) > MAX_SIZE:
            raise _no_moment(text, "it is larger than any size")
        return audit_pb2.Coordinates(size=int(text))
    try:
        return audit_pb2.Coordinates(recorded_at_us=clock.from_text(text))
    except (ValueError, OverflowError) as error:
        # The clock names the text too: it is said once.
        raise _no_moment(text, f"it is {str(error).removeprefix(f'{text[:40]!r} is ')}") from None


def _no_moment(text: str, why: str) -> InvalidInput:
    shown = text if len(text) <= 60 else text[:60] + "…"
    return InvalidInput(
        f"{shown!r} is no moment of the ledger: {why}",
        reason="USAGE",
        remedy="Give a size such as 1204, a date such as 2026-10-01, or a time such as 2026-10-01T12:30:00Z.",
        details={"at": shown},
    )


def coordinates(at: At = None, rules: str = "", min_size: int = 0, *, policy: Policy = None) -> audit_pb2.Coordinates:
    """Where to stand, as the wire has it.

    Raises:
        InvalidInput: reason USAGE.
    """
    made = audit_pb2.Coordinates() if at is None else parse_at(str(at))
    made.rules = rules
    made.min_size = min_size
    if policy == HEAD:
        made.policy_at_head = True
    elif policy is not None:
        made.policy_size = _policy_size(str(policy))
    return made


def _policy_size(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) <= 19 and int(text) <= MAX_SIZE:
        return int(text)
    raise InvalidInput(
        f"{text[:60]!r} is no policy: the policy is that of a size",
        reason="USAGE",
        remedy='Give a size such as 1204, or "head" for the newest policy.',
        details={"policy": text[:60]},
    )


class Reader:
    """Asks one ledger. Safe to use from several threads."""

    def __init__(self, connection: Connection, *, patience: Patience | None = None) -> None:
        self._connection = connection
        self._patience = patience or Patience()

    def info(self) -> log_pb2.GetInfoResponse:
        """What the server is and how far its log has come."""
        return self._connection.call(self._connection.log.GetInfo, log_pb2.GetInfoRequest())

    def source(
        self, source_id: str, *, at: At = None, rules: str = "", policy: Policy = None, min_size: int = 0
    ) -> audit_pb2.SourceAsOfResponse:
        """One source as it was shown there.

        Raises:
            NotFound: if there was no such source.
        """
        request = audit_pb2.SourceAsOfRequest(id=source_id, coordinates=coordinates(at, rules, min_size, policy=policy))
        return self._connection.call(self._connection.audit.SourceAsOf, request)

    def sources(
        self,
        filter: audit_pb2.SourceFilter | None = None,  # noqa: A002  # the wire's word
        *,
        at: At = None,
        rules: str = "",
        policy: Policy = None,
        min_size: int = 0,
        page_size: int = PAGE_SIZE,
    ) -> Iterator[audit_pb2.ListSourcesResponse]:
        """The sources that pass the filter, by origin, then id, in pages that all stand at the same coordinates."""
        request = audit_pb2.ListSourcesRequest(
            coordinates=coordinates(at, rules, min_size, policy=policy), filter=filter, page_size=page_size
        )
        while True:
            page = self._connection.call(self._connection.audit.ListSources, request)
            yield page
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    def why(
        self, source_id: str, *, at: At = None, rules: str = "", policy: Policy = None, min_size: int = 0
    ) -> audit_pb2.WhyResponse:
        """Why a source is shown as it is: its reasons, and every event that they rest on."""
        request = audit_pb2.WhyRequest(id=source_id, coordinates=coordinates(at, rules, min_size, policy=policy))
        return self._connection.call(self._connection.audit.Why, request)

    def events(
        self,
        from_pos: int = 0,
        *,
        to_size: int = 0,
        streams: Iterable[str] = (),
        types: Iterable[str] = (),
        tags: Iterable[str] = (),
        limit: int = 0,
        headers_only: bool = False,
    ) -> Iterator[log_pb2.Event]:
        """Events in log order, each leaf checked, up to `to_size` or the size of the log at the call."""
        request = log_pb2.ReadRequest(
            from_pos=from_pos,
            to_size=to_size,
            filter=log_pb2.Filter(streams=streams, types=types, tags=tags),
            limit=limit,
            headers_only=headers_only,
        )
        for page in self._connection.stream(self._connection.log.Read, request):
            for event in page.events:
                yield checked(event)

    def follow(
        self,
        from_pos: int,
        *,
        streams: Iterable[str] = (),
        types: Iterable[str] = (),
        tags: Iterable[str] = (),
        headers_only: bool = False,
    ) -> Iterator[log_pb2.Event]:
        """Events from a position on, without end; a broken call is taken up where it stopped."""
        request = log_pb2.SubscribeRequest(
            from_pos=from_pos,
            filter=log_pb2.Filter(streams=streams, types=types, tags=tags),
            headers_only=headers_only,
        )
        attempts = self._patience.start()
        while True:
            try:
                for page in self._connection.stream(self._connection.log.Subscribe, request, timeout=STREAM_TIMEOUT):
                    attempts.succeeded()
                    for event in page.events:
                        # Before it is handed on: whoever stops in the middle of a page asks for the rest.
                        request.from_pos = event.pos + 1
                        yield checked(event)
                    request.from_pos = page.next_pos
                raise Unavailable("the server ended the call", remedy="It may be stopping: follow it again later.")
            except LedgerError as error:
                attempts.failed(error)

    def event(self, key: int | str) -> log_pb2.Event:
        """One event, by position (an integer) or by id (text).

        Raises:
            NotFound: if there is none.
        """
        request = log_pb2.GetEventRequest(pos=key) if isinstance(key, int) else log_pb2.GetEventRequest(id=key)
        return checked(self._connection.call(self._connection.log.GetEvent, request))

    def generations(self) -> projections_pb2.ListProjectionsResponse:
        """The generations of the projections."""
        return self._connection.call(self._connection.projections.List, projections_pb2.ListProjectionsRequest())

    def rebuild(
        self,
        projection: str = "sources",
        progress: Callable[[projections_pb2.RebuildResponse], object] | None = None,
        *,
        rules: str = "",
        processes: int = 0,
    ) -> projections_pb2.RebuildResult:
        """Folds the log again from its first event; `progress` is called with every message on the way.

        Without `rules` those in force; without `processes` as many as the server finds fit.
        """
        request = projections_pb2.RebuildRequest(projection=projection, rules=rules, processes=processes)
        call = self._connection.projections.Rebuild
        for message in self._connection.stream(call, request, timeout=REBUILD_TIMEOUT):
            if progress is not None:
                progress(message)
            if message.HasField("result"):
                return message.result
        raise LedgerError(
            "the server ended the rebuild without a result", remedy="Look at the server's log and start it again."
        )

    def diff_generation(self, ref: str, *, page_size: int = PAGE_SIZE) -> projections_pb2.GenerationDiffResponse:
        """What would change for readers if a generation took over: all pages of it as one.

        `ref` is a generation's id or a rule set's.

        Raises:
            NotFound: if there is no such generation.
            Refused: reason DIFF_MOVED, if the log grew so that the pages do not belong together.
        """
        request = projections_pb2.GenerationDiffRequest(generation=ref, page_size=page_size)
        whole = self._connection.call(self._connection.projections.Diff, request)
        while whole.next_page_token:
            request.page_token = whole.next_page_token
            page = self._connection.call(self._connection.projections.Diff, request)
            whole.changes.extend(page.changes)
            whole.next_page_token = page.next_page_token
        return whole

    def promote(
        self, ref: str, diff_digest: str, *, note: str = "", by: log_pb2.Actor | None = None
    ) -> projections_pb2.PromoteResponse:
        """Lets a generation answer from here on, if it moves what the difference with this digest says.

        Repeating it is safe: what answers already is not promoted again.

        Raises:
            Refused: reason DIFF_MOVED, with the present digest; NOT_ADOPTED.
        """
        request = projections_pb2.PromoteRequest(generation=ref, diff_digest=diff_digest, note=note, actor=by)
        return self._connection.call(self._connection.projections.Promote, request)

    def drop(self, ref: str) -> projections_pb2.Generation:
        """Deletes the rows of a generation that does not answer; gives what it was."""
        request = projections_pb2.DropRequest(generation=ref)
        return self._connection.call(self._connection.projections.Drop, request).generation


def checked(event: log_pb2.Event) -> log_pb2.Event:
    """The event, if its header hashes to its leaf.

    Raises:
        Broken: if it does not.
    """
    if merkle.leaf_hash(event.header) != event.leaf_hash:
        digest = hashlib.sha256(event.header).hexdigest()
        raise Broken(
            f"the header of the event at position {event.pos} does not hash to its leaf",
            remedy="Run `ledger log fsck` where the store is, and trust no answer of this server until it is clean.",
            details={"pos": str(event.pos), "leaf": event.leaf_hash.hex(), "header_sha256": digest},
        )
    return event
