"""A database that cannot be opened: what is in the way, and what to do about it."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from ledger.client import connection as client
from ledger.core.errors import LedgerError
from services.server import app
from services.server.opening import told
from services.server.settings import Settings


def refused(settings: Settings) -> LedgerError:
    """What opening says and upgrading says; they say the same."""
    with pytest.raises(LedgerError) as upgrading:
        app.upgrade(settings)
    with pytest.raises(LedgerError) as opening:
        app.Application(settings)
    assert opening.value.reason == upgrading.value.reason
    assert opening.value.remedy
    assert upgrading.value.remedy
    return upgrading.value


def renamed(uri: str, name: str) -> str:
    return urlunsplit(urlsplit(uri)._replace(path=f"/{name}"))


class TestPostgres:
    def test_a_server_that_is_not_there_is_unavailable(self, tmp_path: Path) -> None:
        error = refused(Settings(tmp_path, db="postgresql://ledger@127.0.0.1:9/ledger"))

        assert (error.reason, error.door.exit) == ("UNAVAILABLE", 6)
        assert "127.0.0.1" in error.message

    def test_a_database_that_does_not_exist_is_unavailable(self, database: str, tmp_path: Path) -> None:
        error = refused(Settings(tmp_path, db=renamed(database, "no_such_database")))

        assert error.reason == "UNAVAILABLE"
        assert "no_such_database" in error.message

    def test_a_role_that_does_not_exist_is_unavailable_and_its_password_is_not_told(
        self, database: str, tmp_path: Path
    ) -> None:
        parts = urlsplit(database)
        error = refused(
            Settings(tmp_path, db=urlunsplit(parts._replace(query=f"{parts.query}&user=nobody&password=hush")))
        )

        assert error.reason == "UNAVAILABLE"
        assert "hush" not in error.message

    @pytest.mark.parametrize("uri", ["postgresql://me:hush@h:port/x", "postgresql://h/x?no_such_word=1"])
    def test_a_uri_that_cannot_be_read_is_a_usage_error_without_its_password(self, uri: str, tmp_path: Path) -> None:
        error = refused(Settings(tmp_path, db=uri))

        assert error.reason == "USAGE"
        assert "hush" not in error.message

    def test_a_role_that_may_not_make_tables_is_not_permitted(self, database: str, tmp_path: Path) -> None:
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute("DROP SCHEMA public CASCADE")
            connection.execute("CREATE SCHEMA public")
            connection.execute("DROP ROLE IF EXISTS ledger_reader")
            connection.execute("CREATE ROLE ledger_reader")
            connection.execute("GRANT USAGE ON SCHEMA public TO ledger_reader")
        parts = urlsplit(database)
        query = "&".join(filter(None, [parts.query, "options=-c%20role%3Dledger_reader"]))

        with pytest.raises(LedgerError) as caught:
            app.upgrade(Settings(tmp_path, db=urlunsplit(parts._replace(query=query))))

        assert caught.value.reason == "NOT_PERMITTED"
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute("DROP OWNED BY ledger_reader")
            connection.execute("DROP ROLE ledger_reader")

    @pytest.mark.parametrize("table", ["event", "alembic_version"])
    def test_a_database_in_which_a_name_of_ours_is_taken_belongs_to_something_else(
        self, table: str, database: str, tmp_path: Path
    ) -> None:
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute("DROP SCHEMA public CASCADE")
            connection.execute("CREATE SCHEMA public")
            connection.execute(f"CREATE TABLE {table} (version_num TEXT)")

        error = refused(Settings(tmp_path, db=database))

        assert (error.reason, error.door.exit) == ("WRONG_HOME", 5)
        assert table in error.message

    def test_tables_of_others_may_stand_beside_the_ledgers(self, database: str, tmp_path: Path) -> None:
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute("DROP SCHEMA public CASCADE")
            connection.execute("CREATE SCHEMA public")
            connection.execute("CREATE TABLE bookmarks (url TEXT)")

        assert app.upgrade(Settings(tmp_path, db=database))


class TestSqlite:
    def test_a_folder_in_the_place_of_the_file_is_told_with_its_path(self, tmp_path: Path) -> None:
        (tmp_path / "ledger.db").mkdir()

        error = refused(Settings(tmp_path))

        assert error.reason == "UNAVAILABLE"
        assert str(tmp_path / "ledger.db") in error.message

    def test_a_database_that_may_only_be_read_is_told(self, tmp_path: Path) -> None:
        settings = Settings(tmp_path)
        app.upgrade(settings)
        uri = f"file:{settings.database_file}?mode=ro"
        with (
            closing(sqlite3.connect(uri, uri=True)) as connection,
            pytest.raises(LedgerError) as caught,
            told(settings),
        ):
            connection.execute("DELETE FROM alembic_version")

        assert caught.value.reason == "UNAVAILABLE"
        assert "writable" in caught.value.remedy

    def test_a_file_that_may_not_grow_is_told(self, tmp_path: Path) -> None:
        """As on a full disk: no file of the process may be longer than 8 KiB."""
        code = (
            "import resource, sys; from pathlib import Path; from ledger.core.errors import LedgerError\n"
            "from services.server.app import upgrade; from services.server.settings import Settings\n"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))\n"
            "try: upgrade(Settings(Path(sys.argv[1])))\n"
            "except LedgerError as error: print(error.reason, error.remedy)\n"
        )
        ran = subprocess.run(
            [sys.executable, "-c", code, tmp_path], capture_output=True, text=True, timeout=60, check=True
        )

        assert ran.stdout.startswith("UNAVAILABLE ")
        assert "disk" in ran.stdout

    def test_a_damaged_database_fails_verification(self, tmp_path: Path) -> None:
        settings = Settings(tmp_path)
        app.upgrade(settings)
        content = settings.database_file.read_bytes()
        settings.database_file.write_bytes(content[:100] + b"\xff" * (len(content) - 100))

        error = refused(settings)

        assert (error.reason, error.door.exit) == ("VERIFICATION_FAILED", 3)
        assert "backup" in error.remedy

    def test_any_other_error_passes_as_it_is(self, tmp_path: Path) -> None:
        with (
            closing(sqlite3.connect(":memory:")) as connection,
            pytest.raises(sqlite3.OperationalError),
            told(Settings(tmp_path)),
        ):
            connection.execute("SELECT * FROM nothing")


def test_a_client_asks_less_often_whether_the_server_is_there_than_the_server_bears() -> None:
    options = dict(app.SERVER_OPTIONS)
    assert options["grpc.http2.min_recv_ping_interval_without_data_ms"] < client.KEEPALIVE_MS
