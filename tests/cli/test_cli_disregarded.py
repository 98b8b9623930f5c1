"""What was disregarded can be recorded again: refreshes, reviews, reports, attestations; and lists say what counts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ledger.core.errors import Refused
from services.cli import refreshes
from services.cli.state import State
from tests.cli.conftest import Ran, Run
from tests.publications.review_builder import build_review

ONE = "O:one"
REPORT = Path(__file__).parent.parent / "vectors" / "difficulty" / "good" / "difficulty.json"


def row(family: str, **more: Any) -> dict[str, Any]:
    return {"id": ONE, "origin": "O", "family": family, "dataset_revision": "d1", "verifier_revision": "v1"} | more


def inventory(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(each) + "\n" for each in rows))
    return path


def disregard(run: Run, pos: int) -> int:
    """Lets an event count for nothing; gives the position of the event that does."""
    told = run("event", "disregard", pos, "--reason", "a slip", "--yes", "--json").json
    return int(told["events"][0]["pos"])


def position(told: Any, type_: str) -> int:
    """Of the last event of the type."""
    return int([e["pos"] for e in told["events"] if e["type"] == type_][-1])


def shown(run: Run) -> dict[str, Any]:
    return dict(run("source", "show", ONE, "--json").json)


def versions(run: Run) -> list[dict[str, Any]]:
    return list(run("catalogue", "versions", "--json").json)


def present(run: Run) -> dict[str, Any]:
    (now,) = [v for v in versions(run) if v["status"] == "present"]
    return now


def counts(got: Ran) -> tuple[int, int]:
    return got.json["recorded"], got.json["already_recorded"]


class TestRefreshes:
    @pytest.fixture
    def second(self, run: Run, tmp_path: Path) -> dict[str, Any]:
        """Of an origin with two refreshes: the second one, its file, and where it was disregarded."""
        assert run("catalogue", "import", inventory(tmp_path / "first.jsonl", row("math"))).code == 0
        first = present(run)
        file = inventory(tmp_path / "second.jsonl", row("changed"))
        told = run("catalogue", "import", file, "--json").json
        pos = position(told, "catalogue.synced")
        return {"file": file, "first": first, "events": told["events"], "at": disregard(run, pos)}

    def test_the_same_file_is_imported_again_under_other_ids_and_once_only(self, run: Run, second: dict[str, Any]):
        assert shown(run)["family"] == "math"

        again = run("catalogue", "import", second["file"], "--json")

        assert counts(again) == (2, 0)
        assert not {e["id"] for e in again.json["events"]} & {e["id"] for e in second["events"]}
        assert shown(run)["family"] == "changed"
        assert present(run)["replaces"] == second["first"]["base"]
        assert run("catalogue", "import", second["file"], "--json").json["events"] == []

    @pytest.mark.parametrize("times", [1, 2])
    def test_it_is_published_again_upon_the_base_that_stands_however_often_it_was_disregarded(
        self, run: Run, second: dict[str, Any], times: int
    ):
        command = ("catalogue", "publish", second["file"], "--base", second["first"]["base"], "--json")
        for _ in range(times - 1):
            disregard(run, position(run(*command).json, "catalogue.synced"))

        assert counts(run(*command)) == (2, 0)
        assert counts(run(*command)) == (0, 2)
        assert shown(run)["family"] == "changed"

    def test_the_list_says_where_a_refresh_was_disregarded_and_names_it_as_no_base(
        self, run: Run, second: dict[str, Any]
    ):
        newest, oldest = versions(run)

        assert (newest["status"], newest["disregarded_at"], newest["base"]) == ("disregarded", second["at"], None)
        assert (oldest["status"], oldest["base"]) == ("present", second["first"]["base"])
        assert f"disregarded at {second['at']}" in run("catalogue", "versions").out

    def test_a_disregarded_refresh_is_no_base_and_the_refusal_names_the_one_that_stands(
        self, run: Run, second: dict[str, Any]
    ):
        gone = second["events"][-1]["id"]

        got = run("catalogue", "publish", second["file"], "--base", gone, "--json")

        assert (got.code, got.error["reason"]) == (5, "CONDITION_FAILED")
        assert f"was disregarded at position {second['at']}" in got.error["message"]
        assert second["first"]["base"] in got.error["remedy"]

    def test_a_single_source_is_changed_upon_the_refresh_that_stands(self, run: Run, second: dict[str, Any]):
        assert run("catalogue", "retire", ONE, "--reason", "Gone.").code == 0
        assert run("catalogue", "reinstate", ONE).code == 0
        assert run("source", "revise", ONE, "--verifier-revision", "v2").code == 0

        assert shown(run)["verifier_revision"] == "v2"

    def test_a_retirement_that_was_disregarded_is_made_again(self, run: Run, second: dict[str, Any]):
        command = ("catalogue", "retire", ONE, "--reason", "Gone.", "--json")
        disregard(run, position(run(*command).json, "catalogue.synced"))
        assert shown(run)["retired"] is False

        assert counts(run(*command)) == (2, 0)
        assert shown(run)["retired"] is True

    def test_the_only_refresh_of_an_origin_is_made_again_upon_none(self, run: Run, tmp_path: Path):
        file = inventory(tmp_path / "first.jsonl", row("math"))
        command = ("catalogue", "publish", file, "--base", "none", "--json")
        disregard(run, position(run(*command).json, "catalogue.synced"))
        assert run("source", "show", ONE).code == 4

        assert counts(run(*command)) == (2, 0)
        assert counts(run(*command)) == (0, 2)
        assert shown(run)["family"] == "math"

    def test_an_export_names_the_base_that_stood_then(self, run: Run, second: dict[str, Any]):
        now = run("catalogue", "export")
        then = run("catalogue", "export", "--at", second["at"])

        assert f"--base 'O={second['first']['base']}'" in now.err
        assert f"--base 'O={second['events'][-1]['id']}'" in then.err

    def test_a_row_that_was_disregarded_in_a_refresh_that_stands_is_imported_again(
        self, run: Run, second: dict[str, Any], tmp_path: Path
    ):
        again = run("catalogue", "import", second["file"], "--json").json
        disregard(run, position(again, "source.revised"))
        assert run("catalogue", "import", second["file"], "--json").json["recorded"] == 2

        assert shown(run)["family"] == "changed"

    def test_a_base_that_was_disregarded_in_between_is_told_as_such(self, run: Run, second: dict[str, Any]):
        gone = second["events"][-1]["id"]
        refusal = Refused("no", reason="REFUSED_BY_RULES")

        with State().open() as ledger:
            told = refreshes.overtaken(ledger.reader, refusal, {"O": gone})

        assert f"was disregarded at position {second['at']}" in told.message


class TestReviews:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        return build_review(tmp_path / "run", source_id=ONE, dataset_revision="d1", tasks=1)

    def test_a_review_whose_closing_event_was_disregarded_is_published_again_by_that_event_alone(
        self, own: Run, folder: Path
    ):
        first = own("review", "publish", folder, "--json").json
        at = disregard(own, position(first, "review.published"))
        assert shown(own)["quality"] == "unreviewed"

        planned = own("review", "publish", folder, "--dry-run")
        again = own("review", "publish", folder)

        assert f"was disregarded at position {at}; would be published again" in planned.err
        assert f"review.published was disregarded at position {at}; published again." in again.err
        assert shown(own)["quality"] == "good"
        repeated = own("review", "publish", folder, "--json")
        assert counts(repeated) == (0, len(first["events"]))
        old, new = ({e["id"] for e in told["events"]} for told in (first, repeated.json))
        assert len(new - old) == 1

    def test_a_part_and_the_closing_event_that_were_disregarded_are_both_made_again(self, own: Run, folder: Path):
        first = own("review", "publish", folder, "--json").json
        disregard(own, position(first, "synthesis.recorded"))
        disregard(own, position(first, "review.published"))

        again = own("review", "publish", folder, "--json").json

        made = [e["type"] for e in again["events"] if not e["already_recorded"]]
        assert made == ["synthesis.recorded", "review.published"]
        assert shown(own)["quality"] == "good"
        assert counts(own("review", "publish", folder, "--json")) == (0, len(first["events"]))

    def test_a_part_alone_is_not_made_again_while_the_review_stands_without_it(self, own: Run, folder: Path):
        first = own("review", "publish", folder, "--json").json
        disregard(own, position(first, "synthesis.recorded"))
        closing = position(first, "review.published")

        got = own("review", "publish", folder, "--json")

        assert (got.code, got.error["reason"]) == (5, "CONDITION_FAILED")
        assert f"`ledger event disregard {closing}`" in got.error["remedy"]

    def test_another_revision_may_be_named_when_a_disregarded_review_is_published_again(self, own: Run, folder: Path):
        first = own("review", "publish", folder, "--json").json
        disregard(own, position(first, "review.published"))

        assert own("review", "publish", folder, "--verifier-revision", "v9").code == 0

        (listed,) = own("review", "list", ONE, "--json").json
        assert (listed["verifier_revision"], listed["disregarded_at"], listed["shown"]) == ("v9", None, True)
        assert counts(own("review", "publish", folder, "--json")) == (0, len(first["events"]))

    def test_the_list_says_that_a_review_was_disregarded_and_no_command_takes_it(self, own: Run, folder: Path):
        first = own("review", "publish", folder, "--json").json
        before = shown(own)["size"]
        at = disregard(own, position(first, "review.published"))

        (listed,) = own("review", "list", ONE, "--json").json

        assert (listed["disregarded_at"], listed["shown"]) == (at, False)
        assert f"disregarded at {at}" in own("review", "list", ONE).out
        assert own("review", "list", ONE, "--at", before, "--json").json[0]["disregarded_at"] is None
        assert own("review", "supersede", listed["review"], "--reason", "x").code == 4

    def test_a_supersession_that_was_disregarded_is_no_more_and_can_be_made_again(self, own: Run, folder: Path):
        own("review", "publish", folder)
        (listed,) = own("review", "list", ONE, "--json").json
        command = ("review", "supersede", listed["review"], "--reason", "Wrong rows.", "--json")
        disregard(own, position(own(*command).json, "review.superseded"))
        assert own("review", "list", ONE, "--json").json[0]["superseded"] is False

        assert counts(own(*command)) == (1, 0)
        assert own("review", "list", ONE, "--json").json[0]["superseded"] is True
        assert counts(own(*command)) == (0, 1)


class TestDifficulty:
    @pytest.fixture
    def report(self, tmp_path: Path) -> Path:
        path = tmp_path / "difficulty.json"
        path.write_text(json.dumps({**json.loads(REPORT.read_text()), "atlas_id": ONE}))
        return path

    def test_a_report_that_was_disregarded_is_published_again_without_its_follow_ups(self, own: Run, report: Path):
        first = own("difficulty", "publish", report, "--json").json
        at = disregard(own, position(first, "difficulty.reported"))

        again = own("difficulty", "publish", report, "--json")

        made = [e for e in again.json["events"] if not e["already_recorded"]]
        assert [(e["type"], e["disregarded_before_at"]) for e in made] == [("difficulty.reported", at)]
        assert shown(own)["difficulty"]["pos"] == made[0]["pos"]
        assert counts(own("difficulty", "publish", report, "--json")) == (0, len(first["events"]))

    def test_the_history_says_what_was_disregarded(self, own: Run, report: Path):
        first = own("difficulty", "publish", report, "--json").json
        size = shown(own)["size"]
        at = disregard(own, position(first, "difficulty.reported"))

        found = {f["pos"]: f["disregarded_at"] for f in own("difficulty", "history", ONE, "--json").json}

        assert found[position(first, "difficulty.reported")] == at
        assert set(found.values()) == {at, None}
        assert f"disregarded at {at}" in own("difficulty", "history", ONE).out
        assert {f["disregarded_at"] for f in own("difficulty", "history", ONE, "--at", size, "--json").json} == {None}

    def test_a_context_that_was_disregarded_is_recorded_again(self, own: Run, tmp_path: Path):
        context = tmp_path / "context.json"
        context.write_text(json.dumps({"reviewer_rollout_baseline": {"solved": 2, "verified": 3}}))
        command = ("difficulty", "context", context, "--source", ONE, "--json")
        disregard(own, position(own(*command).json, "difficulty.context_recorded"))

        assert counts(own(*command)) == (1, 0)
        assert counts(own(*command)) == (0, 1)


class TestAttestations:
    @pytest.fixture
    def attest(self, own: Run, tmp_path: Path):
        """Attests the data of the source at two revisions: "a" as unchanged, "b" as changed."""
        old = tmp_path / "old.parquet"
        old.write_bytes(b"rows")

        def record(said: str, *more: Any) -> Ran:
            new = tmp_path / said / "old.parquet"
            new.parent.mkdir(exist_ok=True)
            new.write_bytes(b"rows" if said == "a" else b"other rows")
            revisions = ("--executed-revision", "d0", "--current-revision", "d1")
            return own("attest", "dataset", old, new, "--source", ONE, *revisions, "--json", *more)

        return record

    def findings(self, own: Run) -> list[str]:
        return [each["finding"] for each in own("attest", "list", ONE, "--json").json]

    def told(self, got: Ran) -> tuple[int, int]:
        said = json.loads(got.out)
        return said["recorded"], said["already_recorded"]

    def test_what_another_attestation_superseded_is_attested_anew_and_what_stands_is_not(self, own: Run, attest):
        outcomes = [self.told(attest(said)) for said in "abba" + "a"]

        assert outcomes == [(1, 0), (1, 0), (0, 1), (1, 0), (0, 1)]
        (now,) = self.findings(own)
        assert now == "unchanged"

    def test_the_same_by_another_actor_is_no_other_attestation(self, attest):
        attest("a")

        assert self.told(attest("a", "--actor", "somebody-else")) == (0, 1)

    def test_one_that_was_disregarded_is_attested_again_and_the_one_before_it_stands_meanwhile(self, own: Run, attest):
        attest("a")
        pos = json.loads(attest("b").out)["events"][0]["pos"]
        disregard(own, pos)
        assert self.told(attest("a")) == (0, 1)

        assert self.told(attest("b")) == (1, 0)
        assert self.told(attest("b")) == (0, 1)

    def test_nothing_rests_on_an_attestation_that_was_disregarded(self, own: Run, attest, tmp_path: Path):
        event = attest("a").json["events"][0]
        at = disregard(own, event["pos"])
        folder = build_review(tmp_path / "run", source_id=ONE, dataset_revision="d1", tasks=1)

        error = own("review", "publish", folder, "--rests-on", event["id"], "--json").error

        assert [p["message"] for p in error["problems"]] == [f"was disregarded at position {at}"]


class TestDefects:
    def test_a_given_id_keeps_its_first_receipt_and_it_is_said_that_the_event_counts_for_nothing(self, own: Run):
        command = ("defect", "suspect", ONE, "--kind", "verifier", "--summary", "s", "--id", "mine")
        at = disregard(own, position(own(*command, "--json").json, "defect.suspected"))

        again = own(*command)

        assert again.code == 0
        assert f"disregarded at position {at} and counts for nothing: give another --id" in again.err
        assert counts(own(*command, "--json")) == (0, 1)

    def test_a_resolution_rests_on_no_validation_that_was_disregarded(self, own: Run, tmp_path: Path):
        case = tmp_path / "case.json"
        case.write_text("{}")
        confirm = ["--kind", "verifier", "--summary", "s", "--native-input", case, "--expected", "1", "--observed", "0"]
        assert own("defect", "confirm", ONE, "half", *confirm, "--reproduction", "r", "--issue-missing").code == 0
        check = (
            "defect",
            "validation",
            ONE,
            "half",
            "--evidence",
            case,
            "--replay",
            "passed",
            case,
            "1",
            "1",
            "--json",
        )
        told = own(*check)
        disregard(own, position(told.json, "defect.validation_recorded"))

        got = own("defect", "resolve", ONE, "half", "--json")

        assert got.code == 4
        assert "no validation of defect half" in got.error["message"]
