"""The command as its users run it, against a ledger of the test's own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ledger.client import Reader, connect
from ledger.core import strictjson
from services.server.app import in_process
from services.server.settings import Settings
from tests.cli.conftest import Ran, Run, run

__all__ = ["Own", "run"]


@dataclass(frozen=True)
class Own:
    """A ledger that nobody else writes to."""

    address: str
    run: Run

    def __call__(self, *arguments: object) -> Ran:
        return self.run(*arguments, "--address", self.address)

    def events(self, stream: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """The header and the payload of each event of a stream, in order."""
        with connect(self.address) as connection:
            found = list(Reader(connection).events(streams=[stream]))
        return [(strictjson.parse(event.header), strictjson.parse(event.payload)) for event in found]

    @property
    def size(self) -> int:
        with connect(self.address) as connection:
            return Reader(connection).info().size


@pytest.fixture
def own(run: Run, tmp_path: Path) -> Iterator[Own]:
    with in_process(Settings(home=tmp_path / "home")) as address:
        yield Own(address, run)
