"""What a run leaves in the ledger: every event that the vocabulary has for it, in the order in which things happened."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from ledger.client.recording.files import read_files
from ledger.client.testing import FakeLedger
from ledger.core.errors import InvalidInput
from services.trainer import attempts
from services.trainer.attempts import Opening
from services.trainer.data_orders import DataOrder
from services.trainer.models import LoadedModel
from services.trainer.objective.identity import algorithm_fields
from services.trainer.provenance import Provenance, cited, open_recorder, trainer_revision
from services.trainer.rollouts.engines import Completion, Sampling, Weights
from services.trainer.rollouts.probing import StaleWeights
from services.trainer.rollouts.transformers_engine import TransformersEngine
from services.trainer.settings import Settings
from services.trainer.tasks.opening import open_task_set
from tests.trainer.runs import Ran, settings, train


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[Ran, FakeLedger]:
    data = [{"kind": "digits", "count": 10, "atlas_id": "O:digits"}, {"kind": "sums", "count": 3, "role": "eval"}]
    with FakeLedger() as ledger:
        ran = train(
            settings(
                tmp_path_factory.mktemp("told"),
                data=data,
                run={"purpose": "A test.", "campaign": "c", "arm": "a", "eval_interval": 4},
                export={"enabled": True},
            ),
            address=ledger.address,
        )
    return ran, ledger


def test_events_come_in_the_order_of_what_happened(told):
    _, ledger = told
    step = ["weights.synced", "steps.logged", "groups.disposed", "rollouts.summarised"]
    save = ["checkpoint.save_started", "checkpoint.committed"]
    evaluation = ["rollouts.summarised", "eval.logged"]
    assert [e.type for e in ledger.events] == [
        "run.declared",
        "attempt.started",
        "config.recorded",
        "weights.synced",
        *evaluation,
        *step,
        *step,
        *save,
        *step,
        *step,
        *evaluation,
        *save,
        "checkpoint.selected",
        "attempt.ended",
        "run.ended",
        "export.started",
        "export.completed",
        "export.verified",
        "recording.reported",
    ]


def test_a_run_says_what_it_is(told):
    ran, ledger = told
    said = ledger.of_type("run.declared")[0].payload
    assert (said["purpose"], said["campaign_id"], said["arm"]) == ("A test.", "c", "a")
    assert (said["planned_steps"], said["checkpoint_interval"]) == (4, 2)
    tasks = open_task_set(ran.settings.data[0])
    assert said["sources"][0] == {
        "atlas_id": "O:digits",
        "dataset_id": "builtin/digits",
        "dataset_revision": tasks.dataset_revision,
        "verifier_revision": tasks.verifier_revision,
        "task_count": 10,
    }
    assert said["sources"][1]["role"] == "eval"
    assert said["rl_start"]["digest"]
    expected = {k: v for k, v in algorithm_fields(ran.settings, 1).items() if v is not None}
    assert said["algorithm"] == json.loads(json.dumps(expected))
    versions = {(c["role"], c["name"]): c.get("version") for c in said["code"]}
    assert versions["other", "torch"] == torch.__version__.partition("+")[0] or versions["other", "torch"]
    assert versions["trainer", "atlas-ledger"] is not None
    assert ("rollout_engine", "transformers") in versions


def test_a_step_is_of_the_weights_before_it_and_a_sync_of_those_after(told):
    _, ledger = told
    steps = [e.payload["steps"][0] for e in ledger.of_type("steps.logged")]
    assert [(s["step"], s["weight_version"]) for s in steps] == [(1, 0), (2, 1), (3, 2), (4, 3)]
    synced = [e.payload for e in ledger.of_type("weights.synced")]
    assert [(s["step"], s["weight_version"]) for s in synced] == [(n, n) for n in range(5)]
    assert all(s["probe_difference"] < s["probe_tolerance"] for s in synced)


def test_a_step_has_the_keys_of_skyrl_and_none_for_what_was_not_measured(told):
    _, ledger = told
    metrics = ledger.of_type("steps.logged")[0].payload["steps"][0]["metrics"]
    expected = [
        "reward/avg_raw_reward",
        "reward/avg_pass_at_8",
        "loss/avg_final_rewards",
        "loss/avg_raw_advantages",
        "loss/avg_raw_advantages_abs",
        "policy/final_loss",
        "policy/policy_loss",
        "policy/policy_lr",
        "policy/ppo_clip_ratio",
        "policy/policy_entropy",
        "policy/raw_grad_norm",
        "policy/policy_update_steps",
        "policy/log_ratio_abs_mean",
        "policy/rollout_train_prob_diff_mean",
        "generate/avg_num_tokens",
        "generate/num_failed_trajectories",
        "generate/trajectories_truncated",
        "timing/step",
        "timing/generate",
        "timing/policy_train",
        "timing/sync_weights",
        "trainer/global_step",
        "trainer/epoch",
        "rloo/groups",
        "rloo/groups_tied",
        "rloo/groups_trained",
    ]
    assert set(expected) <= metrics.keys()
    assert not [name for name in metrics if "kl" in name or name.startswith("tis/")]


def test_a_checkpoint_is_told_with_the_digest_of_its_files(told):
    ran, ledger = told
    for event in ledger.of_type("checkpoint.committed"):
        said = event.payload
        assert said["digest"] == read_files(ran.folder / "checkpoints" / f"global_step_{said['step']}").digest
        assert (said["last_update"], said["weight_version"]) == (said["step"], said["step"])
        assert said["contents"] == dict.fromkeys(["weights", "optimizer", "scheduler", "rng", "data_state"], True)
        assert said["data_state"]["prompts_consumed"] == 4 * said["step"]
        assert len(said["data_state"]["consumed_digest"]) == 64


def test_the_groups_of_a_step_are_told_by_what_became_of_them(told):
    _, ledger = told
    trained = 0
    for event, step in zip(ledger.of_type("groups.disposed"), ledger.of_type("steps.logged"), strict=True):
        metrics = step.payload["steps"][0]["metrics"]
        kinds = [g["disposition"] for g in event.payload["groups"]]
        assert len(kinds) == 4
        assert kinds.count("consumed") == metrics["rloo/groups_trained"]
        assert kinds.count("filtered") == metrics["rloo/groups_tied"]
        assert all("tied" in g["reason"] for g in event.payload["groups"] if g["disposition"] == "filtered")
        trained += kinds.count("consumed")
    last = ledger.of_type("checkpoint.committed")[-1].payload
    assert last["data_state"]["prompts_trained"] == trained


def test_of_very_many_groups_only_the_counts_are_told(tmp_path):
    given = settings(tmp_path)
    found = [("consumed", None)] * 1_500 + [("filtered", "tied")] * 900
    prompts = DataOrder([open_task_set(given.data[0])], 0).take(len(found))
    with FakeLedger() as ledger, open_recorder(given, ledger.address, 1) as recorder:
        Provenance(recorder, given).disposed(1, prompts, found, 0)
        recorder.flush()
    said = ledger.of_type("groups.disposed")[0].payload
    assert "groups" not in said
    assert [(c["disposition"], c["groups"], c["samples"]) for c in said["counts"]] == [
        ("consumed", 1_500, 12_000),
        ("filtered", 900, 7_200),
    ]


def test_the_end_is_told_with_its_last_step(told):
    _, ledger = told
    ended = ledger.of_type("attempt.ended")[0].payload
    assert (ended["ending"], ended["last_step"]) == ("completed", 4)
    assert ledger.of_type("run.ended")[0].payload["planned_steps"] == 4


def test_nothing_is_lost_while_the_ledger_is_away(tmp_path):
    with FakeLedger() as ledger:
        ledger.away = True
        train(settings(tmp_path, run={"steps": 2}), address=None)
        assert ledger.events == []
        ledger.away = False
        train(settings(tmp_path), address=ledger.address)
    kinds = [e.type for e in ledger.events]
    assert kinds.count("attempt.started") == 2
    assert kinds.count("steps.logged") == 4
    drifted = ledger.of_type("config.drifted")[0].payload
    assert [(c["path"], c["before"], c["after"]) for c in drifted["changes"]] == [("run.steps", "2", "4")]
    loaded = ledger.of_type("checkpoint.loaded")[0].payload
    committed = ledger.of_type("checkpoint.committed")[0].payload
    assert loaded["digest"] == committed["digest"]
    assert loaded["restored"]["rng"]


class KeepsOldWeights(TransformersEngine):
    """An engine whose loads succeed and change nothing after the second one, however often it is started anew."""

    loads = 0

    def load(self, weights: Weights) -> None:
        KeepsOldWeights.loads += 1
        if KeepsOldWeights.loads <= 2:
            super().load(weights)

    def close(self) -> None:
        """It keeps its model."""


class Fails(TransformersEngine):
    """Every third answer is a failure."""

    def generate(self, prompts: Sequence[Sequence[int]], sampling: Sampling) -> list[list[Completion]]:
        found = super().generate(prompts, sampling)
        broken = Completion((), None, "error", "Broken")
        return [[broken if j % 3 == 0 else c for j, c in enumerate(answers)] for answers in found]


def opening(kind: type[TransformersEngine]) -> Opening:
    def opened(_: Settings, loaded: LoadedModel) -> TransformersEngine:
        return kind(loaded.model.config, dtype=loaded.model.dtype, device=loaded.device, ends=loaded.stop_ids)

    return opened


def test_an_engine_that_keeps_old_weights_ends_the_attempt_as_failed(tmp_path):
    with FakeLedger() as ledger, pytest.raises(StaleWeights):
        train(
            settings(tmp_path, rollouts={"probe_tolerance": 1e-5}),
            address=ledger.address,
            opening=opening(KeepsOldWeights),
        )
    ended = ledger.of_type("attempt.ended")[0].payload
    assert ended["ending"] == "failed"
    assert ended["error_type"] == "StaleWeights"
    assert "does not sample from weights" in ended["reason"]
    assert not ledger.of_type("run.ended")
    steps = [e.payload["steps"][0]["step"] for e in ledger.of_type("steps.logged")]
    assert steps == [n + 1 for n in range(len(steps))]
    assert len(steps) == len(ledger.of_type("weights.synced"))  # the last one was made, and never sent


def test_failures_of_an_engine_are_masked_and_counted(tmp_path):
    with FakeLedger() as ledger:
        train(
            settings(
                tmp_path,
                run={"steps": 1},
                algorithm={
                    "advantage_estimator": "rloo_n",
                    "rloo_n_min_group_size": 6,
                    "use_tis": True,
                    "tis_imp_ratio_cap": 2.0,
                },
            ),
            address=ledger.address,
            opening=opening(Fails),
        )
    groups = ledger.of_type("groups.disposed")[0].payload["groups"]
    assert {g["disposition"] for g in groups} == {"masked"}
    assert groups[0]["reason"] == "5 of 8 samples have a reward, and 6 are needed"
    summary = ledger.of_type("rollouts.summarised")[0].payload
    assert (summary["started"], summary["finished"], summary["masked"], summary["trained"]) == (32, 20, 12, 0)
    metrics = ledger.of_type("steps.logged")[0].payload["steps"][0]["metrics"]
    assert metrics["generate/errors/Broken"] == 12
    assert metrics["rloo_n/groups_below_minimum"] == 4
    assert metrics["policy/tis/applied_sequence_fraction"] == 1


def test_a_receipt_is_cited_and_what_is_none_starts_nothing(tmp_path):
    file = tmp_path / "consumption.json"
    file.write_text("{}")
    with FakeLedger() as ledger, pytest.raises(InvalidInput, match="receipt"):
        train(settings(tmp_path / "run"), address=ledger.address, receipt=file)
    assert ledger.events == []
    with pytest.raises(InvalidInput):
        cited(tmp_path / "missing.json")


def test_the_commit_is_told_where_the_package_lies_in_its_own_git_tree():
    told = trainer_revision()
    root = Path(attempts.__file__).parents[2]
    done = subprocess.run(["git", "-C", root, "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    if done.returncode:
        assert (told["commit"], told["dirty"]) == (None, None)
    else:
        assert told["commit"] == done.stdout.strip()
        assert isinstance(told["dirty"], bool)
