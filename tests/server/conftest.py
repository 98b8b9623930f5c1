"""One Postgres for the tests of the server, an empty database for each test, and doors to servers on either store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.databases import Databases, databases
from tests.server.doors import Doors, served


@pytest.fixture(scope="session")
def postgres() -> Iterator[Databases]:
    with databases() as made:
        yield made


@pytest.fixture
def database(postgres: Databases) -> Iterator[str]:
    """A database with this release's schema, and no log in it."""
    with postgres.fresh() as uri:
        yield uri


@pytest.fixture
def doors(tmp_path: Path) -> Iterator[Doors]:
    """A server on SQLite, of a log begun under the rules of the Atlas page."""
    with served(tmp_path / "home", first_rules="atlas-page-1") as opened:
        yield opened


@pytest.fixture(params=["sqlite", "postgres"])
def either(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Doors]:
    """A server on each store, of a log begun under the rules of the Atlas page."""
    db = request.getfixturevalue("database") if request.param == "postgres" else None
    with served(tmp_path / "home", db, first_rules="atlas-page-1") as opened:
        yield opened
