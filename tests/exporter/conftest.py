from __future__ import annotations

from pathlib import Path

import pytest

from tests.client.exports.conftest import s3, s3_address  # noqa: F401  # fixtures
from tests.exporter import checkpoints


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture(scope="session")
def two_processes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A save of the model of seed 0, by two processes."""
    return checkpoints.save_by_two_processes(tmp_path_factory.mktemp("two") / "global_step_40")
