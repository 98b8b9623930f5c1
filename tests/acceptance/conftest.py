"""Ledgers that hold the real inventory, and sources of it that no other test has touched."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ledger.client import connect
from services.cli.demo_plan import INVENTORY
from services.server.app import in_process
from services.server.settings import Settings
from tests.acceptance.corrected import Corrected
from tests.acceptance.curated import Curated
from tests.acceptance.doors import Doors
from tests.support.databases import postgres_server

ROWS: list[dict[str, Any]] = [json.loads(line) for line in INVENTORY.read_text().splitlines()]


@contextmanager
def open_doors(home: Path, db: str | None = None, *, first_rules: str = "atlas-page-1") -> Iterator[Doors]:
    """A server of a home, and both ways to speak to it; a new log begins under the rules of the Atlas page."""
    with in_process(Settings(home=home, db=db, first_rules=first_rules)) as address, connect(address) as connection:
        yield Doors(connection)


@pytest.fixture(autouse=True)
def nobodys_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test runs in an empty folder, without anybody's settings; gives the folder."""
    for name in [n for n in os.environ if n.startswith("LEDGER_")] + ["NO_COLOR", "FORCE_COLOR"]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture(scope="session")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home that lists the real inventory: only to be copied."""
    home = tmp_path_factory.mktemp("imported") / "home"
    with open_doors(home) as doors:
        doors.record("catalogue", "import", INVENTORY)
    return home


def copied(home: Path, folder: Path) -> Path:
    """A copy of a home that nobody holds."""
    return Path(shutil.copytree(home, folder / "home"))


@pytest.fixture(scope="module")
def untouched(imported: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    """A ledger that lists the real inventory, only to be read from."""
    with open_doors(copied(imported, tmp_path_factory.mktemp("untouched"))) as doors:
        yield doors


@pytest.fixture(scope="module")
def shared_doors(imported: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    """One ledger for all tests of a module that each keep to a source of their own."""
    with open_doors(copied(imported, tmp_path_factory.mktemp("shared"))) as doors:
        yield doors


@pytest.fixture
def doors(imported: Path, tmp_path: Path) -> Iterator[Doors]:
    """A ledger of the test's own that lists the real inventory."""
    with open_doors(copied(imported, tmp_path)) as own:
        yield own


@pytest.fixture(scope="module")
def pinned_rows() -> Iterator[dict[str, Any]]:
    """Rows whose data and verifier revisions are known, each given out once."""
    return iter([row for row in ROWS if "dataset_revision" in row and "verifier_revision" in row])


@pytest.fixture(scope="module")
def unpinned_rows() -> Iterator[dict[str, Any]]:
    """Rows without a verifier revision, each given out once."""
    return iter([row for row in ROWS if "verifier_revision" not in row])


@pytest.fixture
def source(shared_doors: Doors, pinned_rows: Iterator[dict[str, Any]], tmp_path: Path) -> Curated:
    """A source that nobody has reviewed, its revisions known."""
    return Curated(shared_doors, next(pinned_rows), tmp_path)


@pytest.fixture
def unpinned(shared_doors: Doors, unpinned_rows: Iterator[dict[str, Any]], tmp_path: Path) -> Curated:
    """A source that nobody has reviewed, its verifier revision unknown."""
    return Curated(shared_doors, next(unpinned_rows), tmp_path)


@pytest.fixture
def svamp(doors: Doors, tmp_path: Path) -> Curated:
    """MarinSkyRL:svamp in a ledger of the test's own."""
    return Curated(doors, next(row for row in ROWS if row["id"] == "MarinSkyRL:svamp"), tmp_path)


@pytest.fixture(scope="session")
def corrected_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home that lists the real inventory under the corrected rules: only to be copied."""
    home = tmp_path_factory.mktemp("corrected") / "home"
    with open_doors(home, first_rules="ledger-1") as doors:
        doors.record("catalogue", "import", INVENTORY)
    return home


@pytest.fixture(scope="module")
def corrected_doors(corrected_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    """One ledger under the corrected rules, for all tests of a module that each keep to sources of their own."""
    with open_doors(copied(corrected_home, tmp_path_factory.mktemp("shared"))) as doors:
        yield doors


@pytest.fixture
def judged(corrected_doors: Doors, pinned_rows: Iterator[dict[str, Any]], tmp_path: Path) -> Corrected:
    """A source that nobody has reviewed, its revisions known, under the corrected rules."""
    return Corrected(corrected_doors, next(pinned_rows), tmp_path)


@pytest.fixture
def neighbour(corrected_doors: Doors, pinned_rows: Iterator[dict[str, Any]], tmp_path: Path) -> Corrected:
    """Another one of the same ledger."""
    return Corrected(corrected_doors, next(pinned_rows), tmp_path)


@pytest.fixture
def unknown(corrected_doors: Doors, unpinned_rows: Iterator[dict[str, Any]], tmp_path: Path) -> Corrected:
    """One whose verifier revision nobody knows."""
    return Corrected(corrected_doors, next(unpinned_rows), tmp_path)


@pytest.fixture
def unknown_neighbour(corrected_doors: Doors, unpinned_rows: Iterator[dict[str, Any]], tmp_path: Path) -> Corrected:
    """Another one of the same release."""
    return Corrected(corrected_doors, next(unpinned_rows), tmp_path)


@pytest.fixture
def own_home(corrected_home: Path, tmp_path: Path) -> Path:
    """A home of the test's own under the corrected rules, which nobody holds."""
    return copied(corrected_home, tmp_path)


@pytest.fixture(scope="module")
def code_doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    """A ledger that decides as the applet's later code does."""
    with open_doors(tmp_path_factory.mktemp("code") / "home", first_rules="atlas-code-1") as doors:
        doors.record("catalogue", "import", INVENTORY)
        yield doors


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    with postgres_server() as uri:
        yield uri
