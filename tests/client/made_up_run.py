"""A made-up run with something in every field that a card tells, and the events that it cites."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from google.protobuf import json_format

from ledger.client.cards.record import Record, Series
from ledger.core import clock, merkle, strictjson
from ledger.wire import log_pb2, runs_pb2

RUN = "blue-arm-0"
SIZE = 90
PAGE = "https://pages.example/blue"
CLAIMED = {"kind": "claimed", "url": PAGE, "note": "The page has no date."}
REWARD = "reward/avg_raw_reward"
START_US = 1_790_000_000_000_000


def digest(of: str) -> str:
    return hashlib.sha256(of.encode()).hexdigest()


SOURCE: dict[str, Any] = {
    "id": "Example:blue",
    "origin": "Example",
    "quality": "good",
    "applicability": "current",
    "reasons": [{"field": "quality", "rule": "rated", "text": "Rated good", "events": ["3"]}],
}
DEFECT = {"id": "d-1", "kind": "verifier", "status": "open", "summary": "An empty workspace passes", "pos": "70"}

DECLARED: dict[str, Any] = {
    "run_id": RUN,
    "campaign_id": "blue-sweep",
    "arm": "arm-0",
    "purpose": "Compare data sources; not models.",
    "rl_start": {
        "name": "example/base-8b-131k",
        "repository": "example/base-8b-131k",
        "commit": "4015b57a",
        "parameters": "8190735360",
        "license": "apache-2.0",
    },
    "root_architecture": {"name": "example/root-8b"},
    "sources": [
        {
            "atlas_id": "Example:blue",
            "dataset_id": "example/blue-tasks",
            "dataset_revision": "d1",
            "verifier_revision": "v1",
            "task_count": "5000",
            "role": "train",
        }
    ],
    "code": [{"role": "trainer", "name": "skyrl", "commit": "a559688c", "dirty": True}],
    "algorithm": {"advantage_estimator": "rloo_n", "use_tis": True, "learning_rate": 8e-6, "max_input_length": "32768"},
    "parallelism": {"strategy": "fsdp2", "nodes": "14", "devices_per_node": "4"},
    "sandbox_provider": "boxes",
    "agent_harness": "opencode",
    "planned_steps": "80",
    "checkpoint_interval": "5",
    "consumption_size": "9",
    "consumption_receipt": {"name": "receipt.json", "sha256": digest("receipt")},
}

CHECKPOINT: dict[str, Any] = {
    "step": "15",
    "attempt": "1",
    "last_update": "15",
    "digest": digest("checkpoint"),
    "status": "committed",
    "committed_pos": "30",
    "format": "fsdp_shards",
    "total_bytes": "98304",
    "contents": {"weights": True, "rng": False},
    "scored_by_step": "16",
    "reward": 0.8418,
    "ema": 0.8639,
    "eligible": True,
    "lineage": [{"attempt": "1", "first_step": "1", "last_step": "15"}],
    "before_collapse": True,
    "selected": True,
    "basis": "recorded",
}

SELECTION: dict[str, Any] = {
    "pos": "45",
    "step": "15",
    "attempt": "1",
    "purpose": "export",
    "rule": {"id": "trailing-ema", "version": "1", "metric": REWARD, "alpha": 0.25, "interval": "5"},
    "recorded_ema": 0.8639,
    "recorded_reward": 0.8418,
    "computed_ema": 0.8639,
    "computed_reward": 0.8418,
    "computed_step": "15",
    "recomputed": "agrees",
    "eligible_steps": ["10", "15"],
    "best_step_of_all": "14",
    "best_ema_of_all": 0.875,
    "implied_previous_ema": 0.87495,
    "best": "among_eligible_steps",
    "wording": "optimal",
    "basis": "claimed",
    "notes": ["The interval is that of exports."],
}

RUN_FIELDS: dict[str, Any] = {
    "summary": {
        "id": RUN,
        "campaign_id": "blue-sweep",
        "arm": "arm-0",
        "status": "failed",
        "reason": "entropy runaway",
        "attempts": 1,
        "planned_steps": "80",
        "last_step": "38",
        "last_durable_step": "15",
        "basis": "recorded",
        "first_pos": "10",
        "last_pos": "80",
        "sample": True,
        "completeness": "complete_except",
    },
    "declared": DECLARED,
    "declared_pos": "11",
    "earlier_declarations": ["10"],
    "attempts": [
        {
            "attempt": "1",
            "started_pos": "12",
            "first_step": "1",
            "last_step": "38",
            "steps": "38",
            "status": "failed",
            "reason": "no memory",
            "error_type": "OutOfMemory",
            "ended_pos": "60",
            "abandoned_steps": "2",
        }
    ],
    "configs": [{"attempt": "1", "moment": "start", "digest": digest("config"), "pos": "13", "drifted": True}],
    "drifts": [{"attempt": "1", "pos": "14", "changes": [{"path": "trainer.lr", "before": "1e-6", "after": "8e-6"}]}],
    "checkpoints": [CHECKPOINT],
    "selections": [SELECTION],
    "anomalies": [
        {
            "kind": "entropy_runaway",
            "origin": "derived",
            "onset_step": "31",
            "numbers": [{"name": "ratio", "value": 30.2}],
            "positions": ["50"],
            "rule": "entropy-runaway-1",
        },
        {
            "kind": "reward_collapse",
            "origin": "claimed",
            "seen_at_step": "38",
            "statement": "reward collapsed to 0.000",
            "positions": ["61"],
        },
    ],
    "reward": {
        "metric": REWARD,
        "steps": "38",
        "first": 0.31,
        "last": 0.0,
        "max": 0.91,
        "max_step": "12",
        "last_ema": 0.11,
        "not_finite": "1",
        "alpha": 0.25,
        "entropy_first": 0.4,
        "entropy_last": 12.1,
    },
    "completeness": {
        "verdict": "complete_except",
        "exceptions": ["Metrics of steps 20 to 21 were dropped"],
        "producers": [{"producer": "rank-0", "epoch": "1", "dropped": "2", "refused": "1"}],
    },
    "coverage": {
        "started": "520",
        "finished": "512",
        "consumed": "480",
        "masked": "20",
        "errors": [{"exception_type": "AgentTimeoutError", "treatment": "mask", "count": "12"}],
        "groups": [{"disposition": "discarded", "reason": "stale", "groups": "3", "samples": "24"}],
        "positions": ["25", "26"],
        "limits": ["Only step 15 was counted."],
    },
    "objective": {
        "identity": [
            {"name": "advantage_estimator", "value": "rloo_n", "origin": "declared"},
            {"name": "use_tis", "value": "true", "origin": "declared"},
            {"name": "loss_reduction", "value": "token_mean", "origin": "config"},
        ],
        "tis_skipped_fraction": 0.2,
        "tis_applied_steps": "30",
        "tis_steps": "38",
        "clip": "inert",
        "kl": "not_measured",
        "notes": ["With a micro batch of 1, token_mean and sequence_mean are one number."],
    },
    "claims": [
        {
            "pos": "62",
            "claim": {
                "subject": {"kind": "run", "id": RUN},
                "topic": "benchmark",
                "statement": "no benchmark numbers are claimed here",
                "absent": True,
                "basis": CLAIMED,
            },
            "standing": "not_checkable",
        },
        {
            "pos": "63",
            "claim": {
                "subject": {"kind": "run", "id": RUN},
                "topic": "entropy.ratio",
                "statement": "entropy rose to roughly 30x",
                "number": 30.0,
                "basis": CLAIMED,
            },
            "standing": "agrees",
            "against": "a ratio of 30.2",
        },
        {
            "pos": "64",
            "claim": {
                "subject": {"kind": "traces", "id": RUN},
                "topic": "traces.coverage",
                "statement": "these are the rollouts the policy was trained on",
                "basis": CLAIMED,
            },
            "standing": "contradicts",
        },
    ],
    "traces": [
        {
            "pos": "65",
            "repository": "example/blue-traces",
            "commit": "c0ffee",
            "episodes": "last",
            "coverage": {"started": "520", "published": "500"},
            "basis": "recorded",
        }
    ],
    "logs": [
        {
            "pos": "66",
            "repository": "example/blue",
            "commit": "c0ffee",
            "files": [{"path": "training_logs/metrics.csv", "sha256": digest("csv"), "size": "2048"}],
            "redactions": [{"shape": "jwt", "count": "2"}],
            "basis": "recorded",
        }
    ],
    "flags": [{"code": "STEP_WENT_BACK", "message": "step 3 after step 5", "positions": ["21"]}],
    "ended_pos": "61",
    "evaluations": [
        {"attempt": "1", "step": "5", "evaluation": {"data_source": "held-out", "metrics": {"score": 0.5}}, "pos": "28"}
    ],
    "weight_syncs": {"count": "38", "probed": "4", "failed": "1", "failed_positions": ["29"]},
}

EXPORT: dict[str, Any] = {
    "id": "blue-15",
    "checkpoint": {"run_id": RUN, "step": "15", "digest": digest("checkpoint")},
    "status": "published",
    "route": "rerun",
    "started": {
        "export_id": "blue-15",
        "route": "rerun",
        "route_note": "in a job of its own",
        "code": [{"role": "export_tool", "name": "bridge", "version": "0.3"}],
    },
    "started_pos": "46",
    "completed_pos": "47",
    "completed": {
        "export_id": "blue-15",
        "digest": digest("export"),
        "shard_count": "4",
        "total_size": "16381470720",
        "parameter_count": "8190735360",
        "dtypes": ["BF16"],
        "checkpoint_digest_before": digest("checkpoint"),
        "checkpoint_digest_after": digest("checkpoint"),
    },
    "verified_pos": "48",
    "numbers": {
        "shard_files": "4",
        "shards_named": "4",
        "shards_in_names": "4",
        "index_total_size": "16381470720",
        "tensor_bytes": "16381470720",
        "tensors_in_index": "399",
        "tensors_in_shards": "399",
    },
    "checks": [{"name": "weight_map", "outcome": "passed"}],
    "models": [
        {
            "pos": "49",
            "repository": "example/blue-step-15-8b",
            "commit": "beef",
            "license": "apache-2.0",
            "tags": ["rl", "blue"],
            "files_agree": True,
            "basis": "recorded",
        }
    ],
    "hosting": [
        {
            "pos": "72",
            "host": "hosting.example",
            "observed_at": "2026-08-02T07:00:00Z",
            "observations": [{"field": "context_size", "value": "32k"}, {"field": "quant", "value": "FP8"}],
        },
        {
            "pos": "73",
            "host": "other.example",
            "observed_at": "2026-08-03T07:00:00Z",
            "observations": [{"field": "context_size", "value": "128k"}],
        },
    ],
    "basis": "recorded",
}

DOSSIER: dict[str, Any] = {
    "run": RUN_FIELDS,
    "coordinates": {
        "size": str(SIZE),
        "recorded_at_us": str(START_US + SIZE - 1),
        "run_rules": "training-1",
        "run_rules_digest": digest("rules"),
        "redactions_through": str(SIZE),
    },
    "sources": [
        {
            "atlas_id": "Example:blue",
            "start_size": "12",
            "at_start": SOURCE,
            "selection_size": "46",
            "at_selection": SOURCE,
            "now": {**SOURCE, "quality": "bad", "open_defects": [DEFECT]},
            "turned": ["70"],
        }
    ],
    "exports": [EXPORT],
    "campaign": {
        "id": "blue-sweep",
        "declared_pos": "9",
        "declared": {
            "campaign_id": "blue-sweep",
            "title": "Blue",
            "purpose": "The sweep measures dataset quality, not model quality.",
            "compares": "sources",
        },
    },
}

CLAIMED_AT = frozenset({45, 61, 62, 63, 64})
"""Events that carry the basis of a claim."""


def dossier(fields: Mapping[str, Any] = DOSSIER) -> runs_pb2.RunAsOfResponse:
    return json_format.ParseDict(dict(fields), runs_pb2.RunAsOfResponse())


def record(fields: Mapping[str, Any] = DOSSIER, *, series: bool = True, export_id: str | None = None) -> Record:
    rows = [runs_pb2.StepRow(attempt=1, step=step, pos=14 + step) for step in range(1, 39)] if series else []
    return Record(dossier(fields), Series.of(rows), reports=(58,), export_id=export_id)


def event(pos: int, type_: str = "", payload: Mapping[str, Any] | None = None) -> log_pb2.Event:
    """An event at a position; what it holds is of interest only for its basis."""
    body = payload if payload is not None else ({"basis": CLAIMED} if pos in CLAIMED_AT else {})
    header = {
        "id": f"0199-{pos:04}",
        "pos": pos,
        "type": type_ or ("hosting.observed" if pos in (72, 73) else "steps.logged"),
        "recorded_at": clock.to_text(START_US + pos),
    }
    raw = strictjson.dumps(header)
    return log_pb2.Event(pos=pos, header=raw, leaf_hash=merkle.leaf_hash(raw), payload=strictjson.dumps(body))


def fetch(positions: Iterable[int]) -> Iterator[log_pb2.Event]:
    return map(event, positions)


if __name__ == "__main__":  # writes the reviewed card anew
    from pathlib import Path

    from ledger.client.cards.model_card import model_card

    Path(__file__).with_name("made_up_card.md").write_text(model_card(record(), fetch), encoding="utf-8")
