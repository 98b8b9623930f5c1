"""A run with its sources then and now, and what came of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ledger.core.errors import InvalidInput, NotFound
from ledger.rules.sets import DEFAULT_RULES
from tests.audit.running import (
    OTHER,
    Asked,
    asked,
    attempt,
    campaign,
    declared,
    defect,
    ended,
    exported,
    exporting,
    model,
    review,
    saved,
    selected,
    steps,
    taken,
    told,
)
from tests.projections.bench import Bench
from tests.rules import builders
from tests.rules.builders import SOURCE
from tests.server.doors import of


@pytest.fixture
def bench() -> Iterator[Bench]:
    with asked() as made:
        yield made


def test_a_source_is_shown_as_it_was_when_the_run_began_when_it_chose_and_as_it_is(bench: Bench) -> None:
    review(bench, "r1")
    start = bench.append(*told(declared("a", taken()), attempt("a"), steps("a", {1: 0.2, 2: 0.4}), saved("a", 2)))
    confirmed = defect(bench)
    bench.append(*told(selected("a", 2)))
    withdrawn = bench.append(of(builders.withdrawn("d1"))) - 1
    asking = Asked(bench)
    (source,) = asking.questions.run("a", asking.moment(), DEFAULT_RULES).sources
    shown = [s and (s["quality"], len(s["open_defects"])) for s in (source.at_start, source.at_selection, source.now)]
    assert shown == [("good", 0), ("some_issues", 1), ("some_issues", 0)]
    assert (source.start_size, source.selection_size) == (start - 3, confirmed + 2)
    assert source.turned == (confirmed, withdrawn)


def test_a_run_that_is_declared_again_took_its_sources_when_it_first_named_them(bench: Bench) -> None:
    first = bench.append(*told(declared("a", taken(data=None))))
    turned = defect(bench)
    bench.append(*told(declared("a", taken(), taken(OTHER))))
    asking = Asked(bench)
    found = {s.atlas_id: s for s in asking.questions.run("a", asking.moment(), DEFAULT_RULES).sources}
    assert list(found) == [SOURCE, OTHER]
    assert (found[SOURCE].start_size, found[SOURCE].turned) == (first, (turned,))
    assert found[OTHER].start_size == turned + 2


def test_evaluation_sources_and_those_of_no_known_id_are_not_told_as_training_sources(bench: Bench) -> None:
    bench.append(*told(declared("a", taken(), taken(OTHER, role="eval"), taken(None, dataset="org/unknown"))))
    asking = Asked(bench)
    assert [s.atlas_id for s in asking.questions.run("a", asking.moment(), DEFAULT_RULES).sources] == [SOURCE]


def test_a_source_that_nobody_lists_is_told_without_a_state(bench: Bench) -> None:
    bench.append(*told(declared("a", taken("A:unlisted"))))
    asking = Asked(bench)
    (source,) = asking.questions.run("a", asking.moment(), DEFAULT_RULES).sources
    assert (source.at_start, source.now, source.turned) == (None, None, ())


def test_the_exports_of_its_checkpoints_and_its_campaign_come_with_a_run(bench: Bench) -> None:
    bench.append(*told(campaign("sweep"), declared("a", taken(), campaign_id="sweep"), saved("a", 2), saved("b", 2)))
    bench.append(*told(exporting("e-a", "a", 2), exported("e-a"), model("e-a", "org/m"), exporting("e-b", "b", 2)))
    asking = Asked(bench)
    found = asking.questions.run("a", asking.moment(), DEFAULT_RULES)
    assert [export["id"] for export in found.exports] == ["e-a"]
    assert found.campaign is not None
    assert found.campaign["declared"]["compares"] == "sources"


def test_nothing_is_known_of_a_run_before_its_first_event_nor_of_its_end_before_that(bench: Bench) -> None:
    begun = bench.append(*told(declared("a", taken())))
    over = bench.append(*told(ended("a")))
    asking = Asked(bench)
    statuses = [
        asking.questions.run("a", asking.moment(size), DEFAULT_RULES).run["summary"]["status"] for size in (begun, over)
    ]
    assert statuses == ["open", "completed"]
    with pytest.raises(NotFound, match=f"there is no run 'a' at size {begun - 1}") as missing:
        asking.questions.run("a", asking.moment(begun - 1), DEFAULT_RULES)
    assert "later than this moment" in missing.value.remedy


@pytest.mark.parametrize("name", ["none", "A", "\x00", "é", "x" * 600])
def test_a_run_that_there_is_not_or_cannot_be_is_not_found(bench: Bench, name: str) -> None:
    bench.append(*told(declared("a", taken())))
    asking = Asked(bench)
    with pytest.raises(NotFound):
        asking.questions.run(name, asking.moment(), DEFAULT_RULES)


def test_a_run_without_an_id_is_no_question(bench: Bench) -> None:
    asking = Asked(bench)
    with pytest.raises(InvalidInput, match="the id of the run is empty"):
        asking.questions.run("", asking.moment(), DEFAULT_RULES)
