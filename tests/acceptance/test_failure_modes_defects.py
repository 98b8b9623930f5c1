"""How the original got defects wrong, done again: they are events, and what resolves one is evidence.

A test bears the number of the failure in the domain's list. Where the applet's later code decides otherwise, the same
command is given to a ledger that decides as that code does.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import ROWS, open_doors
from tests.acceptance.corrected import CODE, Corrected
from tests.acceptance.curated import ISSUE
from tests.acceptance.doors import Doors
from tests.publications.review_builder import edit_review

BARE: dict[str, Any] = {"replay": None, "controls": (), "evidence": False}
"""A validation in which nothing was run."""


@pytest.fixture
def coded(code_doors: Doors, pinned_rows: Iterator[dict[str, Any]], tmp_path: Path) -> Corrected:
    """A source of a ledger that decides as the applet's later code does."""
    return Corrected(code_doors, next(pinned_rows), tmp_path)


@pytest.fixture
def coded_unknown(code_doors: Doors, unpinned_rows: Iterator[dict[str, Any]], tmp_path: Path) -> Corrected:
    return Corrected(code_doors, next(unpinned_rows), tmp_path)


def places(error: dict[str, Any]) -> set[str]:
    return {problem["place"] for problem in error["problems"]}


def refusal(source: Corrected, *flags: object) -> dict[str, Any]:
    return source.doors.refused("defect", "resolve", source.id, "d1", *flags, code=5, reason="REFUSED_BY_RULES")


def test_row_05_a_defect_cannot_be_edited_or_deleted_and_each_change_of_it_stays(judged: Corrected) -> None:
    confirmed = judged.confirm()
    judged.withdraw()
    withdrawn = judged.doors.size
    judged.confirm()

    listed = {size: [d["id"] for d in judged.shown(at=size)["open_defects"]] for size in (confirmed + 1, withdrawn)}
    assert listed == {confirmed + 1: ["d1"], withdrawn: []}
    assert [d["id"] for d in judged.shown()["open_defects"]] == ["d1"]
    told = judged.doors.tell("audit", "timeline", judged.id)
    lines = {entry["event"]["pos"]: entry["event"] for entry in told}
    history = [event.pos for event in judged.events() if event.header["type"].startswith("defect.")]
    assert [lines[pos]["type"] for pos in history] == ["defect.confirmed", "defect.withdrawn", "defect.confirmed"]
    assert all(lines[pos]["actor"] == "curator-1" and lines[pos]["recorded_at"] for pos in history)
    assert judged.doors.payload(confirmed)["observed"] == "reward 0"


@pytest.mark.parametrize("statement", ["DELETE FROM event WHERE pos = ?", "UPDATE event SET type = 'x' WHERE pos = ?"])
def test_row_05_whoever_reaches_the_database_is_refused_there_too(
    own_home: Path, tmp_path: Path, statement: str
) -> None:
    with open_doors(own_home) as doors:
        source = Corrected(doors, next(row for row in ROWS if row["id"] == "MarinSkyRL:svamp"), tmp_path)
        confirmed = source.confirm()

    with (
        closing(sqlite3.connect(own_home / "ledger.db")) as database,
        pytest.raises(sqlite3.IntegrityError, match="append-only"),
    ):
        database.execute(statement, (confirmed,))

    with open_doors(own_home) as doors:
        source = Corrected(doors, source.row, tmp_path)
        assert [d["pos"] for d in source.shown()["open_defects"]] == [confirmed]
        assert doors.payload(confirmed)["defect"] == "d1"


def test_row_06_a_self_declared_fix_resolves_nothing_without_replays_and_controls(
    judged: Corrected, coded: Corrected
) -> None:
    for source in (judged, coded):
        source.review()
        source.confirm()
        source.validate(**BARE)
        source.fix_review()

    error = refusal(judged)

    said = " ".join(problem["message"] for problem in error["problems"])
    assert places(error) == {"/validation"}
    for lacking in ("no replay that passed", "no control with an incorrect", "no evidence is cited"):
        assert lacking in said
    assert [d["status"] for d in judged.shown()["open_defects"]] == ["open"]
    assert judged.quality() == "some_issues"

    pos = coded.resolve()
    assert coded.shown(at=pos)["open_defects"] != []
    assert coded.shown()["open_defects"] == []


def test_row_06_the_saved_failing_input_itself_must_be_replayed(judged: Corrected, tmp_path: Path) -> None:
    judged.review()
    judged.confirm()
    other = tmp_path / "another-input.json"
    other.write_text('{"prompt": "an easy one"}')
    seen = tmp_path / "seen.log"
    seen.write_text("replayed another input\n")
    ran = ["--replay", "passed", other, "reward 1", "reward 1", "--control", "passed", "incorrect", "0", "0"]
    judged.doors.record("defect", "validation", judged.id, "d1", *ran, "--evidence", seen)
    judged.fix_review()

    error = refusal(judged)

    assert places(error) == {"/validation"}
    assert judged.shown()["open_defects"][0]["status"] == "open"

    judged.repair()

    assert [(d["status"], d["applicability"]) for d in judged.shown()["resolved_defects"]] == [("resolved", "current")]


def test_row_07_an_unknown_verifier_does_not_equal_an_unknown_verifier(
    unknown: Corrected, coded_unknown: Corrected
) -> None:
    assert (unknown.verifier, coded_unknown.verifier) == (None, None)
    for source in (unknown, coded_unknown):
        source.review()
        source.confirm()
        source.validate()
        source.fix_review()

    error = refusal(unknown)

    assert places(error) >= {"/validation"}
    assert any("verifier revision" in problem["message"] for problem in error["problems"])
    assert [d["id"] for d in unknown.shown()["open_defects"]] == ["d1"]

    coded_unknown.resolve()
    assert coded_unknown.shown()["open_defects"] == []


def test_row_07_a_named_version_is_no_content_identity_of_the_verifier(judged: Corrected) -> None:
    judged.relist(verifier_revision="v1.3")
    judged.review(executed_commit="a" * 40)
    judged.confirm()
    judged.validate()
    judged.fix_review(executed_commit="a" * 40)

    error = refusal(judged)

    assert "/validation" in places(error)
    assert judged.shown()["open_defects"] != []


def test_row_08_an_edited_collection_is_another_one_and_the_resolution_rests_on_what_was_published(
    judged: Corrected,
) -> None:
    judged.review()
    judged.confirm()
    judged.validate()
    directory = judged.run_of(resolved_verifier_issues=judged.fixed(ISSUE))
    judged.doors.record("review", "publish", directory)
    judged.resolve()
    (resolution,) = judged.events("defect.resolved")
    rested_on = resolution.payload["review"]

    edit_review(directory, lambda d: d["reviews"][-1]["attributes"].pop("resolved_verifier_issues"))
    judged.doors.record("review", "publish", directory)

    assert judged.shown()["review"]["id"] != rested_on
    assert {rested_on, judged.shown()["review"]["id"]} <= {r["id"] for r in judged.shown()["review_pool"]}
    assert [d["applicability"] for d in judged.shown()["resolved_defects"]] == ["current"]
    judged.doors.tell("artifact", "get", rested_on, "--output", "rested-on.json")
    kept = json.loads(Path("rested-on.json").read_text())["reviews"][-1]["attributes"]
    assert kept["resolved_verifier_issues"][0]["fix_validated"] is True


def test_row_08_a_resolution_is_judged_again_at_every_later_revision(judged: Corrected) -> None:
    judged.review()
    judged.confirm()
    judged.repair()
    before = judged.doors.size
    verifier = judged.verifier

    judged.revise(verifier="7" * 40)

    assert [d["applicability"] for d in judged.shown(at=before)["resolved_defects"]] == ["current"]
    (resolved,) = judged.shown()["resolved_defects"]
    assert (resolved["id"], resolved["issue_url"], resolved["applicability"]) == ("d1", ISSUE, "stale")
    assert judged.shown()["open_defects"] == []
    assert "quality.resolution-stale" in [r["rule"] for r in judged.shown()["reasons"]]
    assert judged.under(CODE)["resolved_defects"][0]["applicability"] is None

    judged.revise(verifier=verifier)

    assert [d["applicability"] for d in judged.shown()["resolved_defects"]] == ["current"]
    assert "quality.resolution-stale" not in [r["rule"] for r in judged.shown()["reasons"]]
