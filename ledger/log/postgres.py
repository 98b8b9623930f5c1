"""The store on Postgres: the head row's lock orders every server's appends.

A transaction is few round trips: one takes the lock and reads the head and the clock (three statements, so that each
sees what was committed before the lock was granted), one looks up ids, one sends all rows, the new head and COMMIT
together. If the connection breaks after that last one was sent, only the database knows whether it was committed.
"""

from __future__ import annotations

import contextlib
import re
import select
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NoReturn

import psycopg
from psycopg import pq
from psycopg.conninfo import make_conninfo
from sqlalchemy import create_engine

from ledger.core.errors import InvalidInput, LedgerError, Unavailable
from ledger.core.merkle import EMPTY_ROOT
from ledger.log import packing
from ledger.log.model import Entry, Head, Known
from ledger.log.ports import CommitUnknown
from ledger.log.reading import Reader, no_head_row, split_peaks
from ledger.log.sqlite import known_from

LOCK_TIMEOUT: Final = "10s"
STATEMENT_TIMEOUT: Final = "60s"
IDLE_TIMEOUT: Final = "60s"
_SETTINGS: Final = (
    f"SET lock_timeout = '{LOCK_TIMEOUT}'; SET statement_timeout = '{STATEMENT_TIMEOUT}';"
    f" SET idle_in_transaction_session_timeout = '{IDLE_TIMEOUT}'; SET application_name = 'atlas-ledger'"
)
_KEEPALIVE: Final = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": 30_000}
"""A server that vanished without a word is noticed within half a minute, not within TCP's two hours."""
_LOCK: Final = (
    # READ COMMITTED, whatever the database's default: each statement must see what was committed before its own start.
    "BEGIN ISOLATION LEVEL READ COMMITTED; SELECT 1 FROM log FOR UPDATE;"
    " SELECT origin, size, encode(peaks, 'hex'), encode(root, 'hex'), recorded_at,"
    " (extract(epoch FROM clock_timestamp()) * 1000000)::bigint FROM log"
)
_COPY: Final = "COPY {} ({}) FROM STDIN (FORMAT binary);"


def driver_url(uri: str) -> str:
    """The SQLAlchemy form of a Postgres URI.

    Raises:
        InvalidInput: if it is no Postgres URI.
    """
    if not re.match(r"postgres(ql)?(\+psycopg)?://", uri):
        raise InvalidInput(
            "the database must be a postgresql:// URI",
            reason="USAGE",
            remedy="Give --db postgresql://user@host/name, or leave it out for SQLite in the home.",
        )
    return re.sub(r"^postgres(ql)?(\+psycopg)?://", "postgresql+psycopg://", uri)


class PostgresStore(Reader):
    """The log in a Postgres database, whose schema is there already."""

    dialect = "postgresql"
    write_gate: contextlib.AbstractContextManager[Any] = contextlib.nullcontext()
    """Nobody in this process need wait for anybody: the database orders writers."""

    def __init__(self, uri: str) -> None:
        url = driver_url(uri)
        super().__init__(create_engine(url, pool_pre_ping=True, pool_size=8, max_overflow=24))
        self._conninfo = make_conninfo(url.replace("postgresql+psycopg://", "postgresql://"), **_KEEPALIVE)
        self._writer: psycopg.Connection[Any] | None = None
        self._check_durability()

    def _check_durability(self) -> None:
        with self._connect() as connection:
            for name in ("fsync", "synchronous_commit"):
                row = connection.execute("SELECT current_setting(%s)", (name,)).fetchone()
                if row is None or row[0] in {"off", "local"}:
                    raise LedgerError(
                        f"Postgres runs with {name}={row[0] if row else '?'}: acknowledged events could be lost",
                        reason="UNSAFE_STORE",
                        remedy=f"Set {name} = on for this database.",
                    )

    def _connect(self) -> psycopg.Connection[Any]:
        try:
            connection = psycopg.connect(self._conninfo, autocommit=True, connect_timeout=10)
            connection.execute(_SETTINGS)
        except psycopg.OperationalError as error:
            raise Unavailable(
                f"Postgres cannot be reached: {_one_line(error)}", remedy="Start it, or correct --db; then try again."
            ) from error
        return connection

    def create(self, origin: str) -> None:
        with self._connect() as connection:
            connection.execute(
                "INSERT INTO log (one, origin, size, peaks, root, recorded_at) VALUES (1, %s, 0, '', %s, 0)"
                " ON CONFLICT DO NOTHING",
                (origin, EMPTY_ROOT),
            )

    @contextmanager
    def transaction(self) -> Iterator[_PostgresTransaction]:
        tx = self._begin()
        try:
            yield tx
            tx.commit()
        except BaseException:
            self._give_up(tx)
            raise

    def _begin(self) -> _PostgresTransaction:
        """Takes the head lock, on a new connection when the old one is gone."""
        for last in (False, True):
            if self._writer is None or self._writer.closed:
                self._writer = self._connect()
            try:
                return _PostgresTransaction(self._writer)
            except psycopg.OperationalError as error:
                self._drop()
                if last or isinstance(error, psycopg.errors.LockNotAvailable):
                    _unavailable(error)
            except BaseException:
                self._drop()
                raise
        raise AssertionError

    def _give_up(self, tx: _PostgresTransaction) -> None:
        if not tx.roll_back():
            self._drop()

    def _drop(self) -> None:
        if self._writer is not None:
            with contextlib.suppress(psycopg.Error):
                self._writer.close()
        self._writer = None

    def close(self) -> None:
        self._drop()
        self.engine.dispose()


class _PostgresTransaction:
    """The log between the lock and COMMIT."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        self._write: tuple[bytes, list[bytes]] | None = None
        cursor = connection.execute(_LOCK)
        cursor.nextset()
        cursor.nextset()
        row = cursor.fetchone()
        if row is None:
            raise no_head_row()
        origin, size, peaks, root, recorded_at, self.now_us = row
        self.head = Head(origin, size, split_peaks(bytes.fromhex(peaks)), bytes.fromhex(root), recorded_at)

    def known(self, ids: Sequence[str]) -> dict[str, Known]:
        rows = self._run(
            "SELECT e.id, e.pos, e.sv, e.recorded_at, e.leaf, e.header, p.salt, p.draft_hash"
            " FROM event e LEFT JOIN payload p ON p.pos = e.pos WHERE e.id = ANY(%s::text[])",
            [_array(ids)],
        )
        return {row[0]: known_from(row[1:]) for row in rows}

    def stream_heads(self, streams: Sequence[str]) -> dict[str, tuple[int, bytes]]:
        rows = self._run(
            "SELECT s.name, e.sv, e.leaf FROM unnest(%s::text[]) AS s(name),"
            " LATERAL (SELECT sv, leaf FROM event WHERE stream = s.name ORDER BY sv DESC LIMIT 1) e",
            [list(streams)],
        )
        return {stream: (sv, leaf) for stream, sv, leaf in rows}

    def first_match(self, types: Sequence[str], tags: Sequence[str], after: int) -> int | None:
        where = ["pos >= %s"]
        arguments: list[Any] = [after]
        if types:
            where.append("type = ANY(%s)")
            arguments.append(list(types))
        for tag in tags:
            where.append("pos IN (SELECT pos FROM event_tag WHERE tag = %s AND pos >= %s)")
            arguments += [tag, after]
        rows = self._run(f"SELECT min(pos) FROM event WHERE {' AND '.join(where)}", arguments)  # noqa: S608  # constants
        return None if rows[0][0] is None else int(rows[0][0])

    def tagged_ids(self, tag: str) -> list[str]:
        rows = self._run("SELECT e.id FROM event_tag t JOIN event e ON e.pos = t.pos WHERE t.tag = %s", [tag])
        return [row[0] for row in rows]

    def write(self, entries: Sequence[Entry], head: Head) -> None:
        """Packs the rows; they are sent with COMMIT."""
        sql = [
            _COPY.format("event", packing.EVENT_COLUMNS),
            _COPY.format("payload", packing.PAYLOAD_COLUMNS),
            _COPY.format("event_tag", packing.TAG_COLUMNS),
            _move_head(head),
        ]
        rows = [packing.pack_events(entries), packing.pack_payloads(entries), packing.pack_tags(entries)]
        self._write = ("".join(sql).encode(), rows)

    def commit(self) -> None:
        """Sends the rows and COMMIT.

        Raises:
            Unavailable: the server refused a statement before COMMIT, and still says so.
            CommitUnknown: anything else went wrong on the way.
        """
        sql, buffers = self._write or (b"", [])
        connection = self._connection.pgconn
        try:
            _send_with_copies(connection, sql + b"COMMIT", buffers)
        except psycopg.Error as error:
            if connection.transaction_status != pq.TransactionStatus.INERROR:
                raise CommitUnknown("the connection was lost while committing") from error
            if isinstance(error, psycopg.OperationalError):
                _unavailable(error)
            raise

    def roll_back(self) -> bool:
        """Whether the connection can be used again."""
        if self._connection.closed or self._connection.pgconn.status != pq.ConnStatus.OK:
            return False
        try:
            self._connection.execute("ROLLBACK")
        except psycopg.Error:
            return False
        return True

    def _run(self, sql: str, arguments: Sequence[Any]) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(sql.encode(), arguments, binary=True).fetchall()
        except psycopg.OperationalError as error:
            _unavailable(error)


def _move_head(head: Head) -> str:
    peaks = b"".join(head.peaks).hex()
    return (
        f"UPDATE log SET size = {head.size}, peaks = '\\x{peaks}', root = '\\x{head.root.hex()}',"  # noqa: S608  # numbers and hex
        f" recorded_at = {head.recorded_at_us};"
    )


def _array(texts: Sequence[str]) -> str:
    """A Postgres array's text; the driver's own way takes five times as long for a thousand ids."""
    joined = '","'.join(texts)
    if "\\" in joined or joined.count('"') != 2 * (len(texts) - 1):
        joined = '","'.join(text.replace("\\", "\\\\").replace('"', '\\"') for text in texts)
    return f'{{"{joined}"}}' if texts else "{}"


def _send_with_copies(connection: pq.abc.PGconn, sql: bytes, buffers: Sequence[bytes]) -> None:
    """One query of several statements; each COPY in it takes the next buffer. Raises the first error, if any."""
    connection.send_query(sql)
    waiting = iter(buffers)
    failure: psycopg.Error | None = None
    while (result := _next_result(connection)) is not None:
        if result.status == pq.ExecStatus.COPY_IN:
            _put(connection, next(waiting))
        elif result.status == pq.ExecStatus.FATAL_ERROR:
            failure = failure or psycopg.errors.error_from_result(result)
    if failure is not None:
        raise failure


def _put(connection: pq.abc.PGconn, data: bytes) -> None:
    while not connection.put_copy_data(data):
        _wait(connection, write=True)
    while not connection.put_copy_end():
        _wait(connection, write=True)


def _next_result(connection: pq.abc.PGconn) -> pq.abc.PGresult | None:
    while connection.flush():
        _wait(connection, write=True)
    while connection.is_busy():
        _wait(connection, write=False)
        connection.consume_input()
    return connection.get_result()


def _wait(connection: pq.abc.PGconn, *, write: bool) -> None:
    """Until the socket can be read, or, when there is something to send, written."""
    poll = select.poll()
    poll.register(connection.socket, select.POLLIN | select.POLLOUT if write else select.POLLIN)
    for _, happened in poll.poll():
        if write and happened & select.POLLIN:
            connection.consume_input()


def _unavailable(error: psycopg.Error) -> NoReturn:
    raise Unavailable(
        f"Postgres refused or did not answer: {_one_line(error)}", remedy="Send the same request again."
    ) from error


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
