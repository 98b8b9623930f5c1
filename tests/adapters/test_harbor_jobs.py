"""Harbor jobs: what is counted of trials, what stays unknown, and that nothing in a job leads anywhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ledger.core.errors import InvalidInput
from services.adapters.backfill.clocks import zone
from services.adapters.backfill.harbor_jobs import HarborOptions, plan_harbor, read_treatments
from tests.adapters.builders import ME, archive, events, ids, result, trial


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """One trial of each outcome."""
    folder = tmp_path / "job"
    solved = result("solved__aaaaaaa", verifier_result={"rewards": {"reward": 1.0}})
    trial(folder, "solved__aaaaaaa", {"config.json": {"trial_name": "solved__aaaaaaa"}, "result.json": solved})
    timed_out = result(
        "late__bbbbbbb",
        exception_info={"exception_type": "AgentTimeoutError", "occurred_at": "2026-07-29T10:05:30"},
        verifier_result=None,
    )
    trial(folder, "late__bbbbbbb", {"config.json": {}, "result.json": timed_out})
    trial(folder, "running__ccccccc", {"config.json": {"trial_name": "running__ccccccc"}})
    trial(
        folder, "killed__ddddddd", {"config.json": {}, "verifier/reward.txt": "0.5\n", "verifier/reward.json": {"a": 1}}
    )
    several = result("several__eeeeeee", verifier_result={"rewards": {"units": 1.0, "style": 0.25}})
    trial(folder, "several__eeeeeee", {"config.json": {}, "result.json": several})
    trial(folder, "torn__fffffff", {"config.json": {}, "result.json": '{"id": "x", "trial_na'})
    return folder


def plan(job: Path, **options):
    return plan_harbor(job, run_id="r", by=ME, options=HarborOptions(**options))


def test_started_finished_and_verified_are_three_numbers(job):
    (said,) = events(plan(job), "rollouts.summarised")
    assert (said["started"], said["finished"], said["verified"]) == (6, 3, 3)


def test_what_no_trial_says_stays_unknown(job):
    (said,) = events(plan(job), "rollouts.summarised")
    assert {"consumed", "trained", "masked", "step", "attempt", "phase"}.isdisjoint(said)


def test_a_result_that_is_torn_is_told_and_its_trial_counts_as_started(job):
    account = plan(job).account
    assert [(u.place, u.what) for u in account.unread] == [("torn__fffffff/result.json", "no JSON")]


def test_the_text_file_of_a_reward_goes_before_the_json_file(job):
    trials = {t["trial_name"]: t for t in events(plan(job), "rollouts.summarised")[0]["trials"]}
    assert trials["killed__ddddddd"]["reward"] == 0.5


def test_several_named_rewards_are_kept_and_none_speaks_for_all(job):
    found = plan(job)
    trials = {t["trial_name"]: t for t in events(found, "rollouts.summarised")[0]["trials"]}
    assert "reward" not in trials["several__eeeeeee"]
    kept = [json.loads(line) for line in found.uploads[0].content.splitlines()]
    assert {"units": 1.0, "style": 0.25} in [each["rewards"] for each in kept]


def test_the_evidence_is_cited_by_what_it_hashes_to(job):
    found = plan(job)
    (said,) = events(found, "rollouts.summarised")
    assert said["evidence"]["sha256"] == found.uploads[0].sha256
    assert said["evidence"]["size"] == len(found.uploads[0].content)


def test_times_without_a_zone_are_unknown_and_durations_are_not(job):
    (plain,) = events(plan(job), "rollouts.summarised")
    solved = next(t for t in plain["trials"] if t["trial_name"].startswith("solved"))
    assert "started_at" not in solved
    assert (solved["seconds"], solved["agent_execution_seconds"]) == (330.0, 180.5)
    (dated,) = events(plan(job, zone=zone("+02:00")), "rollouts.summarised")
    solved = next(t for t in dated["trials"] if t["trial_name"].startswith("solved"))
    assert solved["started_at"] == "2026-07-29T08:00:00.000000Z"


def test_a_treatment_is_unknown_unless_the_trainers_lists_are_given(job, tmp_path):
    (said,) = events(plan(job), "rollouts.summarised")
    assert said["errors"] == [{"exception_type": "AgentTimeoutError", "count": 1}]
    lists = tmp_path / "treatments.json"
    lists.write_text(json.dumps({"mask_exceptions": ["AgentTimeoutError"], "default_error_treatment": "zero"}))
    (said,) = events(plan(job, treatments=read_treatments(lists)), "rollouts.summarised")
    assert said["errors"] == [{"exception_type": "AgentTimeoutError", "treatment": "mask", "count": 1}]


def test_another_list_of_treatments_is_no_second_summary_of_the_same_trials(job, tmp_path):
    lists = tmp_path / "treatments.json"
    lists.write_text(json.dumps({"mask_exceptions": ["AgentTimeoutError"]}))
    assert ids(plan(job)) == ids(plan(job, treatments=read_treatments(lists)))


@pytest.mark.parametrize("content", ["[]", '{"mask_exceptions": "x"}', '{"default_error_treatment": "drop"}', "{"])
def test_a_file_that_is_no_list_of_treatments_is_refused(tmp_path, content):
    path = tmp_path / "t.json"
    path.write_text(content)
    with pytest.raises(InvalidInput, match="is no list of treatments"):
        read_treatments(path)


def test_the_jobs_own_counts_are_compared_and_its_rewards_read_from_keys(job):
    stats = {
        "n_trials": 9,
        "evals": {
            "a__m__d": {"reward_stats": {"reward": {"1.0": ["solved__aaaaaaa"], "0.0": ["x", "y"], "bad": ["z"]}}}
        },
    }
    (job / "result.json").write_text(json.dumps({"n_total_trials": 10, "stats": stats}))
    account = plan(job).account
    assert (account.found["trials the job planned"], account.found["trials the job counts"]) == (10, 9)
    assert any("The job counts 9 trials, and 6 are here" in note for note in account.notes)
    assert "The job has rewards of 3 trials, and 3 that are here were verified." not in account.notes
    assert any("is not over" in note for note in account.notes)


def test_an_archive_gives_the_step_and_is_not_unpacked(job, tmp_path):
    solved = result("one__ggggggg", verifier_result={"rewards": {"reward": 0.0}})
    archive(
        job / "trials_step7_20260729_101500.tar.gz",
        [
            ("one__ggggggg/config.json", {}),
            ("one__ggggggg/result.json", solved),
            ("../../escape__hhhhhhh/result.json", solved),
            ("/abs__iiiiiii/result.json", solved),
            ("../result.json", solved),
            ("link__jjjjjjj/result.json", None),
            ("result.json", solved),
            ("one__ggggggg/artifacts/nested__mmmmmmm/result.json", solved),
        ],
    )
    before = sorted(p.name for p in tmp_path.rglob("*"))
    with_step = next(s for s in events(plan(job), "rollouts.summarised") if s.get("step") is not None)
    assert (with_step["step"], with_step["started"]) == (7, 3)
    assert {t["trial_name"] for t in with_step["trials"]} == {"one__ggggggg", "escape__hhhhhhh", "abs__iiiiiii"}
    assert all(t["step"] == 7 for t in with_step["trials"])
    assert sorted(p.name for p in tmp_path.rglob("*")) == before


@pytest.mark.parametrize("lost", [4, 30], ids=["in what follows the last file", "in a file"])
def test_a_damaged_archive_is_refused_by_name(job, lost):
    packed = archive(job / "trials_step7_x.tar.gz", [("a/result.json", result("a"))])
    packed.write_bytes(packed.read_bytes()[:-lost])
    with pytest.raises(InvalidInput, match=r"trials_step7_x\.tar\.gz cannot be read"):
        plan(job)


def test_a_link_in_the_job_is_not_followed(job, tmp_path):
    outside = tmp_path / "outside"
    trial(outside, "secret__kkkkkkk", {"config.json": {}, "result.json": result("secret__kkkkkkk")})
    (job / "link__lllllll").symlink_to(outside / "secret__kkkkkkk")
    (job / "solved__aaaaaaa" / "verifier").symlink_to(outside)
    found = plan(job)
    assert events(found, "rollouts.summarised")[0]["started"] == 6
    assert sum(found.account.left_out.values()) == 1


@pytest.mark.parametrize("field", ["agent_result", "verifier_result", "exception_info", "started_at", "task_checksum"])
@pytest.mark.parametrize("value", [3, "x", [1], {"rewards": 5, "n_input_tokens": "many", "exception_type": {}}])
def test_a_field_of_another_form_is_unknown_and_no_error(tmp_path, field, value):
    trial(tmp_path, "odd__mmmmmmm", {"result.json": result("odd__mmmmmmm", **{field: value})})
    (said,) = events(plan(tmp_path), "rollouts.summarised")
    assert (said["started"], said["finished"]) == (1, 1)


def test_a_folder_without_a_trial_is_refused(tmp_path):
    with pytest.raises(InvalidInput) as caught:
        plan(tmp_path)
    assert caught.value.reason == "NO_ROWS"


def test_secrets_in_a_result_are_replaced(tmp_path):
    secret = "sk-" + "a1B2" * 8
    trial(tmp_path, "t__nnnnnnn", {"result.json": result("t__nnnnnnn", exception_info={"exception_type": secret})})
    found = plan(tmp_path)
    assert secret not in json.dumps(events(found))
    assert secret.encode() not in found.uploads[0].content
    assert found.account.redactions["openai_key"] >= 1
