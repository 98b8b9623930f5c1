"""Any trainer's series: read under the keys that the run declares, from the declaration on."""

from __future__ import annotations

from typing import Any

import pytest

from ledger.rules.training_1.growing import items

from .training_1_stories import Story, selection

TRL = {"reward": "reward", "entropy": "entropy", "grad_norm": "grad_norm"}
CHANGED = "SERIES_KEYS_CHANGED"


def declared(story: Story, **keys: str) -> int:
    return story.add("run.declared", {"rl_start": None, "sources": [], "series": keys or None})


def logged(story: Story, step: int, **measured: Any) -> int:
    return story.add("steps.logged", {"attempt": 1, "steps": [{"step": step, "metrics": measured}]})


def series(story: Story) -> list[tuple[Any, ...]]:
    return [(p.reward, p.entropy, p.grad_norm) for p in items(story.facts.run.series.points)]


class TestTrl:
    """Its own keys: `reward`, `entropy` and `grad_norm`."""

    def run(self) -> Story:
        story = Story()
        declared(story, **TRL)
        for step in range(1, 13):
            healthy = step <= 8
            logged(story, step, reward=0.5 if healthy else 0.0, entropy=0.4 if healthy else 4.0, grad_norm=1.5, kl=0.01)
        return story

    def test_its_series_is_read(self):
        story = self.run()
        assert series(story)[0] == (0.5, 0.4, 1.5)
        assert story.dossier()["reward"] == {
            "metric": "reward",
            "steps": 12,
            "not_finite": 0,
            "alpha": pytest.approx(1 / 3),
            "first": 0.5,
            "last": 0.0,
            "max": 0.5,
            "max_step": 1,
            "last_ema": pytest.approx(0.5 * (2 / 3) ** 4),
            "entropy_first": 0.4,
            "entropy_last": 4.0,
        }

    def test_its_collapse_is_found(self):
        summary = self.run().shown()["summary"]
        assert (summary["anomalies"], summary["anomaly_onset"]) == (["entropy_runaway", "reward_collapse"], 9)
        assert (summary["last_reward"], summary["last_step"], summary["flags"]) == (0.0, 12, 0)

    @pytest.mark.parametrize("metric", [None, "reward"])
    def test_a_selection_by_its_reward_is_computed_again(self, metric):
        story = self.run()
        story.saved(8)
        story.add("checkpoint.selected", selection(8, {"metric": metric}, ema=0.5, reward=0.5))
        (chosen,) = story.dossier()["selections"]
        assert (chosen["recomputed"], chosen["computed_ema"]) == ("agrees", 0.5)

    def test_a_selection_by_the_key_of_another_trainer_is_by_another_rule(self):
        story = self.run()
        story.saved(8)
        story.add("checkpoint.selected", selection(8, {"metric": "reward/avg_raw_reward"}))
        (chosen,) = story.dossier()["selections"]
        assert (chosen["recomputed"], chosen["notes"][0]) == (
            "other_rule",
            "the rule was applied to a metric other than the run's reward",
        )

    def test_what_is_not_finite_is_kept_and_counted(self):
        story = Story()
        declared(story, **TRL)
        logged(story, 1, reward="NaN", entropy="-Infinity", loss="Infinity")
        (point,) = items(story.facts.run.series.points)
        assert (str(point.reward), point.entropy, point.grad_norm, point.not_finite) == ("nan", -float("inf"), None, 3)

    def test_several_steps_of_one_event_are_each_read(self):
        story = Story()
        declared(story, **TRL)
        steps = [{"step": step, "metrics": {"reward": step / 10}} for step in (1, 2, 3)]
        story.add("steps.logged", {"attempt": 1, "steps": steps})
        assert [reward for reward, _, _ in series(story)] == [0.1, 0.2, 0.3]


def test_a_key_that_is_not_declared_is_skyrls():
    story = Story()
    declared(story, reward="objective/scores")
    logged(story, 1, **{"objective/scores": 0.7, "reward/avg_raw_reward": 0.1, "policy/policy_entropy": 0.4})
    assert series(story) == [(0.7, 0.4, None)]


def test_other_keys_are_flagged_and_count_from_there_on():
    story = Story()
    first = declared(story)
    logged(story, 1, **{"reward/avg_raw_reward": 0.1, "reward": 0.9})
    second = declared(story, reward="reward")
    logged(story, 2, **{"reward/avg_raw_reward": 0.1, "reward": 0.9})
    assert [reward for reward, _, _ in series(story)] == [0.1, 0.9]
    (flag,) = story.dossier()["flags"]
    assert (flag["code"], flag["positions"]) == (CHANGED, [first, second])
    assert "reward reward/avg_raw_reward," in flag["message"]
    assert "from then on as reward reward," in flag["message"]
    assert story.dossier()["reward"]["metric"] == "reward"


def test_a_selection_is_by_the_key_that_was_in_force_when_it_was_made():
    story = Story()
    declared(story)
    logged(story, 1, **{"reward/avg_raw_reward": 0.5})
    story.saved(1)
    story.add("checkpoint.selected", selection(1, {"metric": "reward/avg_raw_reward", "first_eligible": 1}))
    declared(story, reward="reward")
    assert story.dossier()["selections"][0]["recomputed"] == "agrees"


def test_keys_that_are_declared_again_are_no_change():
    story = Story()
    declared(story, reward="reward")
    declared(story, reward="reward", entropy="policy/policy_entropy")
    assert story.codes() == []


def test_steps_before_the_first_declaration_are_read_by_skyrls_keys_and_that_is_flagged_where_it_names_others():
    story = Story()
    step = logged(story, 1, reward=0.9)
    late = declared(story, reward="reward")
    logged(story, 2, reward=0.8)
    assert [reward for reward, _, _ in series(story)] == [None, 0.8]
    (flag,) = story.dossier()["flags"]
    assert (flag["code"], flag["positions"]) == (CHANGED, [step, late])


def test_steps_before_a_declaration_by_the_same_keys_are_no_contradiction():
    story = Story().series([0.5])
    declared(story)
    assert story.codes() == []
