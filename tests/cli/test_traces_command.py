"""`ledger traces build`: a dataset from the command line, and the event that says where it was published."""

from __future__ import annotations

import pytest

from ledger.client.recording.files import read_files
from tests.adapters.traces.builders import KEY, keep, rollout, solved

PUBLISHED = ("--published", "lab/arm-0-traces", "--commit", "4f2a9c1")


@pytest.fixture
def arm(tmp_path):
    """Two rollouts; the answer of one holds what looks like a secret."""
    return keep(tmp_path / "arm-0", rollout(1, 0, answer=KEY), rollout(1, 1, trained=False, advantage=0.0))


def test_it_writes_the_folder_and_tells_what_is_in_it(run, arm):
    got = run("traces", "build", arm, "--to", "traces")
    assert got.code == 0, got.err
    assert "data/train-00000-of-00001.parquet" in got.out
    assert "1 huggingface_token" in got.out
    assert read_files("traces").digest in got.out
    assert "Wrote 2 rows to " in got.err


def test_the_json_is_the_manifest_with_folder_and_digest(run, arm):
    said = run("traces", "build", arm, "--to", "traces", "--rows", 1, "--json").json
    assert said["digest"] == read_files("traces").digest
    assert [shard["rows"] for shard in said["shards"]] == [1, 1]
    assert said["coverage"]["trained"] == 1
    assert said["recorded"] is None


def test_a_publication_is_recorded_with_digest_coverage_and_redactions(own, arm):
    said = own("traces", "build", arm, "--to", "traces", *PUBLISHED, "--url", "https://example.org/x", "--json").json
    assert said["recorded"]["stream"] == "run/arm-0"
    event = own("event", "show", said["recorded"]["id"], "--content", "--json").json
    payload = event["payload"]
    assert event["header"]["type"] == "traces.published"
    assert (payload["repository"], payload["commit"], payload["url"]) == (
        "lab/arm-0-traces",
        "4f2a9c1",
        "https://example.org/x",
    )
    assert payload["digest"] == read_files("traces").digest
    assert {f["path"] for f in payload["files"]} == {"README.md", "manifest.json", "data/train-00000-of-00001.parquet"}
    assert payload["coverage"] == {
        "started": 2,
        "finished": 2,
        "verified": 2,
        "consumed": 2,
        "trained": 1,
        "published": 2,
    }
    assert payload["redactions"] == [{"shape": "huggingface_token", "count": 1}]
    assert (payload["episodes"], payload["basis"]["kind"]) == ("last", "claimed")


def test_built_and_recorded_again_it_is_the_same_publication(own, arm):
    first = own("traces", "build", arm, "--to", "traces", *PUBLISHED, "--json").json
    again = own("traces", "build", arm, "--to", "traces", *PUBLISHED, "--force", "--actor", "other", "--json").json
    assert again["digest"] == first["digest"]
    assert again["recorded"] == {**first["recorded"], "already_recorded": True}


def test_the_runs_page_knows_of_the_publication(own, arm):
    own("traces", "build", arm, "--to", "traces", *PUBLISHED)
    assert "lab/arm-0-traces" in own("run", "show", "arm-0", "--json").out


def test_a_job_is_of_the_run_that_is_named(own, tmp_path):
    solved(tmp_path / "job", "a__aaaaaaa")
    said = own("traces", "build", tmp_path / "job", "--to", "traces", "--run", "arm-3", *PUBLISHED, "--json").json
    assert said["recorded"]["stream"] == "run/arm-3"
    payload = own("event", "show", said["recorded"]["id"], "--content", "--json").json["payload"]
    assert {"consumed", "trained"}.isdisjoint({k for k, v in payload["coverage"].items() if v is not None})


def test_a_job_of_no_named_run_cannot_be_recorded(run, tmp_path):
    solved(tmp_path / "job", "a__aaaaaaa")
    got = run("traces", "build", tmp_path / "job", "--to", "traces", *PUBLISHED, "--json")
    assert (got.code, got.error["reason"]) == (2, "USAGE")
    assert "--run" in got.error["remedy"]


def test_a_folder_that_is_there_is_refused_unless_forced(run, arm):
    assert run("traces", "build", arm, "--to", "traces").code == 0
    refused = run("traces", "build", arm, "--to", "traces", "--json")
    assert (refused.code, refused.error["reason"]) == (5, "IN_USE")
    assert run("traces", "build", arm, "--to", "traces", "--force").code == 0


def test_no_trial_at_all_is_an_error(run, tmp_path):
    (tmp_path / "empty").mkdir()
    got = run("traces", "build", tmp_path / "empty", "--to", "traces", "--json")
    assert (got.code, got.error["reason"]) == (1, "NO_ROWS")


def test_a_commit_without_a_repository_is_a_mistake(run, arm):
    got = run("traces", "build", arm, "--to", "traces", "--commit", "4f2a9c1")
    assert got.code == 2
    assert "--published" in got.err


def test_what_a_file_is_called_cannot_steer_the_terminal(run, arm):
    (arm / "rollouts" / "x\x1b[31m\nfake.txt").write_text("x")
    got = run("traces", "build", arm, "--to", "traces")
    assert got.code == 0
    assert "\x1b" not in got.out + got.err
    assert not [line for line in got.err.splitlines() if line.startswith("fake")]
