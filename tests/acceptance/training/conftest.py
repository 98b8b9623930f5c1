"""One ledger under the corrected rules for all lessons: each test keeps to runs and sources of its own."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import ROWS, copied, open_doors
from tests.acceptance.corrected import Corrected
from tests.acceptance.doors import Doors
from tests.acceptance.training.trained import Trained

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def trained_doors(corrected_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    """The ledger, which lists the real inventory."""
    with open_doors(copied(corrected_home, tmp_path_factory.mktemp("trained"))) as doors:
        yield doors


@pytest.fixture(scope="session")
def unused_rows() -> Iterator[dict[str, Any]]:
    """Sources whose data and verifier revisions are known, each given out once."""
    return iter([row for row in ROWS if "dataset_revision" in row and "verifier_revision" in row])


@pytest.fixture
def source(trained_doors: Doors, unused_rows: Iterator[dict[str, Any]], tmp_path: Path) -> Corrected:
    """A source that nobody has reviewed or trained on."""
    return Corrected(trained_doors, next(unused_rows), tmp_path)


@pytest.fixture
def arm(trained_doors: Doors, tmp_path: Path) -> Trained:
    """A run of which nothing is recorded."""
    return Trained(trained_doors, f"arm-{next(_numbers):03}", tmp_path)


@pytest.fixture
def other_arm(trained_doors: Doors, tmp_path: Path) -> Trained:
    """Another one."""
    return Trained(trained_doors, f"arm-{next(_numbers):03}", tmp_path)
