"""A server's end, and its hold on the home: what was accepted is finished, and nobody else gets in."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import grpc
import pytest

from ledger.core.errors import LedgerError
from ledger.log.model import Outcome
from ledger.wire import log_pb2
from services.server.app import serve, upgrade
from services.server.appending import Intake
from services.server.home import announce, held, server_address
from services.server.settings import Settings
from tests.server.doors import Doors, alias, failure, opened, request, served
from tests.server.process import ServerProcess, server_process


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_told_to_stop_it_answers_what_it_accepted_and_then_says_that_it_stops(
    store: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    db = request.getfixturevalue("database") if store == "postgres" else None
    home = tmp_path / "home"
    with server_process(home, db) as server, opened(server.address) as doors:
        call = _Flood(doors)
        call.answered_at_least(200)
        code = server.stop()
        call.join(30)
    assert code == 0
    assert call.error is not None
    assert call.error.code() is grpc.StatusCode.UNAVAILABLE
    assert call.sent > call.answered.__len__(), "every request was answered: nothing was in the air"
    with served(home, db) as doors:
        recorded = {json.loads(e.header)["id"]: e.pos for e in doors.read(filter={"types": ["alias.mapped"]})}
    assert recorded == call.answered


class _Flood(threading.Thread):
    """One stream that sends without end, and keeps what was answered."""

    def __init__(self, doors: Doors) -> None:
        super().__init__(daemon=True)
        self._doors = doors
        self.sent = 0
        self.answered: dict[str, int] = {}
        self.error: grpc.RpcError | None = None
        self.start()

    def run(self) -> None:
        over = threading.Event()

        def requests() -> Iterator[log_pb2.AppendRequest]:
            while not over.is_set():
                self.sent += 1
                yield request(alias("flood", f"flood-{self.sent - 1}"))

        try:
            for answer in self._doors.log.AppendStream(requests()):
                self.answered[f"flood-{answer.request}"] = answer.response.receipts[0].pos
        except grpc.RpcError as error:
            self.error = error
        finally:
            over.set()

    def answered_at_least(self, count: int) -> None:
        until = time.monotonic() + 30
        while len(self.answered) < count and time.monotonic() < until:
            time.sleep(0.005)


def test_told_to_stop_it_does_not_wait_for_those_who_only_listen(tmp_path: Path) -> None:
    with server_process(tmp_path / "home") as server, opened(server.address) as doors:
        pages = doors.log.Subscribe(log_pb2.SubscribeRequest())
        idle = doors.log.AppendStream(iter(_Never()))
        next(pages)
        asked = threading.Thread(target=lambda: failure(lambda: doors.source("nothing", min_size=10**9)))
        asked.start()
        time.sleep(0.3)
        began = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - began < 10
        assert failure(lambda: list(pages)).reason == "UNAVAILABLE"
        assert failure(lambda: list(idle)).reason == "UNAVAILABLE"
        asked.join(10)
        assert not asked.is_alive()


class _Never:
    """Requests that never come."""

    def __init__(self) -> None:
        self._nothing = threading.Event()

    def __iter__(self) -> Iterator[log_pb2.AppendRequest]:
        self._nothing.wait(30)
        return
        yield


def test_a_second_server_on_the_home_is_refused(tmp_path: Path) -> None:
    with server_process(tmp_path / "home"):
        assert ServerProcess(tmp_path / "home").refusal() == (5, "IN_USE")


def test_a_command_that_wants_a_served_home_hears_the_server_s_address(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with server_process(home) as server:
        assert server_address(home) == server.address
        with pytest.raises(LedgerError) as refused, served(home):
            pass
        assert (refused.value.reason, refused.value.details["address"]) == ("IN_USE", server.address)
        assert server.stop() == 0
    assert server_address(home) is None


def test_the_schema_of_a_served_home_is_not_upgraded(tmp_path: Path) -> None:
    with server_process(tmp_path / "home"), pytest.raises(LedgerError) as refused:
        upgrade(Settings(tmp_path / "home"))
    assert refused.value.reason == "IN_USE"


def test_the_address_of_a_killed_server_is_not_believed(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with server_process(home) as server:
        server.kill()
        assert (home / "server.json").exists(), "a killed server cleans nothing up"
        assert server_address(home) is None
        with served(home) as doors:
            assert doors.size() > 0
        assert server_address(home) is None


def test_a_home_held_by_a_command_names_no_address_whatever_an_older_server_left(tmp_path: Path) -> None:
    tmp_path.joinpath("lock").touch()
    announce(tmp_path, "127.0.0.1:1")
    with held(tmp_path):
        assert server_address(tmp_path) is None


def test_looking_whether_the_home_is_held_never_keeps_a_server_out(tmp_path: Path) -> None:
    with held(tmp_path):
        pass
    code = (
        "import sys; from pathlib import Path; from services.server.home import server_address\n"
        "print('looking', flush=True)\n"
        "while True: server_address(Path(sys.argv[1]))"
    )
    looking = subprocess.Popen([sys.executable, "-c", code, tmp_path], stdout=subprocess.PIPE)
    try:
        assert looking.stdout is not None
        assert looking.stdout.readline() == b"looking\n"
        for _ in range(200):
            with held(tmp_path, wait=1.0):
                pass
    finally:
        looking.kill()
        looking.communicate()


def test_a_home_that_cannot_be_made_is_refused_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LedgerError) as refused, held(tmp_path / "file" / "home"):
        pass
    assert refused.value.reason == "USAGE"
    assert "--home" in refused.value.remedy


def test_a_port_that_is_taken_is_refused_with_a_remedy(tmp_path: Path) -> None:
    with server_process(tmp_path / "one") as server:
        port = server.address.rpartition(":")[2]
        code = (
            "import sys; from pathlib import Path; from services.server.app import serve;"
            "from services.server.settings import Settings; from ledger.core.errors import LedgerError\n"
            f"try: serve(Settings(Path({str(tmp_path / 'two')!r}), port={port}), on_ready=print)\n"
            "except LedgerError as e: sys.exit(f'{e.reason} {e.remedy}')"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, check=False)
    assert b"IN_USE Another program has the port" in done.stderr


def test_without_authentication_only_the_loopback_is_served(tmp_path: Path) -> None:
    with pytest.raises(LedgerError) as refused:
        serve(Settings(tmp_path / "home", host="0.0.0.0"), on_ready=print)
    assert refused.value.reason == "USAGE"
    assert list(tmp_path.iterdir()) == []


class _Slow:
    """Takes time to take a request, or to answer it."""

    def __init__(self, *, taking: float, answering: float) -> None:
        self._taking, self._answering = taking, answering

    def decides(self, _request: log_pb2.AppendRequest) -> bool:
        return False

    async def submit_when_there_is_room(self, _request: log_pb2.AppendRequest) -> asyncio.Future[Outcome]:
        await asyncio.sleep(self._taking)
        taken: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(self._answering, taken.set_result, Outcome())
        return taken


async def _stopped_meanwhile(appender: _Slow, *, more: bool) -> tuple[int, bool]:
    """How many of a stream's requests are answered when the server stops, and whether more could have come."""
    stopping = asyncio.Event()

    async def requests() -> AsyncIterator[log_pb2.AppendRequest]:
        yield request(alias())
        if more:
            await asyncio.Event().wait()

    intake = Intake(appender, requests(), stopping)
    asyncio.get_running_loop().call_later(0.05, stopping.set)
    answered = [await pending async for pending in intake.taken()]
    return len(answered), intake.stopped


def test_a_request_that_is_being_taken_when_the_server_stops_is_answered() -> None:
    assert asyncio.run(_stopped_meanwhile(_Slow(taking=0.2, answering=0), more=True)) == (1, True)


def test_a_request_that_waits_for_its_answer_when_the_server_stops_gets_it() -> None:
    assert asyncio.run(_stopped_meanwhile(_Slow(taking=0, answering=0.2), more=True)) == (1, True)


def test_a_call_that_has_sent_everything_ends_well_though_the_server_stops() -> None:
    assert asyncio.run(_stopped_meanwhile(_Slow(taking=0, answering=0.2), more=False)) == (1, False)
