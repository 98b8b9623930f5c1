"""Which runs a source, or an event about it, touches."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ledger.audit.blast import Affected
from ledger.core.errors import InvalidInput, NotFound
from ledger.events.runs import ResumedFrom
from tests.audit.running import (
    OTHER,
    Asked,
    asked,
    attempt,
    declared,
    defect,
    deleted,
    exported,
    exporting,
    model,
    review,
    saved,
    selected,
    taken,
    told,
    traces,
)
from tests.projections.bench import Bench
from tests.rules import builders
from tests.rules.builders import DATA, SOURCE, VERIFIER, sha
from tests.server.doors import of


@pytest.fixture
def bench() -> Iterator[Bench]:
    with asked() as made:
        yield made


def touched(bench: Bench, what: str | int, size: int | None = None) -> dict[str, Affected]:
    asking = Asked(bench)
    _, found = asking.questions.blast_radius(asking.moment(size), what)
    return {one.run.id: one for one, _ in found}


def test_every_run_that_took_a_source_is_told_with_what_came_of_it(bench: Bench) -> None:
    bench.append(*told(declared("a", taken()), saved("a", 2), selected("a", 2), traces("a")))
    bench.append(*told(exporting("e", "a", 2), exported("e"), model("e", "org/m"), declared("other", taken(OTHER))))
    found = touched(bench, SOURCE)
    assert list(found) == ["a"]
    one = found["a"]
    assert (one.checkpoints, one.exports, one.models, one.traces) == (("a@2",), ("e",), ("org/m",), ("org/traces",))
    assert (one.match, one.known_at_start, one.role, one.through) == ("", None, "train", None)


@pytest.mark.parametrize(
    ("data", "verifier", "match"),
    [
        (DATA, VERIFIER, "same_revision"),
        ("data-2", VERIFIER, "other_revision"),
        (DATA, "verifier-2", "other_revision"),
        ("data-2", None, "other_revision"),
        (None, VERIFIER, "unknown_revision"),
        (DATA, None, "unknown_revision"),
    ],
)
def test_a_run_is_held_against_the_revisions_that_the_event_names(
    bench: Bench, data: str | None, verifier: str | None, match: str
) -> None:
    bench.append(*told(declared("a", taken(data=data, verifier=verifier))))
    pos = defect(bench, dataset_revision=DATA, verifier_revision=VERIFIER)
    assert touched(bench, pos)["a"].match == match


def test_of_two_revisions_only_those_that_the_event_names_are_compared(bench: Bench) -> None:
    bench.append(*told(declared("a", taken(data=None))))
    assert touched(bench, defect(bench, verifier_revision=VERIFIER))["a"].match == "same_revision"
    assert touched(bench, defect(bench, "d2"))["a"].match == "unknown_revision"


def test_what_is_said_of_a_defect_later_concerns_the_revisions_of_its_confirmation(bench: Bench) -> None:
    bench.append(*told(declared("a", taken(data="data-2"))))
    defect(bench, "d0")
    defect(bench, dataset_revision=DATA)
    pos = bench.append(of(builders.withdrawn("d1"))) - 1
    assert touched(bench, pos)["a"].match == "other_revision"


def test_a_review_and_a_row_of_the_catalogue_name_revisions_too(bench: Bench) -> None:
    bench.append(*told(declared("a", taken())))
    published = review(bench, "r1") - 1
    assert [touched(bench, pos)["a"].match for pos in (published, 0)] == ["same_revision", "same_revision"]


def test_whether_an_event_was_known_is_told_of_the_moment_when_the_run_was_declared(bench: Bench) -> None:
    bench.append(*told(declared("before", taken())))
    pos = defect(bench)
    bench.append(*told(declared("after", taken()), declared("before", taken(), purpose="declared again")))
    found = touched(bench, pos)
    assert {name: one.known_at_start for name, one in found.items()} == {"before": False, "after": True}


def test_the_sources_quality_is_told_as_it_was_when_the_run_was_declared(bench: Bench) -> None:
    bench.append(*told(declared("unreviewed", taken())))
    review(bench, "r1")
    bench.append(*told(declared("good", taken())))
    defect(bench)
    bench.append(*told(declared("capped", taken())))
    asking = Asked(bench)
    # The bench puts no rules in force, so they are named.
    _, found = asking.questions.blast_radius(asking.moment(), SOURCE, "ledger-1")
    assert [(one.run.id, quality) for one, quality in found] == [
        ("unreviewed", "unreviewed"), ("good", "good"), ("capped", "some_issues"),
    ]  # fmt: skip


def test_a_run_that_began_with_an_affected_runs_weights_is_touched_through_it(bench: Bench) -> None:
    bench.append(*told(declared("a", taken(data="data-2")), saved("a", 2)))
    bench.append(*told(declared("b", taken(OTHER)), attempt("b", resumed_from=ResumedFrom(run_id="a", step=2))))
    bench.append(*told(saved("b", 4)))
    bench.append(*told(declared("c", taken(OTHER)), attempt("c", resumed_from=ResumedFrom(run_id="b", step=4))))
    found = touched(bench, defect(bench, dataset_revision=DATA))
    assert [(one.run.id, one.through, one.role, one.match) for one in found.values()] == [
        ("a", None, "train", "other_revision"), ("b", "a", None, "other_revision"), ("c", "a", None, "other_revision"),
    ]  # fmt: skip
    assert (found["a"].checkpoints, found["b"].checkpoints) == (("a@2",), ("b@4",))


def test_a_source_taken_for_evaluation_alone_is_told_as_that(bench: Bench) -> None:
    bench.append(*told(declared("a", taken(role="eval"), taken(OTHER)), declared("b", taken(role="eval"), taken())))
    assert {name: one.role for name, one in touched(bench, SOURCE).items()} == {"a": "eval", "b": "train"}


def test_what_began_with_weights_that_were_only_evaluated_on_a_source_is_not_touched(bench: Bench) -> None:
    bench.append(*told(declared("a", taken(role="eval"), taken(OTHER)), saved("a", 2)))
    bench.append(*told(declared("b", taken("A:third")), attempt("b", resumed_from=ResumedFrom(run_id="a", step=2))))
    assert list(touched(bench, SOURCE)) == ["a"]
    assert list(touched(bench, OTHER)) == ["a", "b"]


def test_every_checkpoint_of_a_long_run_is_told_in_the_order_of_its_steps(bench: Bench) -> None:
    bench.append(*told(declared("a", taken()), *(saved("a", step) for step in range(5, 105, 5))))
    bench.append(*told(deleted("a", 10), saved("a", 15, 2, digest=sha("again"))))
    again = [f"a@15#{digest[:12]}" for digest in sorted((sha("a@15"), sha("again")))]
    others = [f"a@{step}" for step in range(20, 105, 5)]
    assert list(touched(bench, SOURCE)["a"].checkpoints) == ["a@5", "a@10", *again, *others]
    assert len(touched(bench, SOURCE, size=16)["a"].checkpoints) == 12


def test_a_smaller_size_knows_fewer_runs(bench: Bench) -> None:
    size = bench.append(*told(declared("a", taken())))
    bench.append(*told(declared("b", taken())))
    assert [list(touched(bench, SOURCE, at)) for at in (size, None)] == [["a"], ["a", "b"]]


def test_a_listed_source_that_no_run_took_touches_nobody_and_an_unlisted_one_is_not_found(bench: Bench) -> None:
    assert touched(bench, SOURCE) == {}
    with pytest.raises(NotFound, match="there is no source"):
        touched(bench, "A:none")


def test_an_event_of_no_source_is_refused_and_one_that_is_not_there_not_found(bench: Bench) -> None:
    pos = bench.append(*told(declared("a", taken()))) - 1
    with pytest.raises(InvalidInput, match=r"is a run\.declared of 'run/a'"):
        touched(bench, pos)
    with pytest.raises(NotFound, match="no event at position"):
        touched(bench, pos + 1)
    with pytest.raises(NotFound):
        touched(bench, 2**63)


class TestARunThatDeclaresItselfAgain:
    def test_one_that_leaves_the_source_out_stays_touched_with_what_came_of_it(self, bench: Bench) -> None:
        bench.append(*told(declared("a", taken()), saved("a", 2), declared("a", taken(OTHER))))
        bench.append(*told(declared("b"), attempt("b", 1, resumed_from=ResumedFrom(run_id="a", step=2))))
        pos = defect(bench, dataset_revision=DATA, verifier_revision=VERIFIER)
        found = touched(bench, pos)
        assert {name: (one.match, one.known_at_start, one.role, one.through) for name, one in found.items()} == {
            "a": ("same_revision", False, "train", None),
            "b": ("same_revision", False, None, "a"),
        }
        assert found["a"].checkpoints == ("a@2",)
        assert {name: one.withdrawn for name, one in found.items()} == {"a": True, "b": False}

    def test_each_revision_that_was_declared_is_held_against_the_event(self, bench: Bench) -> None:
        bench.append(*told(declared("a", taken(data="data-0")), declared("a", taken(data="data-2"))))
        named = {"verifier_revision": VERIFIER}
        found = [
            touched(bench, defect(bench, name, dataset_revision=data, **named))["a"].match
            for name, data in (("d1", "data-0"), ("d2", "data-2"), ("d3", "data-1"))
        ]
        assert found == ["same_revision", "same_revision", "other_revision"]

    def test_a_revision_that_is_filled_in_later_leaves_nothing_unknown(self, bench: Bench) -> None:
        bench.append(*told(declared("a", taken(data=None)), declared("a", taken(data="data-2"))))
        pos = defect(bench, dataset_revision=DATA, verifier_revision=VERIFIER)
        assert touched(bench, pos)["a"].match == "other_revision"

    def test_one_that_only_evaluates_on_it_later_was_trained_on_it(self, bench: Bench) -> None:
        bench.append(*told(declared("a", taken(data="data-2")), declared("a", taken(role="eval"))))
        pos = defect(bench, dataset_revision=DATA)
        assert (touched(bench, pos)["a"].role, touched(bench, pos)["a"].match) == ("train", "other_revision")

    def test_a_source_that_only_a_later_declaration_names_was_taken_from_there_on(self, bench: Bench) -> None:
        first = bench.append(*told(declared("a", taken(OTHER))))
        pos = defect(bench)
        bench.append(*told(declared("a", taken(OTHER), taken())))
        one = touched(bench, pos)["a"]
        assert (one.known_at_start, one.pos) == (True, pos + 1)
        assert touched(bench, OTHER)["a"].pos == first - 1
