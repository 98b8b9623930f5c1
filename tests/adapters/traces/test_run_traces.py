"""A trainer's run folder as traces: every column is what the rollout says, and what it does not say is null."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import pytest

from ledger.client.rollouts import MAX_LINE, path_of
from ledger.core.errors import InvalidInput
from services.adapters.traces.datasets import build
from services.adapters.traces.rows import COLUMNS, MEANINGS
from services.adapters.traces.trainer_runs import Of, abandoned
from tests.adapters.traces.builders import KEY, by_name, keep, rollout, rows_of, said_of


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Rollouts of each outcome, in two attempts, the second of which went on from before step 2."""
    return keep(
        tmp_path / "arm-0",
        rollout(1, 0),
        rollout(1, 1, reward=0.0, advantage=-0.5),
        rollout(1, 2, group="g1", masked=True, trained=False, advantage=None, reward=None, answer=None)
        .model_copy(update={"exception_type": "EngineTimeout", "finish_reason": "error", "finished_at": None}),
        rollout(1, 3, group="g1", consumed=False, trained=False, advantage=None),
        rollout(2, 0),
        rollout(2, 0, phase="eval", consumed=False, trained=False, advantage=None),
        rollout(2, 0, attempt=2),
        rollout(3, 0, attempt=2, logprobs=None, completion_token_ids=[], prompt_token_ids=[]),
    )  # fmt: skip


@pytest.fixture
def built(run: Path, tmp_path: Path) -> Path:
    return build([run], tmp_path / "traces").folder


def test_each_column_of_a_rollout_that_trained_is_what_its_line_says(built):
    row = by_name(rows_of(built))["a1-s1-train-g0-0"]
    assert tuple(row) == COLUMNS
    assert row == {
        "conversations": [{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "answer 0"}],
        "agent": None,
        "model": None,
        "model_provider": None,
        "date": "2026-07-29T10:00:00Z",
        "task": "sums/1",
        "episode": "episode-0",
        "run_id": "arm-0",
        "trial_name": "a1-s1-train-g0-0",
        "result": "1.0",
        "instruction": "2 + 2?",
        "verifier_output": None,
        "prompt_token_ids": [[1, 2]],
        "completion_token_ids": [[3, 4, 5]],
        "logprobs": [[-0.5, -0.25, -0.125]],
        "attempt": 1,
        "step": 1,
        "weight_version": 0,
        "group": "g0",
        "sample": 0,
        "phase": "train",
        "consumed": True,
        "masked": False,
        "trained": True,
        "abandoned": False,
        "finished": True,
        "advantage": 0.5,
        "reward": 1.0,
        "finish_reason": "stop",
        "exception_type": None,
        "segment": 1,
        "segments": 1,
        "complete": True,
        "subagents": None,
        "dataset_id": "sums",
        "dataset_revision": "d1",
        "verifier_revision": "v1",
        "atlas_id": "Open:sums",
        "task_checksum": None,
        "trial_id": "a1-s1-train-g0-0",
    }


def test_a_rollout_that_failed_has_its_exception_no_reward_and_no_episode(built):
    row = by_name(rows_of(built))["a1-s1-train-g1-2"]
    assert (row["result"], row["exception_type"], row["reward"]) == ("EngineTimeout", "EngineTimeout", None)
    assert (row["episode"], row["masked"], row["trained"]) == (None, True, False)
    assert [turn["role"] for turn in row["conversations"]] == ["user"]


def test_tokens_that_no_engine_gave_are_null_and_not_empty(built):
    row = by_name(rows_of(built))["a2-s3-train-g0-0"]
    assert [row[c] for c in ("prompt_token_ids", "completion_token_ids", "logprobs")] == [None, None, None]


def test_a_step_that_a_later_attempt_made_again_is_abandoned_and_its_evaluation_too(built):
    marked = {name: row["abandoned"] for name, row in by_name(rows_of(built)).items()}
    given_up = {name for name, value in marked.items() if value}
    assert given_up == {"a1-s2-train-g0-0", "a1-s2-eval-g0-0"}
    assert None not in marked.values()


def test_an_evaluation_keeps_its_phase(built):
    phases = {name: row["phase"] for name, row in by_name(rows_of(built)).items()}
    assert [name for name, phase in phases.items() if phase == "eval"] == ["a1-s2-eval-g0-0"]


@pytest.mark.parametrize(
    ("more", "given_up"),
    [
        pytest.param(Of(1, 9, "train"), {Of(1, 9, "train")}, id="a step behind, though the later came less far"),
        pytest.param(Of(1, 6, "train"), {Of(1, 6, "train")}, id="the step that was made again"),
        pytest.param(Of(2, 5, "eval"), {Of(1, 5, "eval")}, id="an evaluation that was made again"),
        pytest.param(Of(2, 7, "train"), set(), id="not an evaluation at the point where the later attempt went on"),
        pytest.param(Of(3, 6, "train"), {Of(2, 6, "train")}, id="what the second attempt made, for the third"),
    ],
)
def test_what_a_later_attempt_gave_up(more, given_up):
    made = {Of(1, 5, "train"), Of(1, 5, "eval"), Of(2, 6, "train"), more}
    assert abandoned(made) == given_up


def test_rows_stand_by_attempt_step_group_and_sample(built):
    order = [(r["attempt"], r["step"], r["group"], r["sample"]) for r in rows_of(built)]
    assert order == sorted(order)


def test_coverage_counts_the_trials_of_each_stage(built):
    assert said_of(built)["coverage"] == {
        "started": 8,
        "finished": 8,
        "verified": 7,
        "consumed": 6,
        "trained": 5,
        "published": 8,
    }
    assert said_of(built)["rows_that_trained"] == 4


def test_the_card_does_not_claim_that_these_are_the_rollouts_that_trained(built):
    text = (built / "README.md").read_text()
    assert "These are not, no fewer and no more, the rollouts that the weights were trained on" in text
    assert "1 of evaluations, 1 masked" in text
    assert "every one of them" not in text


def test_the_card_claims_it_where_every_rollout_trained(tmp_path):
    run = keep(tmp_path / "arm", rollout(1, 0), rollout(1, 1), rollout(2, 0))
    text = (build([run], tmp_path / "traces").folder / "README.md").read_text()
    assert "These are the 3 rollouts that trained the weights, every one of them and no other." in text


def test_a_line_that_is_none_is_named_and_the_others_are_read(run, tmp_path):
    path = path_of(run, 1, 1)
    lines = path.read_text().splitlines()
    lines[1:1] = ["not json", "{}", lines[0].replace('"step":1', '"step":7'), lines[0], '{"reward": NaN}']
    path.write_text("\n".join(lines) + "\n")
    built = build([run], tmp_path / "traces")
    left_out = built.manifest["left_out"]
    assert {reason: each["count"] for reason, each in left_out.items()} == {
        "no rollout": 3,
        "of another step than its file": 1,
        "there twice": 1,
    }
    assert any(p.startswith("rollouts/attempt_0001/step_000001.jsonl:2: ") for p in left_out["no rollout"]["places"])
    assert len(rows_of(built.folder)) == 8


def test_where_a_line_cannot_be_read_no_count_of_trials_is_known(run, tmp_path):
    with path_of(run, 1, 1).open("a") as file:
        file.write("torn")
    said = build([run], tmp_path / "traces").manifest
    assert {said["coverage"][s] for s in ("started", "finished", "verified", "consumed", "trained")} == {None}
    assert (said["coverage"]["published"], said["seen"]["started"]) == (8, 8)


def test_a_rollout_of_another_run_is_left_out_and_not_counted(run, tmp_path):
    keep(run, rollout(4, 0, attempt=2), rollout(4, 1, attempt=2, run_id="arm-1"))
    said = build([run], tmp_path / "traces", run_id="arm-0").manifest
    assert said["left_out"]["of another run"]["count"] == 1
    assert (said["coverage"]["started"], said["runs"]) == (9, ["arm-0"])


def test_values_that_are_not_finite_stay_and_are_counted(tmp_path):
    run = keep(tmp_path / "arm", rollout(1, 0, reward="NaN", advantage="-Infinity", logprobs=[-0.5, "NaN", -1.0]))
    built = build([run], tmp_path / "traces")
    (row,) = rows_of(built.folder)
    assert math.isnan(row["reward"])
    assert math.isnan(row["logprobs"][0][1])
    assert (row["advantage"], row["result"]) == (-math.inf, "NaN")
    assert built.manifest["not_finite"] == {"advantage": 1, "logprobs": 1, "reward": 1}


def test_a_secret_is_replaced_and_counted_and_its_tokens_go_with_it(tmp_path):
    run = keep(tmp_path / "arm", rollout(1, 0, answer=f"export HF_TOKEN={KEY} && {KEY}"), rollout(1, 1))
    built = build([run], tmp_path / "traces")
    first, second = rows_of(built.folder)
    marker = "<redacted:huggingface_token>"
    assert first["conversations"][1]["content"] == f"export HF_TOKEN={marker} && {marker}"
    assert built.manifest["redactions"] == {"huggingface_token": 2}
    assert (first["completion_token_ids"], second["completion_token_ids"]) == (None, [[3, 4, 5]])
    assert [each["count"] for what, each in built.manifest["odd"].items() if "spell a secret" in what] == [1]
    assert all(KEY.encode() not in p.read_bytes() for p in built.folder.rglob("*") if p.is_file())


def test_half_a_character_becomes_the_replacement_character_and_is_counted(tmp_path):
    run = keep(tmp_path / "arm", rollout(1, 0, answer="XX"))
    path = path_of(run, 1, 1)
    path.write_text(path.read_text().replace("XX", r"a\ud83db\ud83d\ude00"))
    built = build([run], tmp_path / "traces")
    assert rows_of(built.folder)[0]["conversations"][1]["content"] == "a\ufffdb😀"
    assert built.manifest["replaced"] == {"lone surrogate": 1}


def test_links_are_not_followed_and_other_files_are_named(run, tmp_path):
    outside = keep(tmp_path / "outside", rollout(9, 0, run_id="secret"))
    (run / "rollouts" / "attempt_0001" / "step_000009.jsonl").symlink_to(path_of(outside, 1, 9))
    (run / "rollouts" / "attempt_0003").symlink_to(outside / "rollouts" / "attempt_0001")
    (run / "rollouts" / "notes.txt").write_text("x")
    (run / "rollouts" / "attempt_0001" / ".step_000004.jsonl.abc").write_text("being written")
    said = build([run], tmp_path / "traces").manifest
    assert {reason: each["count"] for reason, each in said["left_out"].items()} == {
        "a link, which is not followed": 2,
        "not named as a file of rollouts": 1,
    }
    assert said["runs"] == ["arm-0"]
    assert said["coverage"]["started"] is None


def test_control_characters_in_a_name_stay_and_are_told(tmp_path):
    run = keep(tmp_path / "arm", rollout(1, 0, task_id="a\x1b[31mred"))
    built = build([run], tmp_path / "traces")
    assert rows_of(built.folder)[0]["task"] == "a\x1b[31mred"
    assert built.manifest["odd"]["control characters in a name"]["count"] == 1
    assert b"\x1b" not in (built.folder / "README.md").read_bytes()


def test_a_token_id_that_no_vocabulary_has_is_unknown(tmp_path):
    run = keep(tmp_path / "arm", rollout(1, 0, completion_token_ids=[1, -1, 2**70]))
    (row,) = rows_of(build([run], tmp_path / "traces").folder)
    assert (row["prompt_token_ids"], row["completion_token_ids"], row["logprobs"]) == ([[1, 2]], None, None)


def test_a_line_that_is_too_long_is_passed_over_and_the_next_is_read(run, tmp_path):
    path = path_of(run, 1, 1)
    lines = path.read_bytes()
    with path.open("wb") as file:
        file.truncate(MAX_LINE + 2)  # a file with a hole: nothing of it is written
        file.seek(0, os.SEEK_END)
        file.write(b"\n" + lines)
    said = build([run], tmp_path / "traces").manifest
    assert said["left_out"]["a line that is too long"]["places"] == ["rollouts/attempt_0001/step_000001.jsonl:1"]
    assert said["rows"] == 8


def test_nothing_left_is_an_error_that_says_why(tmp_path):
    path = path_of(tmp_path / "arm", 1, 1)
    path.parent.mkdir(parents=True)
    path.write_text("torn\n")
    with pytest.raises(InvalidInput, match="1 no rollout") as caught:
        build([tmp_path / "arm"], tmp_path / "traces")
    assert caught.value.reason == "NO_ROWS"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["arm"]


def test_every_column_has_a_meaning_and_the_manifest_tells_it(built):
    assert set(MEANINGS) == set(COLUMNS)
    assert said_of(built)["columns"] == json.loads(json.dumps(MEANINGS))
