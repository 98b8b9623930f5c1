"""The hooks and the watcher beside the published Harbor: its own queue runs its own trials, in an environment of nothing.

Harbor needs Python 3.12, which the environment of `.ci/set-up peers` need not have: in another one,

    pip install -e '.[dev]' harbor==0.25.0
    pytest -m peers tests/peers/adapters/test_harbor_package.py
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("harbor", reason="harbor 0.25, for which Python 3.12 is needed")

from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.models.trial.config import AgentConfig, EnvironmentConfig, TaskConfig, TrialConfig
from harbor.trial.queue import TrialQueue

from ledger.client import Recorder
from ledger.client.testing import FakeLedger
from services.adapters.harbor import Known, TrialHooks, Watcher
from tests.adapters.recorded import said

pytestmark = [
    pytest.mark.peers,
    pytest.mark.filterwarnings("ignore"),  # what harbor and its packages warn of is theirs
]


class Nothing(BaseEnvironment):
    """An environment that runs nothing and whose verifier is content."""

    @staticmethod
    def type() -> str:
        return "nothing"

    def _validate_definition(self) -> None: ...

    async def start(self, force_build: bool) -> None:
        if self.environment_name == "broken":
            raise RuntimeError("no such image")

    async def stop(self, delete: bool) -> None: ...

    async def upload_file(self, source_path: Any, target_path: str) -> None: ...

    async def upload_dir(self, source_dir: Any, target_dir: str) -> None: ...

    async def download_file(self, source_path: str, target_path: Any) -> None: ...

    async def download_dir(self, source_dir: str, target_dir: Any) -> None:
        if "verifier" in source_dir:
            verify(Path(target_dir))

    async def exec(self, command: str, *_: Any, **__: Any) -> ExecResult:
        return ExecResult(stdout="", stderr="", return_code=0)


def verify(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "reward.txt").write_text("1.0")


def task(folder: Path, name: str) -> Path:
    made = folder / name
    for file, content in {
        "instruction.md": "Do nothing.",
        "task.toml": 'version = "1.0"\n',
        "environment/Dockerfile": "FROM scratch\n",
        "tests/test.sh": "#!/bin/sh\nexit 0\n",
        "solution/solve.sh": "#!/bin/sh\nexit 0\n",
    }.items():
        path = made / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return made


def run(job: Path, folder: Path, hooks: TrialHooks | None, *names: str) -> None:
    environment = EnvironmentConfig(import_path=f"{__name__}:Nothing")
    configs = [
        TrialConfig(
            task=TaskConfig(path=task(folder, name)),
            trial_name=f"{name}__abc",
            trials_dir=job,
            agent=AgentConfig(name="nop"),
            environment=environment,
        )
        for name in names
    ]
    queue = TrialQueue(n_concurrent=2)
    if hooks is not None:
        hooks.attach(queue)

    async def all_of_them() -> None:
        await asyncio.gather(*queue.submit_batch(configs))

    asyncio.run(all_of_them())


@pytest.fixture
def ledger():
    with FakeLedger() as made:
        yield made


@pytest.fixture
def rec(ledger, tmp_path):
    with Recorder(ledger.address, run="arm", spool=tmp_path / "spool", rank=0, strict=True) as made:
        yield made


def trials(rec: Recorder, ledger: FakeLedger) -> dict[str, Any]:
    rec.flush(20)
    return {one["trial_name"]: one for s in said(ledger, "rollouts.summarised") for one in s["trials"]}


def test_the_runners_own_hooks_tell_a_trial_that_is_solved_and_one_that_fails(rec, ledger, tmp_path):
    hooks = TrialHooks(rec, known=lambda _, name: Known(step=4, weight_version=3, group=name))
    run(tmp_path / "job", tmp_path, hooks, "solved", "broken")
    found = trials(rec, ledger)
    solved, broken = found["solved__abc"], found["broken__abc"]
    assert (solved["reward"], solved["step"], solved["weight_version"]) == (1.0, 4, 3)
    assert len(solved["task_checksum"]) == 64
    assert solved["seconds"] >= 0
    assert solved["started_at"].endswith("Z")
    assert (broken["exception_type"], broken.get("reward")) == ("RuntimeError", None)
    rec.flush(20)
    hooks.close()
    assert len(said(ledger, "rollouts.summarised")) == 2


def test_the_watcher_reads_what_the_runner_writes(rec, ledger, tmp_path):
    run(tmp_path / "job", tmp_path, None, "solved", "broken")
    watcher = Watcher(tmp_path / "job", rec, memory=tmp_path / "told")
    assert [watcher.look(), watcher.look()] == [2, 0]
    found = trials(rec, ledger)
    assert found["solved__abc"]["reward"] == 1.0
    assert found["broken__abc"]["exception_type"] == "RuntimeError"
