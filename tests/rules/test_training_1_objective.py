"""What was optimised, as far as it is recorded; what rollouts came to; and what somebody claims of it."""

from __future__ import annotations

from typing import Any

import pytest

from ledger.rules.training_1 import RULES

from .training_1_stories import CLAIMED, Story, example, selection, sha


def objective(story: Story) -> dict[str, Any]:
    return story.dossier()["objective"]


def identity(story: Story) -> dict[str, tuple[str, str]]:
    return {part["name"]: (part["value"], part["origin"]) for part in objective(story)["identity"]}


def configured(story: Story, settings: dict[str, Any]) -> Story:
    story.add("config.recorded", {"attempt": 1, "moment": "start", "digest": sha("c"), "settings": settings})
    return story


class TestTheObjective:
    def test_what_is_recorded_nowhere_is_absent(self):
        assert objective(Story()) == {"identity": [], "clip": "unknown", "kl": "unknown", "notes": []}

    def test_the_declaration_comes_first_and_the_configuration_fills_what_it_leaves_out(self):
        declared = {"algorithm": {"loss_reduction": "sequence_mean", "temperature": 1.0}}
        code = [{"role": "trainer", "name": "SkyRL", "commit": "a" * 40, "dirty": True}]
        story = Story().declared(**declared, code=code, parallelism={"data": 8})
        configured(story, {"trainer.algorithm.loss_reduction": "token_mean", "trainer.train_batch_size": 64})
        assert identity(story) == {
            "trainer": (f"SkyRL@{'a' * 40} with changes", "declared"),
            "data_parallel": ("8", "declared"),
            "loss_reduction": ("sequence_mean", "declared"),
            "train_batch_size": ("64", "config"),
            "temperature": ("1", "declared"),
        }

    def test_settings_may_be_objects_in_objects(self):
        story = configured(Story(), {"trainer": {"algorithm": {"use_tis": True}}})
        assert identity(story) == {"use_tis": ("true", "config")}

    def test_a_large_configuration_is_kept_without_what_is_long(self):
        prose = {f"data.prompt_{n}": "x" * 500 for n in range(100)}
        story = configured(Story(), {**prose, "trainer": {"algorithm": {"use_tis": False}}})
        (config,) = story.dossier()["configs"]
        assert config["settings"] == {"trainer.algorithm.use_tis": False}
        assert identity(story) == {"use_tis": ("false", "config")}

    def test_a_configuration_of_very_many_settings_is_cut(self):
        story = configured(Story(), {f"data.path_{n}": n for n in range(10_000)})
        (config,) = story.dossier()["configs"]
        assert 1_000 < len(config["settings"]) < 3_000
        assert config["settings"]["data.path_7"] == 7
        assert len(RULES.encode_facts(story.facts)) < 40_000

    @pytest.mark.parametrize(("reduction", "micro", "says"), [
        ("token_mean", 1, "is the same number as sequence_mean"),
        ("sequence_mean", 1, "is the same number as token_mean"),
        ("token_mean", 2, None),
        ("token_mean", None, "means nothing without the micro-batch size"),
    ])  # fmt: skip
    def test_a_reduction_means_nothing_without_its_micro_batch(self, reduction, micro, says):
        algorithm = {"loss_reduction": reduction, "micro_train_batch_size_per_gpu": micro}
        notes = objective(Story().declared(algorithm=algorithm))["notes"]
        assert [says in note for note in notes] == ([True] if says else [])

    def test_the_clip_is_inert_with_one_update_a_batch(self):
        geometry = {"train_batch_size": 64, "policy_mini_batch_size": 64, "update_epochs_per_batch": 1}
        found = objective(Story().declared(algorithm={**geometry, "eps_clip_low": 0.2}))
        assert found["clip"] == "inert"
        assert "eps_clip_low 0.2 are recorded and without effect" in found["notes"][0]

    def test_the_clip_is_inert_where_the_workers_metric_says_one_update(self):
        story = Story().declared()
        story.step(1, **{"policy/policy_update_steps": 1, "policy/ppo_clip_ratio": 0.0})
        assert objective(story)["clip"] == "inert"

    @pytest.mark.parametrize("mini", [32, None])
    def test_the_clip_is_in_effect_with_more_updates_and_unknown_where_nothing_says(self, mini):
        geometry = {"train_batch_size": 64, "policy_mini_batch_size": mini, "update_epochs_per_batch": 1}
        clip = objective(Story().declared(algorithm=geometry))["clip"]
        assert clip == ("in_effect" if mini else "unknown")

    def test_a_metric_that_is_no_number_says_nothing_of_the_clip(self):
        story = Story().declared()
        for step, updates in enumerate(("NaN", 1, "Infinity"), 1):
            story.step(step, **{"policy/policy_update_steps": updates})
        assert objective(story)["clip"] == "inert"

    def test_a_number_too_large_for_an_integer_stays_as_it_was_written(self):
        assert identity(configured(Story(), {"trainer.train_batch_size": 1e300}))["train_batch_size"][0] == "1e300"

    def test_a_divergence_that_nothing_asked_for_is_not_measured_and_never_zero(self):
        off = {"use_kl_loss": False, "use_kl_in_reward": False}
        found = objective(Story().declared(algorithm=off))
        assert found["kl"] == "not_measured"
        assert "not a divergence of zero" in found["notes"][0]
        assert objective(Story().declared(algorithm={"use_kl_loss": False}))["kl"] == "unknown"

    def test_a_divergence_that_was_logged_was_measured(self):
        story = Story().declared()
        story.step(1, **{"loss/avg_kl": 0.0})
        assert objective(story)["kl"] == "measured"

    def test_a_correction_is_told_with_the_steps_on_which_it_was_applied(self):
        story = Story().declared(algorithm={"use_tis": True})
        fraction, skipped = "tis/skipped_fraction", "tis/batch_skipped_no_logprobs"
        logged = ({fraction: 0.5}, {fraction: 1.0}, {skipped: 1}, {skipped: 3}, {skipped: 0}, {}, {fraction: "NaN"})
        for step, said in enumerate(logged, 1):
            story.step(step, **said)
        found = objective(story)
        assert (found["tis_applied_steps"], found["tis_steps"], found["tis_skipped_fraction"]) == (2, 5, 0.7)
        assert "applied on 2 of the 5 steps" in found["notes"][0]

    def test_a_correction_of_which_no_step_tells_is_only_a_switch(self):
        story = Story().declared(algorithm={"use_tis": True})
        story.step(1)
        found = objective(story)
        assert "tis_steps" not in found
        assert "no step says whether it was applied" in found["notes"][0]


class TestCoverage:
    def test_a_count_that_nobody_made_stays_unknown(self):
        story = Story().declared()
        assert story.dossier()["coverage"] == {"errors": [], "groups": [], "positions": [], "limits": []}

    def test_counts_are_summed_and_what_they_leave_out_is_said(self):
        story = Story().declared()
        timeout = {"exception_type": "Timeout", "treatment": "mask", "count": 2}
        first = story.add("rollouts.summarised", {"step": 1, "started": 8, "finished": 6, "errors": [timeout]})
        second = story.add("rollouts.summarised", {"started": 4, "errors": [timeout]})
        story.add("rollouts.summarised", {"started": 100, "phase": "eval"})
        coverage = story.dossier()["coverage"]
        assert (coverage["started"], coverage["finished"], "consumed" in coverage) == (12, 6, False)
        assert coverage["errors"] == [{**timeout, "count": 4}]
        assert coverage["positions"] == [first, second]
        assert coverage["limits"][:3] == [
            "finished: counted in 1 of 2 summaries",
            "1 summary of one step and 1 of no named step are added up: they may count the same rollouts",
            "left out: 1 summary of evaluation rollouts",
        ]

    def test_groups_are_counted_by_what_became_of_them(self):
        story = Story().declared()
        stale = {"disposition": "discarded", "reason": "stale"}
        story.add("groups.disposed", {"attempt": 1, "step": 1, "groups": [{"group": "a", "samples": 8, **stale}]})
        story.add("groups.disposed", {"attempt": 1, "step": 2, "counts": [{"groups": 3, "samples": 24, **stale}]})
        story.add("groups.disposed", {"attempt": 1, "step": 3, "counts": [{"groups": 1, "disposition": "consumed"}]})
        assert story.dossier()["coverage"]["groups"] == [
            {**stale, "groups": 4, "samples": 32},
            {"disposition": "consumed", "groups": 1},
        ]

    def test_rows_of_a_later_revision_of_a_dataset_hold_those_of_the_earlier(self):
        story = Story().declared()
        for commit, rows in (("a", 10), ("b", 25)):
            published = {"repository": "example/traces", "commit": commit, "coverage": {"published": rows}}
            story.add("traces.published", published)
        assert story.dossier()["coverage"]["published"] == 25


def claim(story: Story, topic: str, step: int | None = None, **fields: Any) -> tuple[str, str | None]:
    subject = {"kind": "run", "id": "arm-0", "step": step}
    story.add(
        "claim.recorded", {"subject": subject, "topic": topic, "statement": "So it is.", "basis": CLAIMED, **fields}
    )
    found = story.dossier()["claims"][-1]
    return found["standing"], found.get("against")


class TestClaims:
    def test_without_anything_to_hold_it_against_a_claim_is_not_checkable(self):
        topics = ("selection.ema", "selection.reward", "selection.step", "steps.trained", "entropy.ratio")
        more = ("collapse.onset", "reward.final", "checkpoints.saved", "tis.applied", "benchmark")
        for topic in (*topics, *more):
            assert claim(Story().declared(), topic, number=1.0) == ("not_checkable", None)

    @pytest.mark.parametrize(
        ("topic", "number", "standing"),
        [
            ("selection.ema", 0.5667, "agrees"),
            ("selection.ema", 0.6, "contradicts"),
            ("selection.reward", 0.7, "agrees"),
            ("selection.step", 2, "agrees"),
            ("selection.step", 3, "contradicts"),
            ("steps.trained", 2, "agrees"),
            ("steps.trained", 80, "contradicts"),
            ("entropy.ratio", 3, "agrees"),
            ("entropy.ratio", 30, "contradicts"),
            ("collapse.onset", 2, "contradicts"),
            ("reward.final", 0.7, "agrees"),
            ("reward.final", "NaN", "contradicts"),
            ("checkpoints.saved", 1, "agrees"),
        ],
    )
    def test_a_number_is_held_against_what_is_recorded_and_derived(self, topic, number, standing):
        story = Story().declared()
        story.step(1, 0.5, 1.0)
        story.step(2, 0.7, 3.0)
        story.saved(2)
        story.add("checkpoint.selected", selection(2))
        found, against = claim(story, topic, number=number)
        assert found == standing
        assert against

    def test_the_last_step_of_an_end_is_evidence_where_no_step_was_logged(self):
        story = Story().declared()
        story.add("attempt.ended", {"attempt": 1, "ending": "failed", "last_step": 37})
        story.ended("failed", last_step=38)
        assert claim(story, "steps.trained", number=38)[0] == "agrees"
        assert claim(story, "steps.trained", number=37)[0] == "contradicts"

    def test_what_was_only_told_is_no_evidence(self):
        story = Story().declared(basis=CLAIMED)
        story.saved(15, attempt=None, basis=CLAIMED)
        story.add("checkpoint.selected", selection(15, basis=CLAIMED))
        story.ended("failed", last_step=38, basis=CLAIMED)
        for topic, said in (
            ("steps.trained", {"number": 38}),
            ("selection.step", {"number": 15}),
            ("checkpoints.saved", {"number": 1}),
            ("run.ending", {"text": "failed"}),
        ):
            assert claim(story, topic, **said) == ("not_checkable", None)

    def test_numbers_of_the_same_page_are_no_evidence_of_each_other(self):
        story = Story().declared(basis=CLAIMED)
        story.saved(15, attempt=None, basis=CLAIMED)
        story.add("checkpoint.selected", selection(15, ema=0.8639, basis=CLAIMED))
        at = story.dossier()["selections"][0]["pos"]
        for number, names in ((0.8639, "the same"), (0.9, "0.8639")):
            words = f"the selection at position {at} names {names}, and is itself claimed"
            assert claim(story, "selection.ema", number=number) == ("not_checkable", words)
        assert claim(story, "selection.reward", number=0.8418) == ("not_checkable", None)

    def test_a_selection_that_was_recorded_as_it_was_made_is_evidence_of_its_number(self):
        story = Story().declared()
        story.saved(15)
        at = story.add("checkpoint.selected", selection(15, ema=0.8639))
        assert claim(story, "selection.ema", number=0.8639) == ("agrees", f"the selection at {at} records 0.8639")

    def test_an_ending_is_held_against_the_one_that_is_recorded(self):
        story = Story().declared()
        story.ended("failed")
        assert claim(story, "run.ending", text="failed")[0] == "agrees"
        assert claim(story, "run.ending", text="completed")[0] == "contradicts"

    def test_a_correction_that_was_skipped_once_was_not_applied_throughout(self):
        story = Story().declared()
        story.step(1, **{"tis/skipped_fraction": 0.0})
        assert claim(story, "tis.applied")[0] == "agrees"
        story.step(2, **{"tis/skipped_fraction": 1.0})
        assert claim(story, "tis.applied") == ("contradicts", "applied on 1 of 2 steps")

    def test_that_nothing_is_claimed_is_listed_and_contradicts_what_is(self):
        story = Story().declared()
        assert claim(story, "benchmark", absent=True) == ("not_checkable", None)
        claim(story, "benchmark", number=0.5)
        first, _ = story.dossier()["claims"]
        assert (first["standing"], first["claim"]["absent"]) == ("contradicts", True)

    def test_a_claim_is_answered_word_for_word(self):
        story = Story().declared()
        payload = {**example("claim.recorded"), "subject": {"kind": "checkpoint", "id": "arm-0", "step": 15}}
        story.add("claim.recorded", payload)
        assert story.dossier()["claims"][0]["claim"] == payload
