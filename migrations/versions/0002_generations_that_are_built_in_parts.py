"""Generations that are built in parts, and an index for those who read some types of events alone.

A build names the size that it goes for and the last stream that it has written, so that the next one goes on there.
Releases that do not know the new columns leave them at their defaults.
"""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

# {big} position-sized integer, {text} text that compares by bytes.
STATEMENTS = (
    "ALTER TABLE generation ADD COLUMN failures {text} NOT NULL DEFAULT '{{}}'",
    "ALTER TABLE generation ADD COLUMN target {big}",
    "ALTER TABLE generation ADD COLUMN built_through {text}",
    "ALTER TABLE generation ADD COLUMN keys_done {big} NOT NULL DEFAULT 0",
    "CREATE INDEX event_type ON event (type, pos)",
)


def upgrade() -> None:
    postgres = op.get_bind().dialect.name == "postgresql"
    words = {"big": "BIGINT" if postgres else "INTEGER", "text": 'TEXT COLLATE "C"' if postgres else "TEXT"}
    for statement in STATEMENTS:
        op.execute(statement.format(**words))


def downgrade() -> None:
    raise NotImplementedError("a log is not taken back; restore a backup into a new database")
