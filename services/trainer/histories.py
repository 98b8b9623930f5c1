"""What a run did so far, in a file of its own: attempts, rewards, saves, deletions, selections, the end.

The ledger is told all of this too, but may be away. The file decides what a resume and a selection need: the number of
the next attempt, on which attempts the weights of a save rest, and which saves are there.

- It only grows, a line of JSON each, durable before the trainer goes on; a line that a crash tore is left out.
- Only who holds the folder's lock writes it. To read it changes nothing, and may be done while another one trains.
- Rewards are kept by (attempt, step): a step that is made again does not replace what others rest on.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

NAME: Final = "history.jsonl"


@dataclass(frozen=True)
class Saved:
    """A checkpoint that was saved."""

    attempt: int
    step: int
    folder: str
    """Its name."""
    digest: str


@dataclass(frozen=True)
class Begun:
    """An attempt, and the save that it began with."""

    attempt: int
    from_attempt: int | None = None
    from_step: int | None = None


class History:
    """A run's, as far as it went. Written by one process; the others have one without a folder, which is empty."""

    def __init__(self, folder: Path | None) -> None:
        self._file = None if folder is None else folder / NAME
        self.attempts: dict[int, Begun] = {}
        self.rewards: dict[tuple[int, int], float | None] = {}
        self.skipped: dict[tuple[int, int], bool] = {}
        """Whether a step went without importance weights."""
        self.saves: list[Saved] = []
        """Those that were not deleted."""
        self.selected: set[tuple[int, int]] = set()
        self.completed_steps = 0
        """0: it was never completed."""
        self._whole = 0
        """Bytes of the file that are whole lines; what a crash tore is cut off before the first write."""
        for line in self._lines():
            self._take(line)

    @property
    def next_attempt(self) -> int:
        return max(self.attempts, default=0) + 1

    def begin(self, begun: Begun) -> None:
        self._write("attempt", attempt=begun.attempt, from_attempt=begun.from_attempt, from_step=begun.from_step)

    def step(self, attempt: int, step: int, reward: float | None, *, skipped: bool) -> None:
        self._write("step", attempt=attempt, step=step, reward=reward, skipped=skipped)

    def save(self, saved: Saved) -> None:
        self._write("save", attempt=saved.attempt, step=saved.step, folder=saved.folder, digest=saved.digest)

    def delete(self, saved: Saved) -> None:
        self._write("delete", attempt=saved.attempt, step=saved.step)

    def select(self, saved: Saved) -> None:
        self._write("select", attempt=saved.attempt, step=saved.step)

    def complete(self, steps: int) -> None:
        self._write("complete", steps=steps)

    def lineage(self, attempt: int, step: int) -> list[tuple[int, int]]:
        """The steps behind the weights of an attempt's step, oldest first, as (attempt, step)."""
        begun = self.attempts.get(attempt, Begun(attempt))
        first = begun.from_step or 0
        before = [] if begun.from_attempt is None else self.lineage(begun.from_attempt, min(first, step))
        return before + [(attempt, number) for number in range(first + 1, step + 1)]

    def saved(self, attempt: int, step: int) -> Saved | None:
        return next((save for save in self.saves if (save.attempt, save.step) == (attempt, step)), None)

    def _take(self, line: dict[str, Any]) -> None:
        kind: Literal["attempt", "step", "save", "delete", "select", "complete"] = line["kind"]
        if kind == "complete":
            self.completed_steps = max(self.completed_steps, line["steps"])
            return
        attempt, step = int(line["attempt"]), int(line.get("step", 0))
        match kind:
            case "attempt":
                self.attempts[attempt] = Begun(attempt, line["from_attempt"], line["from_step"])
            case "step":
                self.rewards[attempt, step] = line["reward"]
                self.skipped[attempt, step] = line["skipped"]
            case "save":
                self.saves.append(Saved(attempt, step, line["folder"], line["digest"]))
            case "delete":
                self.saves = [save for save in self.saves if (save.attempt, save.step) != (attempt, step)]
            case "select":
                self.selected.add((attempt, step))

    def _write(self, kind: str, **said: Any) -> None:
        line = {"kind": kind, **said}
        assert self._file is not None, "only the first process writes"
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._file.open("ab") as file:
            file.truncate(self._whole)  # what comes next must not be joined to half a line
            file.write(json.dumps(line).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
            self._whole = file.tell()
        self._take(line)

    def _lines(self) -> Iterable[dict[str, Any]]:
        if self._file is None or not self._file.exists():
            return
        whole = self._file.read_bytes()
        self._whole = whole.rfind(b"\n") + 1
        yield from map(json.loads, whole[: self._whole].splitlines())
