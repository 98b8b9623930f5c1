"""What one run of the command knows: its flags, its settings and where it prints."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from ledger.client import Connection, Reader, Writer, actor
from ledger.client.drafts import Actor
from ledger.client.retry import Patience
from ledger.core.errors import InvalidInput
from ledger.core.text import is_header_text
from services.cli import backend
from services.cli.output import Output
from services.cli.settings import ACTOR_KINDS, Settings, resolve

PATIENCE_SECONDS = 10.0
"""How long a command repeats a call that found nobody: a person waits for it."""


@dataclass(frozen=True)
class Ledger:
    """An open ledger, for the time of one command."""

    connection: Connection
    reader: Reader
    writer: Writer

    def size_to_wait_for(self, at: str | None, asked: int | None) -> int:
        """What an answer must not be older than: as asked, or else, for a question about now, the log as it is."""
        if asked is not None:
            return asked
        return self.reader.info().size if at is None else 0


@dataclass
class State:
    """Filled while the command line is read; the settings are resolved when they are first asked for."""

    flags: dict[str, str] = field(default_factory=dict)
    as_json: bool = False
    quiet: bool = False
    verbose: int = 0
    no_color: bool = False

    @cached_property
    def settings(self) -> Settings:
        found = resolve(self.flags, os.environ, Path.cwd())
        for name in found.unknown_variables:
            self.output.say(f"Note: the variable {name} is no setting; `ledger config show` lists them.")
        return found

    @property
    def output(self) -> Output:
        return Output(as_json=self.as_json, quiet=self.quiet, verbose=self.verbose, no_color=self.no_color)

    @property
    def by(self) -> Actor:
        """Who the appended events say they are from."""
        name, kind = self.settings.text("actor"), self.settings.text("actor_kind")
        if not is_header_text(name, 256) or kind not in ACTOR_KINDS:
            raise InvalidInput(
                f"no actor: {name!r} of kind {kind!r}",
                reason="USAGE",
                remedy=f"An actor is 1 to 256 printable ASCII characters; its kind is one of {', '.join(ACTOR_KINDS)}.",
            )
        return actor(name, kind)

    @contextmanager
    def open(self) -> Iterator[Ledger]:
        """The ledger that the settings name."""
        with backend.open_connection(self.settings) as connection:
            self.output.detail(f"Speaking to the ledger at {connection.address}.")
            patience = Patience(total=PATIENCE_SECONDS)
            yield Ledger(connection, Reader(connection, patience=patience), Writer(connection, patience=patience))
