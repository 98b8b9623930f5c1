"""How the original published, done again: races are refused, halves are not seen, and bytes keep their names.

A test bears the number of the failure in the domain's list.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ledger.client import Writer, actor, draft
from ledger.client.drafts import Draft, Publication
from ledger.client.reviews import covered_verifier, plan_review, read_review
from ledger.core.errors import LedgerError
from ledger.core.ids import sha256_hex
from ledger.events.catalogue import CatalogueSynced, SyncCounts
from ledger.events.fields import Parts
from ledger.wire import artifacts_pb2, log_pb2
from tests.acceptance.conftest import ROWS, open_doors
from tests.acceptance.corrected import CODE, Corrected
from tests.acceptance.curated import BAD
from tests.acceptance.doors import Doors, ledger

CURATOR = actor("curator-1", "human")


@pytest.fixture
def own(own_home: Path, tmp_path: Path) -> Iterator[Corrected]:
    """A source in a ledger of the test's own."""
    with open_doors(own_home) as doors:
        yield Corrected(doors, next(row for row in ROWS if row["id"] == "MarinSkyRL:svamp"), tmp_path)


def planned(source: Corrected, directory: Path) -> Publication:
    """The publication of a run, as a program plans it."""
    run = read_review(directory)
    revision, basis = covered_verifier(run, catalogue=source.verifier)
    return plan_review(run, by=CURATOR, verifier_revision=revision, verifier_revision_basis=basis)


def at_version(stream: str, version: int) -> log_pb2.Condition:
    return log_pb2.Condition(stream_version=log_pb2.StreamVersion(stream=stream, exact=version))


def test_row_13_what_was_validated_before_a_refresh_is_not_written_after_it(judged: Corrected) -> None:
    publication = planned(judged, judged.run_of())
    for upload in publication.uploads:
        judged.doors.writer.put_artifact(upload.content)
    present = judged.dataset
    judged.revise(dataset="6" * 40)
    size = judged.doors.size

    with pytest.raises(LedgerError) as refused:
        judged.doors.writer.append(publication.drafts, atomic=True)

    assert refused.value.reason == "REFUSED_BY_RULES"
    assert "/dataset_revision" in {problem.place for problem in refused.value.problems}
    assert (judged.doors.size, judged.quality()) == (size, "unreviewed")

    judged.revise(dataset=present)
    judged.doors.writer.append(publication.drafts, atomic=True)

    assert judged.quality() == "good"


def test_row_13_a_writer_names_the_version_that_it_read_and_is_refused_once_the_source_has_moved(
    judged: Corrected,
) -> None:
    publication = planned(judged, judged.run_of())
    for upload in publication.uploads:
        judged.doors.writer.put_artifact(upload.content)
    seen = len(judged.events())
    judged.suspect()
    size = judged.doors.size

    with pytest.raises(LedgerError) as refused:
        judged.doors.writer.append(publication.drafts, [at_version(judged.stream, seen)], atomic=True)

    assert refused.value.reason == "CONDITION_FAILED"
    assert judged.stream in "".join(f"{p.place} {p.message}" for p in refused.value.problems)
    assert (judged.doors.size, judged.quality()) == (size, "unreviewed")

    judged.doors.writer.append(publication.drafts, [at_version(judged.stream, seen + 1)], atomic=True)

    assert judged.quality() == "good"


def test_row_13_of_two_inventories_upon_one_base_the_later_is_refused_with_what_changed(
    own: Corrected, tmp_path: Path
) -> None:
    file = tmp_path / "inventory.jsonl"
    file.write_text(json.dumps({**own.row, "family": "first"}) + "\n")
    base = own.doors.tell("catalogue", "versions", "--origin", "MarinSkyRL")[0]["base"]
    publish = ("catalogue", "publish", file, "--partial", "--base", base)
    own.doors.record(*publish)
    file.write_text(json.dumps({**own.row, "family": "second"}) + "\n")

    error = own.doors.refused(*publish, code=5, reason="CONDITION_FAILED")

    assert own.id in json.dumps(error)
    assert own.shown()["family"] == "first"


def test_row_13_of_many_at_once_upon_one_base_exactly_one_succeeds(own: Corrected) -> None:
    origin = "Raced"
    nothing = SyncCounts(declared=0, revised=0, retired=0, reinstated=0, unchanged=0)

    def publish(number: int) -> str:
        payload = CatalogueSynced(
            collection=f"c{number}",
            origin=origin,
            parts=Parts(count=0, digest=sha256_hex(b""), ids=[]),
            row_count=0,
            counts=nothing,
        )
        try:
            writer = Writer(own.doors.connection)
            writer.append([draft("catalogue.synced", f"origin/{origin}", payload, by=CURATOR)], atomic=True)
        except LedgerError as error:
            return error.reason
        return "recorded"

    with ThreadPoolExecutor(8) as threads:
        outcomes = list(threads.map(publish, range(8)))

    assert outcomes.count("recorded") == 1
    assert set(outcomes) - {"recorded"} <= {"REFUSED_BY_RULES", "CONDITION_FAILED"}
    assert len(list(own.doors.reader.events(streams=[f"origin/{origin}"]))) == 1


def test_row_14_a_crash_half_way_leaves_nothing_that_is_shown_and_publishing_again_completes_it(
    judged: Corrected,
) -> None:
    directory = judged.run_of(tasks=3)
    publication = planned(judged, directory)
    assert publication.closing is not None
    before = judged.doors.size
    for upload in publication.uploads:
        judged.doors.writer.put_artifact(upload.content)
    half = len(publication.parts) // 2

    judged.doors.writer.append(publication.parts[:half])

    assert judged.doors.size == before + half
    assert (judged.quality(), judged.shown()["review"]) == ("unreviewed", None)
    told = judged.doors.tell("review", "publish", directory)
    assert (told["recorded"], told["already_recorded"]) == (len(publication.drafts) - half, half)
    assert judged.quality() == "good"
    size = judged.doors.size
    seen = [judged.quality(at=n) for n in range(before, size + 1)]
    assert seen == ["unreviewed"] * (size - before) + ["good"]


def test_row_14_a_review_that_cites_what_is_not_stored_is_refused_whole(judged: Corrected) -> None:
    publication = planned(judged, judged.run_of())
    document, *evidence = publication.uploads
    for upload in evidence:
        judged.doors.writer.put_artifact(upload.content)
    before = judged.doors.size

    with pytest.raises(LedgerError) as refused:
        judged.doors.writer.append(publication.drafts, atomic=True)

    assert refused.value.reason == "ARTIFACT_MISSING"
    assert document.sha256 in refused.value.message + "".join(p.message + p.place for p in refused.value.problems)
    assert judged.doors.size == before
    assert judged.quality() == "unreviewed"

    judged.doors.writer.publish(publication)

    assert judged.quality() == "good"


def test_row_16_other_content_under_a_known_id_is_a_conflict_and_not_dropped_in_silence(judged: Corrected) -> None:
    publication = planned(judged, judged.run_of())
    judged.doors.writer.publish(publication)
    before = judged.doors.size
    part = publication.parts[0]
    said = json.loads(part.payload)
    other = Draft()
    other.CopyFrom(part)
    other.payload = json.dumps({**said, "summary": "Something else entirely."}).encode()

    with pytest.raises(LedgerError) as refused:
        judged.doors.writer.append([other], atomic=True)

    assert refused.value.reason == "ID_CONFLICT"
    assert judged.doors.size == before
    assert judged.doors.payload(part.id)["summary"] == said["summary"]
    (again,) = judged.doors.writer.append([part])
    assert again.already_recorded


def test_row_16_other_bytes_under_the_name_of_an_artifact_are_refused(judged: Corrected) -> None:
    stored = judged.doors.writer.put_artifact(b"what the verifier printed")

    def lie() -> Iterator[artifacts_pb2.PutArtifactRequest]:
        yield artifacts_pb2.PutArtifactRequest(artifact=artifacts_pb2.Artifact(sha256=sha256_hex(b"new"), size=5))
        yield artifacts_pb2.PutArtifactRequest(chunk=b"other")

    with pytest.raises(LedgerError) as refused:
        judged.doors.connection.call(judged.doors.connection.artifacts.Put, lie())

    assert refused.value.reason == "HASH_MISMATCH"
    absent = judged.doors.run("artifact", "get", sha256_hex(b"new"), "--output", "new", "--json")
    assert absent.error["reason"] == "NOT_FOUND"
    judged.doors.tell("artifact", "get", stored.sha256, "--output", "stored")
    assert Path("stored").read_bytes() == b"what the verifier printed"


def fetched(doors: Doors, sha256: str) -> bytes:
    doors.tell("artifact", "get", sha256, "--output", f"{sha256}.bytes")
    return Path(f"{sha256}.bytes").read_bytes()


def test_row_17_the_id_of_a_review_is_the_hash_of_bytes_that_can_be_fetched(judged: Corrected) -> None:
    directory = judged.run_of()
    judged.doors.record("review", "publish", directory)
    shown = judged.shown()

    document = fetched(judged.doors, shown["review"]["id"])

    assert document == (directory / "quality-reviews.json").read_bytes()
    assert hashlib.sha256(document).hexdigest() == shown["review"]["id"]
    cited = [e["artifact"] for event in judged.events("judgment.recorded") for e in event.payload["evidence"]]
    assert len(cited) == 6
    for artifact in cited:
        assert fetched(judged.doors, artifact["sha256"]) == (directory / artifact["name"]).read_bytes()


def test_row_17_bytes_that_were_changed_on_disk_are_found_and_not_served(own_home: Path, tmp_path: Path) -> None:
    with open_doors(own_home) as doors:
        source = Corrected(doors, next(row for row in ROWS if row["id"] == "MarinSkyRL:svamp"), tmp_path)
        review = source.review()
    (stored,) = [path for path in (own_home / "artifacts").rglob("*") if path.name == review]
    assert ledger("log", "fsck", "--home", own_home).code == 0
    stored.chmod(0o600)
    stored.write_bytes(stored.read_bytes().replace(b'"keep"', b'"kept"', 1))

    with open_doors(own_home) as doors:
        got = doors.run("artifact", "get", review, "--output", "document.json", "--json")
    checked = ledger("log", "fsck", "--home", own_home)

    assert got.code == 3, got.err
    assert got.error["reason"] == "VERIFICATION_FAILED"
    assert not Path("document.json").exists()
    assert checked.code == 3
    assert review in checked.out + checked.err


class TestRow21:
    def test_row_21_copying_a_run_changes_nothing_that_is_recorded(self, judged: Corrected) -> None:
        directory = judged.run_of()
        judged.doors.record("review", "publish", directory)
        before, size = judged.shown(), judged.doors.size
        copy = Path(shutil.copytree(directory, judged.folder / "copied", copy_function=shutil.copyfile))
        for path in copy.rglob("*"):
            os.utime(path, (0, 0))

        told = judged.doors.tell("review", "publish", copy)

        assert told["recorded"] == 0
        assert (judged.doors.size, judged.shown()) == (size, before)

    def test_row_21_claimed_and_recorded_times_are_both_kept(self, judged: Corrected) -> None:
        judged.review(day="2001-01-02")

        assert judged.shown()["review"]["review_date"] == "2001-01-02T12:03:00Z"
        for event in judged.events("judgment.recorded"):
            assert event.payload["reviewed_at"].startswith("2001-01-02T12:0")
            assert event.header["recorded_at"] > "2001-01-03"
            assert {e["retrieved_at"] for e in event.payload["evidence"]} == {"2001-01-02T12:50:00Z"}

    def test_row_21_an_unknown_time_stays_unknown_and_decides_nothing(self, judged: Corrected) -> None:
        def undated(document: dict[str, Any]) -> None:
            for review in document["reviews"]:
                review["reviewed_at"] = None
                for evidence in review["evidence"]:
                    evidence["retrieved_at"] = None

        judged.review(edit=undated)
        rated = judged.shown()
        assert (rated["quality"], rated["review"]["review_date"]) == ("good", None)
        times = {event.payload["reviewed_at"] for event in judged.events("judgment.recorded")}
        assert times == {None}

        judged.confirm()
        judged.validate()
        before = judged.doors.size
        judged.fix_review(edit=undated)
        judged.resolve()

        # What came after the defect is a matter of positions: no claimed date takes part.
        assert [d["status"] for d in judged.shown(at=before)["open_defects"]] == ["open"]
        assert judged.shown()["open_defects"] == []

    def test_row_21_an_undated_collection_does_not_take_over_from_a_dated_one(self, judged: Corrected) -> None:
        dated = judged.review()

        def undated(document: dict[str, Any]) -> None:
            for review in document["reviews"]:
                review["reviewed_at"] = None

        undated_review = judged.review(edit=undated, **BAD)

        assert (judged.quality(), judged.shown()["review"]["id"]) == ("good", dated)
        assert judged.under(CODE)["review"]["id"] == undated_review
