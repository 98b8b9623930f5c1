"""The ledger under test: its own server process, appended to over gRPC with the generated stubs.

Every client has a connection of its own and one AppendStream call with a bounded number of unanswered messages. Every
receipt is looked at: an event that was refused, or had been there before, ends the run.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import grpc

from ledger.wire import log_pb2, log_pb2_grpc, projections_pb2, projections_pb2_grpc
from tests.benchmarks.contestants import Cell
from tests.benchmarks.rival_venvs import ROOT, wait_or_kill
from tests.benchmarks.workload import Event, Workload

START_TIMEOUT: Final = 60.0
REST_TIMEOUT: Final = 600.0
UNANSWERED_EVENTS: Final = 4_000
UNANSWERED_MESSAGES: Final = 64
"""A client waits when so many of its events, or so many of its messages, are unanswered; two messages always may be."""
FIRST_RULES: Final = "atlas-page-1"
"""Of a new log: under these rules no alias means anything to the projector, so that appending is measured alone."""
FOLDED: Final = "tag.assigned"
FOLDED_EVENTS: Final = 20_000
CHANNEL: Final = (("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0))

Requests = list[log_pb2.AppendRequest]
Answers = list[log_pb2.AppendStreamResponse]


@dataclass(frozen=True)
class ProjectorRate:
    """One fold of the whole log from its first event."""

    events: int
    seconds: float


class Ledger:
    """A contestant: the ledger's server on one store."""

    def __init__(self, name: str, address: str, workload: Workload) -> None:
        self.name = name
        self._address = address
        self._workload = workload
        self._channel = grpc.insecure_channel(address, options=CHANNEL)
        self._log: log_pb2_grpc.EventLogStub = log_pb2_grpc.EventLogStub(self._channel)
        self._projections: projections_pb2_grpc.ProjectionsStub = projections_pb2_grpc.ProjectionsStub(self._channel)

    def takes(self, cell: Cell) -> bool:
        return True

    def seconds(self, cell: Cell) -> float:
        shares = [self._requests(cell) for _ in range(cell.clients)]
        before = self.size
        seconds, answers = asyncio.run(_append_all(self._address, shares, window(cell)))
        for share, answered in zip(shares, answers, strict=True):
            check_answers(share, answered)
        grown = self.size - before
        if grown != cell.events:
            raise RuntimeError(f"{self.name}: the log grew by {grown} where {cell.events} events were acknowledged")
        return seconds

    def rest(self) -> None:
        """Waits until the projector has folded what was appended."""
        deadline = time.monotonic() + REST_TIMEOUT
        while self._folded < self.size:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.name}: folded {self._folded} of {self.size} events in {REST_TIMEOUT:.0f} s")
            time.sleep(0.05)

    def fold_parts(self) -> ProjectorRate:
        """Appends parts of reviews, which the projection folds, and builds it again from the log's first event."""
        with contextlib.closing(Ledger(self.name, self._address, Workload(FOLDED))) as parts:
            parts.seconds(Cell(1, 1_000, FOLDED_EVENTS))
            parts.rest()
            return parts.fold_again()

    def fold_again(self) -> ProjectorRate:
        """Builds the projection again from the log's first event."""
        started = time.perf_counter()
        *_, last = self._projections.Rebuild(projections_pb2.RebuildRequest())
        seconds = time.perf_counter() - started
        if not last.result.equal:
            raise RuntimeError(f"{self.name}: the rebuilt projection differs: {list(last.result.differing_keys)}")
        return ProjectorRate(last.result.generation.size, seconds)

    @property
    def size(self) -> int:
        return self._log.GetInfo(log_pb2.GetInfoRequest()).size

    def close(self) -> None:
        self._channel.close()

    @property
    def _folded(self) -> int:
        generations = self._projections.List(projections_pb2.ListProjectionsRequest()).generations
        return min((g.size for g in generations if g.status == "live"), default=0)

    def _requests(self, cell: Cell) -> Requests:
        batches = self._workload.batches(cell.events // cell.clients, cell.batch)
        return [log_pb2.AppendRequest(drafts=[self._draft(e) for e in batch]) for batch in batches]

    def _draft(self, event: Event) -> log_pb2.Draft:
        return log_pb2.Draft(
            id=event.id,
            type=self._workload.event_type,
            type_version=1,
            stream=event.stream,
            occurred_at_us=time.time_ns() // 1_000,
            actor=log_pb2.Actor(id="bench", kind=log_pb2.ACTOR_KIND_MODEL),
            tags=event.tags,
            payload=event.payload,
        )


def window(cell: Cell) -> int:
    """Messages that one client may have unanswered."""
    return max(2, min(UNANSWERED_MESSAGES, UNANSWERED_EVENTS // cell.batch))


async def _append_all(address: str, shares: list[Requests], unanswered: int) -> tuple[float, list[Answers]]:
    """All clients at once; the time from the first message to the last answer, and what each was answered."""
    async with contextlib.AsyncExitStack() as stack:
        channels = [
            await stack.enter_async_context(grpc.aio.insecure_channel(address, options=CHANNEL)) for _ in shares
        ]
        await asyncio.gather(*(channel.channel_ready() for channel in channels))
        started = time.perf_counter()
        answers = await asyncio.gather(*map(_append, channels, shares, [unanswered] * len(shares)))
        return time.perf_counter() - started, answers


async def _append(channel: grpc.aio.Channel, requests: Requests, unanswered: int) -> Answers:
    stub: log_pb2_grpc.EventLogAsyncStub = log_pb2_grpc.EventLogStub(channel)
    call = stub.AppendStream()
    free = asyncio.Semaphore(unanswered)

    async def send() -> None:
        for request in requests:
            await free.acquire()
            await call.write(request)
        await call.done_writing()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(send())
        answers = []
        async for answer in call:
            answers.append(answer)
            free.release()
    return answers


def check_answers(requests: Requests, answers: Answers) -> None:
    """Every message was answered, and every event of it was recorded now and for the first time."""
    if len(answers) != len(requests):
        raise RuntimeError(f"the server ended a call after {len(answers)} of {len(requests)} messages")
    for index, (request, answer) in enumerate(zip(requests, answers, strict=True)):
        if answer.request != index or answer.HasField("error"):
            raise RuntimeError(f"message {index} was answered with {answer}")
        receipts = answer.response.receipts
        recorded = sum(not r.already_recorded and not r.HasField("refusal") for r in receipts)
        if recorded != len(request.drafts):
            raise RuntimeError(
                f"message {index}: {recorded} of {len(request.drafts)} events were recorded: {receipts[:1]}"
            )


@contextlib.contextmanager
def ledger(name: str, home: Path, database: str | None, workload: Workload) -> Iterator[Ledger]:
    """A contestant on a fresh home."""
    with served(home, database) as address, contextlib.closing(Ledger(name, address, workload)) as contestant:
        yield contestant


@contextlib.contextmanager
def served(home: Path, database: str | None = None) -> Iterator[str]:
    """Starts a server on a home, gives its address, and stops it at the end."""
    port = free_port()
    log = home.with_suffix(".log")
    with log.open("w") as file:
        begun = ["--first-rules", FIRST_RULES]
        options = ["--home", str(home), "--port", str(port), *begun, *_database_options(database)]
        server = _command("serve", *options, output=file.fileno())
    try:
        address = f"127.0.0.1:{port}"
        _wait_until_serving(address, server, log)
        yield address
    finally:
        server.terminate()
        wait_or_kill(server)


def make_tables(home: Path, database: str) -> None:
    """The ledger's tables in an empty database, by its own migrations."""
    upgrade = _command("db", "upgrade", "--home", str(home), *_database_options(database), output=subprocess.PIPE)
    talk, _ = upgrade.communicate(timeout=START_TIMEOUT)
    if upgrade.returncode:
        raise RuntimeError(f"`ledger db upgrade` failed:\n{talk}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _database_options(database: str | None) -> list[str]:
    return [] if database is None else ["--db", database]


def _command(*arguments: str, output: int) -> subprocess.Popen[str]:
    """`ledger`, with no setting taken from the environment."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("LEDGER_")}
    command = [sys.executable, "-m", "services.cli", *arguments]
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT, text=True)


def _wait_until_serving(address: str, server: subprocess.Popen[str], log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT
    with grpc.insecure_channel(address, options=CHANNEL) as channel:
        ready = grpc.channel_ready_future(channel)
        while server.poll() is None and time.monotonic() < deadline:
            with contextlib.suppress(grpc.FutureTimeoutError):
                ready.result(timeout=0.2)
                return
    raise RuntimeError(f"the server did not serve at {address}:\n{log.read_text()}")
