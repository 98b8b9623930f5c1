"""A run whose rollouts vLLM draws in the trainer's process: it learns, is killed, goes on, and is exported.

The trainer and the exporter are processes of this environment. The ledger is served from the project's own, since this
one holds nothing that a server needs.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from ledger.client import connect
from ledger.client.reader import coordinates
from ledger.client.runs import Runs
from ledger.wire import runs_pb2
from services.trainer import models
from services.trainer.settings import read_settings
from tests.acceptance.doors import Doors
from tests.acceptance.training.processes import Server
from tests.acceptance.training.told import Learner, command

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv/bin/python"
RUN = "digits-by-vllm"
STEPS = 14
REWARD = "reward/avg_raw_reward"
SETTINGS = f"""
[run]
id = "{RUN}"
folder = "run"
steps = {STEPS}
checkpoint_interval = 4
seed = 1
threads = 1

[model]
kind = "tiny-qwen3"
seed = 1
layers = 1

[[data]]
kind = "digits"
count = 200

[algorithm]
train_batch_size = 10
n_samples_per_prompt = 32
micro_train_batch_size_per_gpu = 320
max_input_length = 16
max_generate_length = 2
learning_rate = 6e-3
use_tis = true
tis_imp_ratio_cap = 2.0

[rollouts]
engine = "vllm"
"""

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif(not PYTHON.exists(), reason="the ledger is served from .venv, which is not there"),
]


class Served(Server):
    """The command in the project's own environment."""

    def start(self) -> None:
        port = self.address.partition(":")[2]
        self._process = subprocess.Popen(
            [PYTHON, "-m", "services.cli", "serve", "--home", self.home, "--port", port, "--json"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline(), "the server did not start"


@pytest.fixture
def doors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Doors]:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    server = Served(tmp_path / "home")
    server.start()
    try:
        with connect(server.address) as connection:
            yield Doors(connection)
    finally:
        server.stop()


def test_a_run_learns_by_vllm_through_a_death_and_its_export_is_verified(doors: Doors, tmp_path: Path) -> None:
    config = tmp_path / "run.toml"
    config.write_text(SETTINGS)
    where = ["--address", doors.connection.address]
    trained_through_a_death(config, *where)
    run = asked(doors).run
    learnt(doors, run)
    always_from_the_trainers_weights(doors, run)
    (selection,) = run.selections
    assert selection.recomputed == "agrees"

    start, export = tmp_path / "start", tmp_path / "export"
    models.load(read_settings(config).model).model.save_pretrained(start)
    checkpoint = tmp_path / f"run/checkpoints/global_step_{selection.step}"
    told = command("export", "model", checkpoint, "--to", export, "--base", start, *where)
    assert {check["outcome"] for check in told["checks"]} == {"passed"}
    (exported,) = asked(doors).exports
    assert (exported.id, exported.status) == (told["export_id"], "verified")

    card = doors.run("card", RUN).out
    assert f"The export `{exported.id}` was verified" in card
    assert "the rollout engine `vllm`" in card


def asked(doors: Doors) -> runs_pb2.RunAsOfResponse:
    return Runs(doors.connection).run(RUN, coordinates(min_size=doors.size))


def trained_through_a_death(config: Path, *where: object) -> None:
    """Killed in a step after the first save; the same command goes on from it."""
    first = Learner(1, config, *where)
    try:
        first.until(lambda line: line["kind"] == "step" and line["step"] == 6)
    finally:
        first.stop()
    second = Learner(2, config, *where)
    try:
        assert second.finish() == 0
    finally:
        second.stop()
    saved = [line["step"] for line in first.lines if line["kind"] == "saved"]
    assert [line["from_step"] for line in second.lines if line["kind"] == "begin"] == saved[-1:]
    assert second.lines[-1]["refused"] == []


def learnt(doors: Doors, run: runs_pb2.Run) -> None:
    """Every step is there once, and later answers are better."""
    pages = Runs(doors.connection).steps(RUN, coordinates(min_size=doors.size))
    rewards = {row.step: row.metrics[REWARD] for page in pages for row in page.rows if not row.abandoned}
    assert list(rewards) == list(range(1, STEPS + 1))
    assert mean(rewards[step] for step in range(1, 4)) < 0.2
    assert mean(rewards[step] for step in range(STEPS - 2, STEPS + 1)) > 0.35
    assert (run.summary.status, run.completeness.verdict) == ("completed", "complete")
    assert [attempt.resumed_from_attempt for attempt in run.attempts][1:] == [1]


def always_from_the_trainers_weights(doors: Doors, run: runs_pb2.Run) -> None:
    """The probe after each sync agrees, also after the resume, and importance weights were applied at every step."""
    events = doors.reader.events(streams=[f"run/{RUN}"], types=["weights.synced"])
    synced = [json.loads(event.payload) for event in events]
    assert [sync["step"] for sync in synced][-1] == STEPS
    assert (run.weight_syncs.probed, run.weight_syncs.failed) == (len(synced), 0)
    assert all(sync["probe_difference"] < sync["probe_tolerance"] for sync in synced)
    made = sum(attempt.steps for attempt in run.attempts)
    assert (run.objective.tis_applied_steps, run.objective.tis_steps) == (made, made)


def mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found)
