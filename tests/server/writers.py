"""Writers that never give up: they send the same bytes again until each request is answered.

Each request holds a few facts about listed sources. What was acknowledged is kept, to be held against the log.
"""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator

import grpc

from ledger.wire import log_pb2
from tests.rules import builders
from tests.server.doors import of, opened, request

WINDOW = 24
"""Requests that a stream has unanswered at most."""
SOURCES = tuple(f"{builders.ORIGIN}:s{n}" for n in range(6))
LOADED = SOURCES[:4]

Where = Callable[[], str]
"""Gives the server's address; empty while it is down."""


class Acknowledged:
    """What the log has promised, by event id: position, version and leaf hash."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.receipts: dict[str, tuple[int, int, bytes]] = {}
        self.repeated = 0
        self.faults: list[str] = []

    def note(self, sent: log_pb2.AppendRequest, answer: log_pb2.AppendResponse) -> None:
        with self._lock:
            for draft, receipt in zip(sent.drafts, answer.receipts, strict=True):
                promised = (receipt.pos, receipt.stream_version, receipt.leaf_hash)
                self.repeated += receipt.already_recorded
                if self.receipts.setdefault(draft.id, promised) != promised:
                    self.faults.append(f"{draft.id} was promised {self.receipts[draft.id]}, then {promised}")

    def fail(self, what: str) -> None:
        with self._lock:
            self.faults.append(what)


class Writer(threading.Thread):
    """Sends facts until it is told to stop, and then until everything is answered."""

    def __init__(self, name: str, where: Where, acknowledged: Acknowledged) -> None:
        super().__init__(name=name, daemon=True)
        self._where = where
        self._acknowledged = acknowledged
        self._random = random.Random(name)
        self._made = 0
        self._waiting: deque[log_pb2.AppendRequest] = deque()
        self.stopping = threading.Event()

    def finish(self) -> None:
        self.stopping.set()
        self.join(120)
        if self.is_alive():
            self._acknowledged.fail(f"{self.name} still waits for {len(self._waiting)} answers")

    def run(self) -> None:
        while self._waiting or not self.stopping.is_set():
            address = self._where()
            if not address:
                time.sleep(0.01)
                continue
            try:
                self._send_to(address)
            except grpc.RpcError as error:
                if error.code() not in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED}:
                    self._acknowledged.fail(f"{self.name}: {error.code()} {error.details()}")
                time.sleep(0.02)

    def _send_to(self, address: str) -> None:
        raise NotImplementedError

    def _next(self) -> log_pb2.AppendRequest:
        drafts = []
        for _ in range(self._random.randint(1, 6)):
            self._made += 1
            name = f"{self.name}-{self._made}"
            stream = f"source/{self._random.choice(LOADED)}"
            kind = self._random.choice(["verifier", "task-import", "judge-output"])
            # Few defects, so that a state stays small however much is said of it.
            suspicion = builders.suspected(f"d{self._made % 5}-{kind}", kind)
            drafts.append(of(suspicion, stream, id=name, tags=["load", self.name]))
        made = request(*drafts, atomic=self._random.random() < 0.5)
        self._waiting.append(made)
        return made


class UnaryWriter(Writer):
    """One request, one answer, the next request."""

    def _send_to(self, address: str) -> None:
        with opened(address) as doors:
            while self._waiting or not self.stopping.is_set():
                sent = self._waiting[0] if self._waiting else self._next()
                self._acknowledged.note(sent, doors.log.Append(sent, timeout=20))
                self._waiting.popleft()


class StreamWriter(Writer):
    """Many requests on one call, answered in order."""

    def _send_to(self, address: str) -> None:
        lock, over = threading.Lock(), threading.Event()
        again = list(self._waiting)

        def requests() -> Iterator[log_pb2.AppendRequest]:
            yield from again
            while not self.stopping.is_set():
                with lock:
                    if over.is_set():
                        return
                    made = self._next() if len(self._waiting) < WINDOW else None
                if made is not None:
                    yield made
                else:
                    time.sleep(0.001)

        with opened(address) as doors:
            try:
                for number, answer in enumerate(doors.log.AppendStream(requests(), timeout=120)):
                    self._take(number, answer)
            finally:
                with lock:
                    over.set()

    def _take(self, number: int, answer: log_pb2.AppendStreamResponse) -> None:
        if answer.request != number or answer.WhichOneof("answer") != "response":
            self._acknowledged.fail(f"{self.name}: answer {number} is {answer}")
        self._acknowledged.note(self._waiting[0], answer.response)
        self._waiting.popleft()


def start_writers(where: Where, acknowledged: Acknowledged, *, prefix: str = "w", each: int = 2) -> list[Writer]:
    """So many of either kind, at work."""
    kinds: list[type[Writer]] = [UnaryWriter, StreamWriter]
    writers = [
        kind(f"{prefix}-{kind.__name__.lower()}-{n}", where, acknowledged) for n in range(each) for kind in kinds
    ]
    for writer in writers:
        writer.start()
    return writers
