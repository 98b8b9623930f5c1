"""`ledger lineage`, `ledger affected` and `ledger turned`: what came of what, and whom a defect reaches."""

from __future__ import annotations

import csv
import io
import json
import re

import pytest

from ledger.core.text import harmless
from ledger.wire import runs_pb2
from services.cli import lineage_forms
from services.cli.output import Output
from services.cli.run_lists import _affected_cells
from services.cli.sparklines import NOT_FINITE, extent, sparkline
from tests.audit.running import OTHER
from tests.cli.trained import BROKEN, GOOD
from tests.rules.builders import SOURCE

HOSTILE = 'model/o/"]; evil\\n -->|x| <b>&quot;\x1b[31m\u202e\n`#'


def test_a_tree_says_what_a_run_comes_from_and_what_it_led_to(trained):
    lines = [line.strip() for line in trained("lineage", GOOD).out.splitlines()]
    assert lines[0] == f"run/{GOOD}  completed"
    assert f"trained on source/{SOURCE}  Some issues" in lines
    assert f"saved checkpoint/{GOOD}@4  committed" in lines
    assert "exported as export/e-1  published unverified" in lines
    assert "published as model/org/model  published unverified" in lines
    assert lines.index("comes from") < lines.index(f"trained on source/{SOURCE}  Some issues") < lines.index("led to")


@pytest.mark.parametrize(
    ("bare", "whole"), [(GOOD, f"run/{GOOD}"), (SOURCE, f"source/{SOURCE}"), ("model/org/model", "model/org/model")]
)
def test_a_bare_id_of_a_run_or_a_source_is_understood(trained, bare, whole):
    assert trained("lineage", bare, "--json").json == trained("lineage", whole, "--json").json


def test_nodes_and_edges_are_the_same_in_every_form(trained):
    answer = trained("lineage", GOOD, "--json").json
    names = {node["node"] for node in answer["nodes"]}
    tree = trained("lineage", GOOD).out
    assert all(name in tree for name in names)
    drawn = trained("lineage", GOOD, "--dot").out
    assert {label.split("\\n")[0] for label in re.findall(r'(?m)^  n\d+ \[label="(.*)"\];', drawn)} == names
    assert drawn.count(" -> ") == len(answer["edges"])
    flow = trained("lineage", GOOD, "--mermaid").out
    assert {label.split("<br/>")[0] for label in re.findall(r'(?m)^  n\d+\["(.*)"\]', flow)} == names
    assert flow.count("-->") == len(answer["edges"])


def test_direction_and_depth_bound_the_answer(trained):
    up = trained("lineage", GOOD, "--direction", "up", "--json").json["nodes"]
    assert {node["kind"] for node in up} == {"run", "source", "base"}
    near = trained("lineage", SOURCE, "--depth", 1, "--json").json["nodes"]
    assert {node["node"] for node in near} == {f"source/{SOURCE}", f"run/{GOOD}"}


def test_a_node_that_nothing_names_is_not_found_and_a_graph_is_no_json(trained):
    got = trained("lineage", "nobody", "--json")
    assert (got.code, got.error["reason"]) == (4, "NOT_FOUND")
    assert trained("lineage", GOOD, "--dot", "--json").code == 2


def _hostile() -> runs_pb2.LineageResponse:
    nodes = [
        runs_pb2.LineageNode(node="export/e", kind="export", label="e", state="verified"),
        runs_pb2.LineageNode(node=HOSTILE, kind="model", label="m", state="published", distance=1),
    ]
    edge = runs_pb2.LineageEdge(from_node="export/e", to_node=HOSTILE, relation="published_as", basis="claimed")
    return runs_pb2.LineageResponse(nodes=nodes, edges=[edge])


def test_a_hostile_name_stays_within_its_label_in_dot():
    node = lineage_forms.dot(_hostile()).splitlines()[4]
    quoted = re.fullmatch(r'  n1 \[label="((?:[^"\\]|\\.)*)"\];', node)
    assert quoted is not None
    read = quoted[1].replace("\\\\", "\0").replace('\\"', '"').split("\\n")[0].replace("\0", "\\")
    assert read == harmless(HOSTILE)


def test_a_hostile_name_stays_within_its_label_in_mermaid():
    text = lineage_forms.mermaid(_hostile())
    node = text.splitlines()[2]
    quoted = re.fullmatch(r'  n1\["([^"]*)"\]', node)
    assert quoted is not None
    label = quoted[1].removesuffix("<br/>published")
    assert not set(label) & set("<>&|[]{}()`\\\x1b\u202e")
    assert re.sub(r"#(\d+);", lambda found: chr(int(found[1])), label) == harmless(HOSTILE)


def test_a_node_that_two_edges_lead_to_is_told_once_and_named_again(capsys):
    names = ("run/a", "checkpoint/a@1", "checkpoint/a@2", "export/e")
    nodes = [runs_pb2.LineageNode(node=name, distance=d) for name, d in zip(names, (0, 1, 1, 2), strict=True)]
    edges = [
        runs_pb2.LineageEdge(from_node=one, to_node=other, relation=relation, basis="recorded")
        for one, relation, other in (
            ("run/a", "saved", "checkpoint/a@1"),
            ("run/a", "saved", "checkpoint/a@2"),
            ("export/e", "exported_from", "checkpoint/a@1"),
            ("export/e", "exported_from", "checkpoint/a@2"),
        )
    ]
    lineage_forms.show_tree(Output(), runs_pb2.LineageResponse(nodes=nodes, edges=edges))
    out = capsys.readouterr().out
    assert out.count("export/e") == 2
    assert out.count("(as above)") == 1


def test_a_source_reaches_its_runs_and_what_came_of_them(trained):
    (row,) = trained("affected", SOURCE, "--json").json
    assert (row["run"]["id"], row["quality_at_start"], row["match"]) == (GOOD, "good", "")
    assert (row["exports"], row["models"], row["traces"]) == (["e-1"], ["org/model"], ["org/traces"])
    header = trained("affected", SOURCE).out.splitlines()[0]
    assert "known then" not in header
    assert "quality then" in header


def test_a_defect_says_whether_the_run_took_its_revision_and_whether_it_was_known_then(trained, trained_story):
    got = trained("affected", trained_story.defect)
    assert "same revision" in got.out
    assert re.search(r"\bno\b", got.out)
    assert "defect.confirmed" in got.err
    (row,) = trained("affected", trained_story.defect, "--json").json
    assert (row["match"], row["known_at_start"]) == ("same_revision", False)


def test_a_source_that_no_run_took_reaches_nothing_and_an_unknown_one_is_not_found(demo):
    assert demo("affected", "MarinSkyRL:svamp", "--json").json == []
    assert demo("affected", "nobody").code == 4


def test_an_export_of_what_is_affected_is_safe_for_spreadsheets(trained, tmp_path):
    file = tmp_path / "affected.csv"
    assert trained("affected", OTHER, "--output", file).code == 0
    (row,) = csv.DictReader(io.StringIO(file.read_bytes().decode()))
    assert row["run.id"] == BROKEN
    assert row["run.reason"].startswith("'=cmd")
    assert int(row["ledger_size"]) > 0


def test_what_turned_after_a_run_consumed_it_is_told_newest_last(trained, trained_story):
    turns = trained("turned", "--json").json
    assert [turn["pos"] for turn in turns] == sorted(turn["pos"] for turn in turns)
    last = turns[-1]
    assert (last["pos"], last["source_id"], last["runs"]) == (trained_story.defect, SOURCE, [GOOD])
    assert (last["before_quality"], last["after_quality"]) == ("good", "some_issues")
    assert "Good → Some issues" in trained("turned").out


def test_the_feed_is_narrowed_by_run_and_goes_on_from_a_size(trained, trained_story):
    assert trained("turned", "--run", BROKEN, "--json").json == []
    assert len(trained("turned", "--run", GOOD, "--json").json) == 1
    assert trained("turned", "--since", trained_story.defect + 1, "--json").json == []
    assert trained("turned", "--at", trained_story.defect, "--json").json == []
    assert trained("turned", "--run", "nobody").code == 4


def test_each_line_of_a_stream_says_where_it_was_read(trained, tmp_path):
    file = tmp_path / "turned.ndjson"
    trained("turned", "--output", file)
    assert [json.loads(line)["ledger_run_rules"] for line in file.read_text().splitlines()] == ["training-1"]


def test_a_source_names_the_runs_that_consumed_it_by_then_as_evidence(trained):
    out = trained("source", "show", SOURCE).out
    below = out.partition("Runs that consumed it")[2]
    assert re.search(rf"{GOOD} +train +Good +completed +5 +4", below)
    declared = trained("log", "tail", "-n", 500, "--type", "run.declared", "--json").json[0]["pos"]
    assert "Runs that consumed it" not in trained("source", "show", SOURCE, "--at", declared).out


class TestSparkline:
    def test_the_lowest_and_the_highest_are_the_ends_of_the_scale(self):
        assert sparkline([0.0, 0.5, 1.0], 0.0, 1.0) == "▁▅█"

    def test_a_flat_curve_is_drawn_low(self):
        assert sparkline([0.3, 0.3], 0.3, 0.3) == "▁▁"

    @pytest.mark.parametrize("top", [1.7e308, 5e-324])
    def test_the_extent_of_the_largest_and_the_smallest_numbers_is_one_too(self, top: float) -> None:
        drawn = sparkline([-top, 0.0, top], *extent([-top, 0.0, top]))
        assert len(drawn) == 3
        assert drawn[0] == "▁"

    def test_what_is_not_finite_is_marked_and_what_is_unknown_is_blank(self):
        assert sparkline([0.0, float("nan"), None, 1.0], 0.0, 1.0) == f"▁{NOT_FINITE} █"

    def test_a_long_curve_keeps_its_ends(self):
        line = sparkline([float(n) for n in range(1_000)], 0.0, 999.0, width=10)
        assert (len(line), line[0], line[-1]) == (10, "▁", "█")

    def test_the_extent_leaves_out_what_is_not_finite(self):
        assert extent([0.2, float("inf"), None, 0.7]) == (0.2, 0.7)
        assert extent([float("nan")]) == (0.0, 0.0)


def test_a_source_that_a_run_left_out_later_is_told_as_that():
    row = runs_pb2.Affected(run=runs_pb2.RunSummary(id="a"), role="train", withdrawn=True)
    assert _affected_cells(row)[1] == "train, later left out"
    assert _affected_cells(runs_pb2.Affected(run=row.run, role="train"))[1] == "train"
