"""How the original got difficulty wrong, done again: status follows recorded policy, and figures are computed once.

A test bears the number of the failure in the domain's list.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ledger.client.protocols import definition
from tests.acceptance.conftest import ROWS, open_doors
from tests.acceptance.corrected import CODE, Corrected
from tests.acceptance.curated import SOME_ISSUES
from tests.acceptance.doors import rules_of

V2 = "atlas-difficulty-v2-65k16k"
V3 = "atlas-difficulty-v3-65k16k-qwen-recommended-nonthinking"


@pytest.fixture
def own(own_home: Path, tmp_path: Path) -> Iterator[Corrected]:
    """A source in a ledger of the test's own, since policy is everybody's."""
    with open_doors(own_home) as doors:
        yield Corrected(doors, next(row for row in ROWS if row["id"] == "MarinSkyRL:svamp"), tmp_path)


def test_row_04_a_report_becomes_historical_by_a_recorded_adoption_and_never_by_a_release(own: Corrected) -> None:
    own.review()
    own.measure()
    size = own.doors.size
    saved = own.bytes_at(size)
    assert own.difficulty() == "current"
    # The code's constants make it historical although nothing was recorded.
    assert own.under(CODE)["difficulty"]["status"] == "historical"

    own.doors.record("protocol", "define", V3)
    assert own.difficulty() == "current"
    own.doors.record("protocol", "adopt", V3)

    shown = own.shown()
    assert shown["difficulty"]["status"] == "historical"
    why = own.doors.why(own.id)
    named = {event["type"] for event in why["events"]}
    assert "protocol.adopted" in named
    assert f"which {V3} replaced" in own.explained("difficulty")
    assert own.bytes_at(size) == saved
    assert own.difficulty(at=size) == "current"
    ahead = own.doors.tell("source", "show", own.id, "--at", size, "--policy", "head")
    assert (ahead["difficulty"]["status"], ahead["policy_size"]) == ("historical", own.doors.size)


def test_row_20_a_new_review_does_not_orphan_the_report(judged: Corrected) -> None:
    judged.review()
    (measured,) = judged.measure()
    before = judged.shown()
    assert judged.under(CODE)["difficulty"]["status"] == "historical"

    judged.review(day="2026-10-09")

    after = judged.shown()
    assert after["review"]["id"] != before["review"]["id"]
    assert after["difficulty"] == before["difficulty"]
    assert (after["difficulty"]["status"], after["difficulty"]["pos"]) == ("current", measured["pos"])
    assert judged.under(CODE)["difficulty"]["status"] == "not_measured"

    judged.revise(dataset="6" * 40)
    judged.review(day="2026-10-10")

    assert judged.shown()["quality"] == "good"
    assert judged.difficulty() == "needs_re_review"


def claims_another_rate(report: dict[str, Any]) -> None:
    report["models"][0] |= {"solve_rate": 0.99, "wilson_95": [0.9, 1.0]}


def test_row_36_a_solve_rate_is_computed_once_and_an_export_has_what_decides(
    judged: Corrected, neighbour: Corrected
) -> None:
    review = judged.review()
    judged.measure(claims_another_rate)
    neighbour.review(**SOME_ISSUES)
    neighbour.confirm()

    small = judged.shown()["difficulty"]["models"][0]
    assert (small["solved"], small["verified"], small["solve_rate"]) == (11, 32, 11 / 32)
    assert (round(small["wilson_low"], 4), round(small["wilson_high"], 4)) == (0.2041, 0.5169)
    assert "11/32" in judged.doors.run("source", "show", judged.id).out

    assert judged.doors.run("source", "list", "--format", "csv", "--output", "sources.csv").code == 0
    with Path("sources.csv").open(newline="") as file:
        rows = {row["id"]: row for row in csv.DictReader(file)}
    listed = {source["id"]: source for source in judged.doors.listed()}
    assert rows.keys() == listed.keys()
    row = rows[judged.id]
    assert (row["review.id"], row["quality"], row["applicability"]) == (review, "good", "current")
    models = json.loads(row["difficulty.models"])
    assert [model["solve_rate"] for model in models] == [11 / 32, 17 / 32, 21 / 32]
    assert models == listed[judged.id]["difficulty"]["models"]
    assert [d["id"] for d in json.loads(rows[neighbour.id]["open_defects"])] == ["d1"]


def audited(limitations: list[str]) -> Any:
    def edit(report: dict[str, Any]) -> None:
        report["limitations"] = limitations
        report["protocol"]["artifacts"] = [{"path": "difficulty/ordering-audit.json"}]

    return edit


def test_row_37_the_ordering_warning_is_a_field_and_an_empty_list_of_limitations_is_no_error(
    judged: Corrected, neighbour: Corrected
) -> None:
    judged.review()
    judged.measure(audited([]))
    neighbour.review()
    neighbour.measure(lambda report: report.update(limitations=["The last entry, which warns of no order."]))

    warned, plain = (source.shown()["difficulty"] for source in (judged, neighbour))
    assert (warned["status"], plain["status"]) == ("current", "current")
    assert "ordering-audit.json" in warned["ordering_warning"]
    assert plain["ordering_warning"] is None
    (reported,) = judged.events("difficulty.reported")
    assert reported.payload.get("limitations", []) == []
    assert reported.payload["ordering_warning"] == warned["ordering_warning"]


def test_row_40_the_text_of_a_protocol_comes_from_its_recorded_event(own: Corrected, tmp_path: Path) -> None:
    shipped = definition(V3)
    recorded = shipped.model_copy(update={"context_window": 32_768, "note": "As this ledger measures."})
    path = tmp_path / "v3.json"
    path.write_text(recorded.model_dump_json())
    before = own.doors.size

    (defined,) = own.doors.record("protocol", "define", path)

    told = own.doors.tell("protocol", "show", V3)
    assert told["terms"] == recorded.model_dump(mode="json")
    assert told["terms"]["context_window"] != shipped.context_window
    assert told["defined"]["pos"] == defined["pos"]
    assert own.doors.payload(defined["pos"])["context_window"] == 32_768
    page = own.doors.run("protocol", "show", V3).out
    assert "32768" in page.replace(",", "")
    assert "As this ledger measures." in page
    assert own.doors.tell("protocol", "show", V3, "--at", before)["defined"] is None

    error = own.doors.refused("protocol", "define", V3, code=5, reason="REFUSED_BY_RULES")

    assert error["problems"][0]["place"] == "/protocol"
    assert own.doors.tell("protocol", "show", V3)["terms"] == recorded.model_dump(mode="json")


def under_contracts(*contracts: str | None) -> Any:
    def edit(report: dict[str, Any]) -> None:
        for model, contract in zip(report["models"], contracts, strict=True):
            model["scoring_contract"] = contract

    return edit


def test_row_41_rates_under_another_scoring_contract_are_said_not_to_compare(
    judged: Corrected, neighbour: Corrected
) -> None:
    def scored(document: dict[str, Any]) -> None:
        runs = [r for r in document["reviews"] if r["method"] == "runtime_execution"]
        for run, contract in zip(runs, ("turns-sum/1", "turns-mean/2"), strict=True):
            run["attributes"]["verification"]["scoring_contract"] = contract

    judged.review(tasks=2, edit=scored)
    judged.measure(under_contracts("turns-sum/1", "turns-mean/2", None))
    neighbour.review()
    neighbour.measure(under_contracts(*["turns-mean/2"] * 3))

    shown = judged.shown()
    assert [m["scoring_contract"] for m in shown["difficulty"]["models"]] == ["turns-sum/1", "turns-mean/2", None]
    assert "difficulty.scoring-contracts-differ" in rules_of(shown, "difficulty")
    assert "review.scoring-contracts-differ" in rules_of(shown, "review")
    runs = [event.payload["verification"]["scoring_contract"] for event in judged.events("observation.recorded")]
    assert runs == ["turns-sum/1", "turns-mean/2"]
    other = neighbour.shown()
    assert {m["scoring_contract"] for m in other["difficulty"]["models"]} == {"turns-mean/2"}
    assert "difficulty.scoring-contracts-differ" not in rules_of(other, "difficulty")
