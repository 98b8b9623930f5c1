"""Reviews and difficulty at the command: roles, supersession, what they rest on, and everything that was recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ledger.client import Writer, actor, connect, draft
from ledger.client.difficulty import UNNAMED
from ledger.events.attestations import AttestationRecorded
from ledger.events.fields import ArtifactRef
from services.server.app import in_process
from services.server.settings import Settings
from tests.publications.review_builder import EXECUTED, build_review, edit_review

ONE = "O:one"
REPORT = Path(__file__).parent.parent / "vectors" / "difficulty" / "good" / "difficulty.json"


def review(folder: Path, **more: Any) -> Path:
    return build_review(folder, source_id=ONE, dataset_revision="d1", tasks=1, **more)


def publish(own, folder: Path, *more: Any) -> str:
    got = own("review", "publish", folder, "--json", *more)
    closing = got.json["events"][-1]
    assert closing["type"] == "review.published"
    return said(own, closing["id"])["review"]


def said(own, event_id: str) -> dict[str, Any]:
    return own("event", "show", event_id, "--content", "--json").json["payload"]


def pool(own, *more: Any) -> list[dict[str, Any]]:
    return own("review", "list", ONE, "--json", *more).json


def report(folder: Path, name: str = "difficulty.json", **changed: Any) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(json.dumps({**json.loads(REPORT.read_text()), "atlas_id": ONE, **changed}))
    return path


class TestPublishing:
    def test_a_published_review_is_listed_with_what_it_covers(self, own, tmp_path):
        name = publish(own, review(tmp_path / "run"))

        (listed,) = pool(own)

        assert (listed["review"], listed["shown"], listed["superseded"]) == (name, True, False)
        assert (listed["dataset_revision"], listed["verifier_revision"]) == ("d1", "v1")
        assert listed["verifier_revision_basis"] == "catalogue"
        assert name[:8] in own("review", "list", ONE).out

    def test_the_review_s_document_can_be_fetched_by_its_name_and_hashes_to_it(self, own, tmp_path):
        folder = review(tmp_path / "run")

        assert own("artifact", "get", publish(own, folder)).raw == (folder / "quality-reviews.json").read_bytes()

    def test_a_supplemental_role_is_recorded_and_a_repetition_keeps_it(self, own, tmp_path):
        folder = review(tmp_path / "run")
        publish(own, folder, "--role", "verifier_defect")

        again = own("review", "publish", folder, "--json").json

        assert again["recorded"] == 0
        assert said(own, again["events"][-1]["id"])["review_pool_role"] == "verifier_defect"
        assert pool(own)[0]["role"] not in {None, "rating"}

    def test_a_revision_that_the_run_s_own_record_shows_is_executed(self, own, tmp_path):
        publish(own, review(tmp_path / "run"), "--verifier-revision", EXECUTED)

        assert pool(own)[0]["verifier_revision_basis"] == "execution"

    def test_a_dry_run_tells_what_would_be_shown(self, own, tmp_path):
        planned = own("review", "publish", review(tmp_path / "run"), "--dry-run", "--json").json

        assert planned["source"]["quality"]
        assert pool(own) == []

    def test_row_1_every_publication_says_who_published_what_and_when_and_none_is_overwritten(self, own, tmp_path):
        first = publish(own, review(tmp_path / "one"), "--actor", "ann", "--actor-kind", "human")
        second = publish(own, review(tmp_path / "two", day="2026-10-05"), "--actor", "ben", "--actor-kind", "human")

        listed = pool(own)

        assert [each["review"] for each in listed] == [second, first]
        assert listed[0]["recorded_at"] > listed[1]["recorded_at"]
        headers = [own("event", "show", each["event"], "--json").json["header"] for each in listed]
        assert [header["actor"]["id"] for header in headers] == ["ben", "ann"]

    def test_row_11_a_supplemental_review_moves_neither_the_rating_nor_the_review_that_is_shown(self, own, tmp_path):
        publish(own, review(tmp_path / "rating"))
        before = own("source", "show", ONE, "--json").json

        publish(own, review(tmp_path / "supplemental", verdict="reject", supplemental=True, day="2026-10-05"))
        publish(own, review(tmp_path / "defect", verdict="reject", day="2026-10-06"), "--role", "verifier_defect")

        after = own("source", "show", ONE, "--json").json
        assert (after["quality"], after["review"]["id"]) == (before["quality"], before["review"]["id"])
        assert [each["shown"] for each in pool(own)] == [False, False, True]

    def test_row_16_other_bytes_under_the_same_path_are_another_artifact(self, own, tmp_path):
        one, two = review(tmp_path / "one"), review(tmp_path / "two", verdict="reject")
        reviews = [publish(own, one), publish(own, two)]

        found = [said(own, each["event"])["artifacts"] for each in reversed(pool(own))]

        assert len(set(reviews)) == 2
        hashes = [next(a["sha256"] for a in cited if a["name"] == "coalescer/parsed.json") for cited in found]
        assert [own("artifact", "get", digest).raw for digest in hashes] == [
            (run / "coalescer/parsed.json").read_bytes() for run in (one, two)
        ]
        assert hashes[0] != hashes[1]

    def test_row_43_issues_that_are_no_list_are_refused_with_their_place(self, own, tmp_path):
        folder = edit_review(
            review(tmp_path / "run"), lambda d: d["reviews"][-1]["attributes"].update(resolved_verifier_issues={})
        )

        error = own("review", "publish", folder, "--json").error

        assert error["problems"][0]["place"].endswith("#/reviews/5/attributes/resolved_verifier_issues")
        assert pool(own) == []


class TestSuperseding:
    def test_row_12_a_superseded_review_stays_listed_and_another_speaks_for_the_source(self, own, tmp_path):
        old = publish(own, review(tmp_path / "old", verdict="reject"))
        new = publish(own, review(tmp_path / "new", day="2026-10-05"))

        got = own("review", "supersede", old[:10], "--by", new, "--reason", "A dirty checkout.", "--json")

        assert got.json["recorded"] == 1
        newest, oldest = pool(own)
        assert (newest["review"], newest["shown"], newest["superseded"]) == (new, True, False)
        assert (oldest["superseded_by"], oldest["superseded_because"]) == (new, "A dirty checkout.")
        assert "superseded: A dirty checkout." in own("review", "list", ONE).out

    def test_the_same_again_is_one_supersession(self, own, tmp_path):
        old = publish(own, review(tmp_path / "old"))
        command = ["review", "supersede", old, "--reason", "Wrong rows.", "--json"]
        assert own(*command).code == 0

        again = own(*command).json

        assert (again["recorded"], again["already_recorded"]) == (0, 1)

    def test_the_pool_of_a_past_moment_is_that_of_then(self, own, tmp_path):
        old = publish(own, review(tmp_path / "old"))
        size = own("source", "show", ONE, "--json").json["size"]
        assert own("review", "supersede", old, "--reason", "Wrong rows.").code == 0

        (then,) = pool(own, "--at", size)

        assert then["superseded"] is False

    def test_a_name_that_nothing_or_too_much_begins_with_is_refused(self, own, tmp_path):
        publish(own, review(tmp_path / "one"))
        publish(own, review(tmp_path / "two", summary="Otherwise."))

        assert own("review", "supersede", "no-such", "--reason", "x").code == 4
        got = own("review", "supersede", "", "--reason", "x", "--json")
        assert got.code == 5
        assert "several" in got.error["message"]

    def test_a_dry_run_supersedes_nothing(self, own, tmp_path):
        old = publish(own, review(tmp_path / "old"))

        assert own("review", "supersede", old, "--reason", "x", "--dry-run").code == 0
        assert pool(own)[0]["superseded"] is False


@pytest.fixture
def attested(run, tmp_path):
    """A ledger with two sources, and attestations of the first: by what they show, their event ids."""
    with in_process(Settings(home=tmp_path / "home")) as address, connect(address) as connection:
        inventory = tmp_path / "two.jsonl"
        inventory.write_text(
            '{"id": "O:one", "origin": "O", "dataset_revision": "d1"}\n{"id": "O:two", "origin": "O"}\n'
        )
        assert run("catalogue", "import", inventory, "--address", address).code == 0
        stored = Writer(connection).put_artifact(b"{}")
        events = {}
        for name, source, digest in (("same", ONE, "a"), ("changed", ONE, "b"), ("foreign", "O:two", "a")):
            event = draft(
                "attestation.recorded", f"source/{source}", _claim(source, stored.sha256, digest * 64), by=actor("me")
            )
            Writer(connection).append([event])
            events[name] = event.id
        yield lambda *arguments: run(*arguments, "--address", address), events


def _claim(source: str, evidence: str, executed: str) -> AttestationRecorded:
    return AttestationRecorded.model_validate(
        {
            "source_id": source,
            "kind": "execution_implementation",
            "subject": f"make_review.py {executed[:4]}",
            "evidence": [ArtifactRef(name="comparison.json", sha256=evidence)],
            "scope": "What is compared.",
            "attested_at": None,
            "execution_implementation": {
                "script": "make_review.py",
                "original_sha256": "a" * 64,
                "executed_sha256": "c" * 64,
                "roots": ["load"],
                "definitions": [{"name": "load", "original_sha256": "a" * 64, "executed_sha256": executed}],
                "original_closure_sha256": "a" * 64,
                "executed_closure_sha256": executed,
                "encoding": "e",
            },
        }
    )


class TestRestingOnAttestations:
    def test_a_report_rests_on_an_attestation_that_shows_no_change(self, attested, tmp_path):
        on_it, events = attested

        got = on_it("difficulty", "publish", report(tmp_path / "d"), "--rests-on", events["same"], "--json").json

        assert said(on_it, got["events"][0]["id"])["rests_on"] == [events["same"]]

    @pytest.mark.parametrize(
        ("which", "why"),
        [("changed", "shows a change: load"), ("foreign", "of another source: O:two"), ("absent", "no such event")],
    )
    def test_nothing_rests_on_a_change_nor_on_what_is_of_another_source(self, attested, tmp_path, which, why):
        on_it, events = attested
        named = ["--rests-on", events["same"], "--rests-on", events.get(which, "nowhere"), "--json"]

        for command in (
            ["difficulty", "publish", report(tmp_path / "d")],
            ["difficulty", "publish", report(tmp_path / "d"), "--dry-run"],
            ["review", "publish", review(tmp_path / "run")],
        ):
            got = on_it(*command, *named)
            assert got.code == 5
            assert [why in p["message"] for p in got.error["problems"]] == [True]
        assert on_it("difficulty", "history", ONE, "--json").json == []

    def test_what_is_no_attestation_is_refused(self, attested, tmp_path):
        on_it, _ = attested
        synced = on_it("catalogue", "versions", "--json").json[0]["base"]

        error = on_it("review", "publish", review(tmp_path / "run"), "--rests-on", synced, "--json").error

        assert "is a catalogue.synced, and no attestation" in error["problems"][0]["message"]

    def test_a_review_names_what_it_rests_on_and_a_repetition_keeps_it(self, attested, tmp_path):
        on_it, events = attested
        folder = review(tmp_path / "run")

        publish(on_it, folder, "--rests-on", events["same"])

        assert on_it("review", "publish", folder, "--json").json["recorded"] == 0
        assert pool(on_it)[0]["rests_on"] == [events["same"]]


class TestDifficulty:
    def test_the_history_holds_reports_follow_ups_and_context_newest_first(self, own, tmp_path):
        context = tmp_path / "context.json"
        context.write_text(json.dumps({"reviewer_rollout_baseline": {"solved": 2, "verified": 3}}))
        assert own("difficulty", "publish", report(tmp_path / "d")).code == 0
        size = own("source", "show", ONE, "--json").json["size"]
        assert own("difficulty", "context", context, "--source", ONE).code == 0

        found = own("difficulty", "history", ONE, "--json").json

        assert [f["what"] for f in found] == [
            "context",
            "follow-up, other checkpoint",
            "follow-up, generation setting",
            "report",
        ]
        assert found[0]["baseline"] == {"solved": 2, "verified": 3}
        assert found[3]["protocol"] == "atlas-difficulty-v2-65k16k"
        assert [m["solved"] for m in found[3]["models"]] == [11, 17, 21]
        assert "ordering-audit.json" in found[3]["ordering_warning"]
        assert len(own("difficulty", "history", ONE, "--at", size, "--json").json) == 3
        assert "11/32" in own("difficulty", "history", ONE).out

    def test_row_20_a_newer_review_does_not_drop_the_report(self, own, tmp_path):
        publish(own, review(tmp_path / "one"))
        assert (
            own("difficulty", "publish", report(tmp_path / "d", source_revision="d1", verifier_revision="v1")).code == 0
        )
        before = own("source", "show", ONE, "--json").json["difficulty"]

        publish(own, review(tmp_path / "two", day="2026-10-05"))

        after = own("source", "show", ONE, "--json").json["difficulty"]
        assert len(before["models"]) == 3
        assert (after["status"], after["models"]) == (before["status"], before["models"])

    def test_an_archived_report_is_recorded_with_its_date_and_stays_historical(self, own, tmp_path):
        publish(own, review(tmp_path / "run"))
        path = report(
            tmp_path / "d", "2026-08.json", protocol={"context_window": 8192}, estimated_at="2026-08-01T00:00:00Z"
        )

        assert own("difficulty", "publish", path, "--archived").code == 0

        (found, *_) = [f for f in own("difficulty", "history", ONE, "--json").json if f["what"] == "report"]
        assert (found["protocol"], found["estimated_at"]) == (UNNAMED, "2026-08-01T00:00:00Z")
        assert own("source", "show", ONE, "--json").json["difficulty"]["status"] != "current"

    def test_a_report_under_an_adopted_protocol_is_no_archived_one(self, own, tmp_path):
        got = own("difficulty", "publish", report(tmp_path / "d"), "--archived", "--json")

        assert got.code == 5
        assert "adopted now" in got.error["message"]
        assert own("difficulty", "history", ONE, "--json").json == []

    def test_a_context_of_a_source_that_nobody_lists_is_noted(self, own, tmp_path):
        context = tmp_path / "context.json"
        context.write_text(json.dumps({"historical_reference": {"applicability": "historical"}}))

        got = own("difficulty", "context", context, "--source", "O:none")

        assert got.code == 0
        assert "no such source" in got.err
