"""A run that was trained once for each module that asks for it, and copies of it to spoil."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.trainer.runs import Ran, settings, train


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return train(settings(tmp_path_factory.mktemp("trained")))


@pytest.fixture
def copied(trained: Ran, tmp_path: Path) -> Path:
    """A run's folder of a test's own."""
    shutil.copytree(trained.folder, tmp_path / "run")
    return tmp_path / "run"
