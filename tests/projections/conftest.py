"""Empty databases for the tests of the projection."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest

from tests.projections.bench import Bench, postgres_bench, sqlite_bench
from tests.server.databases import Databases, databases


@pytest.fixture(scope="session")
def postgres() -> Iterator[Databases]:
    with databases() as made:
        yield made


@pytest.fixture
def database(postgres: Databases) -> Iterator[str]:
    with postgres.fresh() as uri:
        yield uri


Opener = Callable[..., AbstractContextManager[Bench]]


@pytest.fixture(params=["sqlite", "postgres"])
def open_bench(request: pytest.FixtureRequest) -> Opener:
    """Opens a bench on each store; takes the rules of sources, and by name those of runs."""
    if request.param == "sqlite":
        return sqlite_bench
    uri = request.getfixturevalue("database")
    return lambda *rules, runs=None: postgres_bench(uri, *rules, runs=runs)
