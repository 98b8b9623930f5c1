"""Reading commands, on the demonstration."""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess
import sys

import pytest

from ledger.client.messages import COORDINATE_FIELDS
from services.cli.demo_plan import DEMO

ASDIV, SVAMP, AIME24 = "MarinSkyRL:asdiv", "MarinSkyRL:svamp", "MarinSkyRL:aime24"


def test_a_list_is_one_array_of_all_sources_by_origin_then_id(demo):
    listed = demo("source", "list", "--json").json
    assert len(listed) == 196
    assert [s["id"] for s in listed] == [s["id"] for s in sorted(listed, key=lambda s: (s["origin"], s["id"]))]
    assert all(set(COORDINATE_FIELDS) <= set(s) for s in listed)
    assert {s["quality"] for s in listed} == {"good", "some_issues", "bad", "unreviewed", "needs_re_review"}


def test_what_nobody_said_is_null(demo):
    source = demo("source", "show", "MarinSkyRL:gpqa", "--json").json
    assert source["input_rows"] is None
    assert source["review"] is None
    assert source["applicability"] is None
    assert source["quality"] == "unreviewed"
    assert source["difficulty"]["status"] == "not_measured"


def test_an_empty_list_is_an_empty_array_and_done(demo):
    got = demo("source", "list", "--search", "no such thing", "--json")
    assert got.code == 0
    assert got.out == "[]\n"
    assert demo("source", "list", "--search", "no such thing").out == ""


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--quality", "bad"], {"MarinSkyRL:apps"}),
        (["--defects"], {ASDIV}),
        (["--difficulty", "withheld", "--difficulty", "current"], {ASDIV, SVAMP}),
        (["--search", "SVAMP", "--origin", "MarinSkyRL"], {SVAMP}),
        (["--quality", "good", "--benchmark"], {AIME24}),
        (["--quality", "good", "--family", "math-answer", "--no-benchmark", "--status", "Available"], {SVAMP}),
    ],
)
def test_filters_narrow_the_list(demo, flags, expected):
    assert {s["id"] for s in demo("source", "list", *flags, "--json").json} == expected


def test_a_piped_table_is_plain_wide_and_uncut(demo):
    lines = demo("source", "list").out.splitlines()
    assert len(lines) == 197
    assert lines[0].split("  ")[0] == "id"
    longest = max((s["id"] for s in demo("source", "list", "--json").json), key=len)
    assert len(longest) > 100
    assert any(line.startswith(longest) for line in lines)
    assert not any(line.endswith(" ") for line in lines)
    assert "\x1b" not in "".join(lines)


def test_colours_are_kept_in_a_pipe_when_they_are_forced(demo, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[32mGood" in demo("source", "list").out
    assert "\x1b[32m" not in demo("source", "list", "--no-color").out


@pytest.mark.parametrize(
    ("source_id", "words"),
    [
        (SVAMP, ["Good", "Current", "11/32 solved/verified, 34.4%", "95 % interval 20.4% to 51.7%", "0 unverified"]),
        (ASDIV, ["Some issues", "Withheld · verifier issues", "Confirmed verifier defect", "issue missing"]),
        ("MarinSkyRL:gsm8k", ["Some issues", "Suspected verifier defect", "Not measured"]),
        ("MarinSkyRL:apps", ["Bad"]),
        ("MarinSkyRL:deepscaler", ["Needs re-review", "the revisions changed since the review", "review date"]),
        (AIME24, ["Good", "Historical", "Resolved verifier defect"]),
        ("MarinSkyRL:gpqa", ["Unreviewed", "Not measured", "input rows         unknown"]),
    ],
)
def test_a_source_is_shown_in_the_words_of_the_page(demo, source_id, words):
    out = demo("source", "show", source_id).out
    for word in words:
        assert word in out


def test_why_names_for_each_reason_its_events_and_who_said_them(demo):
    out = demo("source", "why", ASDIV).out
    assert "[quality.open-defect]" in out
    assert "defect.confirmed (sample)" in out
    assert DEMO.id in out
    answer = demo("source", "why", ASDIV, "--json").json
    named = {pos for reason in answer["reasons"] for pos in reason["events"]}
    assert named == {event["pos"] for event in answer["events"]}
    assert all(event["recorded_at"].endswith("Z") for event in answer["events"])
    assert set(COORDINATE_FIELDS) <= set(answer)


def test_an_earlier_size_gives_what_was_shown_then(demo):
    confirmed = next(
        e for e in demo("log", "tail", "-n", 1000, "--json").json if e["header"]["type"] == "defect.confirmed"
    )
    before = demo("source", "show", ASDIV, "--at", confirmed["pos"], "--json").json
    after = demo("source", "show", ASDIV, "--at", confirmed["pos"] + 1, "--json").json
    assert (before["quality"], after["quality"]) == ("good", "some_issues")
    assert (before["size"], after["size"]) == (confirmed["pos"], confirmed["pos"] + 1)
    again = demo("source", "show", ASDIV, "--at", confirmed["header"]["recorded_at"], "--json").json
    assert again["quality"] == "some_issues"


def test_now_waits_for_what_was_written_before_unless_told_otherwise(own):
    for number in range(5):
        written = own("source", "revise", "O:one", "--verifier-revision", f"r{number}", "--json").json
        assert own("source", "show", "O:one", "--json").json["verifier_revision"] == f"r{number}"
        assert own("source", "list", "--json").json[0]["size"] == written["size"]
        assert own("source", "why", "O:one", "--json").json["size"] == written["size"]
    got = own("source", "show", "O:one", "--min-size", written["size"] + 1, "--timeout", "0.3", "--json")
    assert got.code == 6


def test_a_moment_that_is_not_past_says_so(demo):
    assert "may still change" in demo("source", "show", SVAMP, "--at", "2999-01-01").err
    assert "may still change" not in demo("source", "show", SVAMP).err


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (["source", "show", "nobody"], 4, "NOT_FOUND"),
        (["source", "why", SVAMP, "--at", "0"], 4, "NOT_FOUND"),
        (["source", "show", SVAMP, "--at", "soon"], 2, "USAGE"),
        (["source", "show", SVAMP, "--rules", "no-such-rules"], 4, "NOT_FOUND"),
        (["source", "list", "--quality", "splendid"], 2, "USAGE"),
        (["source", "revise", SVAMP], 2, "USAGE"),
        (["source", "show", "\udcff"], 2, "USAGE"),
        (["event", "show", "999999"], 4, "NOT_FOUND"),
        (["event", "show", "99999999999999999999999"], 4, "NOT_FOUND"),
        (["artifact", "get", "0" * 64, "--output", "x"], 4, "NOT_FOUND"),
        (["artifact", "get", "0" * 64], 2, "USAGE"),
        (["artifact", "put", "no-such-file"], 1, "INVALID_FILE"),
        (["catalogue", "import", "no-such-file"], 1, "INVALID_FILE"),
        (["review", "publish", "no-such-folder"], 1, "INVALID_FILE"),
        (["difficulty", "publish", "no-such-file"], 1, "INVALID_FILE"),
        (["schema", "show", "no.such"], 1, "UNKNOWN_EVENT_TYPE"),
        (["log", "fsck"], 2, "USAGE"),
        (["db", "upgrade"], 2, "USAGE"),
        (["serve"], 2, "USAGE"),
        (["demo"], 2, "USAGE"),
    ],
    ids=lambda v: " ".join(v).encode("ascii", "replace").decode() if isinstance(v, list) else None,
)
def test_each_failure_has_its_exit_code_and_one_json_object_on_stderr(demo, arguments, code, reason):
    got = demo(*arguments, "--json")
    assert got.code == code
    error = got.error
    assert error["reason"] == reason
    assert set(error) == {"reason", "message", "remedy", "details", "problems"}
    assert error["message"]
    assert error["remedy"]


def test_a_ledger_that_is_not_there_is_unreachable(run):
    got = run("source", "list", "--address", "127.0.0.1:9", "--json")
    assert got.code == 6
    assert got.error["reason"] == "UNAVAILABLE"


def test_a_failure_is_told_to_people_with_what_to_do(demo):
    got = demo("source", "show", "nobody", "--quiet")
    assert got.out == ""
    assert got.err.startswith("Error: ")
    assert "What to do: " in got.err


def test_quiet_leaves_the_data_and_nothing_else(demo):
    got = demo("source", "show", SVAMP, "--quiet")
    assert got.err == ""
    assert got.out


def test_an_event_is_shown_by_position_and_id_without_its_content_unless_asked(demo):
    by_pos = demo("event", "show", 10, "--json").json
    by_id = demo("event", "show", by_pos["header"]["id"], "--json", "--content").json
    assert "payload" not in by_pos
    assert by_id["header"] == by_pos["header"]
    assert by_id["payload"]["row"]["id"] == by_pos["header"]["stream"].removeprefix("source/")
    assert by_pos["redacted_by"] is None
    assert '"row":' not in demo("event", "show", 10).out
    assert '"row":' in demo("event", "show", 10, "--content").out


def test_the_tail_is_the_newest_that_match_in_log_order(demo):
    tail = demo("log", "tail", "-n", 3, "--json").json
    size = demo("source", "show", SVAMP, "--json").json["size"]
    assert [e["pos"] for e in tail] == [size - 3, size - 2, size - 1]
    published = demo("log", "tail", "-n", 2, "--type", "review.published", "--json").json
    every = demo("log", "tail", "-n", 500, "--type", "review.published", "--json").json
    assert published == every[-2:]
    assert len(every) == 8
    assert demo("log", "tail", "-n", 0, "--json").json == []
    ours = demo("log", "tail", "-n", 1, "--stream", f"source/{SVAMP}", "--content", "--json").json
    assert ours[0]["payload"]["atlas_id"] == SVAMP


def test_generations_and_a_rebuild_are_told(demo):
    generation, _runs = demo("projection", "list", "--json").json
    assert (generation["projection"], generation["status"], generation["keys"]) == ("sources", "live", 196)
    rebuilt = demo("projection", "rebuild", "--json").json
    assert rebuilt["equal"]
    assert rebuilt["generation"]["keys"] == 196
    assert demo("projection", "rebuild").out.startswith("OK: sources rebuilt")


def test_schemas_are_listed_and_shown_with_an_example(run):
    listed = run("schema", "list", "--json").json
    assert {
        "type": "review.published",
        "version": 1,
        "family": "review",
        "streams": ["source"],
        "decision": True,
    } in listed
    shown = run("schema", "show", "defect.confirmed").json
    assert shown["schema"]["title"] == "DefectConfirmed"
    assert shown["example"]["native_inputs"]


def test_following_prints_one_object_a_line_until_it_is_interrupted(demo_address, tmp_path):
    command = [sys.executable, "-m", "services.cli", "log", "tail", "-n", "2", "--follow", "--json"]
    with subprocess.Popen(
        [*command, "--address", demo_address], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path
    ) as process:
        try:
            lines = [json.loads(process.stdout.readline()) for _ in range(2)]
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=30)
        finally:
            process.kill()
    assert lines[0]["pos"] + 1 == lines[1]["pos"]
    assert process.returncode == 130
    assert json.loads(err)["error"]["reason"] == "INTERRUPTED"


def test_a_reader_that_has_enough_ends_the_command_without_noise(demo_address, tmp_path):
    command = [sys.executable, "-m", "services.cli", "source", "list", "--json", "--address", demo_address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path) as process:
        process.stdout.read(10)
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=20) == 1


def test_an_artifact_comes_back_as_its_bytes(own, tmp_path):
    file = tmp_path / "trace.bin"
    file.write_bytes(bytes(range(256)) * 5000)
    name = hashlib.sha256(file.read_bytes()).hexdigest()
    (stored,) = own("artifact", "put", file, "--json").json
    assert stored == {"file": str(file), "sha256": name, "size": 1_280_000}
    assert own("artifact", "get", name).raw == file.read_bytes()
    fetched = own("artifact", "get", name, "--output", tmp_path / "again", "--json").json
    assert fetched["size"] == 1_280_000
    assert (tmp_path / "again").read_bytes() == file.read_bytes()
