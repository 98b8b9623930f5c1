"""Rows that are packed by hand are the rows that psycopg itself would have sent."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg.types.numeric import Int8

from ledger.events import REGISTRY
from ledger.log import packing
from ledger.log.model import Entry, Prepared
from ledger.log.preparing import Preparer
from tests.log.builders import alias, part

Rows = dict[str, list[tuple[Any, ...]]]
NUMBERS = st.one_of(st.integers(0, 2**63 - 1), st.sampled_from([0, 1, 2**31, 2**63 - 1]))
BYTES = st.binary(max_size=40)
TEXTS = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=1, max_size=12)


@st.composite
def entries(draw: st.DrawFn) -> list[Entry]:
    found = []
    for pos in draw(st.lists(NUMBERS, max_size=5, unique=True)):
        made = Prepared(
            id=draw(TEXTS) + str(pos), type=draw(TEXTS), stream=draw(TEXTS), principal=None, fields=b"",
            tags=tuple(sorted(draw(st.sets(TEXTS, max_size=3)))), salt=draw(st.binary(min_size=32, max_size=32)),
            payload=draw(BYTES), draft_hash=draw(st.binary(min_size=32, max_size=32)),
            first="", sealed="", middle="", stream_part="", last="",
        )  # fmt: skip
        leaf = draw(st.binary(min_size=32, max_size=32))
        found.append(Entry(pos, draw(NUMBERS), draw(NUMBERS), made, draw(BYTES), leaf))
    return found


@pytest.fixture(scope="module")
def connection(shared_database: str) -> Any:
    """A session with tables of its own that have the log's columns and nothing else."""
    with psycopg.connect(shared_database, autocommit=True) as connection:
        for table in ("event", "payload", "event_tag"):
            connection.execute(f"CREATE TEMP TABLE packed_{table} AS SELECT * FROM {table} WITH NO DATA")
        yield connection


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(made=entries())
def test_packed_rows_are_those_of_psycopgs_own_copy(connection: psycopg.Connection[Any], made: list[Entry]) -> None:
    assert stored(connection, packed(made)) == stored(connection, None, written(made))


def test_rows_of_real_drafts_are_read_back_as_they_were(connection: psycopg.Connection[Any]) -> None:
    prepared = Preparer("o", REGISTRY).prepare_all([alias("a", tags=["b", "a"]), part("c-1")])
    made = [
        Entry(pos, 1, 5, p, p.header(pos, "null", "2026-11-30T00:00:00.000000Z", 1), bytes([pos]) * 32)
        for pos, p in enumerate(prepared)
        if isinstance(p, Prepared)
    ]

    found = stored(connection, packed(made))
    assert len(made) == 2
    assert found["event"] == [
        (e.prepared.id, e.prepared.type, e.prepared.stream, 1, 5, e.header, e.leaf, e.pos) for e in made
    ]
    assert found["payload"] == [(e.pos, e.prepared.salt, e.prepared.payload, e.prepared.draft_hash, None) for e in made]
    assert found["event_tag"] == [("a", 0), ("b", 0), ("collection:c-1", 1)]


def packed(made: list[Entry]) -> dict[str, bytes]:
    return {
        "event": packing.pack_events(made),
        "payload": packing.pack_payloads(made),
        "event_tag": packing.pack_tags(made),
    }


def written(made: list[Entry]) -> Rows:
    """The rows as Python objects."""
    return {
        "event": [
            (e.prepared.id, e.prepared.type, e.prepared.stream, e.sv, e.recorded_at_us, e.header, e.leaf, e.pos)
            for e in made
        ],
        "payload": [(e.pos, e.prepared.salt, e.prepared.payload, e.prepared.draft_hash, None) for e in made],
        "event_tag": [(tag, e.pos) for e in made for tag in e.prepared.tags],
    }


COLUMNS = {"event": packing.EVENT_COLUMNS, "payload": packing.PAYLOAD_COLUMNS, "event_tag": packing.TAG_COLUMNS}
TYPES = {
    "event": ["text", "text", "text", "int8", "int8", "bytea", "bytea", "int8"],
    "payload": ["int8", "bytea", "bytea", "bytea", "int8"],
    "event_tag": ["text", "int8"],
}


def stored(
    connection: psycopg.Connection[Any], buffers: dict[str, bytes] | None, rows: Rows | None = None
) -> dict[str, list[tuple[Any, ...]]]:
    """What lies in the tables after a COPY of ready buffers, or of rows by psycopg."""
    found = {}
    for table, columns in COLUMNS.items():
        connection.execute(f"TRUNCATE packed_{table}")
        with connection.cursor().copy(f"COPY packed_{table} ({columns}) FROM STDIN (FORMAT binary)") as copy:
            if buffers is not None:
                copy.write(buffers[table])
            elif rows is not None:
                copy.set_types(TYPES[table])
                for row in rows[table]:
                    copy.write_row([Int8(v) if isinstance(v, int) else v for v in row])
        found[table] = connection.execute(f"SELECT {columns} FROM packed_{table} ORDER BY {columns}").fetchall()
    found["event"].sort(key=lambda row: row[-1])
    return found
