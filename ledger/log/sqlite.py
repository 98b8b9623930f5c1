"""The store on SQLite: one file, one process, write-ahead log, synchronous=FULL.

NORMAL would lose acknowledged events when the power goes; the setting is read back when the store opens. Whoever else
writes to the file in this process (a projector) takes `write_gate` first, so that nobody waits in SQLite's own sleep.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import orjson
from sqlalchemy import Engine, create_engine
from sqlalchemy import event as sqlalchemy_event

from ledger.core.clock import Clock, system_clock
from ledger.core.errors import LedgerError, Unavailable
from ledger.core.merkle import EMPTY_ROOT
from ledger.log.model import Entry, Head, Known, Receipt
from ledger.log.reading import Reader, no_head_row, split_peaks

BUSY_MS: Final = 10_000
PRAGMAS: Final = (
    f"PRAGMA busy_timeout={BUSY_MS}",
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=FULL",
    "PRAGMA foreign_keys=ON",
    "PRAGMA recursive_triggers=ON",  # INSERT OR REPLACE deletes rows: without it the triggers hear nothing of that
    "PRAGMA cache_size=-65536",
    "PRAGMA wal_autocheckpoint=10000",
)
FULL: Final = 2


def sqlite_engine(path: Path) -> Engine:
    """An engine on the file, every connection set up the same way."""
    engine = create_engine(f"sqlite:///{path}", connect_args={"check_same_thread": False, "timeout": BUSY_MS / 1000})
    sqlalchemy_event.listen(engine, "connect", lambda connection, _record: _set_up(connection))
    return engine


def _set_up(connection: sqlite3.Connection) -> None:
    for pragma in PRAGMAS:
        connection.execute(pragma)


class SqliteStore(Reader):
    """The log in one SQLite file, whose schema is there already."""

    dialect = "sqlite"

    def __init__(self, path: Path, *, clock: Clock = system_clock) -> None:
        super().__init__(sqlite_engine(path))
        self.write_gate = threading.Lock()
        self._clock = clock
        self._writer = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        _set_up(self._writer)
        self._check_durability()

    def _check_durability(self) -> None:
        mode = self._writer.execute("PRAGMA journal_mode").fetchone()[0]
        synchronous = self._writer.execute("PRAGMA synchronous").fetchone()[0]
        if mode != "wal" or synchronous != FULL:
            raise LedgerError(
                f"SQLite runs with journal_mode={mode}, synchronous={synchronous}: acknowledged events could be lost",
                reason="UNSAFE_STORE",
                remedy="Put the home on a file system that takes SQLite's write-ahead log (not a network share).",
            )

    def create(self, origin: str) -> None:
        with self.write_gate:
            self._writer.execute(
                "INSERT OR IGNORE INTO log (one, origin, size, peaks, root, recorded_at) VALUES (1, ?, 0, ?, ?, 0)",
                (origin, b"", EMPTY_ROOT),
            )

    @contextmanager
    def transaction(self) -> Iterator[_SqliteTransaction]:
        with self.write_gate:
            try:
                self._writer.execute("BEGIN IMMEDIATE")
                yield _SqliteTransaction(self._writer, self._clock())
                self._writer.execute("COMMIT")
            except sqlite3.OperationalError as error:
                raise Unavailable(
                    f"SQLite cannot write: {error}", remedy="Look at the disk; then send the same request again."
                ) from error
            finally:
                if self._writer.in_transaction:  # some faults have rolled back already
                    self._writer.execute("ROLLBACK")

    def close(self) -> None:
        self._writer.close()
        self.engine.dispose()


class _SqliteTransaction:
    """The log between BEGIN IMMEDIATE and COMMIT."""

    def __init__(self, connection: sqlite3.Connection, now_us: int) -> None:
        self._connection = connection
        self.now_us = now_us
        row = connection.execute("SELECT origin, size, peaks, root, recorded_at FROM log").fetchone()
        if row is None:
            raise no_head_row()
        origin, size, peaks, root, recorded_at = row
        self.head = Head(origin, size, split_peaks(peaks), root, recorded_at)

    def known(self, ids: Sequence[str]) -> dict[str, Known]:
        rows = self._connection.execute(
            "SELECT e.id, e.pos, e.sv, e.recorded_at, e.leaf, e.header, p.salt, p.draft_hash"
            " FROM event e LEFT JOIN payload p ON p.pos = e.pos WHERE e.id IN (SELECT value FROM json_each(?))",
            (orjson.dumps(ids).decode(),),
        )
        return {row[0]: known_from(row[1:]) for row in rows}

    def stream_heads(self, streams: Sequence[str]) -> dict[str, tuple[int, bytes]]:
        rows = self._connection.execute(
            "SELECT e.stream, e.sv, e.leaf FROM event e WHERE (e.stream, e.sv) IN"
            " (SELECT j.value, (SELECT max(sv) FROM event WHERE stream = j.value) FROM json_each(?) j)",
            (orjson.dumps(streams).decode(),),
        )
        return {stream: (sv, leaf) for stream, sv, leaf in rows}

    def first_match(self, types: Sequence[str], tags: Sequence[str], after: int) -> int | None:
        where, values = ["pos >= ?"], [after]
        arguments: list[Any] = values
        if types:
            where.append("type IN (SELECT value FROM json_each(?))")
            arguments.append(orjson.dumps(types).decode())
        for tag in tags:
            where.append("pos IN (SELECT pos FROM event_tag WHERE tag = ? AND pos >= ?)")
            arguments += [tag, after]
        found = self._connection.execute(
            f"SELECT min(pos) FROM event WHERE {' AND '.join(where)}",  # noqa: S608  # the parts are constants
            arguments,
        ).fetchone()[0]
        return None if found is None else int(found)

    def tagged_ids(self, tag: str) -> list[str]:
        rows = self._connection.execute(
            "SELECT e.id FROM event_tag t JOIN event e ON e.pos = t.pos WHERE t.tag = ?", (tag,)
        )
        return [row[0] for row in rows]

    def write(self, entries: Sequence[Entry], head: Head) -> None:
        run = self._connection.executemany
        run(
            "INSERT INTO event (pos, id, type, stream, sv, recorded_at, header, leaf) VALUES (?,?,?,?,?,?,?,?)",
            [
                (e.pos, e.prepared.id, e.prepared.type, e.prepared.stream, e.sv, e.recorded_at_us, e.header, e.leaf)
                for e in entries
            ],
        )
        run(
            "INSERT INTO payload (pos, salt, body, draft_hash) VALUES (?,?,?,?)",
            [(e.pos, e.prepared.salt, e.prepared.payload, e.prepared.draft_hash) for e in entries],
        )
        run(
            "INSERT INTO event_tag (tag, pos) VALUES (?,?)",
            sorted((tag, e.pos) for e in entries for tag in e.prepared.tags),
        )
        self._connection.execute(
            "UPDATE log SET size = ?, peaks = ?, root = ?, recorded_at = ?",
            (head.size, b"".join(head.peaks), head.root, head.recorded_at_us),
        )


def known_from(row: Sequence[Any]) -> Known:
    """A row (pos, sv, recorded_at, leaf, header, salt, draft_hash) of either dialect."""
    pos, sv, recorded_at, leaf, header, salt, draft_hash = row
    receipt = Receipt(pos, sv, recorded_at, leaf, already_recorded=True)
    return Known(receipt, salt, draft_hash, orjson.loads(header)["principal"])
