"""Several processes train as one does: the same rewards, losses and gradients, and each other's checkpoints."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from ledger.client.testing import FakeLedger
from ledger.core.errors import InvalidInput
from services.trainer.distributed import Team
from services.trainer.launching import HOST, launch
from services.trainer.running import _take_gpu
from tests.trainer.runs import settings, train

CHANGES: dict[str, Any] = {
    "algorithm": {
        "policy_mini_batch_size": 2,
        "micro_train_batch_size_per_gpu": 3,
        "use_kl_loss": True,
        "loss_reduction": "sequence_mean",
    },
    "run": {"steps": 3, "checkpoint_interval": 2},
}


def config(folder: Path, **parts: Any) -> Path:
    """A file of settings. JSON's values are TOML's, and a table may be written in one line."""
    said = settings(folder, **parts).model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    path = folder.with_suffix(".toml")
    tables = [f"{name} = {_inline(value)}" for name, value in said.items()]
    path.write_text("\n".join(tables))
    return path


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {_inline(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    return json.dumps(value)


def metrics_of(ledger: FakeLedger) -> list[dict[str, float]]:
    return [e.payload["steps"][0]["metrics"] for e in ledger.of_type("steps.logged")]


def comparable(metrics: dict[str, float]) -> dict[str, float]:
    return {name: value for name, value in metrics.items() if not name.startswith(("timing/", "weights/"))}


def test_two_processes_train_as_one_and_go_on_from_one_anothers_checkpoints(tmp_path):
    """Losses, gradients and entropies agree to float32's rounding; rewards, being of sampled tokens, exactly."""
    with FakeLedger() as alone, FakeLedger() as together:
        one = train(settings(tmp_path / "one", **CHANGES), address=alone.address)
        told: list[Any] = []
        outcome = launch(
            [str(config(tmp_path / "two", **CHANGES)), f"--address={together.address}"], 2, tell=told.append
        )
    assert outcome["last_step"] == 3
    assert [each["step"] for each in told if each["kind"] == "step"] == [1, 2, 3]
    for ours, theirs in zip(metrics_of(alone), metrics_of(together), strict=True):
        assert comparable(theirs) == pytest.approx(comparable(ours), abs=5e-6, rel=5e-5)
        assert ours["reward/avg_raw_reward"] == theirs["reward/avg_raw_reward"]
    saved = together.of_type("checkpoint.committed")[0].payload
    assert saved["world_size"] == 2
    assert {"rng/rank_0.json", "rng/rank_1.json"} <= {f["path"] for f in saved["files"]}
    assert len(together.of_type("attempt.started")) == 1
    assert together.of_type("run.declared")[0].payload["parallelism"] == {
        "strategy": "fsdp2",
        "data": 2,
        "devices": 2,
        "device_type": "cpu",
        "rollout_engines": 1,
    }
    # Two processes' save, read by one, goes on as one process's own does.
    more = {**CHANGES, "run": {"steps": 4, "checkpoint_interval": 2}}
    by_one = train(settings(tmp_path / "two", **more))
    own = train(settings(tmp_path / "one", **more))
    assert by_one.outcome.from_step == 3
    assert by_one.steps("reward") == own.steps("reward")
    assert by_one.steps("loss", "grad_norm")[0] == pytest.approx(own.steps("loss", "grad_norm")[0], abs=5e-6, rel=5e-4)
    assert one.outcome.last_step == 3


@pytest.mark.slow
def test_one_processs_save_is_read_by_two_with_fresh_generators_for_the_new_one(tmp_path):
    train(settings(tmp_path / "run", **CHANGES))
    whole = train(settings(tmp_path / "whole", **{**CHANGES, "run": {"steps": 5, "checkpoint_interval": 2}}))
    changed = config(tmp_path / "run", **{**CHANGES, "run": {"steps": 5, "checkpoint_interval": 2}})
    told: list[Any] = []
    launch([str(changed)], 2, tell=told.append)
    rewards = [each["reward"] for each in told if each["kind"] == "step"]
    assert rewards == [reward for (reward,) in whole.steps("reward")[3:]]


@pytest.mark.slow
def test_what_the_first_process_refuses_is_raised_once_as_it_was(tmp_path):
    path = config(tmp_path / "run", data=[{"kind": "reasoning-gym", "name": "countdown"}])
    with pytest.raises(InvalidInput) as alone:
        train(settings(tmp_path / "run", data=[{"kind": "reasoning-gym", "name": "countdown"}]))
    with pytest.raises(Exception) as together:
        launch([str(path)], 2, tell=lambda _: None)
    assert str(together.value) == str(alone.value)


@pytest.mark.slow
def test_two_processes_train_in_bfloat16_as_one_does_about(tmp_path):
    """The optimizer's copies are spread as the parameters are, and saved and read back so."""
    changes = {"model": {"dtype": "bfloat16"}, "algorithm": {"train_batch_size": 2}}
    one = train(settings(tmp_path / "one", run={"steps": 2}, **changes))
    told: list[Any] = []
    launch([str(config(tmp_path / "two", run={"steps": 2}, **changes))], 2, tell=told.append)
    found = [(each["reward"], each["loss"]) for each in told if each["kind"] == "step"]
    assert found[0] == pytest.approx(one.steps("reward", "loss")[0], abs=1e-2)
    launch([str(config(tmp_path / "two", run={"steps": 4}, **changes))], 2, tell=told.append)
    assert [each["step"] for each in told if each["kind"] == "step"] == [1, 2, 3, 4]
    assert train(settings(tmp_path / "two", run={"steps": 5}, **changes)).outcome.from_step == 4


def test_a_numbered_device_is_no_place_for_several_processes(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    with pytest.raises(InvalidInput, match="cuda:1 is one device, and there are 2 processes"):
        Team.join(torch.device("cuda:1"))


def test_a_process_for_which_there_is_no_gpu_is_told_how_many_there_are():
    with pytest.raises(InvalidInput, match="process 2 of this machine has no GPU of its own: there are 2") as raised:
        _take_gpu(2, 2)
    assert "Start 2 processes at most" in raised.value.remedy


@pytest.mark.slow
def test_torchs_own_launcher_does_the_same_and_only_one_process_has_the_word(tmp_path):
    path = config(tmp_path / "run", run={"steps": 2})
    with socket.create_server((HOST, 0)) as found:
        port = found.getsockname()[1]
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node=2", f"--master-addr={HOST}", f"--master-port={port}"]
    done = subprocess.run(
        [sys.executable, *launcher, "-m", "services.trainer", str(path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "tiny: attempt 1, from the start, 2 steps, 2 processes."
    assert [line.partition(" ")[0] for line in lines[1:]] == ["step", "step", "saved", "tiny:"]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_what_stops_the_launcher_ends_all_processes_and_cancels_the_attempt(tmp_path, number):
    """At the terminal an interrupt reaches all of them at once."""
    path = config(tmp_path / "run", run={"steps": 100_000, "checkpoint_interval": 1000})
    program = "import sys; from services.trainer.launching import launch; launch(sys.argv[1:], 2, tell=lambda t: print(t['kind'], flush=True))"
    with subprocess.Popen(
        [sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as launcher:
        assert launcher.stdout is not None
        next(line for line in launcher.stdout if line.startswith("step"))
        if number == signal.SIGINT:
            os.killpg(launcher.pid, number)
        else:
            launcher.send_signal(number)
        assert launcher.wait(60) != 0
    spooled = b"".join(p.read_bytes() for p in (tmp_path / "run" / "spool").glob("*.seg"))
    assert b'"ending":"cancelled","reason":"SIGTERM"' in spooled
