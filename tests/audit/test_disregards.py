"""Which events count for nothing: the same at every size as the projection says, whoever asked before."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.audit.disregards import Disregards
from ledger.audit.reading import Events
from ledger.events import REGISTRY
from ledger.projections.disregards import disregarded_at
from tests.projections.bench import sqlite_bench
from tests.projections.histories import LISTED, Step, Teller, histories


@settings(max_examples=30)
@given(steps=histories, asked=st.lists(st.integers(0, 60), min_size=1, max_size=8), grown=st.integers(0, 40))
def test_what_is_disregarded_at_a_size_does_not_depend_on_what_was_asked_before(
    steps: list[Step], asked: list[int], grown: int
) -> None:
    with sqlite_bench() as bench:
        disregards, teller = Disregards(Events(bench.log)), Teller()
        for number, step in enumerate([*LISTED, *steps]):
            bench.append(*teller.tell(step))
            if number == grown:
                disregards.at(bench.log.head().size)
        head = bench.log.head().size
        for size in (min(n, head) for n in asked):
            found = disregards.at(size)
            assert found.keys() == disregarded_at(bench.log.store, REGISTRY, size)
            assert all(pos < by < size for pos, by in found.items())
