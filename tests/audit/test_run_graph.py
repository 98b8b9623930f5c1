"""What was trained on what, over everything that was recorded of runs and exports."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ledger.audit.lineage import DOWN, UP, Edge, Node, Trace
from ledger.core.errors import NotFound
from ledger.events.runs import Basis, ModelRef, ResumedFrom
from tests.audit.running import (
    BASE,
    OTHER,
    Asked,
    asked,
    attempt,
    declared,
    exported,
    exporting,
    logs,
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
from tests.rules.builders import SOURCE, sha

CLAIMED = Basis(kind="claimed", url="https://example.org/card")


@pytest.fixture
def bench() -> Iterator[Bench]:
    with asked() as made:
        yield made


def traced(bench: Bench, node: str, *, depth: int = 0, direction: str = "both") -> tuple[dict[str, Node], list[Edge]]:
    asking = Asked(bench)
    nodes, edges = asking.questions.lineage(asking.moment(), Trace(node, direction, depth))
    return {node.name: node for node in nodes}, edges


def sentences(edges: list[Edge]) -> set[tuple[str, str, str]]:
    return {(e.from_node, e.relation, e.to_node) for e in edges}


def whole_story(bench: Bench) -> None:
    """A run from its source to a published model, and a second run that began with it."""
    review(bench, "r1")
    bench.append(
        *told(declared("a", taken(), root_architecture=ModelRef(name="org/root")), steps("a", {1: 0.5, 2: 0.6}))
    )
    bench.append(*told(saved("a", 2), selected("a", 2), traces("a"), logs("a")))
    bench.append(*told(exporting("e", "a", 2), exported("e"), model("e", "org/m")))
    bench.append(*told(declared("b", taken(OTHER), rl_start=ModelRef(name="m", repository="org/m", commit="m1"))))


def test_a_source_stands_with_the_declaration_that_names_it_first_also_where_a_later_one_leaves_it_out(
    bench: Bench,
) -> None:
    first = bench.append(*told(declared("a", taken()))) - 1
    second = bench.append(*told(declared("a", taken(OTHER), taken(data="held-out", role="eval")))) - 1
    _, edges = traced(bench, "run/a", direction=UP, depth=1)
    assert {(e.relation, e.to_node): e.positions for e in edges if e.relation != "started_from"} == {
        ("trained_on", f"source/{SOURCE}"): (first,),
        ("evaluated_on", f"source/{SOURCE}"): (first,),
        ("trained_on", f"source/{OTHER}"): (second,),
    }


def test_from_a_source_down_to_the_run_that_began_with_its_model(bench: Bench) -> None:
    whole_story(bench)
    nodes, edges = traced(bench, f"source/{SOURCE}", direction=DOWN)
    assert {name: node.distance for name, node in nodes.items()} == {
        f"source/{SOURCE}": 0, "run/a": 1, "checkpoint/a@2": 2, "traces/org/traces": 2, "logs/org/model": 2,
        "export/e": 3, "model/org/m": 4, "run/b": 5,
    }  # fmt: skip
    assert nodes[f"source/{SOURCE}"].state == "good"
    assert ("run/b", "started_from", "model/org/m") in sentences(edges)


def test_from_a_model_up_to_everything_that_it_rests_on(bench: Bench) -> None:
    whole_story(bench)
    nodes, edges = traced(bench, "model/org/m", direction=UP)
    assert {name: node.distance for name, node in nodes.items()} == {
        "model/org/m": 0, "export/e": -1, "checkpoint/a@2": -2, "run/a": -3, f"source/{SOURCE}": -4,
        "base/org/base": -4, "base/org/root": -5,
    }  # fmt: skip
    assert ("base/org/base", "descends_from", "base/org/root") in sentences(edges)
    assert all(edge.positions for edge in edges)


def test_a_depth_of_one_is_the_nearest_nodes_on_either_side(bench: Bench) -> None:
    whole_story(bench)
    nodes, _ = traced(bench, "export/e", depth=1)
    assert {name: node.distance for name, node in nodes.items()} == {
        "checkpoint/a@2": -1, "export/e": 0, "model/org/m": 1,
    }  # fmt: skip


def test_a_run_that_resumed_from_anothers_checkpoint_comes_of_that_run(bench: Bench) -> None:
    whole_story(bench)
    begun = attempt("c", resumed_from=ResumedFrom(run_id="a", step=2))
    bench.append(*told(declared("c", taken(OTHER)), begun))
    nodes, edges = traced(bench, "run/c", direction=UP)
    assert ("run/c", "resumed_from", "checkpoint/a@2") in sentences(edges)
    assert nodes[f"source/{SOURCE}"].distance == -3


def test_a_step_that_was_saved_with_two_digests_is_two_nodes(bench: Bench) -> None:
    bench.append(*told(declared("a", taken()), saved("a", 2, digest=sha("first")), selected("a", 2)))
    bench.append(*told(saved("a", 2, digest=sha("second")), exporting("e", "a", 2, digest=sha("first"))))
    nodes, edges = traced(bench, "run/a", direction=DOWN)
    first, second = (f"checkpoint/a@2#{sha(name)[:12]}" for name in ("first", "second"))
    assert {first, second} <= nodes.keys()
    assert ("export/e", "exported_from", first) in sentences(edges)
    assert (nodes[first].state, nodes[second].state) == ("replaced", "committed")


def test_every_checkpoint_of_a_long_run_is_on_its_lineage(bench: Bench) -> None:
    bench.append(*told(declared("a", taken()), *(saved("a", step) for step in range(1, 101))))
    nodes, _ = traced(bench, f"source/{SOURCE}", direction=DOWN)
    listed = [node.name for node in nodes.values() if node.kind == "checkpoint"]
    assert listed == [f"checkpoint/a@{step}" for step in range(1, 101)]


def test_a_checkpoint_that_nothing_came_of_can_be_asked_about_all_the_same(bench: Bench) -> None:
    bench.append(*told(declared("a", taken()), *(saved("a", step) for step in range(1, 101))))
    nodes, _ = traced(bench, "checkpoint/a@1", direction=UP)
    assert (nodes["checkpoint/a@1"].state, nodes["run/a"].distance) == ("committed", -1)
    by_digest, _ = traced(bench, f"checkpoint/a@1#{sha('a@1')[:12]}", direction=UP)
    assert "run/a" in by_digest


@pytest.mark.parametrize(
    "node",
    [
        "run/none", "checkpoint/a@7", f"checkpoint/a@2#{sha('x')[:12]}", "checkpoint/a@x", "checkpoint/a", "source/A:no",
        "model/org/none", "source/\x00", "checkpoint/\x00@1", "checkpoint/a@" + "9" * 30,
    ],
)  # fmt: skip
def test_what_nothing_names_is_not_found(bench: Bench, node: str) -> None:
    whole_story(bench)
    with pytest.raises(NotFound, match="nothing that was recorded names"):
        traced(bench, node)


def test_a_source_that_no_run_took_stands_alone(bench: Bench) -> None:
    nodes, edges = traced(bench, f"source/{SOURCE}")
    assert ([*nodes], edges) == ([f"source/{SOURCE}"], [])


def test_a_source_of_no_known_id_is_a_node_under_its_datasets_name(bench: Bench) -> None:
    bench.append(*told(declared("a", taken(None, dataset="org/unknown"), taken(OTHER, role="eval"))))
    nodes, edges = traced(bench, "run/a")
    assert nodes["dataset/org/unknown"].kind == "source"
    assert ("run/a", "evaluated_on", f"source/{OTHER}") in sentences(edges)


@pytest.mark.parametrize(
    ("commit", "node", "basis"),
    [("m1", "model/org/m", "claimed"), (None, "model/org/m", "inferred"), ("m2", "base/org/m", "claimed")],
)
def test_a_model_is_a_published_one_by_its_commit_and_without_it_that_is_inferred(
    bench: Bench, commit: str | None, node: str, basis: str
) -> None:
    whole_story(bench)
    start = ModelRef(name="m", repository="org/m", commit=commit)
    bench.append(*told(declared("c", taken(), rl_start=start, basis=CLAIMED)))
    _, edges = traced(bench, "run/c", direction=UP, depth=1)
    assert [(e.to_node, e.basis) for e in edges if e.relation == "started_from"] == [(node, basis)]


def test_what_is_only_claimed_is_told_as_a_claim_and_what_is_made_up_as_a_sample(bench: Bench) -> None:
    bench.append(*told(declared("a", taken(), rl_start=BASE, basis=CLAIMED), sample=True))
    nodes, edges = traced(bench, "run/a")
    assert {edge.basis for edge in edges} == {"claimed"}
    assert nodes["run/a"].sample


def test_a_checkpoint_that_was_exported_and_never_selected_is_told_as_its_run_saved_it(bench: Bench) -> None:
    bench.append(*told(declared("a", taken()), *(saved("a", step) for step in range(1, 101)), exporting("e", "a", 1)))
    nodes, edges = traced(bench, "export/e", direction=UP)
    assert nodes["checkpoint/a@1"].state == "committed"
    assert {(e.relation, e.basis) for e in edges if e.to_node == "checkpoint/a@1"} == {
        ("exported_from", "recorded"), ("saved", "recorded"),
    }  # fmt: skip


def test_an_export_of_a_run_that_told_nothing_hangs_on_it_by_inference(bench: Bench) -> None:
    bench.append(*told(exporting("e", "silent", 5)))
    nodes, edges = traced(bench, "export/e", direction=UP)
    assert nodes["checkpoint/silent@5"].state is None
    assert {(e.relation, e.basis) for e in edges} == {("exported_from", "recorded"), ("saved", "inferred")}
