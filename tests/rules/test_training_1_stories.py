"""Whole stories of runs, as they happen: each told once, and then what is known of it."""

from __future__ import annotations

import pytest

from .training_1_stories import CLAIMED, EXPORT, Story, selection, sha

PLATEAU = [0.40, 0.45, 0.50, 0.55, 0.58, 0.60, 0.62, 0.63, 0.64, 0.65, 0.66, 0.66, 0.67, 0.67, 0.67, 0.66, 0.64]
LOST = [0.55, 0.45, 0.30, 0.20, 0.10, 0.05, 0.02, 0.01, *[0.0] * 13]
CALM = [0.30, 0.31, 0.30, 0.29, 0.30, 0.30, 0.31, 0.30, 0.31, 0.32, 0.31, 0.32, 0.33, 0.34, 0.35, 0.38, 0.45]
RISING = [0.3 * 1.18**step for step in range(3, 24)]


def diverging() -> Story:
    """An unregularised run whose entropy runs away while its reward is lost; it ends at step 38 of 80."""
    objective = {"use_kl_loss": False, "use_kl_in_reward": False, "use_entropy_loss": False, "use_tis": True}
    story = Story().declared(planned_steps=80, checkpoint_interval=5, algorithm=objective)
    story.attempt()
    for step, (reward, entropy) in enumerate(zip(PLATEAU + LOST, CALM + RISING, strict=True), 1):
        if step % 5 == 0:
            story.saved(step)
        extra = {"policy/policy_update_steps": 1.0, "policy/ppo_clip_ratio": 0.0, "tis/skipped_fraction": 0.0}
        story.step(step, reward, entropy, **extra)
    story.ended("failed", reason="Entropy ran away.", last_step=38)
    return story


class TestARunThatDiverges:
    def test_both_of_its_signs_are_diagnosed_and_dated(self):
        dossier = diverging().dossier()
        kinds = {anomaly["kind"]: anomaly for anomaly in dossier["anomalies"]}
        assert set(kinds) == {"entropy_runaway", "reward_collapse"}
        numbers = {n["name"]: n["value"] for n in kinds["entropy_runaway"]["numbers"]}
        assert numbers["ratio_max"] == pytest.approx(45, abs=1)
        assert 15 < dossier["summary"]["anomaly_onset"] < 25
        assert dossier["flags"] == []

    def test_its_last_checkpoints_before_the_collapse_are_told_apart(self):
        states = {c["step"]: c["before_collapse"] for c in diverging().dossier()["checkpoints"]}
        assert states == {5: True, 10: True, 15: True, 20: False, 25: False, 30: False, 35: False}

    def test_the_rule_gives_the_one_that_is_salvaged(self):
        story = diverging()
        assert story.against("checkpoint.selected", selection(20)) != []
        assert story.against("checkpoint.selected", selection(15)) == []
        story.add("checkpoint.selected", selection(15))
        (selected,) = story.dossier()["selections"]
        assert (selected["recomputed"], selected["computed_step"]) == ("agrees", 15)
        assert selected["best"] == "among_all_steps"
        assert "the reward at step 15 scores the weights before update 15" in selected["notes"]

    def test_its_objective_is_told_as_far_as_it_was_in_effect(self):
        objective = diverging().dossier()["objective"]
        assert (objective["clip"], objective["kl"], objective["tis_applied_steps"]) == ("inert", "not_measured", 38)

    def test_an_export_job_that_saves_over_the_checkpoint_leaves_the_selection_without_its_bytes(self):
        story = diverging()
        story.add("checkpoint.selected", selection(15, digest=sha("1-15"), attempt=1))
        story.saved(15, "by the export job", saved_by="export_job")
        assert story.codes() == ["CHECKPOINT_SAVED_AGAIN", "SELECTED_THEN_REPLACED"]
        first, again = (c for c in story.dossier()["checkpoints"] if c["step"] == 15)
        assert (first["selected"], first["status"], again["selected"]) == (True, "replaced", False)
        assert story.against("checkpoint.selected", selection(15)) != []

    def test_what_a_card_claims_of_it_is_held_against_it(self):
        story = diverging()
        story.add("checkpoint.selected", selection(15))
        subject = {"kind": "run", "id": "arm-0"}
        for topic, number in (("steps.trained", 38), ("entropy.ratio", 30), ("reward.final", 0.0)):
            said = {"subject": subject, "topic": topic, "statement": "So it is.", "basis": CLAIMED}
            story.add("claim.recorded", {**said, "number": number})
        claims = {claim["claim"]["topic"]: claim["standing"] for claim in story.dossier()["claims"]}
        assert claims == {"steps.trained": "agrees", "entropy.ratio": "contradicts", "reward.final": "agrees"}


class TestARunThatIsOnlyTold:
    """Nothing of it was recorded as it happened: a page tells of it afterwards."""

    def told(self) -> Story:
        story = Story().declared(planned_steps=80, basis=CLAIMED)
        collapse = {"kind": "reward_collapse", "onset_step": 65, "statement": "It collapsed beyond step 65."}
        story.add("anomaly.claimed", {**collapse, "basis": CLAIMED})
        story.ended("cancelled", last_step=80, basis=CLAIMED)
        story.saved(15, digest=None, attempt=None, basis=CLAIMED)
        told = selection(15, ema=0.8639, reward=0.8418, wording="optimal", basis=CLAIMED)
        assert story.against("checkpoint.selected", told) == []
        story.add("checkpoint.selected", told)
        return story

    def test_no_series_is_invented(self):
        dossier = self.told().dossier()
        assert dossier["reward"]["steps"] == 0
        assert dossier["attempts"] == []
        assert [anomaly["origin"] for anomaly in dossier["anomalies"]] == ["claimed"]
        assert (dossier["summary"]["last_step"], dossier["summary"]["anomaly_onset"]) == (80, 65)
        assert dossier["summary"]["claimed_anomalies"] == ["reward_collapse"]
        assert (dossier["flags"], dossier["completeness"]["verdict"]) == ([], "unknown")

    def test_optimal_holds_among_eligible_steps_at_most(self):
        (selected,) = self.told().dossier()["selections"]
        assert selected["implied_previous_ema"] == pytest.approx(0.8750, abs=1.5e-4)
        assert (selected["best"], selected["recomputed"], selected["basis"]) == (
            "among_eligible_steps",
            "no_series",
            "claimed",
        )
        assert any("step 14" in note for note in selected["notes"])
        assert any("with one of 1, 3, 5" in note for note in selected["notes"])


def test_a_resume_that_leaves_steps_behind_chooses_by_the_lineage_that_survived():
    """First seen wins would choose step 6, whose high rewards belong to weights that nobody kept."""
    story = Story().declared(checkpoint_interval=2)
    story.attempt()
    for step, reward in enumerate([0.3, 0.4, 0.5, 0.6, 0.9, 0.9], 1):
        story.step(step, reward)
        if step in {2, 4}:
            story.saved(step)
    story.attempt(2, {"step": 4, "attempt": 1, "digest": sha("1-4")})
    for step, reward in ((5, 0.2), (6, 0.2)):
        story.step(step, reward, attempt=2)
    story.saved(6, attempt=2)
    assert story.against("checkpoint.selected", selection(6)) != []
    assert story.against("checkpoint.selected", selection(4)) == []


def test_an_export_that_was_published_before_its_shards_is_told_as_unverified():
    story = Story(EXPORT)
    story.add("export.started", {"checkpoint": {"run_id": "arm-0", "step": 15}, "route": "rerun"})
    story.add("model.published", {"repository": "example/model", "commit": "c" * 40})
    story.add("export.failed", {"stage": "upload", "reason": "The barrier timed out."})
    dossier = story.dossier()
    assert (dossier["status"], dossier["failure"]) == ("published_unverified", "upload: The barrier timed out.")
    assert [flag["code"] for flag in dossier["flags"]] == ["PUBLISHED_UNVERIFIED"]
