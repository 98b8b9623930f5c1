"""Which streams have a key, in which projection."""

from __future__ import annotations

import pytest

from ledger.events import REGISTRY
from ledger.projections.folding import Folder
from ledger.projections.subjects import PROJECTIONS, RUNS, SOURCES, Projection, projection_of
from ledger.rules import ledger_1
from ledger.rules.sets import RULE_SETS, RUN_RULE_SETS
from tests.projections.toy_runs import TOY


@pytest.mark.parametrize(
    ("stream", "projection", "key"),
    [
        ("source/Task Trove:a/b", SOURCES, "Task Trove:a/b"),
        ("run/a", RUNS, "run/a"),
        ("run/a/b c", RUNS, "run/a/b c"),
        ("export/a", RUNS, "export/a"),
        ("campaign/a", RUNS, "campaign/a"),
        ("run/", None, None),
        ("run", None, None),
        ("source/", None, None),
        ("runs/a", None, None),
        ("policy/run/a", None, None),
        ("ledger", None, None),
    ],
)
def test_a_stream_has_a_key_in_one_projection_or_in_none(
    stream: str, projection: Projection | None, key: str | None
) -> None:
    assert projection_of(stream) is projection
    assert [p.key_of(stream) for p in PROJECTIONS.values() if p is not projection] == [None] * (2 - bool(projection))
    if projection is not None and key is not None:
        assert (projection.key_of(stream), projection.stream_of(key)) == (key, stream)
        assert any(first < stream < end for first, end in map(projection.range_of, projection.kinds))


def test_kinds_are_in_the_order_of_their_bytes_so_that_a_build_goes_through_them_in_order() -> None:
    for projection in PROJECTIONS.values():
        assert list(projection.kinds) == sorted(projection.kinds)


def test_every_type_of_a_run_an_export_or_a_campaign_makes_its_facts_and_none_of_a_sources_does() -> None:
    of_runs, of_sources = Folder(TOY, REGISTRY, RUNS).types, Folder(ledger_1.RULES, REGISTRY).types
    assert of_runs == {t.type for t in REGISTRY if {"run", "export", "campaign"} & set(t.streams)}
    assert of_runs.isdisjoint(of_sources)


def test_a_rule_set_belongs_to_one_projection() -> None:
    assert RULE_SETS.keys().isdisjoint(RUN_RULE_SETS)
    for rules in RUN_RULE_SETS.values():
        assert rules.environment_types == frozenset()
