"""The database's schema: which revision it has, and bringing it to this release's."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, text

import migrations
from ledger.core.errors import LedgerError

_ADVISORY_LOCK: Final = 7_215_903_411
"""Held while migrating, so that many servers may start at once."""


def newest() -> str:
    """The revision that this release needs."""
    head = _script().get_current_head()
    assert head is not None, "there is at least one revision"
    return head


def check(engine: Engine) -> None:
    """Raises SCHEMA_VERSION unless the database has this release's schema."""
    with engine.connect() as connection:
        current, wanted = _current(connection), newest()
    if current != wanted:
        raise LedgerError(
            f"the database's schema is at revision {current or 'none'}, this release needs {wanted}",
            reason="SCHEMA_VERSION",
            remedy="Run `ledger db upgrade` with the same --db, with this release or a newer one.",
            details={"current": current or "", "wanted": wanted},
        )


def upgrade(engine: Engine) -> list[str]:
    """Applies what is missing, in order; safe to run from many processes at once.

    Returns:
        The revisions that were applied.
    """
    with engine.begin() as connection:
        if engine.dialect.name == "sqlite":
            # The driver begins no transaction before DDL: without this, a crash would leave half a schema.
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        else:
            connection.execute(text("SET LOCAL lock_timeout = '30s'"))
            connection.execute(text(f"SELECT pg_advisory_xact_lock({_ADVISORY_LOCK})"))
        script, before = _script(), _current(connection)
        if before is not None and before not in {s.revision for s in script.walk_revisions()}:
            raise LedgerError(
                f"the database's schema is at revision {before}, which this release does not know",
                reason="SCHEMA_VERSION",
                remedy="It was made by a newer release: use that one.",
            )
        config = _config()
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
        return [s.revision for s in script.iterate_revisions("head", before or "base") if s.revision != before][::-1]


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent))
    config.set_main_option("path_separator", "os")
    return config


def _script() -> ScriptDirectory:
    return ScriptDirectory.from_config(_config())


def _current(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()
