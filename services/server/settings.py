"""What a server is told: where its state lies and where it listens."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ledger.rules.sets import DEFAULT_RULES

DEFAULT_PORT: Final = 7410
LOOPBACK: Final = "127.0.0.1"


@dataclass(frozen=True)
class Settings:
    """Settings of one server. Who reads flags, environment and files is the command."""

    home: Path
    """All local state: database, artifacts, keys, lock."""
    db: str | None = None
    """A postgresql:// URI; None: SQLite in the home."""
    host: str = LOOPBACK
    """Without authentication only a loopback address is taken."""
    port: int = DEFAULT_PORT
    """0: any free port."""
    artifacts: Path | None = None
    """Where evidence bytes lie; None: in the home. Servers on one database must share it."""
    first_rules: str = DEFAULT_RULES
    """The rule set that a new log starts under; an existing log keeps its own."""
    log_level: str = ""
    """debug, info, warning, error or critical; empty: info when serving, errors alone within a command."""

    @property
    def database_file(self) -> Path:
        return self.home / "ledger.db"

    @property
    def artifacts_folder(self) -> Path:
        return self.artifacts or self.home / "artifacts"

    @property
    def keys_folder(self) -> Path:
        return self.home / "keys"
