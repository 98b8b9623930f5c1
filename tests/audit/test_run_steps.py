"""The steps of a run, straight from its log: all of them, or those behind one checkpoint."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import pytest

from ledger.audit import steps as steps_module
from ledger.audit.steps import StepRow, Wanted
from ledger.core.errors import InvalidInput, NotFound
from ledger.events.administration import EventDisregarded
from tests.audit.running import ENTROPY, REWARD, Asked, asked, attempt, attempt_ended, declared, saved, steps, told
from tests.projections.bench import Bench
from tests.server.doors import of


@pytest.fixture
def bench() -> Iterator[Bench]:
    with asked() as made:
        yield made


def rows(bench: Bench, wanted: Wanted, size: int | None = None) -> list[StepRow]:
    asking = Asked(bench)
    moment = asking.moment(size)
    known = asking.questions.steps.series(moment, wanted)
    return [row for page in asking.questions.steps.pages(moment, wanted, known) for row in page]


def restarted(bench: Bench) -> None:
    """Four steps, of which the last two are made again from the checkpoint at step 2."""
    bench.append(*told(declared("a"), attempt("a"), steps("a", {1: 0.1, 2: 0.2}), saved("a", 2)))
    bench.append(*told(steps("a", {3: 0.9, 4: 0.9}), attempt_ended("a")))
    bench.append(*told(attempt("a", 2, (1, 2)), steps("a", {3: 0.3, 4: 0.4}, 2), saved("a", 4, 2)))


def test_every_attempt_stays_and_what_was_made_again_is_marked(bench: Bench) -> None:
    restarted(bench)
    found = rows(bench, Wanted("a"))
    assert [(r.attempt, r.step, r.metrics[REWARD], r.abandoned) for r in found] == [
        (1, 1, 0.1, False), (1, 2, 0.2, False), (1, 3, 0.9, True), (1, 4, 0.9, True), (2, 3, 0.3, False),
        (2, 4, 0.4, False),
    ]  # fmt: skip
    assert [r.ema for r in found if r.abandoned] == [None, None]


def test_a_lineage_holds_only_the_steps_behind_its_weights_with_the_ema_over_them(bench: Bench) -> None:
    restarted(bench)
    found = rows(bench, Wanted("a", lineage_of_step=4))
    assert [(r.attempt, r.step) for r in found] == [(1, 1), (1, 2), (2, 3), (2, 4)]
    average = Fraction(1, 10)
    for row, reward in zip(found, (Fraction(n, 10) for n in range(1, 5)), strict=True):
        average = average * Fraction(2, 3) + reward / 3 if row.step > 1 else reward
        assert row.ema == pytest.approx(float(average), abs=1e-12)
    abandoned = rows(bench, Wanted("a", lineage_of_step=4, lineage_of_attempt=1))
    assert [(r.attempt, r.step) for r in abandoned] == [(1, 1), (1, 2), (1, 3), (1, 4)]


def test_the_lineage_of_the_last_checkpoints_label_ends_with_the_last_update_in_it(bench: Bench) -> None:
    bench.append(*told(declared("a"), steps("a", {1: 0.1, 2: 0.2, 3: 0.3}), saved("a", 4, last_update=3)))
    assert [r.step for r in rows(bench, Wanted("a", lineage_of_step=4))] == [1, 2, 3]


def test_only_the_metrics_that_are_asked_for_are_given_and_no_value_is_lost(bench: Bench) -> None:
    bench.append(*told(declared("a"), steps("a", {1: "NaN", 2: "-Infinity"}, **{ENTROPY: {1: 0.5}, "x": {2: 7.0}})))
    first, second = rows(bench, Wanted("a"))
    assert math.isnan(first.metrics[REWARD])
    assert (first.metrics[ENTROPY], second.metrics) == (0.5, {REWARD: -math.inf, "x": 7.0})
    assert [r.metrics for r in rows(bench, Wanted("a", keys=frozenset({ENTROPY, "none"})))] == [{ENTROPY: 0.5}, {}]


def test_what_is_disregarded_or_came_later_is_no_step(bench: Bench) -> None:
    size = bench.append(*told(declared("a"), steps("a", {1: 0.1})))
    (wrong,) = told(steps("a", {2: 0.2}))
    bench.append(wrong)
    said = EventDisregarded(pos=size, event=wrong.id, reason="another run's")
    bench.append(of(said, "ledger"))
    assert [r.step for r in rows(bench, Wanted("a"), size)] == [1]
    assert [r.step for r in rows(bench, Wanted("a"), size + 1)] == [1, 2]
    assert [r.step for r in rows(bench, Wanted("a"))] == [1]


def test_steps_that_say_they_are_of_another_run_are_none_of_this_one(bench: Bench) -> None:
    bench.append(*told(declared("a"), steps("a", {1: 0.1})), of(steps("b", {2: 0.2}), "run/a"))
    assert [(r.step, r.metrics[REWARD]) for r in rows(bench, Wanted("a"))] == [(1, 0.1)]


def test_a_run_without_steps_gives_one_page_without_rows(bench: Bench) -> None:
    bench.append(*told(declared("a")))
    asking, wanted = Asked(bench), Wanted("a")
    known = asking.questions.steps.series(asking.moment(), wanted)
    assert list(asking.questions.steps.pages(asking.moment(), wanted, known)) == [[]]


def test_pages_hold_no_more_rows_or_numbers_than_a_message_takes(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps_module, "ROWS", 3)
    monkeypatch.setattr(steps_module, "NUMBERS", 4)
    bench.append(*told(declared("a"), steps("a", dict.fromkeys(range(1, 8), 0.5))))
    bench.append(*told(steps("a", {8: 0.5, 9: 0.5}, **{key: {8: 1.0, 9: 1.0} for key in "xyzuv"})))
    asking, wanted = Asked(bench), Wanted("a")
    known = asking.questions.steps.series(asking.moment(), wanted)
    pages = list(asking.questions.steps.pages(asking.moment(), wanted, known))
    assert [r.step for page in pages for r in page] == list(range(1, 10))
    assert [len(page) for page in pages] == [3, 3, 1, 1, 1]


@pytest.mark.parametrize(("step", "number"), [(3, 7), (5, None), (5, 2)])
def test_a_step_that_no_attempt_made_has_no_lineage(bench: Bench, step: int, number: int | None) -> None:
    restarted(bench)
    with pytest.raises(NotFound, match=f"of the run made step {step}"):
        rows(bench, Wanted("a", lineage_of_step=step, lineage_of_attempt=number))


def test_an_attempt_alone_names_no_lineage() -> None:
    with pytest.raises(InvalidInput, match="without lineage_of_step"):
        Wanted("a", lineage_of_attempt=1)
