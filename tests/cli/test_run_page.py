"""One run as a page: what each part of a dossier becomes, also on a terminal of 80 columns."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict

from ledger.wire import runs_pb2
from services.cli import run_words
from services.cli.output import Output
from services.cli.run_lists import RUNS
from services.cli.run_page import show_run
from services.cli.sweep_page import show_sweep
from tests.cli.test_tables import Terminal

LONG = "run-" + "x" * 90


def page(run: dict[str, Any], **beside: Any) -> str:
    """The page of a run of which so much is known."""
    whole = {"summary": {"id": "arm-0", "status": "open"}, **run}
    out = io.StringIO()
    with redirect_stdout(out):
        show_run(Output(), ParseDict({"run": whole, **beside}, runs_pb2.RunAsOfResponse()))
    return out.getvalue()


def value(text: str, name: str) -> str:
    """What stands beside a name."""
    found = [line.strip() for line in text.splitlines() if line.strip().startswith(f"{name}  ")]
    assert len(found) == 1, (name, text)
    return found[0][len(name) :].strip()


SELECTION = {"step": 15, "purpose": "export", "rule": {"id": "trailing-ema"}, "basis": "recorded"}


def test_a_run_of_which_next_to_nothing_is_known_says_so():
    text = page({})
    assert value(text, "ended") == "no end is recorded"
    assert value(text, "known by") == "its events; nobody declared it"
    assert value(text, "checkpoint") == "none was chosen"
    assert value(text, "series") == "none: no metric of any step was recorded"
    assert value(text, "RL start") == "unknown"
    assert "Checkpoints" not in text
    assert "Exports" not in text


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"best": "among_all_steps", "best_step_of_all": 15, "best_ema_of_all": 0.9}, "best of all steps"),
        (
            {"best": "among_eligible_steps", "best_step_of_all": 14, "best_ema_of_all": 0.875},
            "best among eligible saves only: the EMA was higher at step 14 (0.8750)",
        ),
        (
            {"best": "among_eligible_steps", "recorded_ema": 0.8639, "implied_previous_ema": 0.87495},
            "best among eligible saves only: the EMA was higher at step 14 (0.8750)",
        ),
        (
            {"best": "not_best", "best_step_of_all": 20, "best_ema_of_all": 0.91},
            "not the best among eligible saves: the EMA was higher at step 20 (0.9100)",
        ),
        ({"best": "unknown", "recorded_ema": 0.5, "implied_previous_ema": 0.4}, "unknown whether it was the best"),
    ],
    ids=["all", "eligible", "implied", "not-best", "unknown"],
)
def test_whether_a_choice_was_the_best_is_said_with_what_was_better(more, said):
    assert run_words.best(ParseDict({**SELECTION, **more}, runs_pb2.Selection())) == said


def test_a_selection_that_the_rule_does_not_give_again_is_shown_beside_what_it_gives():
    chosen = {**SELECTION, "recomputed": "differs", "computed_step": 10, "computed_ema": 0.7, "computed_reward": 0.6}
    text = page({"selections": [chosen]})
    again = value(text, "recomputed")
    assert again.endswith("something else than was recorded: step 10, EMA 0.7000, reward 0.6000")


def test_a_checkpoint_says_why_it_is_not_eligible_and_what_its_label_hides():
    saved = {
        "step": 39, "last_update": 38, "off_by_one": True, "status": "committed", "scored_by_step": 39,
        "not_eligible_because": ["no multiple of 5"], "attempt": 2,
    }  # fmt: skip
    early = {
        "step": 5, "last_update": 5, "status": "deleted", "reward": 0.25, "ema": 0.3333333, "eligible": True,
        "selected": True, "before_collapse": True, "last_before_collapse": True,
    }  # fmt: skip
    lines = page({"checkpoints": [early, saved]}).splitlines()
    row = next(line for line in lines if line.startswith("  39"))
    assert "holds update 38, one less than its label; no multiple of 5; attempt 2" in row
    assert row.split()[1:4] == ["unknown", "unknown", "no"]
    row = next(line for line in lines if line.startswith("  5 *"))
    assert row.split()[:5] == ["5", "*", "0.3333", "0.2500", "yes"]
    assert "deleted" in row
    assert "chosen; the last one before the collapse" in row


def test_anomalies_are_told_with_their_numbers_those_derived_apart_from_those_claimed():
    derived = {
        "kind": "entropy_runaway", "origin": "derived", "rule": "entropy-runaway-1", "onset_step": 31,
        "numbers": [{"name": "entropy_first", "value": 0.3}, {"name": "ratio", "value": "NaN"}],
        "statement": "it ran away",
    }  # fmt: skip
    claimed = {"kind": "other", "origin": "claimed", "seen_at_step": 38, "statement": "it broke"}
    text = page({"anomalies": [derived, claimed]})
    assert text.splitlines()[3].endswith("entropy runaway, derived by entropy-runaway-1, from step 31 on: it ran away")
    assert value(text, "entropy runaway") == "entropy first 0.3, ratio NaN"
    assert "other, claimed, seen at step 38: it broke" in text


def test_attempts_are_a_table_with_where_each_began_and_why_it_ended():
    first = {"attempt": 1, "status": "failed", "first_step": 1, "last_step": 7, "abandoned_steps": 2,
             "error_type": "OutOfMemory", "reason": "rank 3"}  # fmt: skip
    second = {"attempt": 2, "status": "open", "resumed_from_step": 5, "resumed_from_attempt": 1}
    lines = page({"attempts": [first, second]}).splitlines()
    rows = [line.split("  ") for line in lines if line.startswith(("  1 ", "  2 "))]
    assert [[cell.strip() for cell in row if cell.strip()] for row in rows] == [
        ["1", "failed", "the start", "1 to 7", "2", "OutOfMemory: rank 3"],
        ["2", "open", "step 5 of attempt 1", "none", "0", "-"],
    ]


def test_completeness_is_told_in_words_with_each_exception_and_each_recorder():
    verdict = {"verdict": "complete_except", "exceptions": ["epoch 1 of t dropped 3 events", "epoch 2 lacks 7"],
               "producers": [{"producer": "t", "epoch": 1, "seen": 9, "highest_seq": 12, "dropped": 3}]}  # fmt: skip
    text = page({"completeness": verdict})
    assert value(text, "record") == "complete, except: epoch 1 of t dropped 3 events; epoch 2 lacks 7"
    assert value(text, "t") == "epoch 1: 9 events of 12, 3 dropped, 0 refused, not closed"


def test_a_count_that_nobody_made_is_unknown_and_not_0():
    coverage = {"started": 9, "verified": 0, "positions": [4], "limits": ["evaluation trials are among them"],
                "errors": [{"exception_type": "Timeout", "treatment": "mask", "count": 2}],
                "groups": [{"disposition": "discarded", "reason": "stale", "groups": 5}]}  # fmt: skip
    text = page({"coverage": coverage})
    assert value(text, "trials").startswith("9 started, unknown finished, 0 verified, unknown consumed")
    assert value(text, "error") == "Timeout: 2, treated as mask"
    assert value(text, "groups") == "5 discarded, stale"
    assert value(text, "not covered") == "evaluation trials are among them"
    assert "Rollouts" not in page({})


def test_a_switch_is_told_with_how_far_it_was_in_effect():
    objective = {"identity": [{"name": "use_tis", "value": "true", "origin": "config"}], "tis_applied_steps": 30,
                 "tis_steps": 40, "clip": "inert", "kl": "not_measured", "notes": ["n"]}  # fmt: skip
    text = page({"objective": objective})
    assert value(text, "use_tis") == "true, by the configuration"
    assert value(text, "TIS applied") == "on 30 of 40 steps"
    assert (value(text, "clip"), value(text, "KL")) == ("inert", "not measured")


def test_an_export_is_told_with_the_numbers_of_its_verification_or_that_there_are_none():
    numbers = {"shard_files": 2, "shards_named": 2, "index_total_size": 64, "tensor_bytes": 60,
               "tensors_in_index": 3, "tensors_in_shards": 2}  # fmt: skip
    checked = {"id": "e", "status": "failed", "numbers": numbers, "checkpoint": {"run_id": "arm-0", "step": 15},
               "checks": [{"name": "total_size", "outcome": "failed"}, {"name": "index", "outcome": "passed"}],
               "models": [{"repository": "o/m", "commit": "c", "files_agree": False}]}  # fmt: skip
    text = page({}, exports=[checked])
    assert value(text, "export") == "e, of step 15, failed, route unknown"
    assert "index total_size 64, tensors 60 bytes" in value(text, "verified")
    assert value(text, "verified").endswith("failed: total_size")
    assert "files are not those that were verified" in value(text, "model")
    bare = page({}, exports=[{"id": "e", "status": "completed"}])
    assert value(bare, "verified") == "no verification with numbers is recorded"


def test_drift_syncs_and_evaluations_of_a_run_are_told():
    text = page(
        {
            "drifts": [{"attempt": 2, "changes": [{"path": "lr", "before": "1", "after": "2"}, {"path": "k"}]}],
            "weight_syncs": {"count": 8, "probed": 3, "failed": 1},
            "evaluations": [{"step": 5, "evaluation": {"data_source": "aime", "metrics": {"pass": 0.5}}}],
        }
    )
    assert value(text, "config drifted") == "in attempt 2: lr: 1 → 2, k: absent → absent"
    assert value(text, "weight syncs") == "8, 3 probed, 1 of them beyond tolerance"
    assert value(text, "evaluation, step 5") == "aime: pass 0.5; no benchmark result"


def test_a_flag_is_counted_at_the_top_and_told_with_its_events():
    flag = {"code": "STEP_WENT_BACK", "message": "step 3 after step 5", "positions": [7, 9]}
    text = page({"flags": [flag]}, exports=[{"id": "e", "flags": [{**flag, "code": "X", "positions": [8]}]}])
    assert value(text, "flags") == "2, told below"
    assert value(text, "STEP_WENT_BACK") == "step 3 after step 5 (events 7, 9)"
    assert value(text, "X") == "step 3 after step 5 (event 8)"


def test_a_claim_is_told_with_its_standing_and_against_what():
    claims = [
        {"claim": {"topic": "steps.trained", "statement": "80", "number": 80}, "standing": "contradicts",
         "against": "step 38 was the last"},
        {"claim": {"topic": "benchmark", "statement": "none here", "absent": True}, "standing": "not_checkable"},
    ]  # fmt: skip
    text = page({"claims": claims})
    assert value(text, "steps.trained") == "80 [80] (contradicts: step 38 was the last)"
    assert value(text, "benchmark") == "nothing is claimed: none here"


def test_on_a_terminal_no_line_is_wider_than_it_and_no_id_is_cut(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "dumb")
    summary = {"id": LONG, "status": "failed", "reason": "because " * 30, "anomalies": ["entropy_runaway"]}
    saved = [{"step": n, "last_update": n, "not_eligible_because": ["a long reason " * 5]} for n in (5, 10)]
    whole = {"run": {"summary": summary, "checkpoints": saved, "selections": [SELECTION]}}
    out = Terminal()
    with redirect_stdout(out):
        show_run(Output(no_color=True), ParseDict(whole, runs_pb2.RunAsOfResponse()))
    lines = [line.rstrip() for line in out.getvalue().splitlines()]
    assert max(map(len, lines)) <= 80
    assert LONG in "".join(line.strip() for line in lines[:3]).removeprefix("run").replace(" ", "")


def test_curves_of_one_group_share_a_scale_and_those_of_another_have_their_own():
    def arm(name: str, group: int, *rewards: float) -> dict[str, Any]:
        curve = [{"step": n, "reward": reward} for n, reward in enumerate(rewards, 1)]
        return {"run": {"id": name, "status": "open"}, "group": group, "curve": curve}

    arms = [arm("low", 1, 0.0, 0.1), arm("high", 1, 0.0, 1.0), arm("alone", 2, 0.0, 0.1)]
    groups = [{"group": 1, "runs": ["low", "high"]}, {"group": 2, "runs": ["alone"], "differs_in": ["base"]}]
    found = ParseDict({"campaign": {"id": "c"}, "arms": arms, "groups": groups}, runs_pb2.SweepResponse())
    out = io.StringIO()
    with redirect_stdout(out):
        show_sweep(Output(), found)
    rows = {
        name: line for line in out.getvalue().splitlines() for name in ("low", "high", "alone") if f"  {name} " in line
    }
    assert "▁▁" in rows["low"]
    assert "▁█" in rows["high"]
    assert "▁█" in rows["alone"]
    assert "  apart by       base" in out.getvalue()


@pytest.mark.parametrize(
    ("status", "last"), [("open", "open"), ("failed", "no end recorded"), ("unknown", "no end recorded")]
)
def test_an_attempt_that_nobody_ended_is_open_only_as_the_last_one_of_an_open_run(status, last):
    attempts = [{"attempt": number, "status": "open"} for number in (1, 2)]
    lines = page({"summary": {"id": "arm-0", "status": status}, "attempts": attempts}).splitlines()
    first, second = (line for line in lines if line.startswith(("  1 ", "  2 ")))
    assert "no end recorded" in first
    assert last in second


@pytest.mark.parametrize(
    ("figure", "told"),
    [(0.86391, "0.8639"), (-2.0, "-2.0000"), (float("nan"), "NaN"), (float("-inf"), "-Infinity"), (1e308, "1e+308")],
)
def test_an_average_that_does_not_fit_four_places_is_told_like_other_numbers(figure, told):
    assert run_words.average(figure) == told


def test_a_list_of_runs_marks_what_is_only_claimed():
    told = {"id": "a", "basis": "claimed", "anomalies": ["entropy_runaway", "reward_collapse"], "anomaly_onset": 65}
    run = runs_pb2.RunSummary(**told, claimed_anomalies=["reward_collapse"], sample=True)
    row = dict(zip(RUNS.columns, RUNS.cells(run), strict=True))
    assert row["run"] == "a (sample) (claimed)"
    assert row["anomalies"] == "entropy runaway, reward collapse (claimed) from 65 on"
    assert RUNS.cells(runs_pb2.RunSummary(id="b", basis="recorded"))[0] == "b"


def test_arms_are_shown_with_the_ema_by_which_they_are_ranked():
    arms = [{"run": {"id": name}, "group": 1, "best_ema": best} for name, best in (("one", 0.5), ("two", 0.75))]
    found = ParseDict({"campaign": {"id": "c"}, "arms": arms, "groups": [{"group": 1}]}, runs_pb2.SweepResponse())
    out = io.StringIO()
    with redirect_stdout(out):
        show_sweep(Output(), found)
    header, *rows = [line for line in out.getvalue().splitlines() if "best EMA" in line or line.startswith("-  ")]
    at = header.index("best EMA")
    assert [row[at : at + 6] for row in rows] == ["0.5000", "0.7500"]


def test_what_a_campaign_claims_is_told_as_a_claim():
    claim = {"topic": "purpose", "statement": "data quality alone differs"}
    campaign = {"id": "c", "claims": [{"claim": claim, "standing": "unknown"}]}
    out = io.StringIO()
    with redirect_stdout(out):
        show_sweep(Output(), ParseDict({"campaign": campaign}, runs_pb2.SweepResponse()))
    assert "“data quality alone differs”, which is a claim" in out.getvalue()


def test_values_that_are_not_finite_are_not_told_as_the_rewards_own():
    reward = {"metric": "reward/avg_raw_reward", "steps": 12, "first": 0.1, "last": 0.2, "not_finite": 1}
    assert value(page({"reward": reward}), "reward/avg_raw_reward").endswith("1 value of all metrics not finite")
