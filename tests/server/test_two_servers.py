"""Two server processes on one Postgres: one order for everybody, and what was written can be read at the other."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest

from ledger.wire import log_pb2
from services.server.settings import Settings
from tests.rules import builders
from tests.server.doors import Doors, of, opened, served
from tests.server.process import ServerProcess, server_process
from tests.server.test_kill import check_whole, list_sources
from tests.server.writers import SOURCES, Acknowledged, start_writers

SECONDS = 6


class Reader(threading.Thread):
    """Follows the log at one server and checks that what it saw once it always sees."""

    def __init__(self, address: str) -> None:
        super().__init__(daemon=True)
        self._address = address
        self._random = random.Random(address)
        self.seen: list[tuple[bytes, bytes]] = []
        self.looked_back = 0
        self.faults: list[str] = []

    def run(self) -> None:
        with opened(self._address) as doors:
            try:
                self._follow(doors)
            except grpc.RpcError as error:
                if "stopping" not in str(error.details()):
                    self.faults.append(f"{error.code()} {error.details()}")

    def _follow(self, doors: Doors) -> None:
        for page in doors.log.Subscribe(log_pb2.SubscribeRequest()):
            for event in page.events:
                if event.pos != len(self.seen):
                    self.faults.append(f"after position {len(self.seen) - 1} came {event.pos}")
                self.seen.append((event.header, event.leaf_hash))
            if self.seen and self._random.random() < 0.3:
                self._look_back(doors)

    def _look_back(self, doors: Doors) -> None:
        start = self._random.randrange(len(self.seen))
        end = min(start + 50, len(self.seen))
        again = [(e.header, e.leaf_hash) for e in doors.read(start, to_size=end)]
        self.looked_back += 1
        if again != self.seen[start:end]:
            self.faults.append(f"positions {start} to {end} have changed")


class OwnWords(threading.Thread):
    """Writes at one server and at once asks the other for it."""

    def __init__(self, source: str, write_at: str, ask_at: str, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self._source = source
        self._write_at, self._ask_at, self._done = write_at, ask_at, stop
        self.asked = 0
        self.faults: list[str] = []
        self.written: dict[str, tuple[int, int, bytes]] = {}

    def run(self) -> None:
        with opened(self._write_at) as here, opened(self._ask_at) as there:
            for number in itertools.count():
                if self._done.is_set():
                    return
                try:
                    self._once(here, there, f"own-{self._write_at.rpartition(':')[2]}-{number}")
                except grpc.RpcError as error:
                    self.faults.append(f"{error.code()} {error.details()}")
                    return

    def _once(self, here: Doors, there: Doors, name: str) -> None:
        suspicion = of(builders.suspected(name), f"source/{self._source}", id=name, tags=["load"])
        answer = here.append(suspicion)
        receipt = answer.receipts[0]
        self.written[name] = (receipt.pos, receipt.stream_version, receipt.leaf_hash)
        found = there.source(self._source, min_size=answer.size)
        self.asked += 1
        if name not in {d.id for d in found.source.suspected_defects} or found.coordinates.size < answer.size:
            self.faults.append(f"{name} of position {receipt.pos} is not in the answer at {found.coordinates.size}")


@pytest.fixture
def pair(tmp_path: Path, database: str) -> Iterator[tuple[ServerProcess, ServerProcess]]:
    with served(tmp_path / "first", database) as doors:
        list_sources(doors)
    with server_process(tmp_path / "one", database) as one, server_process(tmp_path / "two", database) as two:
        yield one, two


def test_two_servers_give_one_gap_free_order_and_neither_projector_applies_an_event_twice(
    pair: tuple[ServerProcess, ServerProcess], database: str, tmp_path: Path
) -> None:
    one, two = pair
    acknowledged, stop = Acknowledged(), threading.Event()
    readers = [Reader(one.address), Reader(two.address)]
    askers = [
        OwnWords(SOURCES[-1], one.address, two.address, stop),
        OwnWords(SOURCES[-2], two.address, one.address, stop),
    ]
    for thread in (*readers, *askers):
        thread.start()
    writers = [
        w
        for name, server in (("one", one), ("two", two))
        for w in start_writers(lambda server=server: server.address, acknowledged, prefix=name, each=1)
    ]
    time.sleep(SECONDS)
    stop.set()
    for writer in writers:
        writer.finish()
    for asker in askers:
        asker.join(30)
        acknowledged.receipts.update(asker.written)
    with opened(one.address) as doors:
        size = doors.size()
    _wait_until(lambda: all(len(r.seen) == size for r in readers))
    assert (one.stop(), two.stop()) == (0, 0)
    for reader in readers:
        reader.join(30)

    assert [r.faults for r in readers] == [[], []]
    assert [a.faults for a in askers] == [[], []]
    assert acknowledged.faults == []
    assert readers[0].seen == readers[1].seen
    assert min(r.looked_back for r in readers) > 0
    assert min(a.asked for a in askers) > 0
    check_whole(Settings(tmp_path / "first", db=database), acknowledged)


def _wait_until(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + 20
    while not holds() and time.monotonic() < until:
        time.sleep(0.05)
