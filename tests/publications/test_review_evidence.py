"""What a review's attributes add to its events: what findings point at, where judges were asked, how runs were scored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pytest

from ledger.client import actor, review_files
from ledger.client.drafts import Publication
from ledger.client.review_format import Review, without_local_uris
from ledger.client.reviews import covered_verifier, plan_review, read_review
from ledger.core.errors import InvalidInput
from ledger.core.ids import sha256_hex
from ledger.events import REGISTRY
from tests.publications.review_builder import EXECUTED, build_review, edit_review, write

JUDGE = 2
"""The review of the second judge, who has a finding."""
OPINION = "tasks/0000/judges/2/parsed.json"


def published(directory: Path, **more: Any) -> Publication:
    arguments = {"verifier_revision": None, "verifier_revision_basis": None, **more}
    return plan_review(read_review(directory), by=actor("curator-1", "human"), **arguments)


def part(directory: Path, number: int) -> dict[str, Any]:
    return json.loads(published(directory).parts[number].payload)


def judged(directory: Path, **attributes: Any) -> Path:
    return edit_review(build_review(directory, tasks=1), lambda d: d["reviews"][JUDGE]["attributes"].update(attributes))


def pointing(directory: Path, *citations: dict[str, Any]) -> Path:
    def change(document: dict[str, Any]) -> None:
        review = document["reviews"][JUDGE]
        review["attributes"]["finding_evidence"] = {review["findings"][0]["id"]: list(citations)}

    return edit_review(build_review(directory, tasks=1), change)


class TestWhatFindingsPointAt:
    def test_row_25_a_finding_s_evidence_is_the_artifact_and_the_place_in_it(self, tmp_path: Path) -> None:
        place = {"kind": "json_pointer", "value": "/verdict"}
        directory = pointing(tmp_path, {"path": OPINION, "locator": place}, {"path": OPINION})

        [finding] = part(directory, JUDGE)["findings"]

        digest = sha256_hex((directory / OPINION).read_bytes())
        assert [(e["artifact"]["name"], e["artifact"]["sha256"]) for e in finding["evidence"]] == [
            (OPINION, digest)
        ] * 2
        assert [e["locator"] for e in finding["evidence"]] == [place, None]

    def test_a_finding_without_evidence_names_none(self, tmp_path: Path) -> None:
        assert "evidence" not in part(build_review(tmp_path, tasks=1), JUDGE)["findings"][0]

    @pytest.mark.parametrize("value", ["1", "1-1"])
    def test_lines_that_the_file_has_are_taken(self, tmp_path: Path, value: str) -> None:
        directory = pointing(tmp_path, {"path": OPINION, "locator": {"kind": "line_range", "value": value}})

        assert part(directory, JUDGE)["findings"][0]["evidence"][0]["locator"]["value"] == value

    @pytest.mark.parametrize(
        ("content", "lines"),
        [(b"", 0), (b"a", 1), (b"a\n", 1), (b"a\nb", 2), (b"\n\n", 2), (b"x" * (1 << 20) + b"\ny", 2)],
    )
    def test_a_last_line_without_its_end_is_a_line(self, tmp_path: Path, content: bytes, lines: int) -> None:
        path = tmp_path / "log"
        path.write_bytes(content)

        assert review_files._line_count(path) == lines

    @pytest.mark.parametrize(
        ("pointer", "there"),
        [
            ("", True),
            ("/a~1b/m~0n", True),
            ("/list/1", True),
            ("/list/01", False),
            ("/list/-", False),
            ("/list/2", False),
            ("/list/" + "9" * 5000, False),
            ("/text/0", False),
            ("/nan", True),
        ],
    )
    def test_a_pointer_is_followed_as_rfc_6901_says(self, tmp_path: Path, pointer: str, there: bool) -> None:
        path = tmp_path / "log.json"
        path.write_text('{"a/b": {"m~n": 1}, "list": [0, 1], "text": "x", "nan": NaN}')

        assert (review_files._pointer_missed(review_files._document(path), pointer) is None) is there

    @pytest.mark.parametrize("content", [b"{}\n{}\n", b"\xff", b"[" * 100_000])
    def test_a_pointer_into_what_is_no_json_document_is_refused(self, tmp_path: Path, content: bytes) -> None:
        path = tmp_path / "log.jsonl"
        path.write_bytes(content)

        assert "no JSON document" in (review_files._pointer_missed(review_files._document(path), "/0") or "")


class TestJudges:
    def test_row_24_where_a_judge_was_asked_and_with_what_is_its_session(self, tmp_path: Path) -> None:
        said = part(judged(tmp_path, conversation_id="c-1", request_ids=["r-1", "r-2"], prompt="Judge it."), JUDGE)

        assert said["session"] == {
            "conversation_id": "c-1",
            "request_ids": ["r-1", "r-2"],
            "prompt_sha256": sha256_hex(b"Judge it."),
        }
        assert said["attributes"]["prompt"] == "Judge it."

    def test_a_judge_of_whom_nothing_is_recorded_has_no_session(self, tmp_path: Path) -> None:
        def change(document: dict[str, Any]) -> None:
            del document["reviews"][JUDGE]["attributes"]["prompt"]

        assert "session" not in part(edit_review(build_review(tmp_path, tasks=1), change), JUDGE)

    def test_what_is_no_judge_may_say_what_it_will_under_the_same_names(self, tmp_path: Path) -> None:
        def change(document: dict[str, Any]) -> None:
            document["reviews"][0]["attributes"]["prompt"] = {"system": "x"}

        said = part(edit_review(build_review(tmp_path, tasks=1), change), 0)

        assert said["attributes"]["prompt"] == {"system": "x"}
        assert "session" not in said


class TestRuns:
    def test_row_41_a_scoring_contract_is_taken_over(self, tmp_path: Path) -> None:
        def change(document: dict[str, Any]) -> None:
            document["reviews"][0]["attributes"]["verification"]["scoring_contract"] = "mean-of-turns/2"

        said = part(edit_review(build_review(tmp_path, tasks=1), change), 0)

        assert said["verification"]["scoring_contract"] == "mean-of-turns/2"

    def test_row_26_a_local_file_is_named_nowhere_and_the_document_keeps_what_it_says(self, tmp_path: Path) -> None:
        def change(document: dict[str, Any]) -> None:
            attributes = document["reviews"][0]["attributes"]
            attributes["log"] = " FILE:///somewhere/log"
            attributes["more"] = [{"trace": "file:/somewhere/trace"}, "profile"]
            scale = {"minimum": 0, "maximum": 1, "higher_means": "better", "rubric_url": "file:///somewhere/rubric"}
            document["reviews"][0]["metrics"][0]["scale"] = scale

        directory = edit_review(build_review(tmp_path, tasks=1), change)
        publication = published(directory)

        assert not any(b"somewhere" in made.payload for made in publication.drafts)
        said = json.loads(publication.parts[0].payload)
        assert (said["attributes"]["log"], said["attributes"]["more"]) == (None, [{"trace": None}, "profile"])
        assert any(b"somewhere" in u.content for u in publication.uploads if isinstance(u.content, bytes))

    def test_what_only_looks_like_a_local_file_is_kept(self) -> None:
        assert without_local_uris(["profile:x", "https://example.org/file:", 7, None]) == [
            "profile:x",
            "https://example.org/file:",
            7,
            None,
        ]

    def test_row_21_unknown_dates_stay_unknown(self, tmp_path: Path) -> None:
        def change(document: dict[str, Any]) -> None:
            for review in document["reviews"]:
                review["reviewed_at"] = None
                for evidence in review["evidence"]:
                    evidence["retrieved_at"] = None

        publication = published(edit_review(build_review(tmp_path, tasks=1), change))

        said = [json.loads(made.payload) for made in publication.parts]
        assert {s["reviewed_at"] for s in said} == {None}
        assert {e["retrieved_at"] for s in said for e in s["evidence"]} == {None}

    @pytest.mark.parametrize("name", ["trace.bin", "picture.png", "log"])
    def test_row_44_evidence_of_any_media_type_and_size_is_stored(self, tmp_path: Path, name: str) -> None:
        content = bytes(range(256)) * 8192

        def change(document: dict[str, Any]) -> None:
            (tmp_path / name).write_bytes(content)
            one = document["reviews"][0]["evidence"][0]
            more = {**one, "snapshot_path": name, "sha256": sha256_hex(content), "locator": None}
            document["reviews"][0]["evidence"].append(more)

        publication = published(edit_review(build_review(tmp_path, tasks=1), change))

        [upload] = [u for u in publication.uploads if u.sha256 == sha256_hex(content)]
        assert (upload.size, upload.content) == (len(content), tmp_path / name)


class TestTheFormat:
    def test_row_38_the_methods_are_one_enumeration_in_the_document_and_in_the_schema_of_the_events(self) -> None:
        document = set(get_args(Review.model_fields["method"].annotation))
        events: list[str] = []
        for type_ in ("observation.recorded", "judgment.recorded", "synthesis.recorded"):
            method = REGISTRY.latest(type_).model.model_json_schema()["properties"]["method"]
            events += method.get("enum") or [method["const"]]

        assert sorted(events) == sorted(document)

    def test_row_18_a_schema_in_the_run_is_stored_and_permits_nothing(self, tmp_path: Path) -> None:
        directory = edit_review(build_review(tmp_path, tasks=1), lambda d: d.update(anything="goes"))
        write(directory / "quality-review.schema.json", {"additionalProperties": True})

        with pytest.raises(InvalidInput) as refused:
            read_review(directory)

        assert [p.place.partition("#")[2] for p in refused.value.problems] == ["/anything"]

    def test_row_17_the_name_of_a_review_is_the_hash_of_bytes_that_are_stored(self, tmp_path: Path) -> None:
        publication = published(build_review(tmp_path, tasks=1))
        said = json.loads(publication.drafts[-1].payload)

        [stored] = [u.content for u in publication.uploads if u.sha256 == said["review"]]
        assert isinstance(stored, bytes)
        assert sha256_hex(stored) == said["review"] == said["document"]["sha256"]


class TestRoles:
    def test_a_role_is_named_where_the_document_says_none(self, tmp_path: Path) -> None:
        publication = published(build_review(tmp_path, tasks=1), role="verifier_defect", rests_on=["event-1"])
        said = json.loads(publication.drafts[-1].payload)

        assert (said["review_pool_role"], said["rests_on"]) == ("verifier_defect", ["event-1"])

    def test_the_document_s_own_role_is_not_overruled(self, tmp_path: Path) -> None:
        directory = build_review(tmp_path, tasks=1, review_pool_role="verifier_revision_attestation")

        assert published(directory, role="verifier_revision_attestation").closing is not None
        with pytest.raises(InvalidInput, match="its role is verifier_revision_attestation"):
            published(directory, role="verifier_defect")


class TestWhoSaysTheVerifierRevision:
    GRADING = "ab" * 32

    def executed(self, directory: Path, **provenance: Any) -> Path:
        return edit_review(build_review(directory, tasks=1), lambda d: d["execution_provenance"].update(provenance))

    @pytest.mark.parametrize(
        ("catalogue", "named", "covered"),
        [
            (None, None, (None, None)),
            ("v1", None, ("v1", "catalogue")),
            ("v1", "v2", ("v2", "publisher")),
            (None, "v2", ("v2", "publisher")),
            (EXECUTED, None, (EXECUTED, "execution")),
            ("v1", EXECUTED, (EXECUTED, "execution")),
            (GRADING, None, (GRADING, "execution")),
        ],
    )
    def test_row_15_it_is_the_run_only_where_its_own_record_shows_that_revision(
        self, tmp_path: Path, catalogue: str | None, named: str | None, covered: tuple[str | None, str | None]
    ) -> None:
        run = read_review(self.executed(tmp_path, grading_revision=self.GRADING))

        assert covered_verifier(run, catalogue=catalogue, named=named) == covered

    def test_the_commit_of_a_tree_with_changes_of_its_own_does_not_say_what_ran(self, tmp_path: Path) -> None:
        run = read_review(self.executed(tmp_path, marinskyrl_dirty=True, grading_revision=self.GRADING))

        assert covered_verifier(run, catalogue=EXECUTED) == (EXECUTED, "catalogue")
        assert covered_verifier(run, catalogue=self.GRADING) == (self.GRADING, "execution")
