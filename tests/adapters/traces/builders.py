"""Places by hand: rollouts as a trainer keeps them, a job's trials with their trajectories; and datasets read back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from ledger.client.rollouts import Message, Rollout, path_of, write_rollouts
from tests.adapters.builders import result, trial

KEY = "hf_" + "aB3" * 8
"""Has the shape of a secret, and is none."""


def rollout(step: int = 1, sample: int = 0, *, group: str = "g0", attempt: int = 1, **fields: Any) -> Rollout:
    """One that was consumed and trained on, unless the fields say otherwise."""
    answer = fields.pop("answer", f"answer {sample}")
    messages = [Message(role="user", content="2 + 2?")]
    if answer is not None:
        messages.append(Message(role="assistant", content=answer))
    said: dict[str, Any] = {
        "run_id": "arm-0",
        "attempt": attempt,
        "step": step,
        "weight_version": step - 1,
        "trial_id": f"a{attempt}-s{step}-{fields.get('phase', 'train')}-{group}-{sample}",
        "group": group,
        "sample": sample,
        "task_id": "sums/1",
        "dataset_id": "sums",
        "dataset_revision": "d1",
        "verifier_revision": "v1",
        "atlas_id": "Open:sums",
        "messages": messages,
        "prompt_token_ids": [1, 2],
        "completion_token_ids": [3, 4, 5],
        "logprobs": [-0.5, -0.25, -0.125],
        "reward": 1.0,
        "finish_reason": "stop",
        "consumed": True,
        "masked": False,
        "trained": True,
        "advantage": 0.5,
        "started_at": "2026-07-29T10:00:00Z",
        "finished_at": "2026-07-29T10:00:05Z",
    }
    return Rollout(**{**said, **fields})


def keep(folder: Path, *rollouts: Rollout) -> Path:
    """Writes rollouts where a trainer keeps them; those of one file at once."""
    by_file: dict[Path, list[Rollout]] = {}
    for each in rollouts:
        by_file.setdefault(path_of(folder, each.attempt, each.step, each.phase), []).append(each)
    for path, lines in by_file.items():
        write_rollouts(path, lines)
    return folder


def trajectory(*steps: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    agent = {"name": "opencode", "version": "1", "model_name": "served-alias"}
    numbered = [{"step_id": number, **step} for number, step in enumerate(steps, start=1)]
    return {"schema_version": "ATIF-v1.6", "session_id": "s", "agent": agent, "steps": numbered, **fields}


def asked(message: str = "Make it work.") -> dict[str, Any]:
    return {"source": "user", "message": message}


def acted(message: str, **fields: Any) -> dict[str, Any]:
    return {"source": "agent", "message": message, **fields}


def solved(
    job: Path, name: str, *steps: Mapping[str, Any], files: Mapping[str, Any] | None = None, **said: Any
) -> None:
    """A trial with a result and a trajectory; more files and fields of the result as given."""
    made = {
        "config.json": {"trial_name": name},
        "result.json": result(name, **{"verifier_result": {"rewards": {"reward": 1.0}}, "id": f"id-{name}", **said}),
        "agent/trajectory.json": trajectory(*(steps or (asked(), acted("Done.")))),
    }
    trial(job, name, {k: v for k, v in {**made, **(files or {})}.items() if v is not None})


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """The rows of a dataset, shard by shard."""
    return [row for path in sorted((folder / "data").iterdir()) for row in pq.read_table(path).to_pylist()]


def by_name(rows: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    return {row["trial_name"]: row for row in rows}


def said_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "manifest.json").read_text())
