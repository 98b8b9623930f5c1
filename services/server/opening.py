"""Opening the database that the settings name: its schema right, and whatever is in the way said with its remedy.

A database is ours when it holds the log's tables or none at all. One that belongs to something else is found out before
anything is written to it; its file is not so much as set up.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Final

import psycopg
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import Engine, create_engine, inspect, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError

from ledger.core.errors import Broken, InvalidInput, LedgerError, Unavailable
from ledger.log import schema, tables
from ledger.log.ports import Store
from ledger.log.postgres import PostgresStore, driver_url
from ledger.log.sqlite import SqliteStore, sqlite_engine
from services.server.settings import Settings

_VERSION_TABLE: Final = "alembic_version"
_OURS: Final = frozenset({*tables.metadata.tables, _VERSION_TABLE})
_TELLING: Final = frozenset({tables.log.name, _VERSION_TABLE})
"""Both are made by the first migration, in one transaction."""
_PRIMARY_CODE: Final = 0xFF
"""The bits of SQLite's extended result codes that hold the plain one."""
_DISK: Final = MappingProxyType(
    {
        sqlite3.SQLITE_READONLY: "Make the file and its folder writable, or give another home with --home.",
        sqlite3.SQLITE_CANTOPEN: "See that the path is a file in a folder that is yours to write.",
        sqlite3.SQLITE_FULL: "Make room on the disk; then try again.",
        sqlite3.SQLITE_IOERR: "Look at the disk: it may be full or failing; then try again.",
        sqlite3.SQLITE_PERM: "See that the file is yours to read and write.",
        sqlite3.SQLITE_BUSY: "Another program holds the file: let it end; then try again.",
    }
)


def open_store(settings: Settings) -> Store:
    """The store, its schema right: brought there by itself on SQLite, asked for on Postgres.

    Raises:
        LedgerError: reason WRONG_HOME, UNAVAILABLE, SCHEMA_VERSION or UNSAFE_STORE.
    """
    if settings.db is None:
        upgrade(settings)
    return existing_store(settings)


def existing_store(settings: Settings) -> Store:
    """The store as it is, if it has this release's schema.

    Raises:
        LedgerError: as `open_store`.
    """
    with told(settings), contextlib.ExitStack() as failing:
        store = _store(settings)
        failing.callback(store.close)
        schema.check(store.engine)
        failing.pop_all()
        return store


def upgrade(settings: Settings) -> list[str]:
    """Brings the schema to this release's; returns the revisions that were applied.

    Raises:
        LedgerError: as `open_store`.
    """
    with told(settings), contextlib.ExitStack() as stack:
        engine = _engine(settings)
        stack.callback(engine.dispose)
        if settings.db is not None:
            _check_tables(engine)
        return schema.upgrade(engine)


def _store(settings: Settings) -> Store:
    if settings.db is None:
        _check_file(settings.database_file)
        return SqliteStore(settings.database_file)
    _check_uri(settings.db)
    store = PostgresStore(settings.db)
    try:
        _check_tables(store.engine)
    except BaseException:
        store.close()
        raise
    return store


def _engine(settings: Settings) -> Engine:
    if settings.db is None:
        _check_file(settings.database_file)
        return sqlite_engine(settings.database_file)
    _check_uri(settings.db)
    return create_engine(driver_url(settings.db))


@contextmanager
def told(settings: Settings) -> Iterator[None]:
    """Errors of the drivers that a person can do something about, said so; others pass."""
    try:
        yield
    except (DBAPIError, sqlite3.Error, psycopg.Error) as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        known = _known(settings, cause)
        if known is None:
            raise
        raise known from error


def _known(settings: Settings, error: BaseException | None) -> LedgerError | None:
    match error:
        case psycopg.errors.InsufficientPrivilege():
            return LedgerError(
                f"Postgres does not permit it: {_one_line(error)}",
                reason="NOT_PERMITTED",
                remedy="Give the role of --db the right to make and to write tables, or name another role.",
            )
        case psycopg.errors.ReadOnlySqlTransaction():
            return Unavailable("Postgres takes no writes here", remedy="Name the primary server with --db.")
        case psycopg.OperationalError():
            return Unavailable(
                f"Postgres cannot be used: {_one_line(error)}",
                remedy="Start it, or correct host, role, password and database of --db; then try again.",
            )
        case sqlite3.Error():
            return _known_of_file(settings, error)
    return None


def _known_of_file(settings: Settings, error: sqlite3.Error) -> LedgerError | None:
    code = getattr(error, "sqlite_errorcode", 0) & _PRIMARY_CODE
    file = settings.database_file
    if code == sqlite3.SQLITE_NOTADB:
        return _wrong(f"{file} is no database", "--home")
    if code == sqlite3.SQLITE_CORRUPT:
        return Broken(f"the database {file} is damaged: {error}", remedy="Restore the home from a backup.")
    if code in _DISK:
        return Unavailable(f"the database {file} cannot be used: {error}", remedy=_DISK[code])
    return None


def _check_uri(uri: str) -> None:
    """The drivers' own words would show the password."""
    try:
        url = make_url(driver_url(uri))
        conninfo_to_dict(url.set(drivername="postgresql").render_as_string(hide_password=False))
    except (ArgumentError, ValueError, psycopg.ProgrammingError):
        raise InvalidInput(
            "the database's URI cannot be read",
            reason="USAGE",
            remedy="Give --db postgresql://user:password@host:port/name, with %40 for an @ in a name, and so on.",
        ) from None


def _check_file(file: Path) -> None:
    """Whether a file that is there holds our tables, or none; it is only read."""
    if not file.exists():
        return
    with contextlib.closing(sqlite3.connect(file)) as connection:
        names = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if names and not names >= _TELLING:
        raise _wrong(f"{file} is the database of something else", "--home")


def _check_tables(engine: Engine) -> None:
    """Other tables may stand beside ours on Postgres; none of theirs may bear a name of ours."""
    names = _OURS.intersection(inspect(engine).get_table_names())
    if names and not names >= _TELLING:
        raise _wrong(f"the database holds tables of something else: {', '.join(sorted(names))}", "--db")


def _wrong(message: str, flag: str) -> LedgerError:
    return LedgerError(message, reason="WRONG_HOME", remedy=f"Give a place of the ledger's own with {flag}.")


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
