"""What SQLite itself refuses, whatever statement comes by way of the store's connections."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy.exc import IntegrityError

from ledger.log import schema
from ledger.log.sqlite import sqlite_engine

ROWS = {
    "event": "(0, 'i', 't', 's', 1, 0, x'00', x'00')",
    "payload": "(0, x'00', x'00', NULL, NULL)",
    "event_tag": "('t', 0)",
    "log": "(1, 'o', 0, x'', x'00', 0)",
}


@pytest.mark.parametrize("table", ROWS)
def test_a_row_of_the_log_cannot_be_replaced_by_inserting_over_it(table: str, tmp_path: Path) -> None:
    engine = sqlite_engine(tmp_path / "ledger.db")
    schema.upgrade(engine)
    with engine.begin() as connection:
        connection.exec_driver_sql(f"INSERT INTO {table} VALUES {ROWS[table]}")

    with engine.begin() as connection, pytest.raises(IntegrityError, match=r"append-only|redaction|stays"):
        connection.exec_driver_sql(f"INSERT OR REPLACE INTO {table} VALUES {ROWS[table]}")
    engine.dispose()
