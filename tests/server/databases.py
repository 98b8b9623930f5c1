"""Postgres databases that have this release's schema: migrated once, then copied."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit, urlunsplit

import psycopg
from sqlalchemy import create_engine

from ledger.log import schema
from ledger.log.postgres import driver_url
from tests.support.databases import fresh_database, postgres_server

_numbers = itertools.count()


class Databases:
    """Copies of one migrated database."""

    def __init__(self, server: str, template: str) -> None:
        self._server = server
        self._template = urlsplit(template).path.removeprefix("/")

    @contextmanager
    def fresh(self) -> Iterator[str]:
        """A database with the schema and no log in it, dropped afterwards."""
        name = f"ledger_copy_{os.getpid()}_{next(_numbers)}"
        with psycopg.connect(self._server, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {self._template}")
        try:
            yield urlunsplit(urlsplit(self._server)._replace(path=f"/{name}"))
        finally:
            with psycopg.connect(self._server, autocommit=True) as connection:
                connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


@contextmanager
def databases() -> Iterator[Databases]:
    with postgres_server() as server, fresh_database(server) as template:
        engine = create_engine(driver_url(template))
        schema.upgrade(engine)
        engine.dispose()
        yield Databases(server, template)
