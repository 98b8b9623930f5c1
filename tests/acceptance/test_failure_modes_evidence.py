"""How the original took evidence, done again: judged by the ledger's own schema, named by content, whatever its bytes.

A test bears the number of the failure in the domain's list.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from ledger.client import actor, draft
from ledger.client.drafts import parts_of
from ledger.core.ids import sha256_hex
from ledger.events.fields import ArtifactRef
from ledger.events.reviews import ReviewPublished
from ledger.wire import artifacts_pb2
from tests.acceptance.corrected import Corrected
from tests.acceptance.curated import ISSUE
from tests.publications.review_builder import issue
from tests.rules import builders

CURATOR = actor("curator-1", "human")
BINARY = bytes(range(256)) * 3
"""What no text encoding takes."""


def places(error: dict[str, Any]) -> list[str]:
    """The JSON pointers of a refusal."""
    return [problem["place"].partition("#")[2] for problem in error["problems"]]


def index_of(document: dict[str, Any], method: str) -> int:
    """The place of the first review of a method."""
    return next(i for i, review in enumerate(document["reviews"]) if review["method"] == method)


def fetched(source: Corrected, sha256: str) -> bytes:
    source.doors.tell("artifact", "get", sha256, "--output", f"{sha256}.bytes")
    return Path(f"{sha256}.bytes").read_bytes()


def test_row_18_a_schema_that_lies_in_the_run_is_stored_and_permits_nothing(judged: Corrected) -> None:
    def unheard_of(document: dict[str, Any]) -> None:
        document["reviews"][index_of(document, "model_judgment")]["verdict"] = "superb"

    bad, good = judged.run_of(edit=unheard_of), judged.run_of()
    for directory in (bad, good):
        (directory / "quality-review.schema.json").write_text(f'{{"$comment": "{judged.id}: anything will do"}}')
    document = json.loads((bad / "quality-reviews.json").read_text())
    Draft202012Validator(json.loads((bad / "quality-review.schema.json").read_text())).validate(document)

    error = judged.doors.refused("review", "publish", bad, code=1, reason="INVALID_FILE")

    assert places(error) == [f"/reviews/{index_of(document, 'model_judgment')}/verdict"]
    assert judged.quality() == "unreviewed"

    judged.doors.record("review", "publish", good)

    (published,) = judged.events("review.published")
    assert published.payload["schema_version"] == "0.3.0"
    (schema,) = [a for a in published.payload["artifacts"] if a["name"] == "quality-review.schema.json"]
    assert fetched(judged, schema["sha256"]) == (good / "quality-review.schema.json").read_bytes()


def test_row_19_evidence_that_is_not_what_the_review_cites_is_refused_with_its_place(judged: Corrected) -> None:
    directory = judged.run_of()
    trace = directory / "tasks" / "0000" / "execution-000" / "verifier-trace.jsonl"
    found = trace.read_bytes()
    trace.write_bytes(found + b"{}\n")

    error = judged.doors.refused("review", "publish", directory, code=1, reason="INVALID_FILE")

    assert "/reviews/0/evidence/0/sha256" in places(error)
    assert judged.quality() == "unreviewed"

    trace.write_bytes(found)
    judged.doors.record("review", "publish", directory)

    assert judged.quality() == "good"


class TestRow25:
    def pointing(self, path: str, value: str) -> Any:
        """Points the finding of the first judge at a place in a file."""

        def edit(document: dict[str, Any]) -> None:
            judge = document["reviews"][index_of(document, "model_judgment")]
            citation = {"path": path, "locator": {"kind": "json_pointer", "value": value}}
            judge["attributes"]["finding_evidence"] = {judge["findings"][0]["id"]: [citation]}

        return edit

    def test_row_25_a_finding_names_its_evidence_by_hash_and_place(self, judged: Corrected) -> None:
        cited = "tasks/0000/judges/1/parsed.json"
        directory = judged.run_of(judge_findings=[issue("medium")], edit=self.pointing(cited, "/verdict"))

        judged.doors.record("review", "publish", directory)

        (finding,) = judged.events("judgment.recorded")[0].payload["findings"]
        (evidence,) = finding["evidence"]
        content = (directory / cited).read_bytes()
        assert evidence["artifact"]["sha256"] == sha256_hex(content)
        assert evidence["locator"] == {"kind": "json_pointer", "value": "/verdict"}
        assert json.loads(fetched(judged, evidence["artifact"]["sha256"]))["verdict"] == "keep"

    @pytest.mark.parametrize(
        ("path", "value", "at"),
        [
            ("tasks/0000/judges/1/parsed.json", "/no/such/place", "/locator/value"),
            ("tasks/0000/judges/9/parsed.json", "/verdict", "/path"),
        ],
        ids=["a place that is not there", "a file that is not cited"],
    )
    def test_row_25_evidence_that_is_not_there_is_refused_with_its_place(
        self, judged: Corrected, path: str, value: str, at: str
    ) -> None:
        directory = judged.run_of(judge_findings=[issue("medium")], edit=self.pointing(path, value))

        error = judged.doors.refused("review", "publish", directory, code=1, reason="INVALID_FILE")

        (place,) = places(error)
        assert place.startswith("/reviews/1/attributes/finding_evidence/")
        assert place.endswith(at)
        assert judged.quality() == "unreviewed"


def test_row_26_evidence_is_named_by_its_content_and_no_local_path_is_recorded(judged: Corrected) -> None:
    def leaks(document: dict[str, Any]) -> None:
        judge = document["reviews"][index_of(document, "model_judgment")]
        judge["attributes"]["log"] = "file:///home/somebody/run/judge.log"

    directory = judged.run_of(edit=leaks)
    text = (directory / "quality-reviews.json").read_text()
    assert text.count("file:///somewhere/else/") > 5

    judged.doors.record("review", "publish", directory)

    events = judged.events()
    said = json.dumps([event.payload for event in events])
    assert "file:" not in said
    assert str(directory) not in said
    judgments = [event for event in events if event.header["type"] == "judgment.recorded"]
    assert judgments[0].payload["attributes"]["log"] is None
    for event in judgments:
        for evidence in event.payload["evidence"]:
            artifact = evidence["artifact"]
            assert fetched(judged, artifact["sha256"]) == (directory / artifact["name"]).read_bytes()


def test_row_38_the_methods_are_one_enumeration_and_a_label_of_the_page_is_none(judged: Corrected) -> None:
    known: dict[str, set[str]] = {}
    for type_ in ("observation.recorded", "judgment.recorded", "synthesis.recorded"):
        schema = judged.doors.tell("schema", "show", type_)["schema"]
        method = schema["properties"]["method"]
        known[type_] = set(method.get("enum", [method.get("const")]))
    every = set().union(*known.values())
    assert len(every) == sum(map(len, known.values())) == 6

    def labelled(document: dict[str, Any]) -> None:
        document["reviews"][1]["method"] = "Model judgment"

    directory = judged.run_of(edit=labelled)

    error = judged.doors.refused("review", "publish", directory, code=1, reason="INVALID_FILE")

    assert "/reviews/1/method" in places(error)
    wrong = next(p["message"] for p in error["problems"] if p["place"].endswith("/reviews/1/method"))
    assert all(method in wrong for method in every)
    judged.review()
    told = judged.doors.tell("audit", "judgments", "--source", judged.id)
    assert {j["method"] for j in told} == {"runtime_execution", "model_judgment", "synthesis"} < every
    asked = judged.doors.run("audit", "judgments", "--source", judged.id, "--method", "Model judgment", "--json")
    assert (asked.code, asked.error["reason"]) == (2, "USAGE")


class TestRow43:
    def test_row_43_resolved_issues_that_are_no_array_are_refused_with_their_place(self, judged: Corrected) -> None:
        def no_array(document: dict[str, Any]) -> None:
            document["reviews"][-1]["attributes"]["resolved_verifier_issues"] = {"issue_url": ISSUE}

        directory = judged.run_of(edit=no_array)

        error = judged.doors.refused("review", "publish", directory, code=1, reason="INVALID_FILE")

        last = len(json.loads((directory / "quality-reviews.json").read_text())["reviews"]) - 1
        assert places(error) == [f"/reviews/{last}/attributes/resolved_verifier_issues"]

    def test_row_43_a_malformed_collection_of_another_program_breaks_nothing_of_the_source(
        self, judged: Corrected
    ) -> None:
        judged.review()
        judged.confirm()
        collection = f"malformed-{judged.id.rpartition(':')[2]}"
        names = {"source_id": judged.id, "dataset_revision": judged.dataset}
        malformed = [
            builders.run(collection, **names),
            builders.judgment(collection, **names, attributes={"resolved_verifier_issues": {"issue_url": ISSUE}}),
            builders.synthesis(collection, **names, attributes={"resolved_verifier_issues": "all of them"}),
        ]
        types = ("observation.recorded", "judgment.recorded", "synthesis.recorded")
        parts = [draft(t, judged.stream, p, by=CURATOR) for t, p in zip(types, malformed, strict=True)]
        document = judged.doors.writer.put_artifact(f"{judged.id}: a document of its own kind".encode())
        judged.doors.writer.put_artifact(b"trace")
        known = builders.published("malformed", collection, [p.id for p in parts])
        closing = ReviewPublished.model_validate(
            known.model_dump()
            | {
                "review": document.sha256,
                "source_id": judged.id,
                "document": ArtifactRef(name="quality-reviews.json", sha256=document.sha256),
                "parts": parts_of(parts),
                "dataset_revision": judged.dataset,
                "verifier_revision": judged.verifier,
            }
        )
        judged.doors.writer.append([*parts, draft("review.published", judged.stream, closing, by=CURATOR)], atomic=True)

        shown = judged.shown()
        assert document.sha256 in {review["id"] for review in shown["review_pool"]}
        judged.validate()
        error = judged.doors.refused(
            "defect", "resolve", judged.id, "d1", "--review", document.sha256, code=5, reason="REFUSED_BY_RULES"
        )
        assert "/review" in {problem["place"] for problem in error["problems"]}

        judged.fix_review()
        judged.resolve()

        assert judged.shown()["open_defects"] == []
        assert judged.doors.run("source", "list", "--json").code == 0


class TestRow44:
    def with_file(self, source: Corrected, name: str, content: bytes) -> Path:
        """A run whose source synthesis cites one more file."""
        directory = source.run_of()
        (directory / name).write_bytes(content)
        path = directory / "quality-reviews.json"
        document = json.loads(path.read_text())
        cited = {"snapshot_path": name, "sha256": sha256_hex(content), "url": "https://example.org/shot"}
        unknown = {"retrieved_at": None, "locator": None, "artifact_revision": None}
        document["reviews"][-1]["evidence"].append({**cited, **unknown})
        path.write_text(json.dumps(document))
        return directory

    @pytest.mark.parametrize(
        ("name", "content", "media_type"),
        [
            ("screenshot.png", b"\x89PNG\r\n\x1a\n" + BINARY, "image/png"),
            ("rollouts.parquet", random.Random(44).randbytes(5 << 20), "application/vnd.apache.parquet"),
            ("core.dump", BINARY, None),
        ],
        ids=["an image", "five mebibytes", "bytes of no known kind"],
    )
    def test_row_44_evidence_is_any_bytes_with_their_size_and_media_type(
        self, judged: Corrected, name: str, content: bytes, media_type: str | None
    ) -> None:
        judged.doors.record("review", "publish", self.with_file(judged, name, content))

        synthesis = judged.events("synthesis.recorded")[-1]
        artifact = synthesis.payload["evidence"][-1]["artifact"]
        assert (artifact["name"], artifact["size"], artifact.get("media_type")) == (name, len(content), media_type)
        stat = artifacts_pb2.StatArtifactsRequest(sha256=[artifact["sha256"]])
        (stored,) = judged.doors.connection.call(judged.doors.connection.artifacts.Stat, stat).artifacts
        assert stored.size == len(content)
        assert fetched(judged, artifact["sha256"]) == content
        assert judged.quality() == "good"

    def test_row_44_what_does_not_fit_into_an_event_is_refused_with_its_place_and_fits_into_an_artifact(
        self, judged: Corrected
    ) -> None:
        text = "what the judge thought, word for word; " * 40_000

        def wordy(document: dict[str, Any]) -> None:
            document["reviews"][1]["attributes"]["transcript"] = text

        error = judged.doors.refused("review", "publish", judged.run_of(edit=wordy), code=1, reason="TOO_LARGE")

        assert places(error) == ["/reviews/1"]
        assert "evidence" in error["remedy"]
        judged.doors.record("review", "publish", self.with_file(judged, "transcript.txt", text.encode()))
        assert judged.quality() == "good"
