"""A tree of reasons, or of anything else: drawn on a terminal, indented when piped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from ledger.core.text import harmless
from ledger.wire import audit_pb2
from services.cli import words
from services.cli.output import Output

_STYLES: Final = {"value": "bold", "artifact": "dim"}


def show_tree(out: Output, title: str, nodes: Iterable[audit_pb2.WhyNode], *, evidence: bool = False) -> None:
    """What is shown, with the rules, events and evidence that it rests on, each under what it supports.

    An event is told once; where it supports something else too, what was not told of it yet is enough. So is the number
    of the artifacts that it cites, unless the evidence is asked for.
    """
    draw(out, Text(harmless(title), style="bold"), list(_Teller(evidence=evidence).branches(nodes)))


def draw(out: Output, title: Text, branches: Sequence[Branch]) -> None:
    """Branches below a title; the labels are harmless already."""
    if not out.to_terminal:
        out.line(title.plain)
        for depth, text in _indented(branches, 1):
            out.line(Text("  " * depth).append_text(text))
        return
    tree = Tree(title)
    _grow(tree, branches)
    console = Console(highlight=False, markup=False, emoji=False)
    for segments in console.render_lines(tree, pad=False):
        out.line(Text.assemble(*((s.text, s.style or "") for s in segments)), whole=True)


class Branch(NamedTuple):
    """A line, and what stands below it."""

    label: Text
    branches: list[Branch]


class _Teller:
    """Makes branches of nodes, and remembers which events were told."""

    def __init__(self, *, evidence: bool) -> None:
        self._evidence = evidence
        self._told: set[int] = set()

    def branches(self, nodes: Iterable[audit_pb2.WhyNode]) -> Iterator[Branch]:
        for node in nodes:
            if node.kind != "artifact" or self._evidence:
                yield self._branch(node)

    def _branch(self, node: audit_pb2.WhyNode) -> Branch:
        label = _label(node)
        if node.HasField("pos"):
            if node.pos in self._told and node.children:
                untold = [c for c in node.children if c.HasField("pos") and c.pos not in self._told]
                return Branch(label.append(" (as above)", style="dim"), list(self.branches(untold)))
            self._told.add(node.pos)
        cited = sum(child.kind == "artifact" for child in node.children)
        if cited and not self._evidence:
            label.append(f" (cites {words.counted(cited, 'artifact')})", style="dim")
        return Branch(label, list(self.branches(node.children)))


def _grow(tree: Tree, branches: Iterable[Branch]) -> None:
    for branch in branches:
        _grow(tree.add(branch.label), branch.branches)


def _indented(branches: Iterable[Branch], depth: int) -> Iterator[tuple[int, Text]]:
    for branch in branches:
        yield depth, branch.label
        yield from _indented(branch.branches, depth + 1)


def _label(node: audit_pb2.WhyNode) -> Text:
    text = Text(f"{node.pos} " if node.HasField("pos") else "")
    text.append(harmless(node.text), style=_STYLES.get(node.kind, ""))
    if node.rule:
        text.append(f" [{harmless(node.rule)}]", style="dim")
    if node.sha256:
        text.append(f" {harmless(node.sha256)}", style="dim")
    return text
