"""Several servers on one Postgres: the head row's lock orders them, and readers see nothing but prefixes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from ledger.core import merkle
from ledger.core.errors import LedgerError, Problem, Refused, Unavailable
from ledger.log import postgres
from ledger.log.conditions import NoMatch, StreamVersion
from ledger.log.fsck import fsck
from ledger.log.log import Log
from ledger.log.ports import Store
from ledger.log.postgres import PostgresStore
from tests.log.builders import alias, append, positions, refusal, running
from tests.log.conftest import copy_of, created

ROUNDS = 20
WRITERS = 2
REQUESTS = 60


@pytest.fixture
def own_database(server: str, template: str) -> Any:
    """A database whose settings the test may change."""
    with copy_of(server, template) as uri:
        created(PostgresStore(uri)).close()
        yield uri


class VerifyingReader(threading.Thread):
    """Reads the log from its start while it grows: each page must go on where the last one ended, up to its head's root."""

    def __init__(self, store: Store, until: int) -> None:
        super().__init__()
        self._store = store
        self._until = until
        self.sizes: list[int] = []
        self.fault: str | None = None

    def run(self) -> None:
        peaks: list[bytes] = []
        size = 0
        while size < self._until and self.fault is None:
            head = self._store.head()
            leaves: list[bytes] = []
            for event in self._store.read_all(size, head.size):
                if event.pos != size + len(leaves):
                    self.fault = f"position {event.pos} follows {size + len(leaves) - 1}"
                leaves.append(merkle.leaf_hash(event.header))
            if len(leaves) != head.size - size:
                self.fault = f"{len(leaves)} events between sizes {size} and {head.size}"
                return
            peaks = merkle.extend(size, peaks, leaves)
            size = head.size
            if merkle.root(peaks) != head.root:
                self.fault = f"the root at size {size} is not that of the events read"
            if leaves:
                self.sizes.append(size)


def test_two_servers_that_are_hammered_make_one_log_without_a_gap(database: str) -> None:
    readers = [VerifyingReader(PostgresStore(database), WRITERS * REQUESTS * 3) for _ in range(2)]
    for reader in readers:
        reader.start()

    def hammer(writer: int) -> list[int]:
        with running(PostgresStore(database)) as log:
            futures = [log.append([alias("shared"), alias(f"w{writer}"), alias(f"r{n % 5}")]) for n in range(REQUESTS)]
            return [r.pos for f in futures for r in f.result(60).receipts if not isinstance(r, LedgerError)]

    def check_meanwhile() -> list[list[Problem]]:
        store = PostgresStore(database)
        found: list[list[Problem]] = []
        while store.head().size < WRITERS * REQUESTS * 3:
            found.append(list(fsck(store).problems))
        store.close()
        return found

    with ThreadPoolExecutor(WRITERS + 1) as pool:
        checks = pool.submit(check_meanwhile)
        acknowledged = [pos for found in pool.map(hammer, range(WRITERS)) for pos in found]
    for reader in readers:
        reader.join(60)
        reader._store.close()

    assert sorted(acknowledged) == list(range(WRITERS * REQUESTS * 3))
    assert [r.fault for r in readers] == [None, None]
    assert all(problems == [] for problems in checks.result(60))
    store = PostgresStore(database)
    assert fsck(store).problems == []
    assert store.stream_version("alias/shared") == WRITERS * REQUESTS
    store.close()


def test_a_reader_that_is_shown_a_gap_says_so() -> None:
    """The known-bad variant of the reader's store: it leaves out what a sequence would have skipped."""

    class Gaps:
        def head(self) -> Any:
            return type("Head", (), {"size": 2, "root": b""})

        def read_all(self, *_: int) -> list[Any]:
            return [type("Event", (), {"pos": 1, "header": b"{}"})]

    reader = VerifyingReader(Gaps(), 2)  # type: ignore[arg-type]  # only what the reader asks
    reader.run()
    assert reader.fault is not None


def test_the_same_drafts_sent_to_two_servers_are_recorded_once(database: str) -> None:
    drafts = [alias(f"s{n}") for n in range(30)]
    with running(PostgresStore(database)) as one, running(PostgresStore(database)) as two:
        pairs = [(one.append([d]), two.append([d])) for d in drafts]
        found = [[f.result(60).receipts[0] for f in pair] for pair in pairs]

        for first, second in found:
            assert not isinstance(first, LedgerError)
            assert not isinstance(second, LedgerError)
            assert (first.pos, first.leaf) == (second.pos, second.leaf)
            assert first.already_recorded != second.already_recorded
        assert one.head().size == 30
        assert fsck(one.store).problems == []


def test_a_server_sees_what_another_one_appended_to_a_stream_it_knows(database: str) -> None:
    with running(PostgresStore(database)) as one, running(PostgresStore(database)) as two:
        made = [append(log, alias("a"))[0] for log in (one, two, one, one, two)]

        assert [(r.pos, r.sv) for r in made] == [(n, n + 1) for n in range(5)]
        assert fsck(one.store).problems == []


@pytest.mark.parametrize(
    "condition", [StreamVersion("alias/a", 0), NoMatch((), ("taken",), 0)], ids=["stream_version", "no_match"]
)
def test_of_two_servers_with_the_same_condition_exactly_one_wins(database: str, condition: Any) -> None:
    """Held locks, not luck: both wait for the head row while a third session holds it, then both are let go."""
    with running(PostgresStore(database)) as one, running(PostgresStore(database)) as two:
        for n in range(ROUNDS):
            after = one.head().size
            this = NoMatch((), ("taken",), after) if isinstance(condition, NoMatch) else StreamVersion(f"alias/{n}", 0)
            with psycopg.connect(database) as holder:
                holder.execute("SELECT 1 FROM log FOR UPDATE")
                futures = [log.append([alias(str(n), tags=["taken"])], conditions=[this]) for log in (one, two)]
                wait_for_waiters(database, 2)
                holder.rollback()
            errors = [f.exception(60) for f in futures]
            assert [type(e) for e in errors].count(Refused) == 1
            assert errors.count(None) == 1
        assert one.head().size == ROUNDS


def test_a_condition_judged_in_a_statement_begun_before_the_lock_lets_two_win(database: str) -> None:
    """The known-bad way: lock and condition in one statement, whose snapshot is older than the lock."""
    one_statement = (
        "WITH head AS MATERIALIZED (SELECT size FROM log FOR UPDATE)"
        " INSERT INTO taken SELECT %s FROM head WHERE NOT EXISTS (SELECT 1 FROM taken WHERE round = %s)"
    )
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS taken")
        connection.execute("CREATE TABLE taken (round int)")

    def claim(number: int) -> int:
        with psycopg.connect(database) as connection:
            won = connection.execute(one_statement, (number, number)).rowcount
            # Whoever has the lock moves the head, as an append does.
            connection.execute("UPDATE log SET size = size")
            return won

    both_won = 0
    with ThreadPoolExecutor(2) as pool, psycopg.connect(database) as holder:
        for number in range(ROUNDS):
            holder.execute("SELECT 1 FROM log FOR UPDATE")
            claims = [pool.submit(claim, number) for _ in range(2)]
            wait_for_waiters(database, 2)
            holder.rollback()
            both_won += sum(c.result(60) for c in claims) == 2
        holder.execute("DROP TABLE taken")
    assert both_won == ROUNDS


def wait_for_waiters(database: str, count: int) -> None:
    """Until so many sessions wait for a lock."""
    with psycopg.connect(database, autocommit=True) as connection:
        waiting = 0
        while waiting < count:
            row = connection.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
            ).fetchone()
            assert row is not None
            waiting = row[0]


@pytest.mark.parametrize("table", ["log", "event", "payload", "event_tag"])
def test_a_table_of_the_log_cannot_be_truncated(database: str, table: str) -> None:
    with psycopg.connect(database) as connection, pytest.raises(psycopg.errors.RaiseException, match="append-only"):
        connection.execute(f"TRUNCATE {table}")


# Settings


@pytest.mark.parametrize("value", ["off", "local"])
def test_a_database_that_may_lose_what_it_acknowledged_is_refused_at_start(own_database: str, value: str) -> None:
    alter(own_database, f"synchronous_commit = {value}")

    with pytest.raises(LedgerError, match=f"synchronous_commit={value}") as caught:
        PostgresStore(own_database)
    assert caught.value.reason == "UNSAFE_STORE"
    assert caught.value.remedy == "Set synchronous_commit = on for this database."


def test_a_stricter_default_isolation_changes_nothing(own_database: str) -> None:
    """Two servers would fail each other if a transaction's first snapshot, from before the lock, were its only one."""
    alter(own_database, "default_transaction_isolation = 'serializable'")

    with running(PostgresStore(own_database)) as one, running(PostgresStore(own_database)) as two:
        futures = [log.append([alias("a")]) for _ in range(20) for log in (one, two)]
        assert sorted(p for f in futures for p in positions(f.result(60).receipts)) == list(range(40))  # type: ignore[arg-type]
        assert fsck(one.store).problems == []


def alter(database: str, setting: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        name = connection.info.dbname
        connection.execute(f"ALTER DATABASE {name} SET {setting}")


def test_a_log_without_a_head_row_is_refused_and_leaves_no_open_transaction(server: str, template: str) -> None:
    with copy_of(server, template) as uri:
        store = PostgresStore(uri)
        for ask in (store.head, lambda: store.transaction().__enter__()):
            with pytest.raises(LedgerError, match="no head row"):
                ask()
        created(store)
        with running(store) as log:
            assert positions(append(log, alias("a"))) == [0]


def test_a_head_row_that_another_session_holds_too_long_is_unavailable(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "_SETTINGS", "SET lock_timeout = '50ms'")
    with running(PostgresStore(database)) as log, psycopg.connect(database) as holder:
        holder.execute("SELECT 1 FROM log FOR UPDATE")
        error = refusal(log.append([alias("a")]))
        assert isinstance(error, Unavailable)
        assert "lock timeout" in error.message

        holder.rollback()
        assert positions(append(log, alias("a"))) == [0]


@pytest.mark.parametrize("fault", ["idle", "in the middle"])
def test_a_connection_that_the_database_ended_is_opened_again(database: str, fault: str) -> None:
    ended = (
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name = 'atlas-ledger'"
    )

    def end() -> None:
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute(ended)

    store = PostgresStore(database)
    with running(store) as log:
        append(log, alias("a"))
        if fault == "idle":
            end()
        else:
            fail_in_the_middle(store, end)
        assert positions(append(log, alias("a"))) == [1]


def fail_in_the_middle(store: Store, end: Callable[[], None]) -> None:
    with pytest.raises(Unavailable), store.transaction() as tx:  # noqa: PT012  # the fault comes within
        end()
        tx.known(["x"])


@pytest.mark.parametrize("uri", ["mysql://x", "ledger.db", "http://localhost/x"])
def test_a_database_that_is_no_postgres_uri_is_refused(uri: str) -> None:
    with pytest.raises(LedgerError, match="postgresql:// URI") as caught:
        PostgresStore(uri)
    assert caught.value.reason == "USAGE"


def test_a_postgres_that_is_not_there_is_unavailable() -> None:
    with pytest.raises(Unavailable, match="cannot be reached"):
        PostgresStore("postgresql://nobody@127.0.0.1:1/none")


def test_a_log_notices_what_was_appended_elsewhere(database: str) -> None:
    one, two = Log(PostgresStore(database)), Log(PostgresStore(database))
    one.start()
    append(one, alias("a"))

    assert two.head().size == 1
    one.close()
    two.close()
