from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger.client import Connection, connect
from tests.client.fake_ledger import FakeLedger, serving


@pytest.fixture
def ledger() -> FakeLedger:
    return FakeLedger()


@pytest.fixture
def connection(ledger: FakeLedger) -> Iterator[Connection]:
    # Not tmp_path: a socket's path must be short.
    with tempfile.TemporaryDirectory() as folder, serving(ledger, Path(folder)) as address, connect(address) as made:
        yield made
