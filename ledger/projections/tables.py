"""The projection's tables, as the migrations make them."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, LargeBinary, MetaData, Table, Text

metadata = MetaData()

generation = Table(
    "generation",
    metadata,
    Column("id", Text, primary_key=True),
    Column("projection", Text, nullable=False),
    Column("rules", Text, nullable=False),
    Column("rules_digest", Text, nullable=False),
    Column("fold_digest", Text, nullable=False),
    Column("upcaster_digest", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("environment", LargeBinary, nullable=False),
    Column("failed_events", BigInteger, nullable=False),
    Column("failures", Text, nullable=False),
    Column("target", BigInteger),
    Column("built_through", Text),
    Column("keys_done", BigInteger, nullable=False),
)

source_interval = Table(
    "source_interval",
    metadata,
    Column("generation", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("from_pos", BigInteger, primary_key=True),
    Column("to_pos", BigInteger),
    Column("origin", Text, nullable=False),
    Column("state", LargeBinary, nullable=False),
)

source_facts = Table(
    "source_facts",
    metadata,
    Column("generation", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("facts", LargeBinary, nullable=False),
)
