"""What a recorder does beside the training: makes the spool durable, and sends it.

Two threads, so that a ledger that does not answer never keeps the disk waiting. They look by the clock rather than
being woken, so that recording costs no more than its write. Both end when they are told, wherever they wait.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from typing import Final

from ledger.client.connection import Connection, connect
from ledger.client.recording.reports import RefusedDraft
from ledger.client.recording.segments import Place
from ledger.client.recording.sending import Sender, Sent
from ledger.client.recording.spool import Spool
from ledger.client.retry import Attempts, Patience, is_repeatable
from ledger.core.errors import LedgerError
from ledger.wire import log_pb2

LOOK_SECONDS: Final = 0.1
_FAULT_SECONDS: Final = 30.0
"""Between tries where waiting is not known to help, such as without permission."""
_LOG: Final = logging.getLogger("ledger.client.recording")


class Background:
    """The two threads of one spool."""

    def __init__(
        self, spool: Spool, address: str | None, on_refused: Callable[[RefusedDraft, log_pb2.Producer], None]
    ) -> None:
        self._spool = spool
        self._stop = threading.Event()
        self._look = threading.Event()
        self._settled = threading.Event()
        self._moved = threading.Condition()
        self._durable = Place(0, 0)
        self._told: set[str] = set()
        self._connection: Connection | None = connect(address) if address is not None else None
        self._sender: Sender | None = None
        if self._connection is not None:
            # No patience within: whatever fails is told and waited for here.
            impatient = Patience(total=0)
            self._sender = Sender(
                spool.folder, self._connection, impatient, until=lambda: self._durable, on_refused=on_refused
            )
        threads = [threading.Thread(target=self._settling, name="ledger-spool", daemon=True)]
        if self._sender is not None:
            threads.append(threading.Thread(target=self._sending, name="ledger-send", daemon=True))
        self._threads = threads
        for thread in threads:
            thread.start()

    @property
    def sent(self) -> Sent:
        return self._sender.sent if self._sender is not None else Sent()

    def wait_for(self, place: Place, deadline: float) -> bool:
        """Waits until everything before the place is answered, or, offline, is durable; False when time is up."""
        self._look.set()
        with self._moved:
            while not self._is_done(place):
                left = deadline - time.monotonic()
                if left <= 0 or not any(t.is_alive() for t in self._threads):
                    return False
                self._look.set()
                self._moved.wait(min(left, LOOK_SECONDS))
        return True

    def stop(self, seconds: float) -> None:
        """Ends the threads. One that hangs in a call is given up after so long: the process's end ends it."""
        self._stop.set()
        self._look.set()
        if self._connection is not None:
            self._connection.close()  # fails whatever call is open
        for thread in self._threads:
            thread.join(max(seconds, 0.1))

    def delete_answered(self) -> bool:
        """After `stop`: deletes the segments, if everything in them was answered."""
        sender = self._sender
        if sender is None or any(t.is_alive() for t in self._threads) or sender.place < self._spool.end():
            return False
        sender.delete_answered()
        return True

    def _is_done(self, place: Place) -> bool:
        return (self._sender.place if self._sender is not None else self._durable) >= place

    def _settling(self) -> None:
        while not self._stop.is_set():
            self._settle()
            self._look.wait(LOOK_SECONDS)
            self._look.clear()
        self._settle()

    def _settle(self) -> None:
        try:
            self._durable = self._spool.settle()
        except OSError as error:
            self._tell("DISK", f"the spool {self._spool.folder} cannot be made durable: {error.strerror}")
        self._settled.set()
        self._notify()

    def _sending(self) -> None:
        assert self._sender is not None
        attempts = Patience(total=math.inf, sleep=self._sleep).start()
        while not self._stop.is_set():
            self._settled.wait(LOOK_SECONDS)
            self._settled.clear()
            if self._sender.place >= self._durable:
                continue
            try:
                self._sender.send()
                attempts.succeeded()
            except Exception as error:  # noqa: BLE001  # whatever it is, training goes on and the spool keeps all
                self._wait_after(error, attempts)
            self._notify()

    def _wait_after(self, error: Exception, attempts: Attempts) -> None:
        if self._stop.is_set():
            return
        known = error if isinstance(error, LedgerError) else LedgerError(f"{type(error).__name__}: {error}")
        self.sent.error = f"{known.message} [{known.reason}]"
        self._tell(known.reason, f"{self.sent.error}: what is recorded stays in {self._spool.folder}")
        if is_repeatable(known):
            attempts.failed(known)
        else:
            self._sleep(_FAULT_SECONDS)

    def _sleep(self, seconds: float) -> None:
        self._notify()
        self._stop.wait(seconds)
        # What came meanwhile is sent with what waited.
        self._settled.set()

    def _notify(self) -> None:
        with self._moved:
            self._moved.notify_all()

    def _tell(self, reason: str, text: str) -> None:
        if reason not in self._told:
            self._told.add(reason)
            _LOG.warning("%s", text)
