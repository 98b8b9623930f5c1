"""What a recorder was given and did not keep, or did not keep as it was; counted for one epoch."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable
from typing import Any

from ledger.events.runs import RecordingReported, RedactionCount, StepRange


class Tally:
    """Counts of one epoch. May be used by several threads."""

    def __init__(self, saved: dict[str, Any] | None = None) -> None:
        saved = saved or {}
        self._lock = threading.RLock()  # a signal's handler may count in the midst of counting
        self.dropped: int = saved.get("dropped", 0)
        self.refused: int = saved.get("refused", 0)
        self.unreadable_bytes: int = saved.get("unreadable_bytes", 0)
        self.redactions: Counter[str] = Counter(saved.get("redactions", {}))
        self._steps: list[list[int]] = [list(r) for r in saved.get("dropped_steps", [])]
        self.changes = 0

    def drop(self, steps: Iterable[int] = ()) -> None:
        """An event was not kept; these are the steps that it told of."""
        with self._lock:
            self.dropped += 1
            self.changes += 1
            for step in steps:
                self._add(step)

    def refuse(self) -> None:
        with self._lock:
            self.refused += 1
            self.changes += 1

    def redact(self, found: Counter[str]) -> None:
        if found:
            with self._lock:
                self.redactions.update(found)
                self.changes += 1

    def cut(self, size: int) -> None:
        if size:
            with self._lock:
                self.unreadable_bytes += size
                self.changes += 1

    def as_dict(self) -> dict[str, Any]:
        with self._lock:
            return {
                "dropped": self.dropped,
                "refused": self.refused,
                "unreadable_bytes": self.unreadable_bytes,
                "redactions": dict(self.redactions),
                "dropped_steps": [list(r) for r in self._steps],
            }

    def reported(self, run: str, producer: str, epoch: int, last_seq: int, *, closed: bool) -> RecordingReported:
        """The event that says so."""
        saved = self.as_dict()
        return RecordingReported(
            run_id=run,
            producer=producer,
            epoch=epoch,
            last_seq=last_seq,
            closed=closed,
            dropped=saved["dropped"],
            dropped_steps=[StepRange(first=first, last=last) for first, last in saved["dropped_steps"]],
            refused=saved["refused"],
            unreadable_bytes=saved["unreadable_bytes"],
            redactions=[RedactionCount(shape=s, count=n) for s, n in sorted(saved["redactions"].items())],
        )

    def _add(self, step: int) -> None:
        """Into the last range where it goes on from it: steps mostly come in order."""
        if self._steps and self._steps[-1][0] <= step <= self._steps[-1][1] + 1:
            self._steps[-1][1] = max(self._steps[-1][1], step)
        else:
            self._steps.append([step, step])
