"""A lineage as a tree, and as text for Graphviz or Mermaid: the same nodes and edges in each form.

Names are recorded by others. In DOT and Mermaid a node has an id of ours, and its name stands in a label in which no
character is markup.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from rich.text import Text

from ledger.core.text import harmless
from ledger.wire import runs_pb2
from services.cli import run_words, words
from services.cli.output import Output
from services.cli.trees import Branch, draw

Lineage = runs_pb2.LineageResponse
Edge = runs_pb2.LineageEdge

RELATIONS: Final = {
    "trained_on": ("trained on", "used to train"),
    "evaluated_on": ("evaluated on", "used to evaluate"),
    "started_from": ("started from", "start of"),
    "saved": ("saved", "saved by"),
    "resumed_from": ("resumed from", "resumed by"),
    "exported_from": ("exported from", "exported as"),
    "published_as": ("published as", "published from"),
    "descends_from": ("descends from", "ancestor of"),
}
"""How an edge reads from its first node, and from its second."""


def show_tree(out: Output, found: Lineage) -> None:
    """The node that was asked about, what it comes from, and what came of it.

    A node is told once with what lies behind it; where another edge leads to it too, it is named again.
    """
    asked = next(node for node in found.nodes if node.distance == 0)
    telling = _Telling(found)
    sides = (("comes from", -1), ("led to", 1))
    branches = [Branch(Text(title), below) for title, sign in sides if (below := list(telling.below(asked, sign)))]
    draw(out, Text(harmless(asked.node), style="bold").append_text(_state(asked)), branches)


class _Telling:
    def __init__(self, found: Lineage) -> None:
        self._nodes: Mapping[str, runs_pb2.LineageNode] = {node.node: node for node in found.nodes}
        self._edges = list(found.edges)
        self._told: set[str] = set()

    def below(self, node: runs_pb2.LineageNode, sign: int) -> Iterator[Branch]:
        """The nodes one edge further away in one direction."""
        for edge, other in self._onward(node, sign):
            label = _label(edge, node, other)
            if other.node in self._told:
                yield Branch(label.append(" (as above)", style="dim"), [])
                continue
            self._told.add(other.node)
            yield Branch(label, list(self.below(other, sign)))

    def _onward(self, node: runs_pb2.LineageNode, sign: int) -> Iterator[tuple[Edge, runs_pb2.LineageNode]]:
        for edge in self._edges:
            if node.node not in {edge.from_node, edge.to_node}:
                continue
            other = self._nodes[edge.to_node if edge.from_node == node.node else edge.from_node]
            if other.distance * sign > node.distance * sign:
                yield edge, other


def _label(edge: Edge, here: runs_pb2.LineageNode, there: runs_pb2.LineageNode) -> Text:
    relation = _relation(edge, forward=edge.from_node == here.node)
    text = Text.assemble((f"{relation} ", "dim"), harmless(there.node)).append_text(_state(there))
    if edge.basis != "recorded":
        text.append(f" ({harmless(edge.basis)})", style="dim")
    return text


def _relation(edge: Edge, *, forward: bool = True) -> str:
    ways = RELATIONS.get(edge.relation, (run_words.spaced(harmless(edge.relation)),) * 2)
    return ways[0] if forward else ways[1]


def _state(node: runs_pb2.LineageNode) -> Text:
    """A source's Quality, or how anything else stands."""
    text = Text()
    if node.HasField("state"):
        shown = words.quality(node.state) if node.kind == "source" else run_words.status(node.state)
        text.append("  ").append_text(shown)
    return text.append(" (sample)", style="dim") if node.sample else text


def dot(found: Lineage) -> str:
    """The graph for Graphviz."""
    ids = _ids(found.nodes)
    lines = ["digraph lineage {", "  rankdir=LR;", "  node [shape=box];"]
    lines += [f"  {ids[node.node]} [label={_quoted(_lines(node))}];" for node in found.nodes]
    lines += [f"  {ids[e.from_node]} -> {ids[e.to_node]} [label={_quoted([_edge(e)])}];" for e in found.edges]
    return "\n".join([*lines, "}"])


def mermaid(found: Lineage) -> str:
    """The graph for Mermaid, which Markdown pages draw."""
    ids = _ids(found.nodes)
    lines = ["flowchart LR"]
    lines += [f'  {ids[node.node]}["{"<br/>".join(map(_entities, _lines(node)))}"]' for node in found.nodes]
    lines += [f'  {ids[e.from_node]} -->|"{_entities(_edge(e))}"| {ids[e.to_node]}' for e in found.edges]
    return "\n".join(lines)


def _ids(nodes: Iterable[runs_pb2.LineageNode]) -> dict[str, str]:
    return {node.node: f"n{number}" for number, node in enumerate(nodes)}


def _lines(node: runs_pb2.LineageNode) -> list[str]:
    state = _state(node).plain.strip()
    return [harmless(node.node), *([state] if state else [])]


def _edge(edge: Edge) -> str:
    return _relation(edge) + ("" if edge.basis == "recorded" else f" ({harmless(edge.basis)})")


def _quoted(lines: Iterable[str]) -> str:
    """A string of DOT: a backslash would begin an escape, a quote would end it."""
    escaped = (line.replace("\\", "\\\\").replace('"', '\\"') for line in lines)
    return '"' + "\\n".join(escaped) + '"'


def _entities(text: str) -> str:
    """Text in which Mermaid and HTML find nothing to act on."""
    return "".join(c if c.isalnum() or c in " -./:@_" else f"#{ord(c)};" for c in text)
