"""Bad inputs are refused whole: with an exit code, every place and a remedy, and nothing is appended.

The inputs are the named files of tests/vectors. Beside each kind stands a sound one that is taken, so that no file is
refused for want of something else.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ledger.client import actor
from ledger.client.difficulty import plan_difficulty
from ledger.client.drafts import Draft
from ledger.core.errors import LedgerError
from tests.acceptance.curated import Curated
from tests.acceptance.doors import Doors
from tests.publications.review_builder import SVAMP
from tests.publications.test_reviews import spoilt

VECTORS = Path(__file__).parents[1] / "vectors"


def names(kind: str) -> list[str]:
    return sorted(path.name for path in (VECTORS / kind / "bad").iterdir())


def expected(kind: str) -> Any:
    return json.loads((VECTORS / kind / "expected.json").read_text())


INVENTORIES, REPORTS, JSON = expected("inventories"), expected("difficulty"), expected("json")


class TestInventories:
    @pytest.mark.parametrize("name", names("inventories"))
    def test_a_bad_inventory_is_refused_with_every_bad_line(self, untouched: Doors, name: str) -> None:
        path = VECTORS / "inventories" / "bad" / name

        error = untouched.refused("catalogue", "import", path, code=1, reason="INVALID_FILE")

        assert {p["place"] for p in error["problems"]} == {f"{path}{place}" for place in INVENTORIES[name]}

    def test_a_sound_inventory_is_taken(self, doors: Doors) -> None:
        doors.record("catalogue", "import", VECTORS / "inventories" / "good" / "two-origins.jsonl", "--partial")


class TestReviews:
    @pytest.mark.parametrize("name", names("reviews"))
    def test_a_bad_review_is_refused_with_every_fault_and_its_place(
        self, untouched: Doors, name: str, tmp_path: Path
    ) -> None:
        vector = json.loads((VECTORS / "reviews" / "bad" / name).read_text())
        run = spoilt(tmp_path, vector)
        document = run / "quality-reviews.json"
        atlas_id = vector.get("atlas_id", SVAMP)
        named = () if atlas_id is None else ("--atlas-id", atlas_id)

        error = untouched.refused("review", "publish", run, *named, code=1, reason="INVALID_FILE")

        places = {str(document) if at is None else f"{document}#{at}" for at in vector["refused_at"]}
        assert {p["place"] for p in error["problems"]} == places

    def test_the_review_that_all_of_them_spoil_is_taken(self, svamp: Curated, tmp_path: Path) -> None:
        svamp.doors.record("review", "publish", spoilt(tmp_path / "sound", {"patch": []}), "--atlas-id", SVAMP)

        assert svamp.quality() == "good"


class TestDifficultyReports:
    @pytest.mark.parametrize("name", names("difficulty"))
    def test_a_bad_report_is_refused_with_every_fault_and_its_place(self, untouched: Doors, name: str) -> None:
        path = VECTORS / "difficulty" / "bad" / name

        error = untouched.refused("difficulty", "publish", path, "--source", SVAMP, code=1, reason="INVALID_FILE")

        assert {p["place"] for p in error["problems"]} == {f"{path}#{place}" for place in REPORTS[name]}

    def test_a_sound_report_is_taken(self, svamp: Curated) -> None:
        svamp.doors.record("difficulty", "publish", VECTORS / "difficulty" / "good" / "difficulty.json")

        assert svamp.difficulty() == "historical"


class TestStrictJson:
    @pytest.mark.parametrize("name", names("json"))
    def test_bytes_that_are_not_strict_json_are_refused_from_a_file(self, untouched: Doors, name: str) -> None:
        path = VECTORS / "json" / "bad" / name

        error = untouched.refused("difficulty", "publish", path, code=1, reason="INVALID_FILE")

        faults = JSON[path.stem]
        assert [p["place"] for p in error["problems"]] == [f"{path}#{fault['place']}" for fault in faults]
        for fault, problem in zip(faults, error["problems"], strict=True):
            assert fault["says"] in problem["message"]

    @pytest.mark.parametrize("name", names("json"))
    def test_bytes_that_are_not_strict_json_are_refused_over_grpc(self, untouched: Doors, name: str) -> None:
        path = VECTORS / "json" / "bad" / name
        before = untouched.size
        event = Draft(
            id=f"bad-{path.stem}",
            type="defect.suspected",
            type_version=1,
            stream=f"source/{SVAMP}",
            actor=actor("program-1"),
            payload=path.read_bytes(),
        )

        with pytest.raises(LedgerError) as refused:
            untouched.writer.append([event], atomic=True)

        assert refused.value.reason == "INVALID_PAYLOAD"
        assert refused.value.remedy
        assert refused.value.problems
        for fault in JSON[path.stem]:
            assert any(p.place.endswith(fault["place"]) and fault["says"] in p.message for p in refused.value.problems)
        assert untouched.size == before


class TestDecisions:
    def test_everything_that_speaks_against_a_resolution_is_said_at_once(self, source: Curated) -> None:
        source.fix_review(verification="error")
        source.confirm()
        source.validate(replay="failed", controls=(("failed", "correct"),), evidence=False)
        source.revise(verifier="9" * 40)

        error = source.doors.refused("defect", "resolve", source.id, "d1", code=5, reason="REFUSED_BY_RULES")

        said = [
            ("/validation", "covers the verifier revision"),
            ("/validation", "has no replay that passed"),
            ("/validation", "1 replay did not pass"),
            ("/validation", "no control with an incorrect"),
            ("/validation", "1 control did not pass"),
            ("/validation", "no evidence is cited"),
            ("/review", "published before the defect"),
            ("/review", "covers the verifier revision"),
            ("/review", "no verified native run"),
            ("/review", "resolved_verifier_issues"),
        ]
        assert len(error["problems"]) == len(said)
        for (place, words), problem in zip(said, error["problems"], strict=True):
            assert problem["place"] == place
            assert words in problem["message"]

    def test_the_same_difficulty_report_by_another_actor_is_an_id_conflict(self, source: Curated) -> None:
        report = source.report()
        source.doors.record("difficulty", "publish", report)

        with pytest.raises(LedgerError) as refused:
            source.doors.writer.publish(plan_difficulty(report, source_id=source.id, by=actor("curator-2")))
        assert refused.value.reason == "ID_CONFLICT"

    @pytest.mark.parametrize(
        ("arguments", "place"),
        [
            (["defect", "reopen", SVAMP, "d1", "--reason", "again"], "/defect"),
            (["defect", "withdraw", SVAMP, "d1", "--reason", "never was"], "/defect"),
        ],
        ids=["reopen", "withdraw"],
    )
    def test_a_decision_on_a_defect_that_nobody_knows_is_refused(
        self, untouched: Doors, arguments: list[str], place: str
    ) -> None:
        error = untouched.refused(*arguments, code=5, reason="REFUSED_BY_RULES")

        assert [p["place"] for p in error["problems"]] == [place]

    def test_a_decision_about_a_source_that_is_not_in_the_catalogue_is_refused(
        self, untouched: Doors, tmp_path: Path
    ) -> None:
        case = tmp_path / "case.json"
        case.write_text("{}")
        said = ["--summary", "s", "--expected", "e", "--observed", "o", "--reproduction", "r", "--issue-missing"]

        untouched.refused(
            "defect", "confirm", "MarinSkyRL:nobody", "--kind", "verifier", "--native-input", case, *said,
            code=4, reason="NOT_FOUND",
        )  # fmt: skip

    def test_a_dry_run_is_refused_for_the_same_reasons(self, source: Curated) -> None:
        run = source.run_of(dataset_revision="4" * 40)

        planned = source.doors.refused("review", "publish", run, "--dry-run", code=5, reason="REFUSED_BY_RULES")
        real = source.doors.refused("review", "publish", run, code=5, reason="REFUSED_BY_RULES")

        assert [p["message"] for p in planned["problems"]] == [p["message"] for p in real["problems"]]

    @pytest.mark.parametrize("type_", ["projection.promoted", "event.redacted", "key.introduced"])
    def test_what_this_release_cannot_carry_out_is_not_recorded(self, untouched: Doors, type_: str) -> None:
        payload = untouched.tell("schema", "show", type_)["example"]
        before = untouched.size
        event = Draft(
            id=f"own-{type_}",
            type=type_,
            type_version=1,
            stream="ledger",
            actor=actor("program-1"),
            payload=json.dumps(payload).encode(),
        )

        with pytest.raises(LedgerError) as refused:
            untouched.writer.append([event], atomic=True)

        assert refused.value.reason == "NOT_SUPPORTED"
        assert untouched.size == before
