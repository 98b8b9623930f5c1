"""What is measured, and the port that everything measured stands behind.

A contestant appends the events of a cell durably and says how long that took. It makes the events before its clock starts
and stops the clock when the last one is acknowledged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

LEDGER: Final = {"postgres": "Atlas Ledger, Postgres", "sqlite": "Atlas Ledger, SQLite"}
RAW_COPY: Final = "raw binary COPY, Postgres"
LOCKERS: Final = "LOCK TABLE, one event a transaction, Postgres"
PIPELINED_LOCKERS: Final = "the same, a transaction one round trip"
UMADB: Final = "umadb"
RECORDER: Final = {"postgres": "eventsourcing recorder, Postgres", "sqlite": "eventsourcing recorder, SQLite"}

Key = tuple[int, int]
"""Clients, and events a message."""


@dataclass(frozen=True)
class Cell:
    """So many clients at once, each sending so many events a message: a call, or a transaction."""

    clients: int
    batch: int
    events: int
    """In all: a multiple of clients times batch."""

    @property
    def key(self) -> Key:
        return (self.clients, self.batch)

    def __str__(self) -> str:
        clients = "1 client" if self.clients == 1 else f"{self.clients} clients"
        return f"{clients}, {self.batch} a message"


class Contestant(Protocol):
    name: str

    def takes(self, cell: Cell) -> bool:
        """Whether the cell means something here."""

    def seconds(self, cell: Cell) -> float:
        """How long it took until the cell's events were durable."""

    def rest(self) -> None:
        """Returns when nothing that the last cell left behind is running any more."""


FULL: Final = (
    Cell(1, 1, 3_000),
    Cell(1, 10, 20_000),
    Cell(1, 100, 40_000),
    Cell(1, 1000, 60_000),
    Cell(32, 1, 9_600),
    Cell(32, 100, 64_000),
)
QUICK: Final = (
    Cell(1, 1, 50),
    Cell(1, 10, 100),
    Cell(1, 100, 200),
    Cell(1, 1000, 1_000),
    Cell(32, 1, 64),
    Cell(32, 100, 3_200),
)
"""Enough to see that everything runs; its rates mean nothing."""
