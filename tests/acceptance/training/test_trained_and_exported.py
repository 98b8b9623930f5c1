"""A run from a reviewed source to an exported model, through deaths, a collapse and a defect found afterwards.

The story is told once (`told.py`), by real processes: a server, three starts of the trainer, the exporter. The tests
ask the ledger that remains about it, and look at the files that do.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch
from moto.server import ThreadedMotoServer
from transformers import AutoModelForCausalLM, AutoTokenizer

from ledger.client.rollouts import path_of, read_rollouts
from ledger.wire import runs_pb2
from services.trainer.tasks.verifiers import last_number
from tests.acceptance.conftest import copied, open_doors
from tests.acceptance.doors import Doors, ledger
from tests.acceptance.training.told import INTERVAL, RUN, SOURCE, STEPS, Told, tell
from tests.acceptance.training.trained import ENTROPY, REWARD, RULE, Trained, checkpoint, export_of, problems

SAMPLES = 320
"""Of a step."""
SHOWN = {
    "reward": REWARD,
    "entropy": ENTROPY,
    "grad_norm": "policy/raw_grad_norm",
    "loss": "policy/final_loss",
    "seconds": "timing/step",
}
"""What a line of the trainer says, by the metric that it is of."""
COLLAPSES = ("entropy_collapse", "reward_collapse")
CHECKS = (
    "index_parses",
    "shards_present",
    "weight_map_complete",
    "total_size",
    "not_truncated",
    "base_tensors",
    "parameter_count",
    "file_digests",
    "differs_from_base",
)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    """The story: told by whichever process of the tests comes first, and read by the others."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "trained-and-exported"
    folder.mkdir(exist_ok=True)
    made = folder / "made.json"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            story = folder / "story"
            story.mkdir()
            made.write_text(json.dumps(tell(story).made))
    return Told(folder / "story", json.loads(made.read_text()))


@pytest.fixture(scope="module")
def doors(told: Told, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    """A ledger of the home that the story left."""
    with open_doors(copied(told.home, tmp_path_factory.mktemp("told"))) as opened:
        yield opened


@pytest.fixture
def trained(doors: Doors, told: Told) -> Trained:
    return Trained(doors, RUN, told.folder)


@pytest.fixture
def run(trained: Trained) -> runs_pb2.Run:
    return trained.run()


def made(told: Told, attempt: int | None = None) -> list[tuple[int, int]]:
    """The steps that the trainer said it made: attempt and step."""
    return [(line["attempt"], line["step"]) for line in told.lines("step", attempt)]


def unsaid(told: Told) -> set[tuple[int, int]]:
    """Steps at which the trainer was killed: they may be made and recorded, and nobody was told."""
    return {(attempt, made(told, attempt)[-1][1] + 1) for attempt in (1, 2)}


def last_saved(told: Told, attempt: int) -> int:
    return max(line["step"] for line in told.lines("saved", attempt))


def chosen(run: runs_pb2.Run) -> runs_pb2.Checkpoint:
    (selection,) = run.selections
    return checkpoint(run, selection.step, selection.attempt)


# The source before


def test_the_run_cites_what_the_ledger_knew_of_its_source_when_it_began(told: Told, trained: Trained) -> None:
    assert told.made["checked"]["passed"]
    receipt = (told.folder / "consumption.json").read_bytes()
    (declared, *later) = trained.payloads("run.declared")
    for each in (declared, *later):
        assert each["consumption_receipt"]["sha256"] == hashlib.sha256(receipt).hexdigest()
        assert each["consumption_size"] == json.loads(receipt)["size"]
    (source,) = trained.answer().sources
    assert (source.atlas_id, source.at_start.quality) == (SOURCE, "good")
    (data,) = declared["sources"]
    assert data["dataset_revision"] == source.at_start.dataset_revision
    assert data["verifier_revision"] == source.at_start.verifier_revision


# Deaths


def test_a_killed_trainer_goes_on_from_its_last_whole_checkpoint(told: Told, run: runs_pb2.Run) -> None:
    began = [line["from_step"] for line in told.lines("begin")]
    assert began == [0, last_saved(told, 1), last_saved(told, 2)]
    assert [attempt.resumed_from_step for attempt in run.attempts[1:]] == began[1:]
    assert [attempt.resumed_from_attempt for attempt in run.attempts[1:]] == [1, 2]
    assert [attempt.status for attempt in run.attempts] == ["open", "open", "completed"]
    assert (told.made["trainer_ended"], run.summary.status) == (0, "completed")


def test_a_half_save_is_named_and_never_loaded(told: Told, run: runs_pb2.Run) -> None:
    half = told.made["half"]
    step = int(half.split("-")[1])
    assert step == last_saved(told, 2) + INTERVAL
    assert told.checkpoint(half).is_dir()
    (refused,) = [line["text"] for line in told.lines("note", 3) if half in line["text"]]
    assert "half a save: it is never loaded" in refused
    assert checkpoint(run, step, 2).status == "save_started"
    assert checkpoint(run, step, 3).status == "committed"


def test_a_step_that_is_made_again_from_a_checkpoint_comes_out_the_same(told: Told) -> None:
    """Weights, optimizer, data and random generators are all read back: the numbers are equal to the last bit."""
    again = {step for _, step in made(told, 1)} & {step for _, step in made(told, 2)}
    assert again
    said = [
        {line["step"]: [line[name] for name in SHOWN if name != "seconds"] for line in told.lines("step", attempt)}
        for attempt in (1, 2)
    ]
    assert [said[0][step] for step in again] == [said[1][step] for step in again]


# What is recorded


def test_every_step_that_was_made_is_in_the_ledger_once_with_its_numbers(told: Told, trained: Trained) -> None:
    rows = trained.rows()
    recorded = {(row.attempt, row.step): row for row in rows}
    assert len(recorded) == len(rows)
    assert set(made(told)) <= set(recorded) <= set(made(told)) | unsaid(told)
    for line in told.lines("step"):
        metrics = recorded[line["attempt"], line["step"]].metrics
        assert {name: metrics[key] for name, key in SHOWN.items()} == {name: line[name] for name in SHOWN}
    assert {row.step for row in rows if not row.abandoned} == set(range(1, STEPS + 1))


def test_nothing_is_missing_although_the_server_was_away(
    told: Told, trained: Trained, run: runs_pb2.Run, doors: Doors
) -> None:
    assert told.made["server_ended"] == 0
    away = [row for row in trained.rows() if row.pos >= told.made["size_while_away"]]
    assert {1, 2} <= {row.attempt for row in away}
    (spool,) = told.made["synced"]
    assert (spool["refused"], spool["left"]) == ([], 0)
    assert told.lines("end")[-1]["refused"] == []
    assert run.completeness.verdict == "complete"
    assert all(not producer.missing and not producer.dropped for producer in run.completeness.producers)
    assert told.made["fsck"]["ok"]
    assert told.made["fsck"]["size"] == doors.size


def test_the_engine_sampled_from_the_weights_that_the_trainer_had(trained: Trained, run: runs_pb2.Run) -> None:
    synced = trained.payloads("weights.synced")
    assert (run.weight_syncs.count, run.weight_syncs.failed) == (len(synced), 0)
    assert all(sync["probe_difference"] < sync["probe_tolerance"] for sync in synced)


# The collapse


def test_the_reward_rises_and_the_unregularised_objective_loses_it(told: Told, run: runs_pb2.Run) -> None:
    last = run.attempts[-1]
    rewards = {row["step"]: row["reward"] for row in told.lines("step")}
    assert max(rewards[step] for step in range(1, 6)) < 0.2
    assert rewards[last.first_step] > 0.5, "it begins with what was learnt"
    assert max(rewards[step] for step in range(STEPS - 4, STEPS + 1)) < 0.2
    (changed,) = run.drifts
    assert {change.path.removeprefix("algorithm.") for change in changed.changes} == {
        "learning_rate",
        "use_entropy_loss",
        "entropy_loss_coef",
    }
    assert {flag.code for flag in run.flags} == {"CONFIG_DRIFTED"}
    assert "The settings are not those" in " ".join(line["text"] for line in told.lines("note", 3))


def test_the_collapse_is_detected_with_its_onset_and_the_save_before_it(told: Told, run: runs_pb2.Run) -> None:
    found = {anomaly.kind: anomaly for anomaly in run.anomalies}
    assert found.keys() == set(COLLAPSES)
    resumed = last_saved(told, 2)
    for anomaly in found.values():
        assert (anomaly.attempt, anomaly.origin) == (3, "derived")
        assert resumed + 1 < anomaly.onset_step <= anomaly.seen_at_step - 2, "the step after the resume was still good"
        assert anomaly.positions
    (before,) = [each for each in run.checkpoints if each.last_before_collapse]
    assert (before.step, before.attempt) == (resumed, 2)
    lost = [each for each in run.checkpoints if each.attempt == 3 and each.status == "committed"]
    assert lost
    assert not any(each.before_collapse for each in lost)


# The choice


def test_the_rule_chooses_a_save_from_before_the_collapse_and_the_ledger_agrees(told: Told, run: runs_pb2.Run) -> None:
    (selection,) = run.selections
    (said,) = [line["selected"] for line in told.lines("end")]
    assert (selection.step, selection.attempt) == (said["step"], said["attempt"])
    assert (selection.recorded_ema, selection.recorded_reward) == (said["ema"], said["reward"])
    assert (selection.recomputed, selection.computed_step) == ("agrees", selection.step)
    assert selection.computed_ema == pytest.approx(said["ema"])
    assert chosen(run).before_collapse
    assert chosen(run).ema == max(each.ema for each in run.checkpoints if each.eligible)


def test_a_later_save_cannot_be_chosen_and_the_numbers_say_why(trained: Trained, run: runs_pb2.Run) -> None:
    rule = {**RULE, "alpha": 1 / 3, "interval": INTERVAL}
    said = {"run_id": RUN, "attempt": 3, "step": STEPS, "purpose": "export", "rule": rule, "ema": 0.9}
    error = trained.refused("checkpoint.selected", **said)
    assert error.reason == "REFUSED_BY_RULES"
    found = problems(error)
    assert "is not what the rule gives" in found["/step"]
    assert f"{chosen(run).ema:.4f}" in found["/step"]
    assert f"gives {checkpoint(run, STEPS, 3).ema:.4f}" in found["/ema"]


# The export


def test_the_export_of_the_chosen_checkpoint_is_verified_by_all_nine_checks(
    told: Told, trained: Trained, run: runs_pb2.Run
) -> None:
    said = told.made["exported"]
    assert (said["verified"], said["step"]) == (True, chosen(run).step)
    export = export_of(trained.answer(), said["export_id"])
    assert (export.status, export.route) == ("verified", "offline")
    assert (export.checkpoint.step, export.checkpoint.digest) == (chosen(run).step, chosen(run).digest)
    assert [(check.name, check.outcome) for check in export.checks] == [(name, "passed") for name in CHECKS]
    again = ledger("export", "verify", told.export, "--base", told.start, "--json")
    assert (again.code, [check["outcome"] for check in again.json["checks"][:-2]]) == (0, ["passed"] * 7)


def test_the_exported_model_solves_the_task_and_the_last_checkpoint_does_not(told: Told, tmp_path: Path) -> None:
    collapsed = tmp_path / "collapsed"
    last = told.checkpoint(f"global_step_{STEPS}")
    assert ledger("export", "model", last, "--to", collapsed, "--no-record").code == 0
    assert accuracy(told.export) > 0.7
    assert accuracy(collapsed) < 0.3


def accuracy(model: Path) -> float:
    """How many digits it answers, always with the likeliest token."""
    tokenizer, lm = AutoTokenizer.from_pretrained(model), AutoModelForCausalLM.from_pretrained(model)
    right = 0.0
    for digit in map(str, range(10)):
        said = [{"role": "user", "content": digit}]
        ids = tokenizer.apply_chat_template(said, add_generation_prompt=True, return_tensors="pt", return_dict=False)
        with torch.no_grad():
            answer = lm.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=4)
        right += last_number(digit, tokenizer.decode(answer[0, ids.shape[1] :], skip_special_tokens=True))
    return right / 10


def test_the_same_checkpoint_goes_to_an_object_store_as_well(told: Told, run: runs_pb2.Run, s3: str) -> None:
    folder = [line["path"] for line in told.lines("saved", chosen(run).attempt) if line["step"] == chosen(run).step]
    to = f"{s3}/{RUN}"
    sent = ledger("export", "model", folder[0], "--to", to, "--base", told.start, "--no-record", "--json")
    assert sent.json["digest"] == told.made["exported"]["digest"]
    assert ledger("export", "verify", to, "--base", told.start).code == 0


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A bucket of a local S3."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "somebody",
        "AWS_SECRET_ACCESS_KEY": "a-secret-of-somebody",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": "/dev/null",
        "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
    }.items():
        monkeypatch.setenv(name, value)
    import s3fs  # noqa: PLC0415  # half a second, for this test alone

    s3fs.S3FileSystem(skip_instance_cache=True).mkdirs("models", exist_ok=True)
    yield "s3://models"
    server.stop()


# What is known of it all


def test_the_card_tells_the_export_the_rule_the_collapse_and_the_source_at_three_moments(
    told: Told, trained: Trained, run: runs_pb2.Run
) -> None:
    card = trained.card()
    export_id = told.made["exported"]["export_id"]
    assert f"The export `{export_id}` was verified" in card
    assert f"(EMA {chosen(run).ema:.6g} and reward {chosen(run).reward:.6g})" in card
    assert "a snapshot from before the collapse" in card
    for anomaly in run.anomalies:
        kind = anomaly.kind.replace("_", " ")
        assert f"{kind} from step {anomaly.onset_step} on" in card
    moments = [line for line in card.splitlines() if line.startswith(("| when the ", "| now "))]
    assert [moment.split("|")[3].split(",")[0].strip() for moment in moments] == ["Good", "Good", "Some issues"]
    assert [moment.split("|")[4].strip().split(" ")[0] for moment in moments] == ["none", "none", "`d1`"]


def test_what_was_known_of_the_source_when_the_checkpoint_was_chosen_can_be_asked_after_a_defect(
    doors: Doors, trained: Trained, run: runs_pb2.Run
) -> None:
    (selection,) = run.selections
    then, now = doors.shown(SOURCE, at=selection.pos + 1), doors.shown(SOURCE)
    assert (then["quality"], then["open_defects"]) == ("good", [])
    assert (now["quality"], [defect["id"] for defect in now["open_defects"]]) == ("some_issues", ["d1"])
    (source,) = trained.answer().sources
    assert (source.at_selection.quality, source.now.quality) == ("good", "some_issues")


def test_the_defect_leads_to_the_run_its_checkpoints_and_its_export(
    told: Told, doors: Doors, trained: Trained, run: runs_pb2.Run
) -> None:
    affected = trained.affected(SOURCE)[RUN]
    assert affected.quality_at_start == "good"
    assert f"{RUN}@{chosen(run).step}" in affected.checkpoints
    assert list(affected.exports) == [told.made["exported"]["export_id"]]
    (turn,) = trained.turned()
    assert (turn.pos, turn.source_id, turn.event_type) == (told.made["defect"], SOURCE, "defect.confirmed")
    assert (turn.before_quality, turn.after_quality) == ("good", "some_issues")
    assert turn.pos == told.made["size_before_the_defect"] == doors.size - 1


# The traces


def test_the_traces_join_to_the_steps_of_the_ledger(told: Told, trained: Trained) -> None:
    rows = pq.read_table(told.traces / "data", columns=["attempt", "step", "weight_version", "reward"]).to_pylist()
    by_step = Counter((row["attempt"], row["step"]) for row in rows)
    logged = {(row.attempt, row.step): row for row in trained.rows()}
    assert set(logged) <= set(by_step) <= set(logged) | unsaid(told)
    assert set(by_step.values()) == {SAMPLES}
    for place, row in logged.items():
        alike = [each for each in rows if (each["attempt"], each["step"]) == place]
        assert {each["weight_version"] for each in alike} == {row.weight_version}
        assert sum(each["reward"] for each in alike) / SAMPLES == pytest.approx(row.metrics[REWARD], abs=1e-6)


def test_the_traces_cover_what_the_ledger_counted(told: Told, trained: Trained, run: runs_pb2.Run) -> None:
    built = told.made["built"]
    logged = [(row.attempt, row.step) for row in trained.rows()]
    left = Counter({"started": SAMPLES * len(logged)})
    assert run.coverage.started == run.coverage.finished == run.coverage.verified == left["started"]
    unrecorded = [
        rollout
        for attempt, step in unsaid(told) - set(logged)
        if (file := path_of(told.run, attempt, step)).exists()
        for rollout in read_rollouts(file)
    ]
    for stage in ("started", "finished", "verified", "consumed"):
        assert built["coverage"][stage] == getattr(run.coverage, stage) + len(unrecorded)
    assert built["coverage"]["trained"] == run.coverage.trained + sum(bool(each.trained) for each in unrecorded)
    assert built["coverage"]["published"] == built["rows"]
