"""An answer at a size is the answer of a log that holds no more, and stays it whatever comes after."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.audit.checks import Demand
from ledger.audit.lineage import Trace
from ledger.audit.run_lists import RunFilter
from ledger.audit.steps import Wanted
from ledger.core.errors import NotFound
from ledger.events.administration import EventDisregarded
from ledger.events.runs import ModelRef, ResumedFrom
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
    traces,
)
from tests.projections.bench import Bench
from tests.rules import builders
from tests.rules.builders import SOURCE
from tests.server.doors import of

RUNS = ("a", "b")
NODES = (f"source/{SOURCE}", "run/a", "run/b", "checkpoint/a@2", "export/e", "model/org/m", "base/org/base")


def _disregard_the_last(bench: Bench) -> None:
    """Whatever was recorded last counts for nothing, unless it is a disregard itself, or of no projection."""
    last = bench.log.store.event(bench.log.head().size - 1)
    assert last is not None
    if last.stream.partition("/")[0] in {"run", "export", "campaign"}:
        said = EventDisregarded(pos=last.pos, event=last.id, reason="recorded by mistake")
        bench.append(of(said, "ledger"))


def _tell(*payloads: Any) -> Callable[[Bench], object]:
    return lambda bench: bench.append(*told(*payloads))


CHAPTERS: dict[str, Callable[[Bench], object]] = {
    "campaign": _tell(campaign("sweep")),
    "a declared": _tell(declared("a", taken(), campaign_id="sweep")),
    "a declared anew": _tell(declared("a", taken(data="data-2"), taken(OTHER), campaign_id="sweep")),
    "a runs": _tell(attempt("a"), steps("a", {1: 0.1, 2: 0.5, 3: 0.4}), saved("a", 2)),
    "a restarts": _tell(attempt("a", 2, (1, 2)), steps("a", {3: 0.7, 4: "NaN"}, 2), saved("a", 4, 2)),
    "a saves again": _tell(saved("a", 2, digest=builders.sha("again"))),
    "a chooses": _tell(selected("a", 2)),
    "a ends": _tell(ended("a", "failed")),
    "a shows traces": _tell(traces("a")),
    "b declared": _tell(declared("b", taken(OTHER), campaign_id="sweep")),
    "b from the model": _tell(declared("b", taken(), rl_start=ModelRef(name="m", repository="org/m", commit="m1"))),
    "b resumes from a": _tell(attempt("b", resumed_from=ResumedFrom(run_id="a", step=2))),
    "b runs": _tell(steps("b", {1: 0.9, 2: 0.8})),
    "export": _tell(exporting("e", "a", 2), exported("e")),
    "published": _tell(model("e", "org/m")),
    "defect": defect,
    "withdrawn": lambda bench: bench.append(of(builders.withdrawn("d1"))),
    "reviewed": lambda bench: review(bench, "r1"),
    "disregarded": _disregard_the_last,
}


def answers(asking: Asked, size: int) -> dict[str, Any]:
    """Every answer at a size, as text."""
    moment, over = asking.moment(size), asking.questions
    found: dict[str, Any] = {
        "list": repr(over.page(moment, RunFilter(), size=1)),
        "turned": repr([(t.pos, t.source, t.changes, t.runs) for t in over.turned(moment)]),
        "check": repr(over.check(moment, Demand((SOURCE, OTHER)))),
        "consumers": repr(over.briefs.consumers(size)),
        "blast": repr(over.blast_radius(moment, SOURCE, DEFAULT_RULES)),
    }
    for run in RUNS:
        found[f"run {run}"] = _or_none(lambda run=run: repr(over.run(run, moment, DEFAULT_RULES)))
        found[f"steps {run}"] = _or_none(lambda run=run: repr(_steps(asking, size, Wanted(run))))
    found["sweep"] = _or_none(lambda: repr(over.sweep(moment, "sweep", compare_unlike=True)))
    for node in NODES:
        found[node] = _or_none(lambda node=node: repr(over.lineage(moment, Trace(node))))
    return found


def _steps(asking: Asked, size: int, wanted: Wanted) -> Any:
    moment = asking.moment(size)
    known = asking.questions.steps.series(moment, wanted)
    return list(asking.questions.steps.pages(moment, wanted, known))


def _or_none(answer: Callable[[], str]) -> str | None:
    try:
        return answer()
    except NotFound:
        return None


@contextmanager
def telling(chapters: list[str]) -> Iterator[tuple[Bench, list[int]]]:
    """The chapters in this order; the sizes between them."""
    with asked() as bench:
        sizes = [bench.log.head().size]
        for name in chapters:
            CHAPTERS[name](bench)
            sizes.append(bench.log.head().size)
        yield bench, sizes


@settings(max_examples=25)
@given(st.lists(st.sampled_from(sorted(CHAPTERS)), min_size=1, max_size=12), st.data())
def test_what_came_later_changes_no_answer_at_a_size(chapters: list[str], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(chapters) - 1))
    with telling(chapters[:cut]) as (bench, sizes):
        before = answers(Asked(bench), sizes[-1])
        for name in chapters[cut:]:
            CHAPTERS[name](bench)
        later = Asked(bench)
        assert answers(later, sizes[-1]) == before
        assert answers(later, sizes[-1]) == before  # what was kept of the first asking is what it was


def test_the_whole_story_gives_an_answer_to_every_question() -> None:
    with telling(sorted(CHAPTERS)) as (bench, sizes):
        found = answers(Asked(bench), sizes[-1])
        assert [name for name, answer in found.items() if answer is None] == []


@settings(max_examples=15)
@given(st.lists(st.sampled_from(sorted(CHAPTERS)), min_size=1, max_size=12))
def test_rows_of_the_projection_and_the_log_folded_give_the_same_answers(chapters: list[str]) -> None:
    with telling(chapters) as (bench, sizes):
        by_rows = [answers(Asked(bench), size) for size in sizes[::3]]
        bench.forget_runs()
        asking = Asked(bench, rows=False)
        assert [answers(asking, size) for size in sizes[::3]] == by_rows
