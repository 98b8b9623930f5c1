"""The log, and the projection of sources.

Event tables refuse UPDATE, DELETE and TRUNCATE. A payload may be replaced only by its redaction.
"""

from __future__ import annotations

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

# {big} position-sized integer, {key} the same as primary key, {text} text that compares by bytes, {bytes} bytes.
TABLES = (
    """
    CREATE TABLE log (
        one SMALLINT NOT NULL PRIMARY KEY CHECK (one = 1),
        origin {text} NOT NULL,
        size {big} NOT NULL,
        peaks {bytes} NOT NULL,
        root {bytes} NOT NULL,
        recorded_at {big} NOT NULL
    ){head_options}
    """,
    """
    CREATE TABLE event (
        pos {key} NOT NULL PRIMARY KEY,
        id {text} NOT NULL,
        type {text} NOT NULL,
        stream {text} NOT NULL,
        sv {big} NOT NULL,
        recorded_at {big} NOT NULL,
        header {bytes} NOT NULL,
        leaf {bytes} NOT NULL,
        CONSTRAINT event_id UNIQUE (id),
        CONSTRAINT event_stream_version UNIQUE (stream, sv)
    )
    """,
    """
    CREATE TABLE payload (
        pos {key} NOT NULL PRIMARY KEY,
        salt {bytes} NOT NULL,
        body {bytes} NOT NULL,
        draft_hash {bytes},
        redacted_by {big}
    )
    """,
    """
    CREATE TABLE event_tag (
        tag {text} NOT NULL,
        pos {big} NOT NULL,
        PRIMARY KEY (tag, pos)
    ){tag_options}
    """,
    """
    CREATE TABLE generation (
        id {text} NOT NULL PRIMARY KEY,
        projection {text} NOT NULL,
        rules {text} NOT NULL,
        rules_digest {text} NOT NULL,
        fold_digest {text} NOT NULL,
        upcaster_digest {text} NOT NULL,
        status {text} NOT NULL,
        size {big} NOT NULL,
        environment {bytes} NOT NULL,
        failed_events {big} NOT NULL
    )
    """,
    """
    CREATE TABLE source_interval (
        generation {text} NOT NULL,
        key {text} NOT NULL,
        from_pos {big} NOT NULL,
        to_pos {big},
        origin {text} NOT NULL,
        state {bytes} NOT NULL,
        PRIMARY KEY (generation, key, from_pos)
    )
    """,
    "CREATE INDEX source_interval_now ON source_interval (generation, origin, key) WHERE to_pos IS NULL",
    """
    CREATE TABLE source_facts (
        generation {text} NOT NULL,
        key {text} NOT NULL,
        facts {bytes} NOT NULL,
        PRIMARY KEY (generation, key)
    )
    """,
)

SQLITE_GUARDS = (
    *(
        f"CREATE TRIGGER {table}_{verb.lower()} BEFORE {verb} ON {table}"
        " BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END"
        for table in ("event", "event_tag")
        for verb in ("UPDATE", "DELETE")
    ),
    (
        "CREATE TRIGGER payload_delete BEFORE DELETE ON payload"
        " BEGIN SELECT RAISE(ABORT, 'a payload is replaced by its redaction, never deleted'); END"
    ),
    (
        "CREATE TRIGGER payload_update BEFORE UPDATE ON payload"
        " WHEN new.pos <> old.pos OR new.redacted_by IS NULL OR new.draft_hash IS NOT NULL"
        " BEGIN SELECT RAISE(ABORT, 'a payload is replaced only by its redaction'); END"
    ),
    "CREATE TRIGGER log_delete BEFORE DELETE ON log BEGIN SELECT RAISE(ABORT, 'the head row stays'); END",
)

POSTGRES_GUARDS = (
    (
        "CREATE FUNCTION ledger_refuse() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE EXCEPTION 'the log is append-only'; END $$"
    ),
    *(
        f"CREATE TRIGGER {table}_guard BEFORE {verbs} ON {table} FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse()"
        for table, verbs in (
            ("event", "UPDATE OR DELETE OR TRUNCATE"),
            ("event_tag", "UPDATE OR DELETE OR TRUNCATE"),
            ("payload", "DELETE OR TRUNCATE"),
            ("log", "DELETE OR TRUNCATE"),
        )
    ),
    (
        "CREATE TRIGGER payload_redaction BEFORE UPDATE ON payload FOR EACH ROW"
        " WHEN (new.pos <> old.pos OR new.redacted_by IS NULL OR new.draft_hash IS NOT NULL)"
        " EXECUTE FUNCTION ledger_refuse()"
    ),
)


def upgrade() -> None:
    postgres = op.get_bind().dialect.name == "postgresql"
    words = {
        "big": "BIGINT" if postgres else "INTEGER",
        "key": "BIGINT" if postgres else "INTEGER",
        "text": 'TEXT COLLATE "C"' if postgres else "TEXT",
        "bytes": "BYTEA" if postgres else "BLOB",
        # The head row is updated by every append: room on its page keeps those updates off the index.
        "head_options": " WITH (fillfactor = 50)" if postgres else "",
        "tag_options": "" if postgres else " WITHOUT ROWID",
    }
    for statement in TABLES:
        op.execute(statement.format(**words))
    for guard in POSTGRES_GUARDS if postgres else SQLITE_GUARDS:
        op.execute(guard)


def downgrade() -> None:
    raise NotImplementedError("a log is not taken back; restore a backup into a new database")
