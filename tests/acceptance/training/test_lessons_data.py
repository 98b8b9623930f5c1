"""On which data a run trained: revisions, what turned about them afterwards, and how many rollouts were published.

A test bears the number of the lesson in the domain's list.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ledger.core.ids import sha256_hex
from tests.acceptance.corrected import Corrected
from tests.acceptance.training.trained import Trained
from tests.adapters.builders import result, trial

OLD_DATA, OLD_VERIFIER = "1" * 40, "2" * 40


def train(trained: Trained, source: Corrected, reward: float = 0.5, **fields: Any) -> None:
    """Two steps on a source, at its own revisions unless told otherwise."""
    taken = {"atlas_id": source.id, "dataset_id": source.row["dataset_id"], **revisions(source), **fields}
    with trained.recorder() as rec:
        trained.declare(rec, {name: value for name, value in taken.items() if value}, campaign_id=f"on {source.id}")
        rec.start_attempt()
        trained.steps(rec, {1: reward, 2: reward})


def revisions(source: Corrected) -> dict[str, Any]:
    return {"dataset_revision": source.dataset, "verifier_revision": source.verifier}


def test_lesson_35_arms_on_an_old_revision_with_an_easier_verifier_are_not_compared(
    arm: Trained, other_arm: Trained, source: Corrected
) -> None:
    train(arm, source, 0.4)
    train(other_arm, source, 0.9, dataset_revision=OLD_DATA, verifier_revision=OLD_VERIFIER)
    sweep = arm.sweep(f"on {source.id}")
    assert [list(group.runs) for group in sweep.groups] == [[arm.id], [other_arm.id]]
    assert list(sweep.groups[1].differs_in) == ["dataset_revision", "verifier_revision"]


def test_lesson_35_a_defect_leads_to_the_runs_that_took_the_revision_it_names_and_tells_them_from_others(
    arm: Trained, other_arm: Trained, source: Corrected
) -> None:
    source.review()
    train(arm, source)
    train(other_arm, source, dataset_revision=OLD_DATA, verifier_revision=OLD_VERIFIER)
    defect = source.confirm()
    found = arm.affected(defect)
    assert {run: one.match for run, one in found.items()} == {arm.id: "same_revision", other_arm.id: "other_revision"}
    assert (found[arm.id].quality_at_start, found[arm.id].known_at_start) == ("good", False)


def test_lesson_35_a_source_that_was_repaired_after_a_run_took_it_turns_in_front_of_the_run(
    arm: Trained, source: Corrected
) -> None:
    source.review()
    train(arm, source)
    defect = source.confirm()
    source.repair()
    source.review()
    turns = arm.turned()
    assert (turns[0].pos, turns[0].before_quality, turns[0].after_quality) == (defect, "good", "some_issues")
    assert turns[-1].after_quality == "good"
    (told,) = arm.answer().sources
    assert (told.at_start.quality, told.now.quality) == ("good", "good")
    assert defect in told.turned, "what was mended was broken when the run consumed it"


def test_lesson_35_a_run_says_which_revision_it_took_and_keeps_it_when_the_source_moves_on(
    arm: Trained, source: Corrected
) -> None:
    source.review()
    train(arm, source)
    source.revise(dataset="9" * 40)
    (taken,) = arm.run().declared.sources
    assert taken.dataset_revision == source.row["dataset_revision"]
    (told,) = arm.answer().sources
    assert (told.at_start.applicability, told.now.applicability) == ("current", "stale")


def test_lesson_36_a_revision_that_was_not_pinned_stays_unknown_and_equals_nothing(
    arm: Trained, other_arm: Trained, source: Corrected
) -> None:
    source.review()
    train(arm, source, dataset_revision=None, verifier_revision=None)
    train(other_arm, source, dataset_revision=None, verifier_revision=None)
    (group,) = arm.sweep(f"on {source.id}").groups
    assert list(group.ranking) == []
    assert {"dataset_revision", "verifier_revision"} <= set(group.unknown)
    defect = source.confirm()
    assert {one.match for one in arm.affected(defect).values()} == {"unknown_revision"}
    card = arm.card()
    for what in ("dataset", "verifier"):
        assert f"the {what} revision of `{source.row['dataset_id']}`" in card.partition("## Not recorded")[2]


def test_lesson_36_a_gate_says_that_nobody_can_compare_a_revision_that_was_not_given(
    arm: Trained, source: Corrected
) -> None:
    source.review()
    unpinned = arm.verdict(source.id)
    assert unpinned.passed
    assert any("No data revision was given" in warning for warning in unpinned.warnings)
    old = arm.verdict(source.id, dataset_revision=OLD_DATA)
    assert (old.passed, len(old.reasons)) == (False, 1)
    assert arm.verdict(source.id, dataset_revision=source.dataset).passed


def test_lesson_36_sources_that_are_declared_otherwise_later_are_flagged_with_both_revisions(
    arm: Trained, source: Corrected
) -> None:
    train(arm, source)
    train(arm, source, dataset_revision=OLD_DATA)
    message = arm.flagged("SOURCES_DECLARED_OTHERWISE")
    assert source.dataset in message
    assert OLD_DATA in message


def test_lesson_37_published_rows_stand_beside_the_trials_that_they_are_fewer_than(arm: Trained) -> None:
    with arm.recorder() as rec:
        arm.declare(rec)
        rec.start_attempt()
        rec.rollouts(
            1,
            started=13_357,
            finished=13_100,
            verified=12_900,
            consumed=12_000,
            trained=11_500,
            errors=[
                {"exception_type": "AgentTimeoutError", "treatment": "mask", "count": 200},
                {"exception_type": "VerifierCrash", "treatment": "zero", "count": 57},
            ],
        )
        rec.record(
            "traces.published",
            {"repository": "org/traces", "commit": "t" * 40, "coverage": {"started": 13_357, "published": 11_857}},
        )
    coverage = arm.run().coverage
    assert (coverage.started, coverage.trained, coverage.published) == (13_357, 11_500, 11_857)
    assert {e.exception_type: (e.treatment, e.count) for e in coverage.errors} == {
        "AgentTimeoutError": ("mask", 200),
        "VerifierCrash": ("zero", 57),
    }
    assert "The counts do not show that the rows of `org/traces` are those that trained the policy" in arm.card()


def test_lesson_37_a_count_that_nobody_made_is_absent_and_not_nothing(arm: Trained) -> None:
    with arm.recorder() as rec:
        arm.declare(rec)
        rec.start_attempt()
        rec.rollouts(1, started=10)
        rec.rollouts(2, started=10, finished=8)
    coverage = arm.run().coverage
    assert (coverage.started, coverage.finished, coverage.HasField("published")) == (20, 8, False)
    assert "finished: counted in 1 of 2 summaries" in list(coverage.limits)


def test_lesson_37_trials_whose_result_is_an_exception_or_nothing_are_counted_and_not_dropped(
    arm: Trained, tmp_path: Path
) -> None:
    job = tmp_path / "job"
    passed = {"verifier_result": {"rewards": {"reward": 1.0}}}
    raised = {"exception_info": {"exception_type": "AgentTimeoutError", "exception_message": "late"}}
    trial(job, "a__1111111", {"config.json": {}, "result.json": result("a__1111111", **passed)})
    trial(job, "b__2222222", {"config.json": {}, "result.json": result("b__2222222", **raised)})
    trial(job, "c__3333333", {"config.json": {}})
    arm.doors.tell("backfill", "harbor", job, "--run", arm.id)
    coverage = arm.run().coverage
    assert (coverage.started, coverage.finished, coverage.verified) == (3, 2, 1)
    assert [(e.exception_type, e.count) for e in coverage.errors] == [("AgentTimeoutError", 1)]


def test_a_receipt_of_what_was_checked_is_kept_with_the_run(
    arm: Trained, source: Corrected, nobodys_settings: Path
) -> None:
    source.review()
    told = arm.doors.tell("check", source.id, "--receipt", "receipt.json")
    written = (nobodys_settings / "receipt.json").read_bytes()
    receipt = {"name": "receipt.json", "sha256": told["receipt"]["sha256"]}
    taken = {"atlas_id": source.id, "dataset_id": source.row["dataset_id"], **revisions(source)}
    with arm.recorder() as rec:
        arm.declare(rec, taken, consumption_receipt=receipt, consumption_size=told["coordinates"]["size"])
    declared = arm.run().declared
    assert declared.consumption_receipt.sha256 == sha256_hex(written)
    assert declared.consumption_size == told["coordinates"]["size"]
    assert sha256_hex(written) in arm.card()
