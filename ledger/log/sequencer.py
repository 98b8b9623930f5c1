"""The sequencer: gives every event its place, in one order, without a gap, once.

Requests are prepared off the lock and wait in one bounded queue. One thread drains what is waiting and, in ONE
transaction under the head lock: looks up the known ids, judges the conditions in the order of the requests, assigns
positions, writes, moves the head, commits, and answers each request on its own.

What holds, whatever fails:
- positions are 0, 1, 2 … in commit order; an aborted transaction uses none;
- a known id is judged before any condition: equal content has the first receipt, other content is a conflict;
- a request that fails its conditions fails alone, and so does one that the database cannot take;
- a request whose caller gave up before its turn is not recorded;
- what was acknowledged is durable; what was not may be sent again as it is.

The versions of streams are cached, and trusted only while the head row says that nobody else has appended.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final

import structlog

from ledger.core.errors import LedgerError, Unavailable
from ledger.log.batches import AppendRequest, Batch
from ledger.log.model import Head, Outcome
from ledger.log.ports import CommitUnknown, Store

log = structlog.get_logger(__name__)

MAX_WAITING: Final = 4_096
"""Requests in the queue; beyond it a caller is told to wait."""
MAX_WAITING_BYTES: Final = 256 << 20
"""Of payloads in the queue; one request more than this is taken, so that any request can be."""
SOFT_BATCH_EVENTS: Final = 4_000
SOFT_BATCH_BYTES: Final = 64 << 20
"""A transaction stops taking requests beyond these: larger ones gain nothing and delay their first event."""
SMALL_BATCH_EVENTS: Final = 128
LINGER_SECONDS: Final = 0.002
"""While callers come together, a transaction with fewer events waits so long for more; a lone caller never waits."""
MAX_CACHED_STREAMS: Final = 200_000
SETTLE_TRIES: Final = 5


class Sequencer:
    """One writer thread over one store."""

    def __init__(self, store: Store, *, on_commit: Callable[[Head], None] = lambda _head: None) -> None:
        self._store = store
        self._on_commit = on_commit
        self._queue: queue.SimpleQueue[AppendRequest | None] = queue.SimpleQueue()
        self._streams: dict[str, tuple[int, str]] = {}  # owned by the writer thread
        self._together = False  # the last transaction had several requests; owned by the writer thread
        self._head_size = -1  # the size that the cache is right for; owned by the writer thread
        self._door = threading.Lock()  # guards the three below, and the order of what is put into the queue
        self._waiting = 0
        self._waiting_bytes = 0
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="sequencer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Finishes what was accepted, then stops."""
        with self._door:
            if not self._closing:
                self._closing = True
                self._queue.put(None)
            if self._thread.ident is None:
                self._thread.start()
        self._thread.join()

    @property
    def waiting(self) -> int:
        return self._waiting

    def submit(self, request: AppendRequest) -> Future[Outcome]:
        """Queues a request.

        Raises:
            Unavailable: reason QUEUE_FULL, or UNAVAILABLE when the server is stopping. Nothing was recorded.
        """
        with self._door:
            if self._closing:
                raise Unavailable("the server is stopping", remedy="Send the same request again.")
            if self._waiting >= MAX_WAITING or self._waiting_bytes > MAX_WAITING_BYTES:
                raise Unavailable(
                    f"{self._waiting} requests are waiting",
                    reason="QUEUE_FULL",
                    remedy="Send the same request again after the delay.",
                    details={"retry_after_ms": "200"},
                )
            self._waiting += 1
            self._waiting_bytes += request.payload_bytes
            self._queue.put(request)
        return request.future

    def _run(self) -> None:
        last = False
        while not last:
            requests, last = self._drain()
            # A caller may have given up; from here on nobody can.
            requests = [r for r in requests if r.future.set_running_or_notify_cancel()]
            if requests:
                self._record(requests)

    def _drain(self) -> tuple[list[AppendRequest], bool]:
        """The requests of one transaction, and whether they are the last; waits for the first."""
        requests: list[AppendRequest] = []
        events = size = 0
        last = False
        linger_until = 0.0
        while events < SOFT_BATCH_EVENTS and size < SOFT_BATCH_BYTES:
            patience = linger_until - time.monotonic() if requests and events < SMALL_BATCH_EVENTS else 0.0
            try:
                request = self._queue.get(block=not requests or patience > 0, timeout=patience if requests else None)
            except queue.Empty:
                break
            if not requests and self._together:
                linger_until = time.monotonic() + LINGER_SECONDS
            if request is None:
                last = True
                break
            requests.append(request)
            events += len(request.prepared)
            size += request.payload_bytes
        self._together = len(requests) > 1
        with self._door:
            self._waiting -= len(requests)
            self._waiting_bytes -= size
        return requests, last

    def _record(self, requests: list[AppendRequest]) -> None:
        """One transaction; every request's future is answered, whatever happens."""
        try:
            head, outcomes = self._transact(requests)
        except LedgerError as error:
            self._forget()
            for request in requests:
                request.future.set_exception(error)
            return
        except Exception as error:  # noqa: BLE001  # the writer thread outlives every fault; each caller hears of it
            self._forget()
            if len(requests) == 1:
                requests[0].future.set_exception(_fault_of_server(error))
            else:
                # Whose fault it is shows when each goes alone.
                for request in requests:
                    self._record([request])
            return
        self._on_commit(head)
        for request, outcome in zip(requests, outcomes, strict=True):
            if isinstance(outcome, LedgerError):
                request.future.set_exception(outcome)
            else:
                request.future.set_result(outcome)

    def _transact(self, requests: list[AppendRequest]) -> tuple[Head, list[Outcome | LedgerError]]:
        unknown = False
        for attempt in range(SETTLE_TRIES):
            try:
                return self._transact_once(requests)
            except CommitUnknown:
                # Ids tell: looking again under the lock finds the batch, or writes it.
                log.warning("commit unknown, looking again", attempt=attempt)
                unknown = True
                self._forget()
            except Unavailable:
                if not unknown:
                    raise
                break
        raise Unavailable(
            "the database went away while it committed; it is unknown whether the request was recorded",
            remedy="Send the same request again: what was recorded is answered with its receipt.",
        )

    def _transact_once(self, requests: list[AppendRequest]) -> tuple[Head, list[Outcome | LedgerError]]:
        with self._store.transaction() as tx:
            if tx.head.size != self._head_size or len(self._streams) > MAX_CACHED_STREAMS:
                self._streams.clear()
            batch = Batch(tx, self._streams)
            batch.look_up(requests)
            outcomes = [batch.judge(request) for request in requests]
            head = batch.write()
        self._head_size = head.size
        for outcome in outcomes:
            if isinstance(outcome, Outcome):
                outcome.size = head.size
        return head, outcomes

    def _forget(self) -> None:
        self._streams.clear()
        self._head_size = -1


def _fault_of_server(error: Exception) -> LedgerError:
    log.error("append failed", exc_info=error)
    return LedgerError(
        f"the append failed: {type(error).__name__}", remedy="Nothing was recorded; see the server's log."
    )
