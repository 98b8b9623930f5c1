"""What the rules of runs refuse, with every reason, and what they let stand."""

from __future__ import annotations

from typing import Any

import pytest

from ledger.rules.training_1.verifying import REQUIRED

from .training_1_stories import CLAIMED, EXPORT, Story, selection, sha

FALLING_LATE = [0.5, 0.6, 0.7, 0.8, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4]


def ema(rewards: list[float]) -> float:
    """The trailing EMA as it is written down: the first reward, then a third of each further one."""
    average = rewards[0]
    for reward in rewards[1:]:
        average = reward / 3 + average * 2 / 3
    return average


AT_10, AT_15 = ema(FALLING_LATE[:10]), ema(FALLING_LATE)


def trained(rewards: list[float] = FALLING_LATE, saves: tuple[int, ...] = (5, 10, 15), **fields: Any) -> Story:
    story = Story().declared(export_interval=5, **fields)
    story.attempt()
    for step, reward in enumerate(rewards, 1):
        if step in saves:
            story.saved(step)
        story.step(step, reward)
    return story


def refusals(story: Story, payload: dict[str, Any]) -> dict[str, str]:
    return {problem.place: problem.message for problem in story.against("checkpoint.selected", payload)}


class TestTheCheckpoint:
    def test_a_committed_checkpoint_that_the_rule_gives_may_be_selected(self):
        assert refusals(trained(), selection(10, ema=round(AT_10, 4), reward=0.9)) == {}

    def test_one_that_was_never_committed_may_not(self):
        assert refusals(trained(), selection(20)) == {
            "/step": "no checkpoint at step 20 of any attempt was committed",
        }

    def test_one_that_another_attempt_committed_may_not(self):
        message = refusals(trained(), selection(10, attempt=2))["/step"]
        assert message == "no checkpoint at step 10 of attempt 2 was committed"

    def test_one_whose_save_was_only_begun_may_not(self):
        story = trained(saves=(5,))
        begun = story.add("checkpoint.save_started", {"attempt": 1, "step": 10})
        message = refusals(story, selection(10))["/step"]
        assert message == f"a save of step 10 was begun at position {begun} and never committed"

    def test_one_that_was_deleted_may_not(self):
        story = trained()
        deleted = story.add("checkpoint.deleted", {"attempt": 1, "step": 10})
        assert refusals(story, selection(10))["/step"] == f"the checkpoint at step 10 was deleted at position {deleted}"

    def test_one_that_was_deleted_and_saved_again_may(self):
        story = trained()
        story.add("checkpoint.deleted", {"attempt": 1, "step": 10})
        story.saved(10, "again")
        assert refusals(story, selection(10, digest=sha("again"))) == {}
        assert refusals(story, selection(10)) == {}

    def test_of_two_attempts_checkpoints_of_one_step_the_one_that_is_meant_is_named(self):
        story = Story().declared()
        story.saved(10, location="a")
        story.saved(10, attempt=2, location="b")
        assert "name the one that is meant" in refusals(story, selection(10))["/digest"]
        assert refusals(story, selection(10, attempt=1)) == {}
        assert refusals(story, selection(10, digest=sha("2-10"))) == {}

    def test_one_with_another_digest_may_not(self):
        message = refusals(trained(), selection(10, digest=sha("other")))["/digest"]
        assert message == f"is {sha('other')}, and the checkpoint at step 10 was committed as {sha('1-10')}"

    def test_one_that_was_written_over_needs_the_digest_that_is_there_now(self):
        story = trained()
        story.saved(10, "re-saved", saved_by="export_job")
        assert f"{sha('1-10')} and {sha('re-saved')}" in refusals(story, selection(10))["/digest"]
        assert "written over" in refusals(story, selection(10, digest=sha("1-10")))["/digest"]
        assert refusals(story, selection(10, digest=sha("re-saved"))) == {}


class TestTheRule:
    @pytest.mark.parametrize(
        ("payload", "place", "message"),
        [
            (selection(10, {"interval": 4}), "/step", "10 is no multiple of the rule's interval 4"),
            (selection(5), "/step", "5 is before step 10, the first eligible one"),
            (selection(10, {"first_eligible": 15}), "/step", "10 is before step 15, the first eligible one"),
            (selection(10, cap_step=9), "/step", "10 is after the cap at step 9"),
            (selection(10, eligible_steps=[15]), "/eligible_steps", "do not hold the selected step 10"),
            (selection(10, ema=0.9), "/ema", f"is 0.9000, and the checkpoint's own lineage gives {AT_10:.4f} at 10"),
            (selection(10, reward=0.8), "/reward", "is 0.8000, and the checkpoint's own lineage gives 0.9000 at 10"),
            (selection(10, ema="NaN"), "/ema", f"is nan, and the checkpoint's own lineage gives {AT_10:.4f} at 10"),
        ],
    )
    def test_what_contradicts_it_is_refused(self, payload, place, message):
        found = [(p.place, p.message) for p in trained().against("checkpoint.selected", payload)]
        assert (place, message) in found

    def test_the_interval_is_the_runs_own_where_the_rule_names_none(self):
        story = trained(saves=(5, 10, 12, 15))
        found = [p.message for p in story.against("checkpoint.selected", selection(12))]
        assert "12 is no multiple of the run's interval 5" in found

    def test_a_better_save_is_named(self):
        message = refusals(trained(), selection(15))["/step"]
        assert message == f"is not what the rule gives: the rule gives step 10 ({AT_10:.4f}), not step 15 ({AT_15:.4f})"

    def test_a_better_save_that_was_deleted_is_no_reason(self):
        story = trained()
        story.add("checkpoint.deleted", {"attempt": 1, "step": 10})
        assert refusals(story, selection(15)) == {}

    def test_every_reason_is_told_at_once(self):
        found = trained().against("checkpoint.selected", selection(15, {"interval": 4}, ema=0.1, cap_step=12))
        assert {p.place for p in found} == {"/step", "/ema"}
        assert len(found) == 3

    def test_another_rule_is_recorded_as_it_is_named(self):
        assert refusals(trained(), selection(5, {"id": "highest-reward"}, ema=0.1)) == {}

    def test_the_numbers_are_those_of_the_checkpoints_own_lineage(self):
        story = Story().declared(export_interval=2)
        story.attempt()
        story.series([0.1, 0.2])
        story.saved(2)
        story.series([0.9, 0.9], first=3)
        story.attempt(2, {"step": 2, "attempt": 1})
        story.series([0.3, 0.3], attempt=2, first=3)
        story.saved(4, attempt=2)
        own, abandoned = ema([0.1, 0.2, 0.3, 0.3]), ema([0.1, 0.2, 0.9, 0.9])
        assert refusals(story, selection(4, ema=own, reward=0.3)) == {}
        assert "/ema" in refusals(story, selection(4, ema=abandoned, reward=0.3))

    def test_a_story_that_is_only_claimed_has_nothing_to_be_judged_by(self):
        story = Story().declared(basis=CLAIMED)
        story.saved(15, attempt=None, basis=CLAIMED)
        payload = selection(15, ema=0.8639, reward=0.8418, wording="optimal", basis=CLAIMED)
        assert refusals(story, payload) == {}
        story.add("checkpoint.selected", payload)
        (selected,) = story.dossier()["selections"]
        assert selected["recomputed"] == "no_series"
        assert selected["implied_previous_ema"] == pytest.approx(0.8750, abs=1.5e-4)
        assert selected["best"] == "among_eligible_steps"
        assert selected["wording"] == "optimal"

    def test_with_an_interval_of_twenty_step_fifteen_cannot_be_chosen(self):
        story = Story().declared(basis=CLAIMED)
        story.saved(15, attempt=None, basis=CLAIMED)
        found = story.against("checkpoint.selected", selection(15, {"interval": 20}, basis=CLAIMED))
        assert [p.message for p in found] == [
            "15 is no multiple of the rule's interval 20",
            "15 is before step 40, the first eligible one",
        ]


NUMBERS = {
    "shard_files": 2,
    "shards_named": 2,
    "shards_in_names": 2,
    "index_total_size": 1000,
    "tensor_bytes": 1000,
    "tensors_in_index": 7,
    "tensors_in_shards": 7,
    "parameter_count": 500,
}
CHECKS = [{"name": name, "outcome": "passed"} for name in sorted(REQUIRED)]
FILES = [{"path": "model-00001-of-00002.safetensors", "sha256": sha("one")}]


def verification(numbers: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    return {"numbers": {**NUMBERS, **(numbers or {})}, "checks": CHECKS, **fields}


def exported(**fields: Any) -> Story:
    story = Story(EXPORT)
    story.add("export.started", {"checkpoint": {"run_id": "arm-0", "step": 15}, "route": "rerun"})
    known = {"shard_count": 2, "total_size": 1000, "tensor_count": 7, "parameter_count": 500}
    story.add("export.completed", {"digest": sha("export"), "files": FILES, **known, **fields})
    return story


class TestTheVerification:
    def test_one_that_adds_up_is_recorded(self):
        payload = verification(digest=sha("export"), files=FILES)
        assert exported().against("export.verified", payload) == []

    @pytest.mark.parametrize(
        ("payload", "place", "words"),
        [
            (verification({"index_total_size": 999}), "/numbers/index_total_size", "is 999, and the shards hold 1000"),
            (verification({"tensors_in_index": 8}), "/numbers/tensors_in_index", "is 8, and the shards hold 7 tensors"),
            (verification({"shards_named": 3}), "/numbers/shards_named", "is 3, and 2 shard files are there"),
            (verification({"shards_in_names": 4}), "/numbers/shards_in_names", "is 4, and 2 shard files are there"),
            (verification({"ghost_tensors": ["lm_head"]}), "/numbers/ghost_tensors", "no shard holds: lm_head"),
            (verification({"unlisted_tensors": ["bias"]}), "/numbers/unlisted_tensors", "does not name: bias"),
            (verification({"parameter_count": 0}), "/numbers/parameter_count", "is 0"),
            (verification({"parameter_count": 501}), "/numbers/parameter_count", "completed with parameter_count 500"),
            (verification(digest=sha("other")), "/digest", "the export was completed as"),
            (verification(files=[{**FILES[0], "sha256": sha("two")}]), "/files/0/sha256", "it was completed as"),
            (
                verification(checks=[{"name": "shapes", "outcome": "failed", "tensor": "lm_head"}]),
                "/checks/0",
                "the check shapes failed, lm_head",
            ),
            (
                verification(checks=[{"name": "weight_map_complete", "outcome": "not_checked"}]),
                "/checks/0",
                "was not made",
            ),
            (
                verification(checks=[{"name": "shapes", "outcome": "not_checked"}], basis=CLAIMED),
                "/checks",
                "no check passed",
            ),
        ],
    )
    def test_one_that_does_not_add_up_is_refused(self, payload, place, words):
        found = {p.place: p.message for p in exported().against("export.verified", payload)}
        assert words in found[place]

    @pytest.mark.parametrize("name", sorted(REQUIRED))
    def test_one_that_leaves_out_a_required_check_is_refused_and_told_which(self, name):
        left = [check for check in CHECKS if check["name"] != name]
        (problem,) = exported().against("export.verified", verification(checks=left))
        assert (problem.place, problem.message) == (
            "/checks",
            f"required checks were left out, and nothing is verified without them: {name}",
        )

    def test_one_that_was_only_told_may_name_fewer_checks(self):
        payload = verification(checks=CHECKS[:1], basis=CLAIMED)
        assert exported().against("export.verified", payload) == []

    @pytest.mark.parametrize(
        ("field", "value", "place"),
        [
            ("shard_count", 3, "/numbers/shard_files"),
            ("total_size", 999, "/numbers/tensor_bytes"),
            ("tensor_count", 6, "/numbers/tensors_in_shards"),
        ],
    )
    def test_numbers_other_than_those_completed_are_refused(self, field, value, place):
        found = exported(**{field: value}).against("export.verified", verification())
        assert [p.place for p in found] == [place]

    def test_an_export_that_changed_its_checkpoint_is_not_verified(self):
        changed = {"checkpoint_digest_before": sha("a"), "checkpoint_digest_after": sha("b")}
        (problem,) = exported(**changed).against("export.verified", verification())
        assert "exporting changed the checkpoint" in problem.message

    def test_an_export_that_was_neither_started_nor_completed_is_not_verified(self):
        found = Story(EXPORT).against("export.verified", verification())
        assert [p.message.partition(":")[0] for p in found] == [
            "this export was never started",
            "this export was not completed",
        ]


def test_what_is_no_decision_is_never_judged():
    assert Story().against("run.ended", {"ending": "completed"}) == []
