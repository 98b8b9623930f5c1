"""Up and down a graph, held against the plainest way to find what hangs together."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.audit.lineage import BOTH, DOWN, UP, Edge, Graph, Node, Trace
from ledger.core.errors import InvalidInput

NAMES = tuple(f"{kind}/{letter}" for kind in ("source", "run", "checkpoint") for letter in "abc")
RELATIONS = ("trained_on", "saved", "exported_from", "published_as")
edges_drawn = st.lists(
    st.tuples(st.sampled_from(NAMES), st.sampled_from(RELATIONS), st.sampled_from(NAMES)), max_size=14
)


def graph_of(edges: list[tuple[str, str, str]]) -> Graph:
    graph = Graph()
    for name in NAMES:
        graph.add(Node(name, name))
    for number, (one, relation, other) in enumerate(edges):
        graph.join(one, relation, other, (number,), "recorded")
    return graph


def came_of(edge: Edge) -> tuple[str, str]:
    """What was first, and what came of it."""
    ends = (edge.from_node, edge.to_node)
    return ends if edge.relation in {"saved", "published_as"} else ends[::-1]


def distances(graph: Graph, start: str, direction: str) -> dict[str, int]:
    """By relaxing every edge until nothing moves."""
    found = {start: 0}
    moved = True
    while moved:
        moved = False
        for edge in graph.edges.values():
            here, there = came_of(edge) if direction == DOWN else came_of(edge)[::-1]
            if here in found and found[here] + 1 < found.get(there, 10**6):
                found[there] = found[here] + 1
                moved = True
    return found


@given(edges_drawn, st.sampled_from(NAMES), st.sampled_from([UP, DOWN]), st.integers(0, 3))
def test_what_is_reached_and_how_far_is_what_relaxing_all_edges_gives(
    edges: list[tuple[str, str, str]], start: str, direction: str, depth: int
) -> None:
    graph = graph_of(edges)
    nodes, between = graph.trace(Trace(start, direction, depth))
    known = distances(graph, start, direction)
    sign = 1 if direction == DOWN else -1
    assert {n.name: n.distance for n in nodes} == {
        name: sign * steps for name, steps in known.items() if not depth or steps <= depth
    }
    inside = {n.name for n in nodes}
    assert between == sorted(
        (e for e in graph.edges.values() if {e.from_node, e.to_node} <= inside),
        key=lambda e: (e.positions, e.from_node, e.relation, e.to_node),
    )


@given(edges_drawn, st.sampled_from(NAMES))
def test_both_ways_is_what_lies_up_and_what_lies_down_and_no_neighbour_of_theirs(
    edges: list[tuple[str, str, str]], start: str
) -> None:
    graph = graph_of(edges)
    up, down, both = ({n.name for n in graph.trace(Trace(start, d))[0]} for d in (UP, DOWN, BOTH))
    assert both == up | down


def test_an_edge_that_is_said_twice_is_one_with_all_its_events_and_the_best_basis() -> None:
    graph = graph_of([])
    graph.join("run/a", "trained_on", "source/a", (7,), "claimed")
    graph.join("run/a", "trained_on", "source/a", (3, 7), "recorded")
    (edge,) = graph.edges.values()
    assert (edge.positions, edge.basis) == ((3, 7), "recorded")


def test_an_edge_that_is_added_after_a_question_is_part_of_the_next_answer() -> None:
    graph = graph_of([("run/a", "saved", "checkpoint/a")])
    assert [n.name for n in graph.below("run/a")] == ["checkpoint/a"]
    graph.join("run/a", "saved", "checkpoint/b", (9,), "recorded")
    assert [n.name for n in graph.below("run/a")] == ["checkpoint/a", "checkpoint/b"]


def test_what_came_of_a_run_can_stop_at_the_runs_that_began_with_it() -> None:
    graph = graph_of(
        [
            ("run/a", "saved", "checkpoint/a"),
            ("run/b", "resumed_from", "checkpoint/a"),
            ("run/b", "saved", "checkpoint/b"),
        ]
    )
    assert [n.name for n in graph.below("run/a")] == ["checkpoint/a", "run/b", "checkpoint/b"]
    assert [n.name for n in graph.below("run/a", through_runs=False)] == ["checkpoint/a", "run/b"]


@pytest.mark.parametrize("node", ["", "run", "run/", "planet/x", "/x"])
def test_a_name_that_no_node_can_bear_is_refused(node: str) -> None:
    with pytest.raises(InvalidInput, match="no node of a lineage"):
        Trace(node)


def test_a_direction_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidInput, match="sideways"):
        Trace("run/a", "sideways")
