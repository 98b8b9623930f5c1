"""A Harbor job as traces: each outcome, the chain of a summarised context, and what no trial says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from services.adapters.traces.datasets import build
from services.adapters.traces.rows import COLUMNS
from tests.adapters.builders import archive, result, trial
from tests.adapters.traces.builders import KEY, acted, asked, by_name, rows_of, said_of, solved, trajectory

INFO = {"name": "opencode", "version": "1.18.2", "model_info": {"name": "qwen3-8b", "provider": "vllm"}}
UNKNOWN = ("attempt", "step", "weight_version", "group", "sample", "phase", "consumed", "masked", "trained")


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """One trial of each outcome."""
    job = tmp_path / "job"
    solved(
        job,
        "solved__aaaaaaa",
        asked(),
        acted("First.", tool_calls=[{"tool_call_id": "1", "function_name": "bash", "arguments": {"command": "ls"}}],
              reasoning_content="Look around.", observation={"results": [{"source_call_id": "1", "content": "a.py"}]}),
        acted("Done."),
        files={"verifier/test-stdout.txt": "1 passed\n", "verifier/test-stderr.txt": "warned\n"},
        agent_info=INFO, source="lab/tasks", task_id={"git_url": "https://x", "git_commit_id": "c0ffee", "path": "t"},
    )  # fmt: skip
    solved(
        job,
        "late__bbbbbbb",
        exception_info={"exception_type": "AgentTimeoutError"},
        verifier_result=None,
    )
    solved(job, "running__ccccccc", files={"result.json": None})
    solved(job, "silent__ddddddd", files={"agent/trajectory.json": None})
    trial(job, "started__eeeeeee", {"config.json": {}})
    return job


@pytest.fixture
def built(job: Path, tmp_path: Path) -> Path:
    return build([job], tmp_path / "traces", run_id="arm-3").folder


def test_each_column_of_a_verified_trial_is_what_its_files_say(built):
    row = by_name(rows_of(built))["solved__aaaaaaa"]
    assert tuple(row) == COLUMNS
    assert row == {
        **dict.fromkeys(COLUMNS),
        "conversations": [
            {"role": "user", "content": "Make it work."},
            {
                "role": "assistant",
                "content": "<think>\nLook around.\n</think>\nFirst.\n<tool_call>\n"
                '{"name": "bash", "arguments": {"command": "ls"}}\n</tool_call>',
            },
            {"role": "tool", "content": "a.py"},
            {"role": "assistant", "content": "Done."},
        ],
        "agent": "opencode",
        "model": "qwen3-8b",
        "model_provider": "vllm",
        "date": "2026-07-29T10:00:00",
        "task": "solved",
        "episode": "episode-1",
        "run_id": "arm-3",
        "trial_name": "solved__aaaaaaa",
        "result": "1.0",
        "instruction": "Make it work.",
        "verifier_output": "1 passed\nwarned\n",
        "finished": True,
        "reward": 1.0,
        "segment": 1,
        "segments": 1,
        "complete": True,
        "subagents": 0,
        "dataset_id": "lab/tasks",
        "dataset_revision": "c0ffee",
        "task_checksum": "a" * 64,
        "trial_id": "id-solved__aaaaaaa",
    }


def test_an_exception_stands_as_the_result_and_in_its_own_column(built):
    row = by_name(rows_of(built))["late__bbbbbbb"]
    assert (row["result"], row["exception_type"], row["reward"]) == ("AgentTimeoutError", "AgentTimeoutError", None)


def test_a_trial_without_a_result_has_a_row_that_claims_no_outcome(built):
    row = by_name(rows_of(built))["running__ccccccc"]
    assert (row["result"], row["finished"], row["trial_id"], row["date"]) == (None, False, None, None)
    assert (row["agent"], row["model"]) == ("opencode", "served-alias")


def test_trials_without_a_conversation_have_no_row_and_are_counted(built):
    said = said_of(built)
    assert said["left_out"] == {
        "no trajectory": {"count": 2, "places": ["silent__ddddddd", "started__eeeeeee"]},
    }
    assert said["coverage"] == {
        "started": 5,
        "finished": 3,
        "verified": 2,
        "consumed": None,
        "trained": None,
        "published": 3,
    }


def test_what_no_trial_says_is_null(built):
    assert all(row[column] is None for row in rows_of(built) for column in (*UNKNOWN, "abandoned", "atlas_id"))
    assert "nobody says whether they trained" in (built / "README.md").read_text()


def test_a_reward_goes_before_an_exception_in_the_result(tmp_path):
    solved(tmp_path / "job", "both__aaaaaaa", exception_info={"exception_type": "AgentTimeoutError"})
    (row,) = rows_of(build([tmp_path / "job"], tmp_path / "traces").folder)
    assert (row["result"], row["exception_type"]) == ("1.0", "AgentTimeoutError")


def test_several_rewards_of_which_none_speaks_for_all_leave_it_null(tmp_path):
    solved(tmp_path / "job", "several__aaaaaaa", verifier_result={"rewards": {"units": 1.0, "style": 0.25}})
    built = build([tmp_path / "job"], tmp_path / "traces")
    assert rows_of(built.folder)[0]["reward"] is None
    assert built.manifest["coverage"]["verified"] == 1


class TestAContinuation:
    CONT = "trajectory.cont-1.json"

    def made(self, tmp_path, *, ref=CONT, cont=None):
        copied = {**acted("A summary."), "is_copied_context": True}
        later = trajectory({**asked("Go on."), "is_copied_context": True}, copied, acted("Still."), acted("Done."))
        first = trajectory(asked(), acted("Began."), continued_trajectory_ref=ref)
        solved(
            tmp_path / "job",
            "long__aaaaaaa",
            files={"agent/trajectory.json": first, f"agent/{self.CONT}": cont if cont is not None else later},
        )
        built = build([tmp_path / "job"], tmp_path / "traces")
        (row,) = rows_of(built.folder)
        return row, built.manifest

    def test_the_last_part_stands_in_the_row_which_says_so(self, tmp_path):
        row, _ = self.made(tmp_path)
        assert [turn["content"] for turn in row["conversations"]] == ["Go on.", "A summary.", "Still.", "Done."]
        assert (row["segment"], row["segments"], row["complete"]) == (2, 2, False)

    def test_copied_steps_open_no_episode(self, tmp_path):
        assert self.made(tmp_path)[0]["episode"] == "episode-1"

    def test_the_instruction_is_what_the_trial_began_with(self, tmp_path):
        assert self.made(tmp_path)[0]["instruction"] == "Make it work."

    def test_the_counts_say_how_many_are_not_whole(self, tmp_path):
        assert self.made(tmp_path)[1]["rows_by"]["complete"] == {"false": 1}

    @pytest.mark.parametrize(
        ("ref", "cont", "why"),
        [
            ("trajectory.cont-9.json", None, "a continuation that is not there"),
            ("../../../outside.json", None, "a continuation that is no file beside it"),
            ("/etc/passwd", None, "a continuation that is no file beside it"),
            (["x"], None, "a continuation that is no file beside it"),
            ("trajectory.json", None, "a continuation that leads back"),
            (CONT, "torn {", "a continuation that cannot be read"),
        ],
    )
    def test_where_the_chain_breaks_the_row_does_not_say_how_many_there_are(self, tmp_path, ref, cont, why):
        row, said = self.made(tmp_path, ref=ref, cont=cont)
        assert (row["segment"], row["segments"], row["complete"]) == (1, None, False)
        assert [turn["content"] for turn in row["conversations"]] == ["Make it work.", "Began."]
        assert said["odd"][why]["count"] == 1


def test_conversations_of_subagents_are_counted_and_not_followed(tmp_path):
    refs = [{"session_id": "sub", "trajectory_path": "trajectory.sub.json"}]
    observed = {"results": [{"content": "asked", "subagent_trajectory_ref": refs}]}
    solved(
        tmp_path / "job",
        "sub__aaaaaaa",
        asked(),
        acted("Delegate.", observation=observed),
        files={"agent/trajectory.sub.json": trajectory(asked("Sub."), acted("Sub done."))},
    )
    (row,) = rows_of(build([tmp_path / "job"], tmp_path / "traces").folder)
    assert (row["subagents"], row["complete"]) == (1, True)
    assert "Sub done." not in json.dumps(row)


MEASURED = {"prompt_token_ids": [1, 2], "completion_token_ids": [3], "logprobs": [-0.5]}


class TestTokens:
    def columns(self, tmp_path, *steps, **said):
        solved(tmp_path / "job", "t__aaaaaaa", *steps, **said)
        (row,) = rows_of(build([tmp_path / "job"], tmp_path / "traces").folder)
        return row["prompt_token_ids"], row["completion_token_ids"], row["logprobs"]

    def test_are_those_of_the_steps_a_list_a_turn(self, tmp_path):
        second = {"prompt_token_ids": [1, 2, 3], "completion_token_ids": [4, 5], "logprobs": [-0.25, -1]}
        got = self.columns(tmp_path, asked(), acted("a", metrics=MEASURED), acted("b", metrics=second))
        assert got == ([[1, 2], [1, 2, 3]], [[3], [4, 5]], [[-0.5], [-0.25, -1.0]])

    def test_are_unknown_where_one_turn_lacks_them(self, tmp_path):
        assert self.columns(tmp_path, asked(), acted("a", metrics=MEASURED), acted("b")) == (None, None, None)

    def test_are_those_of_the_result_where_it_has_one_list_as_long_as_the_conversation(self, tmp_path):
        details = [{"prompt_token_ids": [[1], [1, 2]], "completion_token_ids": [[2], [3]], "logprobs": [[-1], [-2]]}]
        got = self.columns(tmp_path, asked(), acted("a"), acted("b"), agent_result={"rollout_details": details})
        assert got == ([[1], [1, 2]], [[2], [3]], [[-1.0], [-2.0]])

    @pytest.mark.parametrize("details", [[{"completion_token_ids": [[2]]}], [{}, {}], "x", [3], [{"logprobs": {}}]])
    def test_of_a_result_that_does_not_fit_are_unknown(self, tmp_path, details):
        got = self.columns(tmp_path, asked(), acted("a"), acted("b"), agent_result={"rollout_details": details})
        assert got == (None, None, None)

    def test_logprobs_of_another_length_are_unknown(self, tmp_path):
        got = self.columns(tmp_path, asked(), acted("a", metrics={**MEASURED, "logprobs": [-1.0, -2.0]}))
        assert got == ([[1, 2]], [[3]], None)

    def test_of_a_conversation_that_held_a_secret_are_withheld(self, tmp_path):
        got = self.columns(tmp_path, asked(f"Use {KEY}."), acted("a", metrics=MEASURED))
        assert got == (None, None, None)

    def test_stay_where_only_the_verifier_printed_a_secret(self, tmp_path):
        files = {"verifier/test-stdout.txt": f"token {KEY}"}
        got = self.columns(tmp_path, asked(), acted("a", metrics=MEASURED), files=files)
        assert got == ([[1, 2]], [[3]], [[-0.5]])


def test_an_argument_that_only_its_name_gives_away_is_replaced(tmp_path):
    call = {"function_name": "login", "arguments": {"user": "me", "db_password": "Tr0ub4dor&3"}}
    solved(tmp_path / "job", "t__aaaaaaa", asked(), acted("", tool_calls=[call]))
    built = build([tmp_path / "job"], tmp_path / "traces")
    content = rows_of(built.folder)[0]["conversations"][1]["content"]
    assert '"db_password": "<redacted:named_secret>"' in content
    assert built.manifest["redactions"] == {"named_secret": 1}


def test_a_secret_that_the_instruction_repeats_is_counted_once(tmp_path):
    solved(tmp_path / "job", "t__aaaaaaa", asked(f"Use {KEY}."), acted("ok"))
    built = build([tmp_path / "job"], tmp_path / "traces")
    assert rows_of(built.folder)[0]["instruction"] == "Use <redacted:huggingface_token>."
    assert built.manifest["redactions"] == {"huggingface_token": 1}


def test_bytes_of_a_verifier_that_are_no_utf_8_are_replaced_and_counted(tmp_path):
    solved(tmp_path / "job", "t__aaaaaaa")
    (tmp_path / "job" / "t__aaaaaaa" / "verifier").mkdir()
    (tmp_path / "job" / "t__aaaaaaa" / "verifier" / "test-stdout.txt").write_bytes("ok \ufffd ".encode() + b"\xff")
    built = build([tmp_path / "job"], tmp_path / "traces")
    assert rows_of(built.folder)[0]["verifier_output"] == "ok \ufffd \ufffd"
    assert built.manifest["replaced"] == {"bytes that are no UTF-8": 1}


class TestArchives:
    def packed(self, job, members, step=7):
        job.mkdir(exist_ok=True)
        return archive(job / f"trials_step{step}_20260729.tar.gz", members)

    def trial(self, name, above=""):
        said = result(name, id=f"id-{name}", verifier_result={"rewards": {"reward": 0.0}})
        return [
            (f"{above}{name}/result.json", said),
            (f"{above}{name}/agent/trajectory.json", trajectory(asked(), acted("x"))),
        ]

    def test_give_the_step(self, tmp_path):
        self.packed(tmp_path / "job", self.trial("one__aaaaaaa"))
        self.packed(tmp_path / "job", self.trial("two__bbbbbbb", "job/"), step=12)
        rows = rows_of(build([tmp_path / "job"], tmp_path / "traces").folder)
        assert [(row["trial_name"], row["step"]) for row in rows] == [("one__aaaaaaa", 7), ("two__bbbbbbb", 12)]

    def test_lead_nowhere_and_leave_nothing_behind(self, tmp_path):
        members = [
            *self.trial("in__aaaaaaa", "../../"),
            ("in__aaaaaaa/verifier/test-stdout.txt", None),
            ("../result.json", {}),
            ("/result.json", {}),
            ("x/agent/../../result.json", {}),
        ]
        self.packed(tmp_path / "job", members)
        built = build([tmp_path / "job"], tmp_path / "traces")
        assert [row["trial_name"] for row in rows_of(built.folder)] == ["in__aaaaaaa"]
        assert built.manifest["odd"]["a link, which is not followed"]["count"] == 1
        assert sorted(p.name for p in tmp_path.iterdir()) == ["job", "traces"]

    def test_hold_no_trials_among_the_content_of_a_trial(self, tmp_path):
        inner = [("one__aaaaaaa/artifacts/x/result.json", {}), ("one__aaaaaaa/agent/config.json", {})]
        self.packed(tmp_path / "job", [*self.trial("one__aaaaaaa"), *inner])
        assert build([tmp_path / "job"], tmp_path / "traces").manifest["coverage"]["started"] == 1

    def test_that_are_damaged_are_left_out_whole_and_named(self, tmp_path):
        damaged = self.packed(tmp_path / "job", self.trial("one__aaaaaaa"))
        damaged.write_bytes(damaged.read_bytes()[:-30])
        solved(tmp_path / "job", "two__bbbbbbb")
        built = build([tmp_path / "job"], tmp_path / "traces")
        assert [row["trial_name"] for row in rows_of(built.folder)] == ["two__bbbbbbb"]
        assert built.manifest["left_out"]["an archive that cannot be read"]["count"] == 1
        assert built.manifest["coverage"]["started"] is None

    def test_and_folders_that_have_the_same_trial_give_one_row_with_the_step(self, tmp_path):
        self.packed(tmp_path / "job", self.trial("one__aaaaaaa"))
        solved(tmp_path / "job", "one__aaaaaaa")
        built = build([tmp_path / "job"], tmp_path / "traces")
        assert [row["step"] for row in rows_of(built.folder)] == [7]
        assert (built.manifest["coverage"]["started"], built.manifest["left_out"]["there twice"]["count"]) == (1, 1)


class TestHostileTrials:
    def test_links_are_not_followed(self, tmp_path):
        solved(tmp_path / "outside", "secret__kkkkkkk", asked("Outside."), acted("x"))
        solved(tmp_path / "job", "ok__aaaaaaa")
        solved(tmp_path / "job", "linked__bbbbbbb", files={"agent/trajectory.json": None})
        outside = tmp_path / "outside" / "secret__kkkkkkk"
        (tmp_path / "job" / "out__ccccccc").symlink_to(outside)
        (tmp_path / "job" / "linked__bbbbbbb" / "agent").symlink_to(outside / "agent")
        built = build([tmp_path / "job"], tmp_path / "traces")
        assert [row["trial_name"] for row in rows_of(built.folder)] == ["ok__aaaaaaa"]
        assert built.manifest["left_out"]["a link, which is not followed"]["places"] == ["out__ccccccc"]
        assert built.manifest["odd"]["a link, which is not followed"]["places"][0] == (
            "linked__bbbbbbb/agent/trajectory.json"
        )

    def test_a_file_that_is_too_large_is_named_and_what_it_would_tell_is_unknown(self, tmp_path):
        solved(tmp_path / "job", "big__aaaaaaa")
        with (tmp_path / "job" / "big__aaaaaaa" / "result.json").open("wb") as file:
            file.truncate((64 << 20) + 1)  # a hole: nothing is written
        built = build([tmp_path / "job"], tmp_path / "traces")
        coverage = built.manifest["coverage"]
        assert (coverage["started"], coverage["finished"], coverage["verified"]) == (1, None, None)
        assert rows_of(built.folder)[0]["finished"] is None
        assert built.manifest["odd"]["a file that is too large"]["places"] == ["big__aaaaaaa/result.json"]

    def test_a_result_that_is_torn_leaves_unknown_what_it_would_tell(self, tmp_path):
        solved(tmp_path / "job", "torn__aaaaaaa", files={"result.json": '{"id": "x"'})
        built = build([tmp_path / "job"], tmp_path / "traces")
        assert built.manifest["coverage"]["finished"] is None
        assert rows_of(built.folder)[0]["finished"] is None
        assert built.manifest["odd"]["a file that is no JSON"]["places"] == ["torn__aaaaaaa/result.json"]

    @pytest.mark.parametrize(
        "torn",
        [
            "{",
            "[]",
            '{"steps": []}',
            '{"schema_version": "ATIF-v2.0", "steps": []}',
            "[" * 100_000,
            json.dumps(trajectory(acted("", tool_calls=[{"arguments": json.loads("[" * 90 + "]" * 90)}]))),
        ],
        ids=["torn", "a list", "no version", "another version", "deep", "deep arguments"],
    )
    def test_a_trajectory_that_cannot_be_read_has_no_row_and_is_named(self, tmp_path, torn):
        solved(tmp_path / "job", "ok__aaaaaaa")
        solved(tmp_path / "job", "torn__bbbbbbb", files={"agent/trajectory.json": torn})
        said = build([tmp_path / "job"], tmp_path / "traces").manifest
        (place,) = said["left_out"]["a trajectory that cannot be read"]["places"]
        assert place.startswith("torn__bbbbbbb/agent/trajectory.json: ")
        assert (said["rows"], said["coverage"]["started"]) == (1, 2)

    def test_steps_and_parts_of_another_form_are_missed_and_the_row_is_not_whole(self, tmp_path):
        image = [{"type": "text", "text": "See"}, {"type": "image", "source": {"path": "x.png"}}, 3]
        solved(
            tmp_path / "job", "odd__aaaaaaa", asked(image), {"source": "moon"}, acted("ok", observation=5, tool_calls=7)
        )
        built = build([tmp_path / "job"], tmp_path / "traces")
        (row,) = rows_of(built.folder)
        assert [turn["content"] for turn in row["conversations"]] == ["See", "ok"]
        assert row["complete"] is False
        assert built.manifest["odd"]["a step of another form, which is left out"]["count"] == 1

    def test_a_trajectory_without_steps_is_no_conversation(self, tmp_path):
        solved(tmp_path / "job", "ok__aaaaaaa")
        solved(tmp_path / "job", "void__bbbbbbb", files={"agent/trajectory.json": trajectory()})
        said = build([tmp_path / "job"], tmp_path / "traces").manifest
        assert said["left_out"]["no conversation"]["places"] == ["void__bbbbbbb"]

    def test_a_reward_that_is_not_finite_stays(self, tmp_path):
        solved(tmp_path / "job", "nan__aaaaaaa", verifier_result={"rewards": {"reward": float("nan")}})
        built = build([tmp_path / "job"], tmp_path / "traces")
        assert rows_of(built.folder)[0]["result"] == "NaN"
        assert built.manifest["not_finite"] == {"reward": 1}

    def test_a_secret_in_the_name_of_a_trial_is_published_nowhere(self, tmp_path):
        solved(tmp_path / "job", "ok__aaaaaaa")
        solved(tmp_path / "job", f"{KEY}__bbbbbbb", files={"agent/trajectory.json": None})
        solved(tmp_path / "job", f"{KEY}__ccccccc", task_name=KEY)
        built = build([tmp_path / "job"], tmp_path / "traces")
        assert built.manifest["left_out"]["no trajectory"]["places"] == ["<redacted:huggingface_token>__bbbbbbb"]
        assert all(KEY not in json.dumps(row) for row in rows_of(built.folder))
        assert all(KEY.encode() not in path.read_bytes() for path in built.folder.iterdir() if path.is_file())
