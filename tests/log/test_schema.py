"""The schema: applied once whoever comes first, refused when it is another release's, and what the tables say."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from alembic import command
from sqlalchemy import (
    Engine,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    create_engine,
    inspect,
    select,
    text,
)
from sqlalchemy.exc import OperationalError
from sqlalchemy.types import TypeEngine

from ledger.core.errors import LedgerError
from ledger.log import schema
from ledger.log import tables as log_tables
from ledger.log.postgres import driver_url
from ledger.log.sqlite import sqlite_engine
from ledger.projections import tables as projection_tables
from tests.support.databases import fresh_database

REVISIONS = ["0001", "0002"]
HEAD = REVISIONS[-1]


@pytest.fixture(params=["sqlite", "postgres"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """A database without anything."""
    if request.param == "sqlite":
        made = sqlite_engine(tmp_path / "ledger.db")
        yield made
        made.dispose()
        return
    with fresh_database(request.getfixturevalue("server")) as uri:
        made = create_engine(driver_url(uri))
        yield made
        made.dispose()


def test_an_upgrade_names_what_it_applied_and_a_second_one_applies_nothing(engine: Engine) -> None:
    assert schema.upgrade(engine) == REVISIONS
    assert schema.upgrade(engine) == []
    schema.check(engine)


def test_a_database_without_the_schema_is_refused_with_the_remedy(engine: Engine) -> None:
    with pytest.raises(LedgerError, match="at revision none, this release needs 0002") as caught:
        schema.check(engine)

    assert caught.value.reason == "SCHEMA_VERSION"
    assert "ledger db upgrade" in caught.value.remedy
    assert caught.value.details == {"current": "", "wanted": HEAD}


def test_a_newer_revision_is_refused_and_left_as_it_is(engine: Engine) -> None:
    schema.upgrade(engine)
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))

    with pytest.raises(LedgerError, match="9999, which this release does not know") as caught:
        schema.upgrade(engine)
    assert (caught.value.reason, caught.value.remedy) == (
        "SCHEMA_VERSION",
        "It was made by a newer release: use that one.",
    )
    with pytest.raises(LedgerError, match="at revision 9999"):
        schema.check(engine)


def test_an_upgrade_that_fails_on_the_way_leaves_nothing_behind(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE source_facts (mine int)"))

    with pytest.raises(Exception, match="already exists"):
        schema.upgrade(engine)
    assert inspect(engine).get_table_names() == ["source_facts"]

    with engine.begin() as connection:
        connection.execute(text("DROP TABLE source_facts"))
    assert schema.upgrade(engine) == REVISIONS


def test_a_generation_of_the_first_release_stays_when_the_schema_grows(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    to_head = command.upgrade
    monkeypatch.setattr(command, "upgrade", lambda config, _head: to_head(config, "0001"))
    schema.upgrade(engine)
    monkeypatch.undo()
    with engine.begin() as connection:
        row = "('g', 'sources', 'r', 'd', 'f', 'u', 'live', 7, '', 1)"
        connection.execute(text(f"INSERT INTO generation VALUES {row}"))

    assert schema.upgrade(engine) == ["0002"]
    with engine.connect() as connection:
        found = connection.execute(select(projection_tables.generation)).one()
    assert (found.id, found.size, found.failed_events) == ("g", 7, 1)
    assert (found.failures, found.target, found.built_through, found.keys_done) == ("{}", None, None, 0)


def test_many_starters_at_once_apply_the_schema_once(engine: Engine) -> None:
    starters = 6
    ready = threading.Barrier(starters)
    url = engine.url.render_as_string(hide_password=False)

    def start(_: int) -> list[str]:
        mine = sqlite_engine(Path(engine.url.database or "")) if engine.dialect.name == "sqlite" else create_engine(url)
        ready.wait()
        try:
            return schema.upgrade(mine)
        finally:
            mine.dispose()

    with ThreadPoolExecutor(starters) as pool:
        applied = list(pool.map(start, range(starters)))

    assert sorted(applied) == [[]] * (starters - 1) + [REVISIONS]
    schema.check(engine)


def test_a_starter_waits_for_the_one_that_migrates(engine: Engine) -> None:
    """On SQLite by its own lock; on Postgres by an advisory one."""
    schema.upgrade(engine)
    with engine.connect() as connection:
        if engine.dialect.name == "sqlite":
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        else:
            connection.execute(text(f"SELECT pg_advisory_xact_lock({schema._ADVISORY_LOCK})"))
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(schema.upgrade, engine)
            with pytest.raises(TimeoutError):
                waiting.result(0.3)
            connection.rollback()
            assert waiting.result(60) == []


TABLES = [*log_tables.metadata.sorted_tables, *projection_tables.metadata.sorted_tables]


@pytest.mark.parametrize("table", TABLES, ids=lambda t: t.name)
def test_a_table_in_the_database_is_the_one_that_the_code_reads(engine: Engine, table: Table) -> None:
    schema.upgrade(engine)
    found = Table(table.name, MetaData(), autoload_with=engine)

    assert [(c.name, c.nullable) for c in found.columns] == [(c.name, c.nullable) for c in table.columns]
    assert [c.name for c in found.primary_key.columns] == [c.name for c in table.primary_key.columns]
    for there, here in zip(found.columns, table.columns, strict=True):
        assert kind(there.type) == kind(here.type), here.name


def kind(type_: TypeEngine[object]) -> type:
    """Whole number, text or bytes: what the two dialects have in common."""
    return next(k for k in (Integer, Text, LargeBinary) if isinstance(type_, k))


def test_there_are_no_tables_that_the_code_does_not_name(engine: Engine) -> None:
    schema.upgrade(engine)

    assert set(inspect(engine).get_table_names()) == {"alembic_version", *(t.name for t in TABLES)}


def test_ids_and_stream_versions_are_unique_in_the_database_itself(engine: Engine) -> None:
    schema.upgrade(engine)

    unique = {tuple(c["column_names"]) for c in inspect(engine).get_unique_constraints("event")}
    assert unique == {("id",), ("stream", "sv")}


def test_text_compares_by_its_bytes(engine: Engine) -> None:
    schema.upgrade(engine)
    with engine.begin() as connection:
        for pos, name in enumerate(["b", "B", "a b", "ab"]):
            connection.execute(text("INSERT INTO event_tag VALUES (:t, :p)"), {"t": name, "p": pos})
        found = connection.execute(text("SELECT tag FROM event_tag ORDER BY tag")).scalars().all()

    assert found == ["B", "a b", "ab", "b"]


def test_a_database_that_cannot_be_locked_fails_instead_of_migrating(tmp_path: Path) -> None:
    """The known-bad variant of the wait: a lock that is never given up."""
    path = tmp_path / "ledger.db"
    holder, waiter = sqlite_engine(path), sqlite_engine(path)
    with holder.connect() as held:
        held.exec_driver_sql("BEGIN IMMEDIATE")
        with waiter.connect() as connection:
            connection.exec_driver_sql("PRAGMA busy_timeout = 50")
        with pytest.raises(OperationalError, match="locked"):
            schema.upgrade(waiter)
    holder.dispose()
    waiter.dispose()
    assert path.exists()
