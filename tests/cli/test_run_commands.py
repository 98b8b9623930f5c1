"""`ledger run` and `ledger sweep`: what is told of runs, as tables, JSON and files."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict

from ledger.client import connect
from ledger.client.reader import coordinates
from ledger.client.runs import Runs
from ledger.wire import runs_pb2
from tests.audit.running import OTHER
from tests.cli.trained import BROKEN, EMA_AT_4, GOOD, REWARDS, SWEEP
from tests.rules.builders import SOURCE

COORDINATES = {
    "size",
    "recorded_at",
    "final",
    "run_rules",
    "run_rules_digest",
    "redactions_through",
    "rules",
    "policy_size",
}


def test_runs_are_one_array_by_campaign_then_id_each_with_where_it_was_read(trained):
    listed = trained("run", "list", "--json").json
    assert [run["id"] for run in listed] == [GOOD, BROKEN]
    assert set(listed[0]) >= COORDINATES
    assert (listed[0]["status"], listed[0]["selected_steps"], listed[0]["attempts"]) == ("completed", [4], 2)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (("--campaign", SWEEP), [GOOD, BROKEN]),
        (("--source", OTHER), [BROKEN]),
        (("--status", "failed", "--status", "open"), [BROKEN]),
        (("--anomaly", "non_finite"), [BROKEN]),
        (("--selected",), [GOOD]),
        (("--not-selected",), [BROKEN]),
        (("--search", "ARM-A"), [GOOD]),
        (("--campaign", "none"), []),
    ],
    ids=" ".join,
)
def test_a_filter_narrows_the_list(trained, flags, expected):
    assert [run["id"] for run in trained("run", "list", *flags, "--json").json] == expected


def test_flagged_runs_and_the_others_are_all_runs(trained):
    flagged = trained("run", "list", "--flagged", "--json").json
    others = trained("run", "list", "--no-flags", "--json").json
    assert all(run["flags"] for run in flagged)
    assert not any(run["flags"] for run in others)
    assert {run["id"] for run in (*flagged, *others)} == {GOOD, BROKEN}


def test_an_earlier_size_knows_no_later_run(trained):
    first = next(e for e in trained("log", "tail", "-n", 500, "--type", "run.declared", "--json").json)
    assert trained("run", "list", "--at", first["pos"], "--json").json == []
    assert [r["id"] for r in trained("run", "list", "--at", first["pos"] + 1, "--json").json] == [GOOD]


@pytest.mark.parametrize("suffix", ["csv", "ndjson", "parquet"])
def test_all_runs_go_to_a_file_that_says_where_they_were_read(trained, tmp_path, suffix):
    file = tmp_path / f"runs.{suffix}"
    told = trained("run", "list", "--output", file, "--json").json
    assert (told["rows"], told["run_rules"]) == (2, "training-1")
    if suffix == "csv":
        rows = list(csv.DictReader(io.StringIO(file.read_bytes().decode())))
        assert rows[1]["reason"].startswith("'=cmd")
        assert {row["ledger_run_rules"] for row in rows} == {"training-1"}
    elif suffix == "ndjson":
        assert [json.loads(line)["id"] for line in file.read_text().splitlines()] == [GOOD, BROKEN]


def test_a_run_in_json_is_the_answer_of_the_wire(trained, trained_story):
    told = trained("run", "show", GOOD, "--json").json
    with connect(trained_story.address) as connection:
        answer = Runs(connection).run(GOOD, coordinates(told["coordinates"]["size"]))
    assert ParseDict(told["run"]["summary"], runs_pb2.RunSummary()) == answer.run.summary
    assert [ParseDict(c, runs_pb2.Checkpoint()) for c in told["run"]["checkpoints"]] == list(answer.run.checkpoints)
    assert [e["id"] for e in told["exports"]] == [e.id for e in answer.exports]


def test_a_run_says_first_how_it_ended_and_which_checkpoint_was_chosen_and_why(trained):
    lines = trained("run", "show", GOOD).out.splitlines()
    assert lines[0].split() == ["run", GOOD]
    first = lines[: lines.index("")]
    assert any(line.startswith("ended") and "completed at step 5 of 80 planned" in line for line in first)
    assert any(line.startswith("checkpoint") and "step 4, for export, by trailing-ema" in line for line in first)
    assert any(line.startswith("why") and "best" in line for line in first)


def test_the_ema_of_a_checkpoint_is_that_of_its_own_lineage(trained):
    found = {c["step"]: c for c in trained("run", "show", GOOD, "--json").json["run"]["checkpoints"]}
    assert found[4]["ema"] == pytest.approx(EMA_AT_4)
    assert f"{EMA_AT_4:.4f}" in trained("run", "show", GOOD).out


def test_the_quality_of_the_data_is_told_of_the_start_the_selection_and_now(trained):
    out = trained("run", "show", GOOD).out
    quality = {
        name.strip(): rest
        for line in out.splitlines()
        for name, _, rest in [line.strip().partition("  ")]
        if name in {"Quality at start", "at the selection", "now", "turned since"}
    }
    assert "Good" in quality["Quality at start"]
    assert "Good" in quality["at the selection"]
    assert "Some issues" in quality["now"]
    assert "event" in quality["turned since"]


def test_steps_are_shown_when_they_are_asked_for_those_made_again_marked(trained):
    assert "\nSteps\n" not in trained("run", "show", GOOD).out
    told = trained("run", "show", GOOD, "--steps", "--json").json["steps"]
    assert {(s["attempt"], s["step"]): s["abandoned"] for s in told} == {
        (1, 1): False,
        (1, 2): False,
        (1, 3): True,
        (2, 3): False,
        (2, 4): False,
        (2, 5): False,
    }
    kept = {s["step"]: s["metrics"]["reward/avg_raw_reward"] for s in told if not s["abandoned"]}
    assert kept == REWARDS
    assert "made again later" in trained("run", "show", GOOD, "--steps").out


def test_a_number_that_is_not_finite_is_its_name_and_never_a_zero_or_null(trained):
    got = trained("run", "show", BROKEN, "--steps", "--json")
    last = json.loads(got.out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))["steps"][-1]
    assert (last["metrics"]["reward/avg_raw_reward"], last["metrics"]["policy/policy_entropy"]) == ("NaN", "Infinity")
    table = trained("run", "show", BROKEN, "--steps").out
    assert "NaN" in table
    assert "Infinity" in table


@pytest.mark.parametrize("command", [("run", "show", BROKEN), ("sweep", "show", SWEEP), ("run", "list")], ids=" ".join)
def test_hostile_text_is_inert_and_is_never_read_as_markup(trained, command):
    out = trained(*command).out
    assert not set(out) & {"\x1b", "\x9b", "\u202e"}
    if command[0] != "run" or command[1] != "list":
        assert "[bold]b[/bold]" in out


def test_no_run_of_that_name_is_not_found(trained):
    got = trained("run", "show", "nobody", "--json")
    assert (got.code, got.error["reason"]) == (4, "NOT_FOUND")
    assert trained("run", "show", "").code == 2


def test_campaigns_are_listed_with_how_their_arms_ended(trained):
    (listed,) = trained("sweep", "list", "--json").json
    assert (listed["id"], listed["runs"], listed["not_recorded"]) == (SWEEP, [GOOD, BROKEN], ["c"])
    assert listed["statuses"] == {"completed": 1, "failed": 1}
    assert "1 completed, 1 failed" in trained("sweep", "list").out
    assert trained("sweep", "list", "--at", 0, "--json").json == []


def test_a_campaign_that_was_declared_and_of_which_no_run_is_recorded_is_listed(trained):
    declared = next(e for e in trained("log", "tail", "-n", 500, "--type", "campaign.declared", "--json").json)
    (listed,) = trained("sweep", "list", "--at", declared["pos"] + 1, "--json").json
    assert (listed["id"], listed["runs"], listed["not_recorded"]) == (SWEEP, [], ["a", "b", "c"])


def test_a_sweep_shows_each_arm_with_its_curve_and_what_was_planned_and_not_recorded(trained):
    out = trained("sweep", "show", SWEEP).out
    arm = next(line for line in out.splitlines() if GOOD in line and "completed" in line)
    assert SOURCE in arm
    assert "▁▃▆█▇" in arm
    assert any("!" in line for line in out.splitlines() if BROKEN in line)
    assert any(line.startswith("planned, not recorded") and line.endswith(" c") for line in out.splitlines())


def test_unlike_arms_are_ranked_only_when_it_is_asked_for_and_then_it_is_said(run, tmp_path):
    facts = tmp_path / "unlike.json"
    facts.write_text(
        json.dumps(
            {
                "facts": [
                    {"type": "run.declared", "payload": _declared(name, campaign_id="u", algorithm=algorithm)}
                    for name, algorithm in (("one", {"use_tis": True}), ("two", {"use_tis": False}))
                ]
            }
        )
    )
    assert run("run", "record", facts).code == 0
    apart = run("sweep", "show", "u", "--json").json
    assert all(group["ranking"] == [] for group in apart["groups"])
    assert "not ranked" in run("sweep", "show", "u").out
    (together,) = run("sweep", "show", "u", "--compare-unlike", "--json").json["groups"]
    assert set(together["ranking"]) == {"one", "two"}
    assert any("use tis" in warning for warning in together["warnings"])


def _declared(run_id: str, **fields: Any) -> dict[str, Any]:
    source = {"atlas_id": None, "dataset_id": "d"}
    return {"run_id": run_id, "rl_start": {"name": "b", "repository": "o/b"}, "sources": [source], **fields}


FACTS: dict[str, Any] = {
    "about": "two facts",
    "facts": [
        {"type": "run.declared", "payload": _declared("filed")},
        {"type": "run.ended", "payload": {"run_id": "filed", "ending": "cancelled", "last_step": 3}},
    ],
}


def test_a_file_of_facts_is_recorded_once_however_often_it_is_given(run, tmp_path):
    file = tmp_path / "facts.json"
    file.write_text(json.dumps(FACTS))
    foretold = run("run", "record", file, "--dry-run", "--json").json
    assert (foretold["recorded"], foretold["dry_run"], len(foretold["events"])) == (0, True, 2)
    assert run("run", "list", "--json").json == []
    first = run("run", "record", file, "--json").json
    assert (first["recorded"], first["already_recorded"]) == (2, 0)
    again = run("run", "record", file, "--json").json
    assert (again["recorded"], again["already_recorded"], again["size"]) == (0, 2, first["size"])
    assert run("run", "show", "filed", "--json").json["run"]["summary"]["status"] == "cancelled"


def test_steps_are_shown_by_the_keys_that_the_run_declares(run, tmp_path):
    keys = {"reward": "reward", "entropy": "entropy", "grad_norm": "grad_norm"}
    metrics = {"reward": 0.625, "entropy": 0.375, "grad_norm": 1.75, "policy/policy_entropy": 9.5}
    logged = {"run_id": "trl", "attempt": 1, "steps": [{"step": 1, "metrics": metrics}]}
    facts = [
        {"type": "run.declared", "payload": _declared("trl", series=keys)},
        {"type": "steps.logged", "payload": logged},
    ]
    file = tmp_path / "facts.json"
    file.write_text(json.dumps({"about": "a run of TRL", "facts": facts}))
    run("run", "record", file)
    told = run("run", "show", "trl", "--steps").out.split("\nSteps\n")[1]
    assert all(figure in told for figure in ("0.625", "0.375", "1.75"))
    assert "9.5" not in told


def test_a_file_that_says_more_the_second_time_adds_what_is_new(run, tmp_path):
    file = tmp_path / "facts.json"
    file.write_text(json.dumps(FACTS))
    run("run", "record", file)
    more = {"type": "checkpoint.committed", "payload": {"run_id": "filed", "attempt": None, "step": 2}}
    file.write_text(json.dumps({**FACTS, "facts": [*FACTS["facts"], more]}))
    again = run("run", "record", file, "--json").json
    assert (again["recorded"], again["already_recorded"]) == (1, 2)


def test_a_faulty_file_is_refused_whole_with_the_place_of_each_fault(run, tmp_path):
    file = tmp_path / "facts.json"
    wrong = {"type": "run.ended", "payload": {"run_id": "filed", "ending": "well"}}
    foreign = {"type": "review.published", "payload": {}}
    file.write_text(json.dumps({"facts": [*FACTS["facts"], wrong, foreign]}))
    error = run("run", "record", file, "--json").error
    assert error["reason"] == "INVALID_FILE"
    places = [p["place"] for p in error["problems"]]
    assert "/facts/3/type" in places
    assert any(place.startswith("/facts/2/payload") for place in places)
    assert run("run", "list", "--json").json == []


def test_a_selection_of_what_was_never_saved_is_refused(run, tmp_path):
    file = tmp_path / "facts.json"
    chosen = {"run_id": "filed", "step": 2, "purpose": "export", "rule": {"id": "trailing-ema"}}
    file.write_text(json.dumps({"facts": [*FACTS["facts"], {"type": "checkpoint.selected", "payload": chosen}]}))
    got = run("run", "record", file, "--json")
    assert (got.code, got.error["reason"]) == (5, "REFUSED_BY_RULES")
    assert Path(".ledger").is_dir()
