"""Both stores, each test on an empty log with this release's schema.

On SQLite that is a file of its own; on Postgres a database that is emptied first, since making one takes longer than a
test. A test that changes the database itself takes a copy (`copy_of`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from sqlalchemy import create_engine

from ledger.log import schema
from ledger.log.log import Log
from ledger.log.ports import Store
from ledger.log.postgres import PostgresStore, driver_url
from ledger.log.sqlite import SqliteStore, sqlite_engine
from tests.log.builders import ORIGIN, running
from tests.support.databases import fresh_database, postgres_server

Open = Callable[[], Store]
"""Opens a store on the test's database; every call a new store on the same database."""


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    with postgres_server() as uri:
        yield uri


@pytest.fixture(scope="session")
def template(server: str) -> Iterator[str]:
    """The name of a database with the schema: copying it is quicker than migrating each time."""
    with fresh_database(server) as uri:
        engine = create_engine(driver_url(uri))
        schema.upgrade(engine)
        engine.dispose()
        yield urlsplit(uri).path[1:]


@pytest.fixture(scope="session")
def migrated_sqlite(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("template") / "ledger.db"
    engine = sqlite_engine(path)
    schema.upgrade(engine)
    with engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    engine.dispose()
    return path.read_bytes()


@contextmanager
def copy_of(server: str, template: str) -> Iterator[str]:
    """The URI of a database with the schema, dropped afterwards."""
    name = f"ledger_copy_{os.getpid()}_{os.urandom(4).hex()}"
    with psycopg.connect(server, autocommit=True) as connection:
        # FILE_COPY waits for a checkpoint of the whole server; the log does not.
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY WAL_LOG")
    try:
        yield urlunsplit(urlsplit(server)._replace(path=f"/{name}"))
    finally:
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


@pytest.fixture(scope="session")
def shared_database(server: str, template: str) -> Iterator[str]:
    with copy_of(server, template) as uri:
        yield uri


@pytest.fixture
def database(shared_database: str) -> str:
    """The URI of a Postgres database with an empty log."""
    empty(shared_database)
    return shared_database


def empty(uri: str) -> None:
    """Ends whatever a test left running, and empties the log past its guards."""
    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        # Rows are few: deleting them is quicker than TRUNCATE, which makes new files.
        connection.execute(
            "SET session_replication_role = replica;"
            " DELETE FROM log; DELETE FROM event; DELETE FROM payload; DELETE FROM event_tag"
        )
    created(PostgresStore(uri)).close()


@pytest.fixture
def database_file(tmp_path: Path, migrated_sqlite: bytes) -> Path:
    """A SQLite file with an empty log."""
    path = tmp_path / "ledger.db"
    path.write_bytes(migrated_sqlite)
    created(SqliteStore(path)).close()
    return path


@pytest.fixture(params=["sqlite", "postgres"])
def open_store(request: pytest.FixtureRequest) -> Iterator[Open]:
    """Opens stores on the test's database; those that the test leaves open are closed."""
    if request.param == "sqlite":
        path = request.getfixturevalue("database_file")
        make: Open = lambda: SqliteStore(path)  # noqa: E731  # two makers of one type
    else:
        uri = request.getfixturevalue("database")
        make = lambda: PostgresStore(uri)  # noqa: E731
    with ExitStack() as stack:

        def opened() -> Store:
            store = make()
            stack.callback(store.close)
            return store

        yield opened


@pytest.fixture
def store(open_store: Open) -> Store:
    return open_store()


@pytest.fixture
def log(store: Store) -> Iterator[Log]:
    with running(store) as started:
        yield started


def created(store: Store) -> Store:
    store.create(ORIGIN)
    return store
