"""A file of rollouts: read as it was written, whole or not there, and each bad line named."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger.client.rollouts import Rollout, path_of, read_rollouts, write_rollouts
from ledger.core.errors import InvalidInput


def rollout(sample: int = 0, **fields: object) -> Rollout:
    said = {
        "run_id": "r", "attempt": 1, "step": 15, "trial_id": f"t{sample}", "group": "g", "sample": sample,
        "task_id": "k", "dataset_id": "builtin/digits", "messages": [{"role": "user", "content": "2?"}],
        "consumed": True, "masked": False, "trained": True,
    }  # fmt: skip
    return Rollout.model_validate(said | fields)


def test_what_was_written_is_read_again_values_that_are_not_finite_and_all(tmp_path: Path) -> None:
    path = path_of(tmp_path, attempt=1, step=15)
    told = [
        rollout(0, reward=0.1 + 0.2, logprobs=[-0.5, "-Infinity"], completion_token_ids=[1, 2]),
        rollout(1, reward="NaN", messages=[{"role": "user", "content": "a\nline \u2028 and \x1b[31m"}]),
    ]
    assert write_rollouts(path, told) == 2
    assert path.relative_to(tmp_path).as_posix() == "rollouts/attempt_0001/step_000015.jsonl"
    assert list(read_rollouts(path)) == told
    assert path.read_bytes().count(b"\n") == 2


def test_evaluations_lie_beside_the_steps(tmp_path: Path) -> None:
    assert path_of(tmp_path, 2, 5, "eval").name == "eval_000005.jsonl"


def test_a_file_whose_writing_fails_is_not_there(tmp_path: Path) -> None:
    def breaks():
        yield rollout()
        raise RuntimeError("the disk")

    path = path_of(tmp_path, 1, 1)
    with pytest.raises(RuntimeError):
        write_rollouts(path, breaks())
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize(
    ("line", "named"),
    [
        (b"no json", "line 2"),
        (b'{"run_id": "r"}', "line 2: attempt"),
        (b"[]", "line 2"),
        (rollout().model_dump_json().encode().replace(b'"attempt":1', b'"attempt":0'), "line 2: attempt"),
        (rollout().model_dump_json().encode().replace(b'"step":15', b'"step":15,"extra":1'), "line 2: extra"),
    ],
)
def test_a_line_that_is_no_rollout_is_named(tmp_path: Path, line: bytes, named: str) -> None:
    path = tmp_path / "step.jsonl"
    path.write_bytes(rollout().model_dump_json().encode() + b"\n" + line + b"\n")
    with pytest.raises(InvalidInput, match=named) as refused:
        list(read_rollouts(path))
    assert refused.value.reason == "INVALID_FILE"


def test_a_file_that_is_not_there_is_told_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"gone\.jsonl"):
        list(read_rollouts(tmp_path / "gone.jsonl"))
