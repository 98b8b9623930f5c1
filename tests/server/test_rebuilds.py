"""Rebuilds apart from the rest: followed by whoever asks, in nobody's way, ended with the server."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import structlog
from structlog.testing import LogCapture

from ledger.core.errors import LedgerError, Unavailable
from ledger.projections.building import FOLDING, Report
from ledger.projections.generations import GenerationRow, Identity
from ledger.projections.projector import Progress
from ledger.projections.rebuilding import Rebuild, Rebuilt
from services.server import rebuilds
from services.server.app import in_process
from services.server.rebuilds import AT_ONCE, Rebuilds
from services.server.settings import Settings
from tests.server.doors import Doors, Failure, failure

STEP = Progress(FOLDING, 1, 2, 3, 4)
ROW = GenerationRow("g", Identity("r", "d", "f", "u"), "shadow", 4, b"{}", 0)
DONE = Rebuilt(ROW, keys=1, intervals=2, equal=True)


class FakeProjector:
    """A projector whose rebuilds tell of one step, and end when they are let."""

    def __init__(self, outcome: Rebuilt | Exception = DONE) -> None:
        self.begun: list[str] = []
        self.let = threading.Event()
        self.told = threading.Event()
        self._outcome = outcome

    def rebuild(self, progress: Callable[[Progress], None], *, rules: str, processes: int) -> Rebuilt:
        self.begun.append(rules)
        progress(STEP)
        self.told.set()
        assert self.let.wait(20)
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome


@pytest.fixture
def projector() -> Iterator[FakeProjector]:
    made = FakeProjector()
    yield made
    made.let.set()


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is logged, whatever level the process logs at."""
    capture = LogCapture()
    monkeypatch.setattr(rebuilds, "log", structlog.wrap_logger(None, [capture], structlog.BoundLogger))
    return capture.entries


def with_rebuilds(projector: FakeProjector, scenario: Callable[[Rebuilds], Any]) -> None:
    async def run() -> None:
        under_test = Rebuilds(projector)  # type: ignore[arg-type]  # it rebuilds, which is all that is asked
        try:
            await scenario(under_test)
        finally:
            projector.let.set()
            await asyncio.to_thread(under_test.close)

    asyncio.run(asyncio.wait_for(run(), 30))


async def until(true: Callable[[], bool]) -> None:
    while not true():  # noqa: ASYNC110  # it is a thread that makes it true
        await asyncio.sleep(0.01)


async def followed(under_test: Rebuilds, rules: str = "r") -> list[Progress | Rebuilt]:
    return [step async for step in under_test.follow(rules, 0)]


def test_who_asks_for_what_is_under_way_follows_it_and_hears_the_same_outcome(projector: FakeProjector) -> None:
    async def scenario(under_test: Rebuilds) -> None:
        first = asyncio.create_task(followed(under_test))
        await asyncio.to_thread(projector.told.wait, 20)
        second = asyncio.create_task(followed(under_test))
        await asyncio.sleep(0.05)
        projector.let.set()
        assert await first == [STEP, DONE]
        assert (await second)[-1] == DONE
        assert projector.begun == ["r"]
        assert await followed(under_test) == [STEP, DONE]
        assert projector.begun == ["r", "r"]

    with_rebuilds(projector, scenario)


def test_rebuilds_of_different_rules_go_on_beside_each_other_and_leave_the_common_threads_alone(
    projector: FakeProjector,
) -> None:
    async def scenario(under_test: Rebuilds) -> None:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        under_way = [asyncio.create_task(followed(under_test, f"r{n}")) for n in range(AT_ONCE + 1)]
        await until(lambda: len(projector.begun) == AT_ONCE)
        assert await asyncio.to_thread(lambda: "answered") == "answered"
        assert len(projector.begun) == AT_ONCE
        projector.let.set()
        assert [(await task)[-1] for task in under_way] == [DONE] * (AT_ONCE + 1)

    with_rebuilds(projector, scenario)


def test_a_rebuild_whose_caller_left_goes_on_to_its_end_and_can_be_followed_again(projector: FakeProjector) -> None:
    async def scenario(under_test: Rebuilds) -> None:
        leaving = asyncio.create_task(followed(under_test))
        await asyncio.to_thread(projector.told.wait, 20)
        await asyncio.sleep(0.05)
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        again = asyncio.create_task(followed(under_test))
        await asyncio.sleep(0.05)
        projector.let.set()
        assert await again == [DONE]
        assert projector.begun == ["r"]

    with_rebuilds(projector, scenario)


@pytest.mark.parametrize(
    ("outcome", "level"), [(Unavailable("gone", remedy="again"), "warning"), (ZeroDivisionError(), "error")]
)
def test_the_error_of_a_rebuild_that_nobody_follows_is_logged(
    outcome: Exception, level: str, logged: list[Any]
) -> None:
    projector = FakeProjector(outcome)

    async def scenario(under_test: Rebuilds) -> None:
        leaving = asyncio.create_task(followed(under_test))
        await asyncio.to_thread(projector.told.wait, 20)
        await asyncio.sleep(0.05)
        leaving.cancel()
        await asyncio.wait([leaving])
        projector.let.set()
        await until(lambda: not under_test._under_way)

    with_rebuilds(projector, scenario)
    said = [entry for entry in logged if entry["event"] == "a rebuild that nobody followed failed"]
    assert [(entry["log_level"], entry["rules"]) for entry in said] == [(level, "r")]


def test_the_error_of_a_rebuild_that_is_followed_is_its_caller_s(logged: list[Any]) -> None:
    projector = FakeProjector(Unavailable("gone", remedy="again"))
    projector.let.set()

    async def scenario(under_test: Rebuilds) -> None:
        with pytest.raises(LedgerError, match="gone"):
            await followed(under_test)

    with_rebuilds(projector, scenario)
    assert logged == []


def test_a_rebuild_stops_with_the_server_and_its_caller_is_told_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = threading.Event()

    def endless(self: Rebuild, report: Report, _processes: int) -> Rebuilt:
        while True:
            self.check()
            report(STEP)
            begun.set()
            time.sleep(0.01)

    monkeypatch.setattr(Rebuild, "run", endless)
    heard: list[Failure] = []
    with in_process(Settings(home=tmp_path / "home")) as address:
        doors = Doors(address)  # which outlives the server
        asking = threading.Thread(target=lambda: heard.append(failure(doors.rebuild)))
        asking.start()
        assert begun.wait(20)
        ending = time.monotonic()
    asking.join(20)
    doors.channel.close()
    assert time.monotonic() - ending < 10
    assert [failed.reason for failed in heard] == ["UNAVAILABLE"]
    assert "goes on where this build stood" in heard[0].remedy
