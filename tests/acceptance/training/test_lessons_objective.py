"""What an objective's name hides, and what its metrics can and cannot say.

A test bears the number of the lesson in the domain's list.
"""

from __future__ import annotations

from typing import Any

import pytest

from ledger.client.reader import coordinates
from ledger.wire import runs_pb2
from tests.acceptance.training.trained import ALGORITHM, ENTROPY, REWARD, TRAINER, Trained

PINNED = {"atlas_id": None, "dataset_id": "org/t", "dataset_revision": "d" * 40, "verifier_revision": "e" * 40}


def trained_with(trained: Trained, campaign: str | None = None, code: str = "a559688c", **algorithm: Any) -> None:
    """Two steps under an objective."""
    with trained.recorder() as rec:
        objective = {**ALGORITHM, **algorithm}
        code_revisions = [{**TRAINER, "commit": code}]
        trained.declare(rec, PINNED, campaign_id=campaign, algorithm=objective, code=code_revisions)
        rec.start_attempt()
        trained.steps(rec, {1: 0.4, 2: 0.5})


def test_lesson_31_token_mean_over_single_sequences_is_said_to_be_the_same_number_as_sequence_mean(
    arm: Trained,
) -> None:
    trained_with(arm, loss_reduction="token_mean", micro_train_batch_size_per_gpu=1)
    (note,) = [note for note in arm.run().objective.notes if "sequence_mean" in note]
    assert note.endswith("comparing the two compares nothing")
    assert "comparing the two compares nothing" in arm.card()


def test_lesson_31_a_reduction_without_its_micro_batch_size_is_said_to_mean_nothing(arm: Trained) -> None:
    trained_with(arm, loss_reduction="token_mean", micro_train_batch_size_per_gpu=None)
    notes = list(arm.run().objective.notes)
    assert "token_mean means nothing without the micro-batch size, which is not recorded" in notes


@pytest.mark.parametrize(
    ("changed", "name"),
    [
        ({"code": "bbbbbbbb"}, "trainer_commit"),
        ({"micro_train_batch_size_per_gpu": 4}, "micro_train_batch_size_per_gpu"),
        ({"policy_mini_batch_size": 32}, "policy_mini_batch_size"),
    ],
    ids=["code", "micro batch", "mini batch"],
)
def test_lesson_31_one_reduction_under_other_code_or_another_geometry_is_another_objective(
    arm: Trained, other_arm: Trained, changed: dict[str, Any], name: str
) -> None:
    campaign = f"sweep-{arm.id}"
    trained_with(arm, campaign, loss_reduction="token_mean")
    trained_with(other_arm, campaign, loss_reduction="token_mean", **changed)
    sweep = arm.sweep(campaign)
    assert [list(group.runs) for group in sweep.groups] == [[arm.id], [other_arm.id]]
    assert list(sweep.groups[1].differs_in) == [name]


def collapsing(arm: Trained) -> runs_pb2.Run:
    """Entropy doubles every other step from step 11 on, thirty times at last; the reward falls to nothing."""
    steps = range(1, 22)
    entropy = {step: 0.4 * 2 ** (max(0, step - 10) / 2) for step in steps}
    with arm.recorder() as rec:
        arm.declare(rec)
        rec.start_attempt()
        for step in steps:
            arm.steps(rec, {step: 0.7 if step < 15 else 0.0}, entropy=entropy)
            if step % 5 == 0:
                arm.save(rec, step)
    return arm.run()


def by_name(anomaly: runs_pb2.Anomaly) -> dict[str, float]:
    return {number.name: number.value for number in anomaly.numbers}


def test_lesson_33_an_entropy_that_runs_away_is_found_from_the_series_with_its_numbers(arm: Trained) -> None:
    run = collapsing(arm)
    (runaway,) = [a for a in run.anomalies if a.kind == "entropy_runaway"]
    numbers = by_name(runaway)
    assert (runaway.origin, runaway.rule) == ("derived", "training-1/entropy-runaway")
    assert numbers["entropy_first"] == 0.4
    assert numbers["ratio_last"] == pytest.approx(2**5.5)
    assert 10 < runaway.onset_step < runaway.seen_at_step <= 21
    assert "entropy_runaway" in run.summary.anomalies
    assert [c.step for c in run.checkpoints if c.before_collapse] == [5, 10]


def test_lesson_33_an_entropy_under_another_key_is_kept_and_never_taken_for_the_policys(arm: Trained) -> None:
    with arm.recorder() as rec:
        arm.declare(rec)
        rec.start_attempt()
        for step in range(1, 22):
            rec.step(step, {REWARD: 0.5, ENTROPY: 0.4, "actor/entropy_misordered": 0.4 * 2**step})
    assert list(arm.run().anomalies) == []
    assert arm.rows()[-1].metrics["actor/entropy_misordered"] == 0.4 * 2**21


def test_lesson_34_an_anomaly_is_diagnosed_at_a_step_and_predicts_nothing(arm: Trained) -> None:
    run = collapsing(arm)
    derived = {a.kind: a for a in run.anomalies}
    assert set(derived) == {"entropy_runaway", "reward_collapse"}
    for anomaly in derived.values():
        assert anomaly.statement.startswith(f"diagnosed at step {anomaly.seen_at_step}: ")
    assert "predict" not in arm.card()


def test_lesson_34_before_the_step_of_its_diagnosis_nothing_is_said(arm: Trained) -> None:
    collapsing(arm)
    seen = {a.kind: a.seen_at_step for a in arm.run().anomalies}
    positions = {row.step: row.pos for row in arm.rows()}
    for kind, step in seen.items():
        before = arm.runs.run(arm.id, coordinates(positions[step])).run
        at = arm.runs.run(arm.id, coordinates(positions[step] + 1)).run
        assert kind not in {a.kind for a in before.anomalies}
        assert kind in {a.kind for a in at.anomalies}


def test_a_switch_is_not_taken_for_its_effect(arm: Trained) -> None:
    """Truncated importance sampling was on, and half of the steps had no log-probabilities to apply it to."""
    with arm.recorder() as rec:
        arm.declare(rec, algorithm={**ALGORITHM, "use_tis": True, "tis_imp_ratio_cap": 2.0})
        rec.start_attempt()
        for step in range(1, 5):
            rec.step(step, {REWARD: 0.4, "tis/skipped_fraction": float(step > 2)})
    objective = arm.run().objective
    assert (objective.tis_applied_steps, objective.tis_steps, objective.tis_skipped_fraction) == (2, 4, 0.5)
    assert objective.clip == "inert"
