"""How the original lost what it had known, done again: rows are not overwritten, and every moment can be asked about.

A test bears the number of the failure in the domain's list.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from ledger.core.ids import sha256_hex
from tests.acceptance.conftest import ROWS, open_doors
from tests.acceptance.corrected import CODE, Corrected, same_source
from tests.acceptance.curated import BAD
from tests.acceptance.doors import CURATOR, Doors, ledger
from tests.server.process import server_process

ORIGIN = "Example"


@pytest.fixture
def own(own_home: Path, tmp_path: Path) -> Iterator[Corrected]:
    """A source in a ledger of the test's own."""
    with open_doors(own_home) as doors:
        yield Corrected(doors, next(row for row in ROWS if row["id"] == "MarinSkyRL:svamp"), tmp_path)


def test_row_01_a_rating_is_not_overwritten_and_who_changed_it_when_and_why_is_told(judged: Corrected) -> None:
    first = judged.review()
    size = judged.doors.size
    saved = judged.bytes_at(size)

    second = judged.review(**BAD)

    assert judged.bytes_at(size) == saved
    assert judged.quality(at=size) == "good"
    assert (judged.quality(), judged.shown()["review"]["id"]) == ("bad", second)
    told = judged.doors.tell("audit", "timeline", judged.id)
    moved = [e for e in told if any(change["field"] == "quality" for change in e["changes"])]
    changes = [next(c for c in e["changes"] if c["field"] == "quality") for e in moved]
    told_of = [(c["before"], c["after"]) for c in changes]
    assert told_of == [(None, "unreviewed"), ("unreviewed", "good"), ("good", "bad")]
    rated = [e["event"] for e in moved[1:]]
    assert [(e["type"], e["actor"]) for e in rated] == [("review.published", "curator-1")] * 2
    assert all(e["recorded_at"] for e in rated)
    assert rated[-1]["pos"] in {event["pos"] for event in judged.doors.why(judged.id)["events"]}
    documents = [judged.doors.payload(e["pos"])["document"]["sha256"] for e in rated]
    assert documents == [first, second]


def test_row_02_an_earlier_row_of_the_catalogue_stays_whole(judged: Corrected) -> None:
    judged.relist(family="math-answer", notes="As first listed.", input_rows=700, counts=[])
    size = judged.doors.size
    before = judged.shown()

    judged.relist(family="word-problems", notes=None, input_rows=2_100, dataset_revision="6" * 40)

    after = judged.shown()
    assert (after["family"], after["input_rows"], after["dataset_revision"]) == ("word-problems", 2_100, "6" * 40)
    assert same_source(judged.shown(at=size), before)
    assert (before["family"], before["input_rows"]) == ("math-answer", 700)
    assert before["row_sha256"] != after["row_sha256"]
    rows = [event.payload["row"] for event in judged.events("source.declared", "source.revised")]
    assert [row.get("notes") for row in rows] == [None, "As first listed.", None]
    assert rows[1]["input_rows"] == 700

    judged.doors.record("catalogue", "retire", judged.id, "--reason", "Withdrawn upstream.")

    assert judged.shown()["retired"]
    assert same_source(judged.shown(at=size), before)


def test_row_03_what_was_believed_when_a_run_started_is_answered_by_that_time(judged: Corrected) -> None:
    judged.review()
    started = judged.shown()["recorded_at"]
    then = judged.shown()
    judged.confirm()

    asked = judged.shown(at=started)

    assert same_source(asked, then)
    assert (asked["quality"], asked["size"], asked["final"]) == ("good", then["size"], True)
    assert judged.quality() == "some_issues"
    assert judged.under(CODE, at=started)["quality"] == "good"
    judged.doors.not_shown(judged.id, at="2001-01-01")


def inventory(folder: Path, *names: str) -> Path:
    path = folder / "inventory.jsonl"
    rows = [{"id": f"{ORIGIN}:{name}", "origin": ORIGIN, "name": name, "revision": "1" * 40} for name in names]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def published(doors: Doors, file: Path, base: str) -> str:
    """Publishes an inventory upon a base; gives the refresh."""
    return str(doors.record("catalogue", "publish", file, "--base", base)[-1]["id"])


def test_row_33_every_refresh_and_every_failed_one_stays_and_a_retired_source_is_kept(
    own: Corrected, tmp_path: Path
) -> None:
    doors = own.doors
    first = published(doors, inventory(tmp_path, "a", "b"), "none")
    listed = doors.size
    broken = tmp_path / "broken.jsonl"
    broken.write_text('{"id": "Example:a", "origin": "Example", "input_rows": -1}\n')

    ran = doors.run("catalogue", "publish", broken, "--base", first, "--json", *CURATOR)

    assert (ran.code, ran.error["reason"]) == (1, "INVALID_FILE")
    (problem,) = ran.error["problems"]
    assert (problem["place"], "input_rows" in problem["message"]) == (f"{broken}:1", True)
    assert [s["id"] for s in doors.listed("--origin", ORIGIN, origins=[ORIGIN])] == ["Example:a", "Example:b"]

    second = published(doors, inventory(tmp_path, "b"), first)

    versions = doors.tell("catalogue", "versions", "--origin", ORIGIN)
    assert [(v["status"], v["replaces"]) for v in versions] == [("present", first), ("failed", None), ("past", None)]
    assert [v["base"] for v in versions if v["status"] != "failed"] == [second, first]
    assert "input_rows" in versions[1]["error"]
    assert [v["actor"] for v in versions] == ["curator-1"] * 3
    assert doors.shown("Example:a")["retired"]
    assert not doors.shown("Example:a", at=listed)["retired"]


def test_row_34_every_event_says_who_claims_it_and_that_nobody_proved_it(own: Corrected) -> None:
    """Without authentication there are no principals: an actor is a claim, and independence is not established.

    Principals come with authentication. Until then the server is reached from its own machine alone.
    """
    own.review()
    own.confirm()
    own.repair()

    headers = [json.loads(event.header) for event in own.doors.reader.events()]
    assert {header["principal"] for header in headers} == {None}
    assert all(header["actor"]["id"] for header in headers)
    decisions = {h["type"]: h["actor"] for h in headers if h["type"].startswith(("defect.", "review.published"))}
    assert set(decisions) >= {"defect.confirmed", "defect.resolved", "review.published"}
    assert {(actor["id"], actor["kind"]) for actor in decisions.values()} == {("curator-1", "human")}
    (resolved,) = own.shown()["resolved_defects"]
    assert resolved["independence"] == "not_established"


def test_row_34_without_authentication_no_other_machine_is_served(own_home: Path) -> None:
    ran = ledger("serve", "--home", own_home, "--host", "0.0.0.0", "--json")

    assert (ran.code, ran.error["reason"]) == (2, "USAGE")
    assert "no authentication" in ran.error["message"]
    assert "127.0.0.1" in ran.error["remedy"]
    with server_process(own_home) as server:
        assert server.address.startswith("127.0.0.1:")


def counted(judged: Corrected, basis: str, rows: int, revision: str) -> None:
    """Counts the rows of a file, and records the count."""
    path = judged.folder / f"{basis}.parquet"
    parquet.write_table(pa.table({"row": list(range(rows))}), path)
    named = ("--source", judged.id, "--revision", revision, "--basis", basis)
    judged.doors.record("catalogue", "count", path, *named, "--files-sha256", sha256_hex(path.read_bytes()), "--record")


def test_row_39_input_and_released_rows_are_two_counts_each_with_its_basis_and_revision(judged: Corrected) -> None:
    judged.relist(input_rows=700)
    size = judged.doors.size

    counted(judged, "released", 70, "release-1")
    counted(judged, "clean", 650, "pipeline-1")

    def facts(told: dict[str, Any]) -> list[tuple[str, int, str]]:
        return sorted((c["basis"], c["rows"], c["revision"]) for c in told["counts"])

    shown = judged.shown()
    assert shown["input_rows"] == 700
    assert facts(shown) == [("clean", 650, "pipeline-1"), ("released", 70, "release-1")]
    assert all(count["evidence_sha256"] and count["pos"] >= size for count in shown["counts"])
    assert judged.shown(at=size)["counts"] == []

    counted(judged, "released", 80, "release-2")

    assert facts(judged.shown()) == [("clean", 650, "pipeline-1"), ("released", 80, "release-2")]
    assert judged.shown()["input_rows"] == 700
    evidence = next(c for c in judged.shown()["counts"] if c["basis"] == "released")["evidence_sha256"]
    judged.doors.tell("artifact", "get", evidence, "--output", "evidence.json")
    assert json.loads(Path("evidence.json").read_text())["files"][0]["rows"] == 80


def test_row_39_totals_are_by_basis_and_what_is_unknown_is_in_none_of_them(untouched: Doors, tmp_path: Path) -> None:
    released = {"basis": "released", "rows": 70, "revision": "release-1"}
    rows = [
        {"id": "Example:a", "origin": ORIGIN, "input_rows": 700, "counts": [released]},
        {"id": "Example:b", "origin": ORIGIN, "counts": [{**released, "rows": 5}]},
        {"id": "Example:c", "origin": ORIGIN, "input_rows": 30},
    ]
    path = tmp_path / "counted.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))

    told = untouched.tell("catalogue", "validate", path)

    totals = {each["basis"]: (each["rows"], each["known"], each["unknown"]) for each in told["totals"]}
    assert totals["input"] == (730, 2, 1)
    assert totals["released"] == (75, 2, 1)
