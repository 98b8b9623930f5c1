"""What turned about sources after runs had consumed them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ledger.audit.coordinates import At
from ledger.audit.turned import Turn
from ledger.core.errors import NotFound
from tests.audit.running import OTHER, Asked, asked, declared, defect, ended, review, steps, taken, told
from tests.projections.bench import Bench
from tests.rules import builders
from tests.rules.builders import SOURCE
from tests.server.doors import of


@pytest.fixture
def bench() -> Iterator[Bench]:
    with asked() as made:
        yield made


def turns(bench: Bench, *runs: str, since: int = 0, size: int | None = None) -> list[Turn]:
    asking = Asked(bench)
    return asking.questions.turned(asking.moment(size), runs, since)


def test_an_event_is_told_to_the_runs_that_had_taken_the_source_before_it(bench: Bench) -> None:
    review(bench, "r1")
    bench.append(*told(declared("a", taken())))
    confirmed = defect(bench)
    bench.append(*told(declared("b", taken())))
    withdrawn = bench.append(of(builders.withdrawn("d1"))) - 1
    first, second = turns(bench)
    assert (first.pos, first.event_type, first.source, first.runs) == (confirmed, "defect.confirmed", SOURCE, ("a",))
    assert (first.before_quality, first.after_quality) == ("good", "some_issues")
    assert "open defects: none → d1" in first.changes
    assert (second.pos, second.runs) == (withdrawn, ("a", "b"))


def test_what_a_reader_would_not_notice_is_no_turn_nor_what_came_before(bench: Bench) -> None:
    defect(bench, "d0")
    bench.append(*told(declared("a", taken()), steps("a", {1: 0.5}), ended("a")))
    bench.append(of(builders.tag(None), f"source/{SOURCE}"))
    assert turns(bench) == []


def test_turns_of_several_sources_come_in_the_order_in_which_they_were_recorded(bench: Bench) -> None:
    bench.append(*told(declared("a", taken(), taken(OTHER, role="eval"))))
    positions = [defect(bench, "d1", OTHER), defect(bench, "d1"), defect(bench, "d2", OTHER)]
    assert [(t.pos, t.source) for t in turns(bench)] == list(zip(positions, [OTHER, SOURCE, OTHER], strict=True))


def test_only_the_runs_that_are_named_are_told_and_only_what_is_recorded_since(bench: Bench) -> None:
    bench.append(*told(declared("a", taken()), declared("b", taken(OTHER))))
    first, second = defect(bench), defect(bench, "d1", OTHER)
    assert [(t.pos, t.runs) for t in turns(bench, "b")] == [(second, ("b",))]
    assert [t.pos for t in turns(bench, since=first)] == [first, second]
    assert [t.pos for t in turns(bench, since=first + 1)] == [second]
    assert turns(bench, since=2**60) == []


def test_a_run_declared_again_took_its_source_when_it_was_declared_first(bench: Bench) -> None:
    bench.append(*told(declared("a", taken(data=None))))
    pos = defect(bench)
    bench.append(*told(declared("a", taken())))
    assert [t.pos for t in turns(bench)] == [pos]


def test_each_source_was_taken_from_where_it_was_first_named_also_one_that_is_left_out_later(bench: Bench) -> None:
    bench.append(*told(declared("a", taken())))
    defect(bench, "d1", OTHER)
    bench.append(*told(declared("a", taken(OTHER))))
    left_out, named = defect(bench, "d1"), defect(bench, "d2", OTHER)
    assert [(t.pos, t.source, t.runs) for t in turns(bench)] == [(left_out, SOURCE, ("a",)), (named, OTHER, ("a",))]


def test_at_a_smaller_size_later_turns_are_not_known(bench: Bench) -> None:
    bench.append(*told(declared("a", taken())))
    pos = defect(bench)
    assert [t.pos for t in turns(bench, size=pos)] == []
    assert [t.pos for t in turns(bench, size=pos + 1)] == [pos]


def test_a_policy_of_a_later_time_is_no_cause_of_a_turn(bench: Bench) -> None:
    bench.append(*told(declared("a", taken())))
    pos = defect(bench)
    size = bench.append(of(builders.defined()))
    bench.append(of(builders.adopted("none")))
    asking = Asked(bench)
    moment = asking.clockwork.moment(At(size=size, rules="ledger-1", policy_at_head=True))
    assert moment.policy_moved
    assert [t.pos for t in asking.questions.turned(moment)] == [pos]


def test_a_run_that_is_not_known_is_not_found(bench: Bench) -> None:
    with pytest.raises(NotFound, match="there is no run 'none'"):
        turns(bench, "none")
