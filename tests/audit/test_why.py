"""An explanation as a tree: what hangs below what, and that no log can make it endless."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ledger.audit import why
from ledger.audit.why import Node, tree
from ledger.events.administration import EventDisregarded
from tests.audit.asking import Asking
from tests.audit.shown import reason, shown
from tests.projections.bench import Bench, sqlite_bench
from tests.rules import builders
from tests.rules.builders import SOURCE, sha
from tests.server.doors import of


def told(bench: Bench, *events: int, size: int | None = None) -> Node:
    """The tree of one reason that names these events."""
    asking = Asking(bench)
    state = shown(SOURCE, quality="good", reasons=[reason("quality", *events)])
    (value,) = tree(state, asking.moment(bench.log.head().size if size is None else size), asking.events)
    assert (value.kind, value.text) == ("value", "quality: good")
    (found,) = value.children
    assert (found.kind, found.rule, found.text) == ("reason", "rule", "why")
    return found


def events(node: Node) -> list[Any]:
    """The positions below a node, each with what hangs below it in turn."""
    below = ([n.pos, *events(n)] if n.kind == "event" else None for n in node.children)
    return [found if len(found) > 1 else found[0] for found in below if found is not None]


def artifacts(node: Node) -> list[tuple[str, str]]:
    return [(n.text, n.sha256) for n in node.children if n.kind == "artifact"]


def walk(node: Node) -> Iterator[Node]:
    yield node
    for child in node.children:
        yield from walk(child)


def test_a_resolution_leads_to_its_validation_and_its_review_and_those_to_their_evidence() -> None:
    with sqlite_bench() as bench:
        validation = of(builders.validation())
        parts = [of(builders.judgment("fix"))]
        bench.append(of(builders.confirmed()), validation, *parts, of(builders.published("fix", "fix", [parts[0].id])))
        bench.append(of(builders.resolved(validation.id, "fix")))
        found = told(bench, 4)
        assert events(found) == [[4, 1, [3, None]]]
        resolution = found.children[0]
        assert artifacts(resolution.children[0]) == [("replay.log", sha("replay.log"))]
        assert artifacts(resolution.children[1]) == [("quality-reviews.json", sha("quality-reviews.json"))]


def test_parts_that_the_reason_cites_hang_below_their_publication_and_the_others_are_counted() -> None:
    with sqlite_bench() as bench:
        parts = [of(builders.judgment("c")) for _ in range(4)]
        bench.append(*parts, of(builders.published("r", "c", [p.id for p in parts])))
        found = told(bench, 0, 2, 4)
        assert events(found) == [[4, 0, 2, None]]
        assert [n.text for n in found.children[0].children if n.kind == "event"][-1] == "… 2 more"
        alone = told(bench, 0, 2)
        assert events(alone) == [0, 2]


def test_of_many_cited_parts_the_first_are_shown() -> None:
    with sqlite_bench() as bench:
        count = why.MAX_PARTS + 6
        parts = [of(builders.judgment("c")) for _ in range(count)]
        bench.append(*parts, of(builders.published("r", "c", [p.id for p in parts])))
        found = told(bench, *range(count + 1))
        below = [n for n in found.children[0].children if n.kind == "event"]
        assert [n.pos for n in below[:-1]] == list(range(why.MAX_PARTS))
        assert below[-1].text == "… 6 more"


def test_a_report_leads_to_the_definition_of_its_protocol_and_an_adoption_to_the_one_it_names() -> None:
    with sqlite_bench() as bench:
        definition = of(builders.defined(), "policy/protocols")
        bench.append(definition, of(builders.adopted(definition.id), "policy/protocols"), of(builders.report()))
        assert events(told(bench, 1, 2)) == [[1, 0], [2, 0]]


def test_a_supersession_leads_to_both_reviews_and_a_refresh_to_the_cited_part() -> None:
    with sqlite_bench() as bench:
        part = of(builders.declared())
        bench.append(part, of(builders.synced("c1", [part.id])))
        bench.append(of(builders.published("a", "ca", [])), of(builders.published("b", "cb", [])))
        bench.append(of(builders.superseded("a", "b")))
        assert events(told(bench, 0, 1, 4)) == [[1, 0], [4, 2, 3]]


def test_events_that_name_one_another_are_followed_a_few_steps_and_never_round_and_round() -> None:
    with sqlite_bench() as bench:
        ids = [f"d{n}" for n in range(9)]
        for n, name in enumerate(ids):
            named = max(n - 1, 0)
            said = EventDisregarded(pos=named, event=ids[named], reason="again")
            bench.append(of(said, "ledger", id=name))
        assert events(told(bench, 8)) == [[8, [7, [6, 5]]]]
        assert events(told(bench, 1)) == [[1, 0]]


def test_nothing_later_than_the_moment_is_named() -> None:
    with sqlite_bench() as bench:
        bench.append(of(builders.published("a", "ca", [])))
        bench.append(of(builders.superseded("a", "b")), of(builders.published("b", "cb", [])))
        assert events(told(bench, 1, 2, size=2)) == [[1, 0]]


def test_a_tree_beyond_its_bound_says_that_it_is_cut() -> None:
    with sqlite_bench() as bench:
        bench.append(of(builders.suspected()))
        asking = Asking(bench)
        state = shown(SOURCE, reasons=[reason("quality", 0) for _ in range(why.MAX_NODES + 5)])
        value, cut = tree(state, asking.moment(1), asking.events)
        assert sum(n.kind == "event" for n in walk(value)) == why.MAX_NODES
        assert cut.text == f"… cut after {why.MAX_NODES} lines"
