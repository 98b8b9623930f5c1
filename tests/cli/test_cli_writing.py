"""Commands that append: what curators do to a source, and what the ledger then shows."""

from __future__ import annotations

import json

import pytest

ONE = "O:one"


def suspect(own, *more):
    return own("defect", "suspect", ONE, "d1", "--kind", "verifier", "--summary", "rejects 1/2", *more)


def confirm(own, tmp_path, *more):
    case = tmp_path / "case.json"
    case.write_text('{"answer": "1/2"}')
    said = ["--kind", "verifier", "--summary", "rejects 1/2", "--expected", "reward 1", "--observed", "reward 0"]
    return own("defect", "confirm", ONE, "d1", *said, "--native-input", case, "--reproduction", "run it", *more)


def quality(own):
    return own("source", "show", ONE, "--json").json["quality"]


def inventory(tmp_path, *rows):
    file = tmp_path / "inventory.jsonl"
    file.write_text("".join(json.dumps({"origin": "O", **row}) + "\n" for row in rows))
    return file


def test_an_import_equal_to_the_ledger_appends_nothing(own, tmp_path):
    again = own("catalogue", "import", tmp_path / "two.jsonl", "--json").json
    assert again["recorded"] == 0
    assert again["events"] == []
    assert "Nothing to append" in own("catalogue", "import", tmp_path / "two.jsonl").err


def test_what_a_whole_file_leaves_out_retires_and_what_a_partial_one_leaves_out_stays(own, tmp_path):
    file = inventory(tmp_path, {"id": "O:three"})
    assert own("catalogue", "import", file, "--partial").code == 0
    assert [s["id"] for s in own("source", "list", "--json").json] == ["O:one", "O:three", "O:two"]
    assert own("catalogue", "import", file).code == 0
    assert [s["id"] for s in own("source", "list", "--json").json] == ["O:three"]
    listed = own("source", "list", "--retired", "--json").json
    assert [s["retired"] for s in listed] == [True, False, True]
    assert "O:one (retired)" in own("source", "list", "--retired").out


def test_a_dry_run_tells_the_events_and_appends_none(own, tmp_path):
    before = own("source", "show", ONE, "--json").json["size"]
    planned = own("catalogue", "import", inventory(tmp_path, {"id": "O:three"}), "--dry-run", "--json").json
    assert planned["dry_run"]
    assert [e["type"] for e in planned["events"]] == [
        "source.retired",
        "source.declared",
        "source.retired",
        "catalogue.synced",
    ]
    assert all(e["pos"] is None for e in planned["events"])
    assert own("source", "show", ONE, "--json").json["size"] == before


def test_a_bad_line_of_an_inventory_is_named_and_nothing_is_imported(own, tmp_path):
    file = tmp_path / "bad.jsonl"
    file.write_text('{"id": "O:x", "origin": "O"}\nnot json\n')
    got = own("catalogue", "import", file, "--json")
    assert got.code == 1
    assert got.error["problems"][0]["place"].endswith("bad.jsonl:2")
    assert len(own("source", "list", "--json").json) == 2


def test_a_revision_changes_that_and_nothing_else(own):
    before = own("source", "show", ONE, "--json").json
    assert own("source", "revise", ONE, "--verifier-revision", "v2").code == 0
    after = own("source", "show", ONE, "--json").json
    assert (after["verifier_revision"], after["dataset_revision"], after["family"]) == ("v2", "d1", "math")
    assert before["verifier_revision"] == "v1"
    assert own("source", "revise", ONE, "--verifier-revision", "v2", "--json").json["events"] == []
    assert own("source", "revise", ONE, "--dataset-revision", "d2").code == 0
    assert own("source", "show", ONE, "--json").json["verifier_revision"] == "v2"


def test_a_dry_run_of_a_revision_tells_what_would_be_shown(own):
    planned = own("source", "revise", ONE, "--dataset-revision", "d2", "--dry-run", "--json").json
    assert planned["source"]["dataset_revision"] == "d2"
    assert planned["source"]["quality"] == "unreviewed"
    assert own("source", "show", ONE, "--json").json["dataset_revision"] == "d1"
    assert "quality then" in own("source", "revise", ONE, "--dataset-revision", "d2", "--dry-run").out


def test_a_suspicion_changes_no_rating(own):
    assert suspect(own).code == 0
    shown = own("source", "show", ONE, "--json").json
    assert shown["quality"] == "unreviewed"
    assert [d["id"] for d in shown["suspected_defects"]] == ["d1"]


def test_who_says_it_stands_in_the_header(own):
    (event,) = suspect(own, "--actor", "me", "--actor-kind", "human", "--json").json["events"]
    header = own("event", "show", event["pos"], "--json").json["header"]
    assert header["actor"] == {"id": "me", "kind": "human"}


def test_a_confirmed_defect_is_listed_until_it_is_withdrawn_and_makes_no_rating(own, tmp_path):
    assert confirm(own, tmp_path, "--issue-missing").code == 0
    shown = own("source", "show", ONE, "--json").json
    assert shown["quality"] == "unreviewed"
    assert shown["open_defects"][0]["issue_url"] is None
    assert own("defect", "withdraw", ONE, "d1", "--reason", "edited by hand").code == 0
    assert own("source", "show", ONE, "--json").json["open_defects"] == []


def test_a_confirmation_stores_its_inputs_and_takes_the_present_revisions(own, tmp_path):
    (event,) = confirm(own, tmp_path, "--issue", "https://example.org/1", "--json").json["events"]
    payload = own("event", "show", event["id"], "--content", "--json").json["payload"]
    assert (payload["dataset_revision"], payload["verifier_revision"]) == ("d1", "v1")
    assert own("artifact", "get", payload["native_inputs"][0]["sha256"]).raw == b'{"answer": "1/2"}'


@pytest.mark.parametrize("flags", [[], ["--issue", "https://example.org/1", "--issue-missing"]])
def test_a_confirmation_names_its_issue_or_says_that_there_is_none(own, tmp_path, flags):
    assert confirm(own, tmp_path, *flags).code == 2
    assert own("source", "show", ONE, "--json").json["open_defects"] == []


def test_a_value_that_is_none_is_a_usage_error_that_names_the_field(own, tmp_path):
    error = confirm(own, tmp_path, "--issue", "not a link", "--json").error
    assert error["reason"] == "USAGE"
    assert error["problems"][0]["place"] == "/issue_url"


def test_what_the_rules_refuse_is_a_conflict_with_the_reasons(own):
    got = own("defect", "reopen", ONE, "d1", "--reason", "again", "--json")
    assert got.code == 5
    assert got.error["reason"] == "REFUSED_BY_RULES"
    assert got.error["problems"] or got.error["message"]


def test_an_id_of_ones_own_makes_a_repetition_safe(own):
    assert suspect(own, "--id", "mine").code == 0
    again = suspect(own, "--id", "mine", "--json").json
    assert (again["recorded"], again["already_recorded"]) == (0, 1)
    other = own("defect", "suspect", ONE, "d2", "--kind", "verifier", "--summary", "else", "--id", "mine", "--json")
    assert other.code == 5
    assert other.error["reason"] == "ID_CONFLICT"


def test_a_validation_is_recorded_from_flags(own, tmp_path):
    confirm(own, tmp_path, "--issue-missing")
    got = own(
        *("defect", "validation", ONE, "d1", "--json", "--fix", "https://example.org/pull/1"),
        *("--replay", "passed", tmp_path / "case.json", "reward 1", "reward 1"),
        *("--replay", "failed", "a" * 64, "reward 1", "reward 0"),
        *("--control", "passed", "incorrect", "reward 0", "reward 0", "--evidence", tmp_path / "case.json"),
    )
    (event,) = got.json["events"]
    payload = own("event", "show", event["id"], "--content", "--json").json["payload"]
    assert [r["passed"] for r in payload["replays"]] == [True, False]
    assert payload["replays"][1]["input_sha256"] == "a" * 64
    assert payload["controls"][0]["kind"] == "incorrect"
    assert payload["verifier_revision"] == "v1"
    assert payload["fix"] == "https://example.org/pull/1"


def test_a_validation_is_recorded_from_a_file_with_its_inputs_beside_it(own, tmp_path):
    confirm(own, tmp_path, "--issue-missing")
    replay = {"input": "case.json", "expected": "reward 1", "observed": "reward 1", "passed": True}
    control = {"kind": "empty", "expected": "reward 0", "observed": "reward 0", "passed": True}
    checks = tmp_path / "checks.json"
    checks.write_text(json.dumps({"replays": [replay], "controls": [control], "fix": "commit 1"}))
    (event,) = own("defect", "validation", ONE, "d1", "--from", checks, "--json").json["events"]
    payload = own("event", "show", event["id"], "--content", "--json").json["payload"]
    assert own("artifact", "get", payload["replays"][0]["input_sha256"]).raw == b'{"answer": "1/2"}'
    assert payload["fix"] == "commit 1"


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ("{", ""),
        ('{"replays": [{"input": "x", "expected": "a", "observed": "b"}]}', "/replays/0/passed"),
        ('{"controls": [{"kind": "odd", "expected": "a", "observed": "b", "passed": true}]}', "/controls/0/kind"),
        ('{"fix": "a", "fix": "b"}', "/fix"),
        ('{"replay": []}', "/replay"),
    ],
)
def test_a_file_that_describes_no_validation_is_refused_with_its_place(own, tmp_path, content, place):
    checks = tmp_path / "checks.json"
    checks.write_text(content)
    got = own("defect", "validation", ONE, "d1", "--from", checks, "--json")
    assert got.code == 1
    assert got.error["reason"] == "INVALID_FILE"
    assert got.error["problems"][0]["place"] == f"{checks}#{place}"


def test_a_resolution_without_a_validation_or_a_review_says_what_is_missing(own, tmp_path):
    confirm(own, tmp_path, "--issue-missing")
    got = own("defect", "resolve", ONE, "d1")
    assert got.code == 4
    assert "ledger defect validation" in got.err
    own("defect", "validation", ONE, "d1", "--control", "passed", "empty", "0", "0")
    got = own("defect", "resolve", ONE, "d1")
    assert got.code == 4
    assert "ledger review publish" in got.err


def test_hostile_text_does_nothing_to_a_terminal_and_is_never_markup(own):
    own(
        "defect",
        "suspect",
        "O:two",
        "d1",
        "--kind",
        "verifier",
        "--summary",
        "\x1b]0;title\x07 \x9b31m \u202e [red]r[/red]",
    )
    for arguments in (
        ("source", "show", "O:two"),
        ("source", "list"),
        ("event", "show", "6", "--content"),
        ("log", "tail"),
        ("source", "why", "O:two"),
    ):
        out = own(*arguments).out
        assert not {c for c in out if c in "\x1b\x07\x9b\u202e"}, arguments
    shown = own("source", "show", "O:two").out
    assert "[bold]x[/bold] :smile:" in shown
    assert "[red]r[/red]" in shown
    listed = own("source", "show", "O:two", "--json")
    assert listed.out.isascii()
    assert listed.json["name"].startswith("\x1b[31mred")


def test_hostile_text_in_an_error_does_nothing_either(own):
    err = own("source", "show", "\x1b[31mx").err
    assert "\x1b" not in err
    assert "[31mx" in err
