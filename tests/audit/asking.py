"""Questions to a log without a server: the moments of a bench, answered from its rows or folded from its log."""

from __future__ import annotations

from ledger.audit.coordinates import Moment
from ledger.audit.disregards import Disregards
from ledger.audit.dossiers import Dossiers
from ledger.audit.judgments import Judgments
from ledger.audit.reading import Events
from ledger.audit.sources import Sources
from ledger.audit.timeline import Entry, Order, Timelines
from tests.projections.bench import Bench


class Asking:
    """The questions of an audit over one bench, whose projector stands at the head."""

    def __init__(self, bench: Bench) -> None:
        bench.projector.catch_up()
        self.bench = bench
        self.events = Events(bench.log)
        self.sources = Sources(bench.log, bench.projector.generations)
        self.disregards = Disregards(self.events)
        self.dossiers = Dossiers(self.events, self.disregards)
        self.timelines = Timelines(self.events, self.sources, self.disregards)

    def judgments(self, budget: int) -> Judgments:
        return Judgments(self.events, self.sources.shelf, self.dossiers, budget=budget)

    def moment(self, size: int, *, folded: bool = False, policy_size: int | None = None) -> Moment:
        """A moment under the bench's rules, answered by rows unless the log is to be folded."""
        return Moment(
            size=size,
            recorded_at_us=None,
            final=True,
            rules=self.bench.rules.id,
            rules_digest="d",
            redactions_through=0,
            policy_size=size if policy_size is None else policy_size,
            generation=None if folded else self.bench.live,
            policy_moved=policy_size is not None,
        )

    def entries(self, moment: Moment, order: Order, page: int = 0) -> list[Entry]:
        """A whole timeline, page by page."""
        found: list[Entry] = []
        while True:
            answer = self.timelines.page(moment, order, size=page, start=len(found))
            found += answer.entries
            if not answer.next_token:
                assert len(found) == answer.total
                return found
