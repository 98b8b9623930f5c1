"""The writing side of a spool: one process, one epoch.

It keeps:

- A draft is in the file, in one write, before `append` returns: what kills the process does not take it away. What cuts
  the power takes at most what was not yet made durable; nothing is sent before it is.
- Numbers 1, 2, 3 … go to everything that was given for the run's stream, also to what is then dropped or refused, so
  that a gap shows.
- Beyond `max_bytes` only metrics are dropped, beyond twice as many everything is; an error of the disk drops too.
- A tail that a crash tore is cut when the spool is next opened, and the cut is counted. An epoch that did not end is
  ended then, with a report of what it left.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from ledger.client.recording import folders, segments
from ledger.client.recording.identities import made_for
from ledger.client.recording.packing import Counted, Halves
from ledger.client.recording.recovery import recover
from ledger.client.recording.segments import Place
from ledger.client.recording.tallies import Tally
from ledger.wire import log_pb2

MAX_BYTES: Final = 1 << 30
SEGMENT_BYTES: Final = 8 << 20
_LOOK_SECONDS: Final = 0.05
"""How often a full spool is looked at again: whoever sends deletes what was answered."""


class Spool:
    """A spool that is open for writing. `append` and `skip` may be called by many threads; `settle` by one."""

    def __init__(self, folder: Path, run: str, by: log_pb2.Actor, *, rank: int = 0, max_bytes: int = MAX_BYTES) -> None:
        """Opens the spool, which this process must hold the writer's lock of.

        Raises:
            InvalidInput: reason INVALID_FILE, if the spool is another run's.
        """
        self.folder = folder
        self.identity = made_for(folder, run, by, rank)
        self._max_bytes = max_bytes
        self._segment_bytes = min(SEGMENT_BYTES, max(4096, max_bytes // 8))
        # A signal's handler may record while the thread that it strikes is recording.
        self._lock = threading.RLock()
        recovered = recover(folder, self.identity)
        self.waiting_at_start = recovered.waiting
        self.epoch = recovered.epoch + 1
        self.tally = Tally()
        self.tally.cut(recovered.torn_after_end)
        self.torn_before = recovered.torn_before
        self.seq = 0
        self.written = 0
        self.dropped_uncounted = 0
        self.is_reported = False
        self._counted = Counted(self.identity.producer, self.epoch)
        self._held = folders.bytes_held(folder)
        self._looked = 0.0
        self._segment = recovered.next_segment
        self._is_torn = False  # the segment ends with half a frame
        self._left: list[int] = []  # handles of segments that were left, to be made durable and closed
        folders.write(folder / "epoch.json", self._state(closed=False), durable=True)
        self._handle, self._offset = segments.create(folder, self._segment), 0
        folders.sync_folder(folder)
        self._saved = self.tally.changes
        self._durable = self._end = recovered.end

    def append(self, halves: Halves, *, droppable: bool = False, steps: Iterable[int] = ()) -> int | None:
        """Writes a draft of the run's stream; gives its sequence number, or None if it was dropped."""
        with self._lock:
            if self.is_reported:
                return None
            seq = self.seq = self.seq + 1
            framed = segments.frame(self._counted.join(halves, seq))
            if self._has_room(len(framed), droppable=droppable) and self._write(framed):
                return seq
            self.tally.drop(steps)
            return None

    def append_uncounted(self, halves: Halves) -> bool:
        """Writes a draft of another stream: the count says what is missing of the run, and would show a gap there."""
        with self._lock:
            framed = segments.frame(halves.before + halves.after)
            if self._has_room(len(framed), droppable=False) and self._write(framed):
                return True
            self.dropped_uncounted += 1
            return False

    def skip(self) -> None:
        """Counts something that was refused before it was written."""
        with self._lock:
            self.seq += 1
            self.tally.refuse()

    def end(self) -> Place:
        """The place after everything that was written."""
        with self._lock:
            return self._end

    def settle(self) -> Place:
        """Makes what was written durable; gives the place up to which it is."""
        with self._lock:
            left, self._left = self._left, []
            handle, end = self._handle, self._end
            if self._held > self._max_bytes // 2:
                self._held = folders.bytes_held(self.folder)
        for left_one in left:
            folders.make_durable(left_one)
            os.close(left_one)
        if end != self._durable:
            folders.make_durable(handle)
            self._durable = end
        if self._saved != (changes := self.tally.changes):
            # On a full disk it fails, and what is durable must be sent all the same: only that makes room.
            with contextlib.suppress(OSError):
                folders.write(self.folder / "epoch.json", self._state(closed=False))
                self._saved = changes
        return end

    def report(self) -> None:
        """Writes what became of this epoch's events, however full the spool is. Nothing is counted in it after that."""
        with self._lock:
            halves = self.identity.report(self.tally, self.epoch, self.seq, closed=True)
            self.is_reported = self._write(segments.frame(self._counted.join(halves, self.seq + 1)))
            self.seq += self.is_reported

    def close(self) -> None:
        """Closes the files. An epoch that could not be reported is left to whoever opens the spool next."""
        with contextlib.suppress(OSError):
            self.settle()
            folders.write(self.folder / "epoch.json", self._state(closed=self.is_reported), durable=True)
        os.close(self._handle)

    def _has_room(self, size: int, *, droppable: bool) -> bool:
        limit = self._max_bytes if droppable else 2 * self._max_bytes
        if self._held + size <= limit:
            return True
        now = time.monotonic()
        if now - self._looked < _LOOK_SECONDS:
            return False
        self._looked = now
        self._held = folders.bytes_held(self.folder)
        return self._held + size <= limit

    def _write(self, framed: bytes) -> bool:
        try:
            if self._is_torn or self._offset >= self._segment_bytes:
                self._next_segment()
            written = os.write(self._handle, framed)
            if written < len(framed):
                # The disk is full. Half a frame would hide what is written after it in this segment.
                self._is_torn = True
                os.ftruncate(self._handle, self._offset)
                self._is_torn = False
                return False
        except OSError:
            return False
        self._offset += written
        self._end = Place(self._segment, self._offset)
        self.written += 1
        self._held += written
        return True

    def _next_segment(self) -> None:
        handle = segments.create(self.folder, self._segment + 1)
        self._left.append(self._handle)
        self._handle, self._offset, self._segment, self._is_torn = handle, 0, self._segment + 1, False

    def _state(self, *, closed: bool) -> dict[str, Any]:
        return {"epoch": self.epoch, "closed": closed, "seq": self.seq, "tally": self.tally.as_dict()}
