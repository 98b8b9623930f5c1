"""`ledger check`: verdicts as an exit code, and the receipt to keep beside a run."""

from __future__ import annotations

import hashlib
import json

import pytest

from ledger.client.receipts import FORMAT, read_receipt, receipt_of, write_receipt
from ledger.core.errors import InvalidInput
from ledger.wire import audit_pb2, runs_pb2
from tests.audit.running import OTHER
from tests.rules.builders import DATA, SOURCE, VERIFIER


def test_a_source_that_is_good_passes(demo):
    got = demo("check", "MarinSkyRL:svamp", "--require", "good")
    assert got.code == 0
    assert got.out.startswith("OK: MarinSkyRL:svamp: Good (sample)\n")
    assert "1 of 1 source passed (Good is required)" in got.err


def test_one_source_that_does_not_pass_refuses_all_of_them_with_the_reasons_on_stdout(demo):
    got = demo("check", "MarinSkyRL:svamp", "MarinSkyRL:asdiv")
    assert got.code == 5
    assert "OK: MarinSkyRL:svamp" in got.out
    assert "FAIL: MarinSkyRL:asdiv: Some issues" in got.out
    assert "against" in got.out
    assert "Open verifier defect sample-open-defect" in got.out


def test_what_is_required_decides(demo):
    assert demo("check", "MarinSkyRL:asdiv", "--require", "some_issues").code == 0
    assert demo("check", "MarinSkyRL:apps", "--require", "some_issues").code == 5
    assert demo("check", "MarinSkyRL:apps", "--require", "any").code == 0


def test_json_is_the_answer_also_when_it_is_no(demo):
    got = demo("check", "MarinSkyRL:apps", "nobody", "--json", "--quiet")
    assert (got.code, got.err) == (5, "")
    answer = json.loads(got.out)
    assert (answer["passed"], answer["require"], answer["receipt"]) == (False, "good", None)
    assert [v["source_id"] for v in answer["verdicts"]] == ["MarinSkyRL:apps", "nobody"]
    assert answer["verdicts"][1]["source"] is None
    assert len(answer["root_hash"]) == 64


def test_a_defect_that_was_confirmed_later_does_not_count_before(trained, trained_story):
    pins = ("--dataset-revision", f"{SOURCE}={DATA}", "--verifier-revision", f"{SOURCE}={VERIFIER}")
    before = trained("check", SOURCE, *pins, "--at", trained_story.defect)
    assert before.code == 0, before.out
    assert trained("check", SOURCE, *pins).code == 5


def test_a_revision_that_is_not_the_one_reviewed_stands_against_the_source(trained, trained_story):
    got = trained("check", SOURCE, "--dataset-revision", f"{SOURCE}=other", "--at", trained_story.defect)
    assert got.code == 5
    assert "other" in got.out


@pytest.mark.parametrize(
    "flags",
    [
        ("--dataset-revision", "r"),
        ("--dataset-revision", f"{OTHER}=r"),
        ("--verifier-revision", f"{SOURCE}="),
        ("--dataset-revision", f"{SOURCE}=a", "--dataset-revision", f"{SOURCE}=b"),
        ("--require", "perfect"),
    ],
    ids=" ".join,
)
def test_a_revision_without_its_source_or_twice_is_a_usage_error(trained, flags):
    assert trained("check", SOURCE, *flags).code == 2


def test_a_receipt_is_written_also_when_a_source_did_not_pass_and_its_digest_is_told(trained, trained_story, tmp_path):
    file = tmp_path / "consumption.json"
    got = trained("check", SOURCE, OTHER, "--receipt", file)
    assert got.code == 5
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    assert f"sha256 {digest}" in got.out
    receipt = read_receipt(file)
    assert (receipt["format"], receipt["passed"], receipt["size"]) == (FORMAT, False, trained_story.defect + 1)
    assert [v["source_id"] for v in receipt["verdicts"]] == [SOURCE, OTHER]
    assert receipt["verdicts"][0]["shown"]["open_defects"][0]["id"] == "d1"
    assert receipt["verdicts"][0]["shown"]["quality"] == "some_issues"
    assert not list(tmp_path.glob(".consumption*"))


def test_a_receipt_says_which_revisions_were_to_be_consumed(trained, tmp_path):
    file = tmp_path / "r.json"
    trained("check", SOURCE, "--dataset-revision", f"{SOURCE}={DATA}", "--receipt", file)
    consumed = read_receipt(file)["verdicts"][0]["consumed"]
    assert consumed == {"dataset_revision": DATA, "verifier_revision": None}


def test_the_same_question_at_the_same_size_gives_the_same_bytes(trained, trained_story, tmp_path):
    first, second = tmp_path / "a.json", tmp_path / "b.json"
    for file in (first, second):
        trained("check", SOURCE, "--at", trained_story.defect, "--receipt", file)
    assert first.read_bytes() == second.read_bytes()


def test_a_receipt_names_the_root_that_the_log_had_at_its_size(trained, trained_story, tmp_path):
    file = tmp_path / "r.json"
    told = trained("check", SOURCE, "--at", trained_story.defect, "--receipt", file, "--json").json
    receipt = read_receipt(file)
    later = trained("check", SOURCE, "--json")
    assert (receipt["size"], receipt["root_hash"]) == (trained_story.defect, told["root_hash"])
    assert json.loads(later.out)["root_hash"] != receipt["root_hash"]
    assert told["receipt"]["sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()


def test_a_run_can_cite_the_receipt_and_shows_that_it_checked(own, tmp_path):
    file, facts = tmp_path / "consumption.json", tmp_path / "facts.json"
    ref = json.loads(own("check", "O:one", "--require", "any", "--receipt", file, "--json").out)
    cited = {name: ref["receipt"][name] for name in ("name", "sha256", "size", "media_type")}
    assert own("artifact", "put", file).code == 0
    declared = {
        "run_id": "careful",
        "rl_start": {"name": "b", "repository": "o/b"},
        "sources": [{"atlas_id": "O:one", "dataset_id": "o/one"}],
        "consumption_receipt": cited,
        "consumption_size": ref["coordinates"]["size"],
    }
    facts.write_text(json.dumps({"facts": [{"type": "run.declared", "payload": declared}]}))
    assert own("run", "record", facts).code == 0
    shown = own("run", "show", "careful").out
    assert f"at size {ref['coordinates']['size']:,}, {cited['sha256']}" in shown


def test_a_place_that_cannot_be_written_is_a_usage_error_that_leaves_nothing(demo, tmp_path):
    got = demo("check", "MarinSkyRL:svamp", "--receipt", tmp_path / "none" / "r.json", "--json")
    assert (got.code, got.error["reason"]) == (2, "USAGE")
    assert list(tmp_path.rglob("*.json")) == []


@pytest.mark.parametrize(
    ("content", "place"),
    [
        (b"{}", "/format"),
        (b"[]", "/format"),
        (b'{"format": "atlas-ledger/consumption-receipt/2"}', "/format"),
        (f'{{"format": "{FORMAT}"}}'.encode(), "/origin"),
        (b"not json", ""),
    ],
    ids=["empty", "list", "later-format", "fields-missing", "not-json"],
)
def test_what_is_no_receipt_is_not_read_as_one(tmp_path, content, place):
    file = tmp_path / "r.json"
    file.write_bytes(content)
    with pytest.raises(InvalidInput) as refused:
        read_receipt(file)
    assert refused.value.reason == "INVALID_FILE"
    assert place in [p.place for p in refused.value.problems]


def test_a_receipt_that_is_written_over_another_replaces_it_whole(tmp_path):
    answer = runs_pb2.CheckResponse(
        passed=True, require="any", origin="o", coordinates=audit_pb2.AnswerCoordinates(size=7, rules="ledger-1")
    )
    file = tmp_path / "r.json"
    file.write_text("x" * 10_000)
    written = write_receipt(file, receipt_of(answer))
    assert (written.bytes, written.size) == (file.stat().st_size, 7)
    assert written.ref.sha256 == hashlib.sha256(file.read_bytes()).hexdigest()
    assert read_receipt(file)["verdicts"] == []
