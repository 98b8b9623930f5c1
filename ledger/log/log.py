"""One log: prepares what is sent, hands it to the sequencer, answers what is asked.

    log = Log(store)
    log.start()
    outcome = log.append(drafts, atomic=True).result()
    log.close()                       # finishes what was accepted

The log must have been created (`Store.create`). `growth` lets followers wait for more; other processes on the same
database are noticed by looking, at least every `POLL_SECONDS`.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from types import MappingProxyType
from typing import Final

from ledger.core.errors import InvalidInput, LedgerError
from ledger.events import REGISTRY, Registry
from ledger.log import limits
from ledger.log.batches import AppendRequest
from ledger.log.conditions import Condition
from ledger.log.model import Head, Outcome
from ledger.log.ports import Store
from ledger.log.preparing import Preparer
from ledger.log.sequencer import Sequencer
from ledger.wire import log_pb2

POLL_SECONDS: Final = 0.1


class Growth:
    """Tells waiting threads that the log has grown."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._count = 0
        self._told_at = -math.inf
        self._wanted = threading.Event()

    def tell(self) -> None:
        with self._changed:
            self._count += 1
            self._told_at = time.monotonic()
            self._changed.notify_all()

    def wait(self, seconds: float = POLL_SECONDS) -> None:
        """Until something was appended here, or the time is over: somebody else may have appended."""
        with self._changed:
            count = self._count
            self._changed.wait_for(lambda: self._count != count, seconds)

    def is_recent(self, seconds: float) -> bool:
        """Whether something was appended here within so many seconds."""
        return time.monotonic() - self._told_at < seconds

    def want(self) -> None:
        """Somebody waits for what is derived from the log: ends the pause that a follower makes."""
        self._wanted.set()

    def pause(self, seconds: float) -> None:
        """Until somebody wants the follower to go on, or the time is over."""
        self._wanted.wait(seconds)
        self._wanted.clear()


class Log:
    """The log over a store."""

    def __init__(self, store: Store, *, registry: Registry = REGISTRY) -> None:
        self.store = store
        self.registry = registry
        self.growth = Growth()
        self.origin = store.head().origin
        self._local = threading.local()
        self._sequencer = Sequencer(store, on_commit=lambda _head: self.growth.tell())

    def start(self) -> None:
        self._sequencer.start()

    def close(self) -> None:
        """Finishes what was accepted, then closes the store."""
        self._sequencer.close()
        self.growth.tell()
        self.store.close()

    def head(self) -> Head:
        return self.store.head()

    @property
    def waiting(self) -> int:
        """Requests in the queue."""
        return self._sequencer.waiting

    def append(
        self,
        drafts: Sequence[log_pb2.Draft],
        *,
        conditions: Sequence[Condition] = (),
        guards: Sequence[Condition] = (),
        refused: Mapping[int, LedgerError] = MappingProxyType({}),
        atomic: bool = True,
        principal: str | None = None,
    ) -> Future[Outcome]:
        """Prepares and queues one request; the drafts in `refused`, by index, are answered with their refusal.

        Raises:
            InvalidInput: reason TOO_LARGE for a request beyond the limits.
            Unavailable: the queue is full, or the server is stopping.
        """
        payload_bytes = check_request_size(drafts, conditions)
        prepared = self._preparer().prepare_all(drafts, principal=principal)
        for index, error in refused.items():
            prepared[index] = error
        return self._sequencer.submit(AppendRequest(prepared, conditions, guards, atomic, payload_bytes))

    def size_at(self, recorded_at_us: int) -> int:
        """How many events were recorded at or before a moment."""
        low, high = 0, self.head().size
        while low < high:
            middle = (low + high) // 2
            at = self.store.recorded_at(middle)
            if at is not None and at <= recorded_at_us:
                low = middle + 1
            else:
                high = middle
        return low

    def _preparer(self) -> Preparer:
        found: Preparer | None = getattr(self._local, "preparer", None)
        if found is None:
            found = self._local.preparer = Preparer(self.origin, self.registry)
        return found


def check_request_size(drafts: Sequence[log_pb2.Draft], conditions: Sequence[Condition]) -> int:
    """The bytes of all payloads; a request that is empty or beyond the limits is refused."""
    if not drafts:
        raise InvalidInput("the request holds no draft", remedy="Send at least one.")
    size = sum(len(d.payload) for d in drafts)
    for count, limit, what in (
        (len(drafts), limits.REQUEST_EVENTS, "drafts"),
        (size, limits.REQUEST_BYTES, "bytes of payload"),
        (len(conditions), limits.CONDITIONS, "conditions"),
    ):
        if count > limit:
            raise InvalidInput(
                f"the request holds {count} {what}, at most {limit}",
                reason="TOO_LARGE",
                remedy="Send several requests: parts first with atomic = false, then the closing event alone.",
                details={"limit": str(limit), "found": str(count)},
            )
    return size
