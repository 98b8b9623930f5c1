"""The log's tables, as the migrations make them. Every text compares by its bytes."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Integer, LargeBinary, MetaData, SmallInteger, Table, Text

metadata = MetaData()

log = Table(
    "log",
    metadata,
    Column("one", SmallInteger, primary_key=True),
    Column("origin", Text, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("peaks", LargeBinary, nullable=False),
    Column("root", LargeBinary, nullable=False),
    Column("recorded_at", BigInteger, nullable=False),
)

event = Table(
    "event",
    metadata,
    Column("pos", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("id", Text, nullable=False),
    Column("type", Text, nullable=False),
    Column("stream", Text, nullable=False),
    Column("sv", BigInteger, nullable=False),
    Column("recorded_at", BigInteger, nullable=False),
    Column("header", LargeBinary, nullable=False),
    Column("leaf", LargeBinary, nullable=False),
)

payload = Table(
    "payload",
    metadata,
    Column("pos", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("salt", LargeBinary, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("draft_hash", LargeBinary),
    Column("redacted_by", BigInteger),
)

event_tag = Table(
    "event_tag",
    metadata,
    Column("tag", Text, primary_key=True),
    Column("pos", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
)
