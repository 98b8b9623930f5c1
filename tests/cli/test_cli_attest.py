"""Attesting that code, data or grading is unchanged: compared, recorded, told."""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path

import pytest

from ledger.wire import audit_pb2
from tests.client.fake_ledger import FakeLedger, serving

ONE, TWO = "O:one", "O:two"
VECTORS = Path(__file__).parents[1] / "vectors" / "attestations"
OLD = "LIMIT = 3\n\n\ndef load(path):\n    return open(path).read()[:LIMIT]\n\n\ndef main():\n    print(load('x'))\n"
MOVED = OLD.replace("print(load('x'))", "print(load('y'))  # elsewhere")
CHANGED = OLD.replace("LIMIT = 3", "LIMIT = 4")


@pytest.fixture
def scripts(tmp_path):
    """An old script, one that differs elsewhere, and one that differs under the root `load`."""
    found = []
    for name, text in (("old.py", OLD), ("moved/make_review.py", MOVED), ("changed/make_review.py", CHANGED)):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        found.append(path)
    return found


def size(own):
    return own("source", "show", ONE, "--json").json["size"]


def payload(own, told):
    (event,) = told["events"]
    return own("event", "show", event["id"], "--content", "--json").json["payload"]


def test_code_that_only_moved_elsewhere_is_attested_as_unchanged(own, scripts):
    old, moved, _ = scripts
    got = own("attest", "implementation", old, moved, "--roots", "load", "--source", ONE, "--json")
    recorded = payload(own, got.json)
    assert recorded["kind"] == "execution_implementation"
    said = recorded["execution_implementation"]
    assert said["original_sha256"] == hashlib.sha256(OLD.encode()).hexdigest()
    assert said["executed_sha256"] == hashlib.sha256(MOVED.encode()).hexdigest()
    assert said["original_closure_sha256"] == said["executed_closure_sha256"]
    assert [d["name"] for d in said["definitions"]] == ["LIMIT", "load"]
    assert own("artifact", "get", said["executed_sha256"]).raw == MOVED.encode()
    comparison = json.loads(own("artifact", "get", recorded["evidence"][0]["sha256"]).raw)
    assert comparison["definitions"] == said["definitions"]


def test_code_that_differs_is_recorded_and_cannot_support_that_nothing_changed(own, scripts):
    old, _, changed = scripts
    before = size(own)
    got = own("attest", "implementation", old, changed, "--roots", "load", "--source", ONE)
    assert got.code == 5
    assert [line.split() for line in got.out.splitlines()[:3]] == [
        ["definition", "found"],
        ["LIMIT", "changed"],
        ["load", "unchanged"],
    ]
    assert "changed: LIMIT. It cannot support that nothing changed." in got.err
    assert size(own) == before + 1


def test_a_change_that_was_validated_is_recorded_with_its_evidence_and_is_done(own, scripts, tmp_path):
    old, _, changed = scripts
    evidence = tmp_path / "validation.md"
    evidence.write_text("Ran both on 32 tasks.")
    command = ["attest", "implementation", old, changed, "--roots", "load", "--source", ONE, "--validated", evidence]
    got = own(*command, "--note", "the same outcomes", "--actor", "mara", "--actor-kind", "human", "--json")
    validation = payload(own, got.json)["execution_implementation"]["validation"]
    assert validation["validated_by"] == {"id": "mara", "label": "mara", "kind": "human"}
    assert validation["note"] == "the same outcomes"
    assert own("artifact", "get", validation["evidence"][0]["sha256"]).raw == b"Ran both on 32 tasks."
    assert own(*command).code == 2
    assert own(*command[:-2], "--note", "without evidence").code == 2


def test_comparing_alone_needs_no_source_and_no_ledger(run, scripts):
    old, moved, changed = scripts
    command = ("attest", "implementation", old, changed, "--roots", "load", "--no-record", "--address", "127.0.0.1:9")
    got = run(*command, "--json")
    assert got.code == 5
    assert [d["name"] for d in json.loads(got.out)["definitions"]] == ["LIMIT", "load"]
    assert run("attest", "implementation", old, moved, "--roots", "load", "--no-record").code == 0


def test_a_dry_run_tells_the_events_and_records_nothing(own, scripts):
    old, moved, _ = scripts
    before = size(own)
    command = ("attest", "implementation", old, moved, "--roots", "load", "--source", ONE, "--source", TWO)
    told = own(*command, "--dry-run", "--json").json
    assert told["dry_run"]
    assert [e["stream"] for e in told["events"]] == [f"source/{ONE}", f"source/{TWO}"]
    assert size(own) == before
    assert own("artifact", "get", hashlib.sha256(OLD.encode()).hexdigest()).code == 4


def test_several_sources_get_one_event_each_with_the_same_evidence_and_a_repeat_records_nothing(own, scripts):
    old, moved, _ = scripts
    command = ("attest", "implementation", old, moved, "--roots", "load", "--json")
    first = own(*command, "--source", ONE, "--source", TWO).json
    assert first["recorded"] == 2
    cited = [own("event", "show", e["id"], "--content", "--json").json["payload"]["evidence"] for e in first["events"]]
    assert cited[0] == cited[1]
    again = own(*command, "--source", TWO, "--source", ONE, "--source", ONE).json
    assert (again["recorded"], again["already_recorded"]) == (0, 2)
    more = own(*command, "--source", ONE, "--source", "O:three").json
    assert (more["recorded"], more["already_recorded"]) == (1, 1)


def test_a_source_that_the_catalogue_does_not_list_is_recorded_and_said(own, scripts):
    old, moved, _ = scripts
    got = own("attest", "implementation", old, moved, "--roots", "load", "--source", "O:nobody")
    assert got.code == 0
    assert "no such source in the catalogue: O:nobody" in got.err


@pytest.mark.parametrize(
    ("roots", "code", "says"),
    [("absent", 4, "LIMIT, load, main"), (",", 2, "--roots names nothing")],
)
def test_roots_that_are_not_there_are_told_with_those_that_are(own, scripts, roots, code, says):
    old, moved, _ = scripts
    got = own("attest", "implementation", old, moved, "--roots", roots, "--source", ONE)
    assert got.code == code
    assert says in got.err


def test_a_script_that_does_not_parse_is_refused_with_its_place(own, scripts, tmp_path):
    broken = tmp_path / "broken.py"
    broken.write_text("def load(:\n")
    error = own("attest", "implementation", scripts[0], broken, "--roots", "load", "--source", ONE, "--json").error
    assert error["reason"] == "INVALID_FILE"
    assert error["problems"][0]["place"] == "line 1, column 10"


@pytest.mark.parametrize(
    "arguments",
    [
        ("implementation", "a.py", "b.py", "--roots", "x"),
        ("dataset", "a", "b", "--executed-revision", "1", "--current-revision", "2"),
        ("dataset", "a", "--source", ONE, "--executed-revision", "1", "--current-revision", "2"),
        ("dataset", "a", "b", "c/b", "b", "--source", ONE, "--executed-revision", "1", "--current-revision", "2"),
        ("dataset", "a", "b", "--source", ONE, "--executed-revision", "1", "--current-revision", "2", "--rows-old", 3),
        ("dataset", "a", "b", "--source", ONE, "--executed-revision", "", "--current-revision", "2"),
        ("grading", "a.json"),
    ],
    ids=str,
)
def test_what_says_too_little_is_a_usage_error(own, tmp_path, arguments):
    for name in ("a", "b", "a.py", "b.py"):
        Path(name).write_text("x = 1\n")
    claim = json.loads((VECTORS / "grading_applicability.json").read_text())["grading_applicability"]
    Path("a.json").write_text(json.dumps(claim))
    before = size(own)
    assert own("attest", *arguments).code == 2
    assert size(own) == before


def test_a_moment_or_a_digest_that_is_none_is_a_usage_error_that_names_the_field(own):
    Path("a").write_text("rows")
    files = ("a", "a", "--source", ONE, "--executed-revision", "1", "--current-revision", "2", "--json")
    moment = own("attest", "dataset", *files, "--attested-at", "yesterday").error
    assert (moment["reason"], moment["problems"][0]["place"]) == ("USAGE", "/attested_at")
    chosen = ("--selector-old", "", "--selector-new", "", "--rows-old", 1, "--rows-new", 1, "--rows-sha256-old", "x")
    digest = own("attest", "dataset", *files, *chosen).error
    assert (digest["reason"], digest["problems"][0]["place"]) == ("USAGE", "/executed_rows_sha256")


def test_data_files_are_attested_by_their_bytes_and_their_selection(own, tmp_path):
    for side in ("old", "new"):
        (tmp_path / side).mkdir()
        (tmp_path / side / "train.parquet").write_bytes(b"rows")
        (tmp_path / side / "test.parquet").write_bytes(b"more " + side.encode())
    train, test = ([tmp_path / side / f"{name}.parquet" for side in ("old", "new")] for name in ("train", "test"))
    command = ("attest", "dataset", "--source", ONE, "--executed-revision", "d1", "--current-revision", "d2")
    chosen = ("--selector-old", "x", "--selector-new", "x", "--rows-old", 4, "--rows-new", 4)
    said = payload(own, own(*command, *train, *chosen, "--json").json)["dataset_revision"]
    assert said["files"][0]["executed_sha256"] == said["files"][0]["current_sha256"]
    assert said["files"][0]["path"] == "train.parquet"
    assert said["selection"]["executed_rows"] == 4
    got = own(*command, *train, *test, "--name", "data/train.parquet", "--name", "data/test.parquet")
    assert got.code == 5
    assert "changed: data/test.parquet." in got.err
    assert "changed: the selector." in own(*command, *train, *chosen[:2], "--selector-new", "y", *chosen[4:]).err


@pytest.fixture
def checkout(tmp_path):
    folder = tmp_path / "checkout"
    folder.mkdir()
    for number in (1, 2):
        (folder / "same.py").write_text("x = 1\n")
        (folder / "other.py").write_text(f"x = {number}\n")
        (folder / ".git").exists() or subprocess.run(["git", "init", "--quiet", folder], check=True)
        as_someone = ["git", "-C", folder, "-c", "user.name=x", "-c", "user.email=x@example.org"]
        subprocess.run([*as_someone, "add", "-A"], check=True)
        subprocess.run([*as_someone, "commit", "--quiet", "-m", "x"], check=True)
    return folder


def test_a_verifier_is_attested_by_its_git_objects(own, checkout):
    command = (
        "attest",
        "native",
        "--source",
        ONE,
        "--checkout",
        checkout,
        "--reviewed",
        "HEAD~1",
        "--registry",
        "HEAD",
    )
    said = payload(own, own(*command, "--paths", "same.py", "--json").json)["native_revision"]
    assert said["objects"][0]["reviewed_object"] == said["objects"][0]["registry_object"]
    assert len(said["reviewed_commit"]) == 40
    got = own(*command, "--paths", "same.py,other.py")
    assert got.code == 5
    assert "changed: other.py." in got.err
    (checkout / "same.py").write_text("x = 2\n")
    refused = own(*command, "--paths", "same.py", "--json")
    assert refused.code == 5
    assert "--dirty" in refused.error["remedy"]
    assert "uncommitted changes" in own(*command, "--paths", "same.py", "--dirty").err


def test_a_prepared_grading_record_is_recorded_or_refused_with_its_places(own, tmp_path):
    record = json.loads((VECTORS / "grading_applicability.json").read_text())["grading_applicability"]
    file = tmp_path / "grading-applicability.json"
    file.write_text(json.dumps(record))
    got = own("attest", "grading", file, "--source", ONE, "--attested-at", "2026-10-06T07:00:00Z", "--json")
    recorded = payload(own, got.json)
    assert recorded["grading_applicability"] == record
    assert recorded["attested_at"] == "2026-10-06T07:00:00Z"
    assert own("artifact", "get", recorded["evidence"][1]["sha256"]).raw == file.read_bytes()
    file.write_text(json.dumps({"equivalent": True, "source_id": ONE}))
    error = own("attest", "grading", file, "--source", ONE, "--json").error
    assert error["reason"] == "INVALID_FILE"
    assert f"{file}#/equivalent" in {p["place"] for p in error["problems"]}


def test_hostile_names_do_nothing_to_a_terminal(own, tmp_path):
    nasty = "\x1b[31mred\u202e[bold]b[red].bin"
    (tmp_path / nasty).write_bytes(b"a")
    (tmp_path / "plain.bin").write_bytes(b"b")
    got = own(
        *("attest", "dataset", tmp_path / "plain.bin", tmp_path / nasty, "--source", ONE),
        *("--executed-revision", nasty, "--current-revision", "2"),
    )
    assert got.code == 5
    assert not {c for c in got.out + got.err if c in "\x1b\u202e"}
    assert "[bold]b[red]" in got.out


def test_attestations_are_listed_with_what_they_found_and_whether_they_are_honoured(run, tmp_path):
    ledger = FakeLedger()
    found = [
        audit_pb2.Attestation(kind="native_revision", subject="\x1b[1mx", finding="unchanged", pos=4, honoured=True),
        audit_pb2.Attestation(kind="dataset_revision", subject="d1 to d2", finding="changed", scope="bytes", pos=7),
    ]
    ledger.sources = [audit_pb2.Source(id=ONE, attestations=found)]
    with serving(ledger, tmp_path) as address:
        got = run("attest", "list", ONE, "--address", address)
        told = run("attest", "list", ONE, "--address", address, "--json").json
        assert run("attest", "list", "O:nobody", "--address", address).code == 4
    lines = [line.split() for line in got.out.splitlines()]
    assert lines[1][:4] == ["4", "native_revision", "unchanged", "yes"]
    assert lines[2][:4] == ["7", "dataset_revision", "changed", "no"]
    assert "\x1b" not in got.out
    assert "2 attestations. As of size 0" in got.err
    assert [(a["subject"], a["honoured"], a["rules"]) for a in told] == [
        ("\x1b[1mx", True, "r1"),
        ("d1 to d2", False, "r1"),
    ]
