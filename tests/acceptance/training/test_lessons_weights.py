"""Weights in the rollout engines and in the trainer: what a probe, a version and a backend's name show.

A test bears the number of the lesson in the domain's list.
"""

from __future__ import annotations

import math
from typing import Any

import pytest

from ledger.wire import runs_pb2
from tests.acceptance.training.trained import ALGORITHM, ENGINE, REWARD, TRAINER, Trained


def sync(rec: Any, step: int, difference: float | None, **fields: Any) -> None:
    """The weights after a step are sent to four engines, and a probe prompt is scored on both sides."""
    said = {"step": step, "weight_version": step, "engines": 4, "probe_tolerance": 0.02, **fields}
    rec.record("weights.synced", said if difference is None else {**said, "probe_difference": difference})


def counts(syncs: runs_pb2.WeightSyncs) -> tuple[int, int, int]:
    return syncs.count, syncs.probed, syncs.failed


def test_lesson_25_engines_that_dropped_their_weights_are_found_by_the_probe_though_rewards_look_well(
    arm: Trained,
) -> None:
    with arm.recorder() as rec:
        arm.declare(rec)
        rec.start_attempt()
        for step, difference in ((1, 0.004), (2, 0.005), (3, 4.1)):
            sync(rec, step, difference)
            arm.steps(rec, {step + 1: 0.5 + step / 100})
    syncs = arm.run().weight_syncs
    assert counts(syncs) == (3, 3, 1)
    assert [p["step"] for p in map(arm.doors.payload, syncs.failed_positions)] == [3]
    assert arm.flagged("WEIGHTS_NOT_IN_ENGINES") == (
        "after step 3 of attempt 1 a probe differed by 4.1 between engine and trainer, over its tolerance of 0.02"
    )
    assert "Weights were sent to the rollout engines 3 times, 3 of them probed and 1 found to differ" in arm.card()


def test_lesson_26_a_resume_after_which_no_weights_were_sent_is_flagged(arm: Trained) -> None:
    with arm.recorder() as rec:
        arm.declare(rec)
        rec.start_attempt()
        arm.steps(rec, dict.fromkeys(range(1, 6), 0.5))
        sync(rec, 5, 0.004)
        arm.save(rec, 5)
    with arm.recorder() as rec:
        rec.start_attempt(resumed_from={"step": 5, "attempt": 1})
        arm.steps(rec, {6: 0.1, 7: 0.1})
    assert arm.flagged("NO_WEIGHTS_SENT_AFTER_RESUME") == (
        "attempt 2 began at step 5 and logged steps, and no weights were sent to the engines in it"
    )


def test_lesson_26_a_resume_whose_engines_kept_other_weights_is_found_by_its_first_probe(arm: Trained) -> None:
    with arm.recorder() as rec:
        arm.declare(rec)
        rec.start_attempt()
        arm.steps(rec, dict.fromkeys(range(1, 6), 0.5))
        sync(rec, 5, 0.004)
        arm.save(rec, 5)
    with arm.recorder() as rec:
        rec.start_attempt(resumed_from={"step": 5, "attempt": 1})
        sync(rec, 5, 2.5)
        arm.steps(rec, {6: 0.1})
    assert arm.flagged("WEIGHTS_NOT_IN_ENGINES").startswith("after step 5 of attempt 2 a probe differed by 2.5")
    assert "NO_WEIGHTS_SENT_AFTER_RESUME" not in arm.codes()


def test_lesson_27_an_adapter_that_never_reaches_the_engines_fails_every_probe_and_the_reward_stands_still(
    arm: Trained,
) -> None:
    with arm.recorder() as rec:
        arm.declare(rec, algorithm={**ALGORITHM, "other": {"trainer.policy.model.lora.rank": 32}})
        rec.start_attempt()
        for step in range(1, 6):
            arm.steps(rec, {step: 0.25})
            sync(rec, step, 0.3 + step / 10)
    run = arm.run()
    assert counts(run.weight_syncs) == (5, 5, 5)
    assert (run.reward.first, run.reward.max, run.reward.last) == (0.25, 0.25, 0.25)
    assert arm.flagged("WEIGHTS_NOT_IN_ENGINES").endswith("; and 4 more like it")


@pytest.mark.parametrize("difference", [0.5, math.nan, math.inf], ids=["over", "nan", "infinite"])
def test_lesson_28_drift_of_log_probabilities_is_measured_even_where_nothing_is_learned(
    arm: Trained, difference: float
) -> None:
    with arm.recorder() as rec:
        arm.declare(rec, algorithm={**ALGORITHM, "learning_rate": 0.0})
        rec.start_attempt()
        rec.step(1, {REWARD: 0.4, "policy/rollout_train_prob_diff_mean": 0.07})
        sync(rec, 1, difference)
    assert counts(arm.run().weight_syncs) == (1, 1, 1)
    assert "WEIGHTS_NOT_IN_ENGINES" in arm.codes()
    (row,) = arm.rows()
    assert row.metrics["policy/rollout_train_prob_diff_mean"] == 0.07


def test_lesson_28_weights_that_were_not_probed_are_not_said_to_agree(arm: Trained) -> None:
    with arm.recorder() as rec:
        arm.declare(rec)
        rec.start_attempt()
        sync(rec, 1, None)
        sync(rec, 2, 0.001)
    assert counts(arm.run().weight_syncs) == (2, 1, 0)


def test_lesson_29_the_emitter_carries_its_own_weight_version_on_steps_samples_and_saves(arm: Trained) -> None:
    with arm.recorder() as rec:
        arm.declare(rec)
        rec.start_attempt()
        rec.step(7, {REWARD: 0.4}, weight_version=3)
        sampled = {"engine": "0", "sampled_at": "2026-07-29T09:00:00Z", "step": 7, "weight_version": 3}
        rec.record("engine.sampled", {"samples": [{**sampled, "metrics": {"num_requests_running": 4.0}}]})
        sync(rec, 7, 0.001, weight_version=4)
        arm.save(rec, 7, weight_version=4)
    assert [(row.step, row.weight_version) for row in arm.rows()] == [(7, 3)]
    (samples,) = arm.payloads("engine.sampled")
    (committed,) = arm.payloads("checkpoint.committed")
    assert (samples["samples"][0]["weight_version"], committed["weight_version"]) == (3, 4)
    assert arm.codes() == []


def test_lesson_29_rollouts_of_older_weights_than_before_are_flagged(arm: Trained) -> None:
    with arm.recorder() as rec:
        arm.declare(rec)
        rec.start_attempt()
        for step, version in ((1, 0), (2, 1), (3, 0)):
            rec.step(step, {REWARD: 0.4}, weight_version=version)
    assert arm.flagged("WEIGHT_VERSION_WENT_BACK") == "step 3 of attempt 1 rolled out weights 0, after weights 1"


@pytest.mark.parametrize(
    ("changed", "name"),
    [
        ({"parallelism": {"strategy": "megatron"}}, "strategy"),
        ({"code": [TRAINER, {**ENGINE, "name": "sglang"}]}, "rollout_engine"),
        ({"code": [TRAINER, {**ENGINE, "version": "0.12.0"}]}, "rollout_engine_commit"),
    ],
    ids=["strategy", "engine", "engine's version"],
)
def test_lesson_30_arms_on_another_backend_are_not_compared(
    arm: Trained, other_arm: Trained, changed: dict[str, Any], name: str
) -> None:
    campaign = f"sweep-{arm.id}"
    pinned = {"dataset_id": "org/tasks", "dataset_revision": "d" * 40, "verifier_revision": "e" * 40}
    for trained, differs in ((arm, {}), (other_arm, changed)):
        with trained.recorder() as rec:
            declared = {"campaign_id": campaign, "parallelism": {"strategy": "fsdp2"}, **differs}
            trained.declare(rec, {"atlas_id": None, **pinned}, **declared)
            rec.start_attempt()
            trained.steps(rec, {1: 0.4, 2: 0.5})
    sweep = arm.sweep(campaign)
    assert [list(group.runs) for group in sweep.groups] == [[arm.id], [other_arm.id]]
    assert name in sweep.groups[1].differs_in
    together = arm.sweep(campaign, compare_unlike=True)
    assert any("Unlike arms are compared" in warning for warning in together.groups[0].warnings)
