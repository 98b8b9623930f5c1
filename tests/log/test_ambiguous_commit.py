"""A connection that breaks at COMMIT leaves the store in the dark; the log settles it, once and without a gap.

A proxy on a socket of its own stands between the store and Postgres. On command it cuts the connection at the message
that holds COMMIT: before it is forwarded, or after Postgres has answered it and before the answer is passed on.
"""

from __future__ import annotations

import contextlib
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from ledger.core.errors import Unavailable
from ledger.log.conditions import StreamVersion
from ledger.log.fsck import fsck
from ledger.log.log import Log
from ledger.log.ports import CommitUnknown
from ledger.log.postgres import PostgresStore
from ledger.log.sequencer import SETTLE_TRIES
from ledger.log.sqlite import SqliteStore
from tests.log.builders import alias, append, positions, receipts, refusal, running

ROUNDS = 20
Cut = Literal["before COMMIT", "after COMMIT"]
READY = b"Z\x00\x00\x00\x05I"
"""ReadyForQuery, outside of a transaction: what ends the answer to COMMIT."""


class Proxy:
    """Forwards connections to Postgres, and cuts the next ones that commit."""

    def __init__(self, folder: Path, conninfo: str) -> None:
        self._target = conninfo_to_dict(conninfo)
        self._port = str(self._target.get("port") or 5432)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / f".s.PGSQL.{self._port}"))
        self._listener.listen()
        self._cuts: list[Cut] = []
        self.cuts_made = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self, how: Cut, times: int = 1) -> None:
        self._cuts += [how] * times

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client, self._connect()), daemon=True).start()

    def _connect(self) -> socket.socket:
        host = str(self._target["host"])
        if host.startswith("/"):
            server = socket.socket(socket.AF_UNIX)
            server.connect(f"{host}/.s.PGSQL.{self._port}")
            return server
        return socket.create_connection((host, int(self._port)))

    def _serve(self, client: socket.socket, server: socket.socket) -> None:
        committing = threading.Event()
        back = threading.Thread(target=self._answers, args=(client, server, committing), daemon=True)
        back.start()
        with client, server, contextlib.suppress(OSError):
            while data := client.recv(1 << 16):
                if b"COMMIT\0" in data and self._cuts:
                    if self._cuts[0] == "before COMMIT":
                        self._count_cut()
                        break
                    committing.set()
                server.sendall(data)
            _hang_up(server)
            _hang_up(client)
            back.join()

    def _answers(self, client: socket.socket, server: socket.socket, committing: threading.Event) -> None:
        held = b""
        with contextlib.suppress(OSError):
            while data := server.recv(1 << 16):
                if not committing.is_set():
                    client.sendall(data)
                    continue
                held += data
                if READY in held:  # committed, and nobody heard of it
                    self._count_cut()
                    break
                if b"G\x00" in data:  # CopyInResponse: the rows are awaited before COMMIT is looked at
                    client.sendall(data)
        _hang_up(client)

    def _count_cut(self) -> None:
        self._cuts.pop(0)
        self.cuts_made += 1


def _hang_up(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


@contextmanager
def proxied(database: str) -> Iterator[tuple[Proxy, PostgresStore]]:
    with tempfile.TemporaryDirectory(prefix="px") as folder:
        with psycopg.connect(database) as connection:
            info = connection.info
            direct = psycopg.conninfo.make_conninfo(host=info.host, port=info.port)
            uri = f"postgresql://{info.user}:{info.password}@/{info.dbname}?host={folder}&port={info.port}"
        proxy = Proxy(Path(folder), direct)
        try:
            yield proxy, PostgresStore(uri)
        finally:
            proxy.close()


@pytest.mark.parametrize("cut", ["before COMMIT", "after COMMIT"])
def test_a_connection_cut_at_commit_loses_and_doubles_nothing(database: str, cut: Cut) -> None:
    with proxied(database) as (proxy, store), running(store) as log:
        acknowledged: list[int] = []
        for n in range(ROUNDS):
            drafts = [alias("a", id=f"{n}-{m}", tags=["t"]) for m in range(3)]
            proxy.cut(cut)
            # The condition holds once: a second writing of the same events could not pass it.
            made = append(log, *drafts, conditions=[StreamVersion("alias/a", 3 * n)])
            acknowledged += positions(made)
            assert {r.already_recorded for r in made} == {cut == "after COMMIT"}
            again = append(log, *drafts)
            assert [r._replace(already_recorded=True) for r in made] == again
        assert proxy.cuts_made == ROUNDS
        assert acknowledged == list(range(3 * ROUNDS))
        assert store.head().size == 3 * ROUNDS
        assert fsck(store).problems == []


def test_a_database_that_is_cut_off_again_and_again_leaves_it_unknown_and_a_retry_settles_it(database: str) -> None:
    with proxied(database) as (proxy, store), running(store) as log:
        draft = alias("a")
        proxy.cut("before COMMIT", SETTLE_TRIES)
        error = refusal(log.append([draft]))
        assert isinstance(error, Unavailable)
        assert "unknown whether the request was recorded" in error.message
        assert store.head().size == 0

        assert positions(append(log, draft)) == [0]


def test_a_request_whose_commit_is_known_to_have_failed_is_not_looked_for(database: str) -> None:
    """The server itself says that the transaction is aborted: nothing is unknown."""
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(
            "CREATE FUNCTION stop() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = 'disk_full'; END $$"
        )
        connection.execute("CREATE TRIGGER stop BEFORE INSERT ON payload EXECUTE FUNCTION stop()")
        try:
            with running(PostgresStore(database)) as log:
                error = refusal(log.append([alias("a")]))
                assert type(error) is Unavailable
                connection.execute("DROP TRIGGER stop ON payload")
                assert positions(append(log, alias("a"))) == [0]
        finally:
            connection.execute("DROP TRIGGER IF EXISTS stop ON payload; DROP FUNCTION stop")


class Dark(SqliteStore):
    """Loses the answer to COMMIT, after the transaction happened or in its stead."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.cuts: list[Cut] = []

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        cut = self.cuts.pop(0) if self.cuts else None
        with super().transaction() as tx:
            yield tx
            if cut == "before COMMIT":
                raise CommitUnknown("lost")
        if cut == "after COMMIT":
            raise CommitUnknown("lost")


@pytest.mark.parametrize("cut", ["before COMMIT", "after COMMIT"])
def test_an_unknown_commit_is_settled_by_looking(database_file: Path, cut: Cut) -> None:
    store = Dark(database_file)
    with running(store) as log:
        append(log, alias("a"))
        store.cuts = [cut]
        [made] = append(log, alias("a"), conditions=[StreamVersion("alias/a", 1)])

        assert (made.pos, made.sv, made.already_recorded) == (1, 2, cut == "after COMMIT")
        assert fsck(store).problems == []


def test_every_request_of_a_batch_with_an_unknown_commit_is_answered(database_file: Path) -> None:
    store = Dark(database_file)
    store.cuts = ["after COMMIT", "before COMMIT"]
    log = Log(store)
    futures = [log.append([alias("a")]) for _ in range(3)]
    refused = log.append([alias("a")], conditions=[StreamVersion("alias/a", 0)])
    log.start()

    assert [positions(receipts(f.result(60))) for f in futures] == [[0], [1], [2]]
    assert refusal(refused).reason == "CONDITION_FAILED"
    assert fsck(store).ok
    log.close()
