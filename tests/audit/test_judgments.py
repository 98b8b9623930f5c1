"""Scans of opinions are bounded, stop when nobody waits, and tell the same in pages of any budget."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.audit.judgments import Judgments
from ledger.audit.opinions import Judgment, JudgmentFilter
from ledger.audit.pages import decode_token
from ledger.core.errors import LedgerError
from tests.audit.asking import Asking
from tests.projections.bench import sqlite_bench
from tests.projections.histories import LISTED, Step, Teller, histories
from tests.rules import builders
from tests.server.doors import of

EVERYTHING = JudgmentFilter(include_unpublished=True)


def whole(asking: Asking, judgments: Judgments, size: int, which: JudgmentFilter) -> tuple[list[Judgment], int]:
    """All that passes, and how many pages it took."""
    found: list[Judgment] = []
    start = pages = 0
    while True:
        page = judgments.page(asking.moment(size), which, size=3, from_pos=start)
        found += page.judgments
        pages += 1
        if not page.next_token:
            return found, pages
        (_,), start = decode_token(page.next_token, "judgments", which)


@settings(max_examples=25)
@given(steps=histories, budget=st.sampled_from((1, 2, 7, 1_000)))
def test_whatever_the_history_pages_of_any_budget_tell_every_opinion_that_counts_once(
    steps: list[Step], budget: int
) -> None:
    with sqlite_bench() as bench:
        teller = Teller()
        for step in [*LISTED, *steps]:
            bench.append(*teller.tell(step))
        asking, size = Asking(bench), bench.log.head().size
        gone = asking.disregards.at(size)
        types = {"judgment.recorded", "synthesis.recorded", "observation.recorded"}
        counts = [e.pos for e in asking.events.scan(size) if e.type in types and e.pos not in gone]
        found, _ = whole(asking, asking.judgments(budget), size, EVERYTHING)
        assert [j.pos for j in found] == counts
        published, _ = whole(asking, asking.judgments(budget), size, JudgmentFilter())
        assert published == [j for j in found if j.review is not None]


def test_a_page_that_has_read_its_budget_is_short_and_the_next_goes_on() -> None:
    with sqlite_bench() as bench:
        bench.append(*[of(builders.judgment("c1", "reject" if n % 9 == 8 else "keep")) for n in range(18)])
        asking = Asking(bench)
        which = JudgmentFilter(verdicts=frozenset({"reject"}), include_unpublished=True)
        found, pages = whole(asking, asking.judgments(4), 18, which)
        assert ([j.pos for j in found], pages > 4) == ([8, 17], True)
        found, pages = whole(asking, asking.judgments(1_000), 18, which)
        assert ([j.pos for j in found], pages) == ([8, 17], 1)


def test_a_scan_stops_when_nobody_waits_for_it() -> None:
    def stop() -> None:
        raise LedgerError("nobody waits", reason="INTERRUPTED")

    with sqlite_bench() as bench:
        bench.append(of(builders.judgment("c1")))
        asking = Asking(bench)
        with pytest.raises(LedgerError, match="nobody waits"):
            asking.judgments(10).page(asking.moment(1), EVERYTHING, check=stop)


def test_an_opinion_cannot_supersede_itself_nor_can_one_that_nobody_published() -> None:
    with sqlite_bench() as bench:
        own = of(builders.judgment("c1", review_id="one", supersedes_review_id="one"))
        bench.append(own, of(builders.published("c1", "c1", [own.id])))
        size = bench.append(of(builders.judgment("loose", review_id="two", supersedes_review_id="one")))
        asking = Asking(bench)
        (found,), _ = whole(asking, asking.judgments(100), size, JudgmentFilter())
        assert (found.review_id, found.superseded) == ("one", None)


def test_the_first_publication_of_a_collection_and_the_first_supersession_count() -> None:
    with sqlite_bench() as bench:
        part = of(builders.judgment("c1"))
        again = [of(builders.published("other", "c1", [part.id])), of(builders.superseded("other"))]
        twice = [of(builders.superseded("c1")), of(builders.superseded("c1"))]
        size = bench.append(part, of(builders.published("c1", "c1", [part.id])), *again, *twice)
        asking = Asking(bench)
        (found,), _ = whole(asking, asking.judgments(100), size, JudgmentFilter())
        assert (found.review, found.superseded) == (builders.sha("c1"), 4)
