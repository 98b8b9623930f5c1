"""What a node comes from and what came of it: a graph of sources, runs, checkpoints, exports and what was published.

A node's name is its kind and its id: `source/<atlas id>`, `run/<id>`, `checkpoint/<run>@<step>`, `export/<id>`,
`model/<repository>`. An edge reads as a sentence from left to right, whichever of the two came first: a run trained on
a source, an export was exported from a checkpoint.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from ledger.audit.wording import quoted
from ledger.core.errors import InvalidInput

UP: Final = "up"
DOWN: Final = "down"
BOTH: Final = "both"
DIRECTIONS: Final = (UP, DOWN, BOTH)
KINDS: Final = ("source", "dataset", "base", "run", "checkpoint", "export", "model", "traces", "logs")
"""How names of nodes begin; `dataset` is a source that no Atlas id is known of."""

_LEADS_DOWN: Final = frozenset({"saved", "published_as"})
"""Relations whose second node came of the first; of all others the first came of the second."""

_DIGITS: Final = re.compile(r"([0-9]+)")
_STRENGTH: Final = ("recorded", "imported", "claimed", "inferred")
"""Ways to know a thing, the best first."""


@dataclass(frozen=True, slots=True)
class Node:
    """One thing, and the events that speak of it."""

    name: str
    label: str
    state: str | None = None
    positions: tuple[int, ...] = ()
    sample: bool = False
    distance: int = 0
    """Edges from the node that was asked about: negative for what it comes from."""

    @property
    def kind(self) -> str:
        kind = self.name.partition("/")[0]
        return "source" if kind == "dataset" else kind


@dataclass(frozen=True, slots=True)
class Edge:
    """How two nodes hang together."""

    from_node: str
    to_node: str
    relation: str
    positions: tuple[int, ...]
    basis: str

    @property
    def leads_down(self) -> bool:
        """Whether the second node came of the first."""
        return self.relation in _LEADS_DOWN


@dataclass(frozen=True)
class Trace:
    """A question about lineage."""

    node: str
    direction: str = BOTH
    depth: int = 0
    """How many edges away; 0: all."""

    def __post_init__(self) -> None:
        kind, _, rest = self.node.partition("/")
        if not rest or kind not in KINDS:
            raise InvalidInput(
                f"{quoted(self.node)!r} is no node of a lineage",
                remedy=f"Write kind and id, such as run/arm-0 or checkpoint/arm-0@15; kinds are {', '.join(KINDS)}.",
            )
        if self.direction not in DIRECTIONS:
            raise InvalidInput(
                f"the direction {quoted(self.direction)!r} is none", remedy=f"It is one of {', '.join(DIRECTIONS)}."
            )


@dataclass
class Graph:
    """Everything that hangs together at one size."""

    nodes: dict[str, Node] = field(default_factory=dict)
    edges: dict[tuple[str, str, str], Edge] = field(default_factory=dict)
    _onward: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    """By direction, the nodes next to each; made when it is first asked for, and anew after another edge."""

    def add(self, node: Node) -> str:
        """A node; of one that is there already the positions are added to, and what was not known. Gives its name."""
        known = self.nodes.get(node.name)
        self.nodes[node.name] = node if known is None else _joined(known, node)
        return node.name

    def join(self, from_node: str, relation: str, to_node: str, positions: Iterable[int], basis: str) -> None:
        """An edge between two nodes; of one that is there already the positions are added to."""
        self._onward.clear()
        key = (from_node, relation, to_node)
        known = self.edges.get(key)
        before = known.positions if known else ()
        best = min((b for b in (basis, known.basis if known else basis)), key=_strength)
        self.edges[key] = Edge(from_node, to_node, relation, tuple(sorted({*before, *positions})), best)

    def trace(self, asked: Trace) -> tuple[list[Node], list[Edge]]:
        """The nodes that the question is about, the asked one among them, and the edges between them."""
        distances = {asked.node: 0}
        if asked.direction in {UP, BOTH}:
            distances.update(self._reached(asked, UP))
        if asked.direction in {DOWN, BOTH}:
            for name, steps in self._reached(asked, DOWN).items():
                distances.setdefault(name, steps)
        nodes = [replace(self.nodes[name], distance=steps) for name, steps in distances.items()]
        edges = [e for e in self.edges.values() if e.from_node in distances and e.to_node in distances]
        return sorted(nodes, key=_nearness), sorted(edges, key=_place)

    def _reached(self, asked: Trace, direction: str, ends: Collection[str] = ()) -> dict[str, int]:
        """Every node that lies in one direction, and how far; nothing is sought behind nodes of the kinds `ends`."""
        onward, sign = self._next(direction), -1 if direction == UP else 1
        reached: dict[str, int] = {asked.node: 0}
        waiting = deque([asked.node])
        while waiting:
            name = waiting.popleft()
            steps = abs(reached[name]) + 1
            if (asked.depth and steps > asked.depth) or (name != asked.node and self.nodes[name].kind in ends):
                continue
            for other in onward.get(name, ()):
                if other not in reached:
                    reached[other] = sign * steps
                    waiting.append(other)
        return reached

    def _next(self, direction: str) -> Mapping[str, list[str]]:
        known = self._onward.get(direction)
        if known is None:
            known = self._onward[direction] = {}
            for edge in self.edges.values():
                before, after = edge.from_node, edge.to_node
                if not edge.leads_down:
                    before, after = after, before
                here, there = (before, after) if direction == DOWN else (after, before)
                known.setdefault(here, []).append(there)
        return known

    def below(self, name: str, *, through_runs: bool = True) -> Iterator[Node]:
        """What came of a node, the nearest first, itself left out; or only up to the runs that began with it."""
        reached = self._reached(Trace(name, DOWN), DOWN, ends=() if through_runs else ("run",))
        nodes = (replace(self.nodes[other], distance=steps) for other, steps in reached.items() if other != name)
        yield from sorted(nodes, key=_nearness)


def _joined(known: Node, more: Node) -> Node:
    return replace(
        known,
        state=more.state if known.state is None else known.state,
        positions=tuple(sorted({*known.positions, *more.positions})),
        sample=known.sample or more.sample,
    )


def _nearness(node: Node) -> tuple[int, list[str | int], str]:
    return node.distance, natural(node.name), node.name


def natural(name: str) -> list[str | int]:
    """A name's order as people count: step 5 before step 10."""
    return [int(part) if place % 2 else part for place, part in enumerate(_DIGITS.split(name))]


def _strength(basis: str) -> int:
    return _STRENGTH.index(basis) if basis in _STRENGTH else len(_STRENGTH)


def _place(edge: Edge) -> tuple[tuple[int, ...], str, str, str]:
    return edge.positions, edge.from_node, edge.relation, edge.to_node
