"""Questions about runs: one whole, lists, steps, sweeps, what came of what, and whether sources may be trained on.

Each takes coordinates as the wire has them (`ledger.client.reader.coordinates` makes them). What comes in pages is
given page by page, all at the coordinates of the first.

    runs = Runs(connection)
    if not runs.check(["MarinSkyRL:svamp"], require="good").passed:
        ...
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from ledger.client.connection import Connection
from ledger.wire import audit_pb2, runs_pb2

PAGE_SIZE: Final = 1_000

Coordinates = audit_pb2.Coordinates | None


class Runs:
    """Asks one ledger. Safe to use from several threads."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._runs = connection.runs

    def run(self, run_id: str, at: Coordinates = None) -> runs_pb2.RunAsOfResponse:
        """One run with everything that is known and derived of it.

        Raises:
            NotFound: if nothing of it was recorded by then.
        """
        return self._connection.call(self._runs.RunAsOf, runs_pb2.RunAsOfRequest(id=run_id, coordinates=at))

    def list(
        self,
        filter: runs_pb2.RunFilter | None = None,  # noqa: A002  # the wire's word
        at: Coordinates = None,
        *,
        page_size: int = PAGE_SIZE,
    ) -> Iterator[runs_pb2.ListRunsResponse]:
        """The runs that pass the filter, by campaign, then id."""
        request = runs_pb2.ListRunsRequest(coordinates=at, filter=filter, page_size=page_size)
        while True:
            page = self._connection.call(self._runs.ListRuns, request)
            yield page
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    def steps(
        self,
        run_id: str,
        at: Coordinates = None,
        *,
        keys: Iterable[str] = (),
        lineage_of_step: int | None = None,
        lineage_of_attempt: int | None = None,
    ) -> Iterator[runs_pb2.StepsResponse]:
        """The steps of a run as they were logged, or those alone that lie behind one checkpoint's weights.

        Args:
            run_id: The run.
            at: Where to stand.
            keys: Metrics that are asked for; none: all of them.
            lineage_of_step: The checkpoint's label.
            lineage_of_attempt: The attempt that saved it; None: the latest that did.
        """
        request = runs_pb2.StepsRequest(
            id=run_id,
            coordinates=at,
            keys=keys,
            lineage_of_step=lineage_of_step,
            lineage_of_attempt=lineage_of_attempt,
        )
        return self._connection.stream(self._runs.Steps, request)

    def sweep(
        self, campaign_id: str, at: Coordinates = None, *, compare_unlike: bool = False
    ) -> runs_pb2.SweepResponse:
        """The arms of a campaign side by side; unlike ones are ranked only when asked, and then it says in what."""
        request = runs_pb2.SweepRequest(campaign_id=campaign_id, coordinates=at, compare_unlike=compare_unlike)
        return self._connection.call(self._runs.Sweep, request)

    def lineage(
        self, node: str, at: Coordinates = None, *, depth: int = 0, direction: str = "both"
    ) -> runs_pb2.LineageResponse:
        """What a node comes from and what came of it; `direction` is "up", "down" or "both"."""
        request = runs_pb2.LineageRequest(node=node, coordinates=at, depth=depth, direction=direction)
        return self._connection.call(self._runs.Lineage, request)

    def blast_radius(self, of: str | int, at: Coordinates = None) -> runs_pb2.BlastRadiusResponse:
        """Every run, checkpoint and export that consumed a source.

        Args:
            of: The source's Atlas id, or the position of an event of its stream.
            at: Where to stand.
        """
        request = runs_pb2.BlastRadiusRequest(coordinates=at)
        if isinstance(of, int):
            request.event_pos = of
        else:
            request.source_id = of
        return self._connection.call(self._runs.BlastRadius, request)

    def turned(self, runs: Iterable[str] = (), at: Coordinates = None, *, since: int = 0) -> runs_pb2.TurnedResponse:
        """What turned about sources after runs had consumed them; no run named: of all."""
        request = runs_pb2.TurnedRequest(coordinates=at, runs=runs, since=since)
        return self._connection.call(self._runs.Turned, request)

    def check(
        self,
        source_ids: Iterable[str],
        at: Coordinates = None,
        *,
        require: str = "good",
        dataset_revisions: Mapping[str, str] | None = None,
        verifier_revisions: Mapping[str, str] | None = None,
    ) -> runs_pb2.CheckResponse:
        """Whether sources may be trained on; it records nothing."""
        request = runs_pb2.CheckRequest(
            source_ids=source_ids,
            coordinates=at,
            require=require,
            dataset_revisions=dataset_revisions or {},
            verifier_revisions=verifier_revisions or {},
        )
        return self._connection.call(self._runs.Check, request)
