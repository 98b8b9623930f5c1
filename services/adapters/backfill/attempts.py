"""Which attempt of a run a row belongs to, found from its steps and from what the log says of resumes.

Within an attempt steps strictly increase. A step that comes again with other values was redone by a later attempt; a
row that comes again word for word was copied. What stands between two rows waits for the second: only it can show that
a program was started between them.

    a resume that the log tells of counts when the next step bears it out: quoted text may look like one
    a whole configuration is only printed at a start
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Literal

from ledger.core import strictjson
from services.adapters.backfill.log_items import ConfigBlock, Item, ResumeLine, Row

MAX_WAITING: Final = 20_000
"""Items without a row among them, after which they are taken to belong to the attempt that runs."""

Why = Literal["first", "configuration", "resume", "steps"]
"""What shows that an attempt began."""


@dataclass
class Attempt:
    """One start of the program, as far as the log shows it."""

    number: int
    why: Why
    resumed_from: int | None = None
    first: int | None = None
    last: int | None = None
    rows: int = 0
    gaps: list[tuple[int, int]] = field(default_factory=list)


@dataclass(frozen=True)
class Placed:
    """An item, and the attempt that it belongs to. `duplicate`: a row that was there before."""

    item: Item
    attempt: Attempt
    duplicate: bool = False
    begins: bool = False
    """The attempt is told of for the first time."""


class Attempts:
    """Places items in the order in which they come. The first attempt has number 1, unless said otherwise."""

    def __init__(self, first: int = 1) -> None:
        self._next = first
        self.all: list[Attempt] = []
        self._told = 0
        self._waiting: list[Item] = []
        self._seen: set[bytes] = set()
        self._held: Row | None = None
        self._after_held: list[Item] = []
        self._mirrors = False
        """Whether the log gives steps in full too."""
        self._steps: dict[int, bool] = {}
        """Of the attempt that runs: whether a step is known only from a printed block."""

    def place(self, item: Item) -> Iterator[Placed]:
        """What this item settles: often what came before it, sometimes nothing yet."""
        if isinstance(item, Row) and item.kind == "train":
            yield from self._train(item)
            return
        (self._waiting if self._held is None else self._after_held).append(item)
        if len(self._waiting) + len(self._after_held) > MAX_WAITING:
            yield from self._settle_held()
            yield from self._give_waiting()

    def end(self) -> Iterator[Placed]:
        """What was waiting for a row that did not come. A configuration among it shows a start that died early.

        What stands after an unconfirmed sign of a restart is given to no attempt: a longer log will tell.
        """
        if self._mirrors:
            self._drop_held()  # what was printed last follows in full
        yield from self._settle_held()
        started = next((i for i, it in enumerate(self._waiting) if isinstance(it, ConfigBlock)), None)
        if started is not None and (not self.all or self.all[-1].rows):
            before, after = self._waiting[: min(started, self._in_doubt())], self._waiting[started:]
            if self.all:
                yield from self._give(before, self.all[-1])
            else:
                after = [*before, *after]
            self._waiting = []
            yield from self._give(after, self._begin("configuration", None))
        else:
            self._waiting = self._waiting[: self._in_doubt()]
            yield from self._give_waiting()

    def _in_doubt(self) -> int:
        """Where the waiting items may belong to an attempt that is not known of yet."""
        last = self.all[-1].last if self.all else None
        return next(
            (
                i
                for i, it in enumerate(self._waiting)
                if isinstance(it, ResumeLine) or (isinstance(it, Row) and last is not None and it.step < last)
            ),
            len(self._waiting),
        )

    def _train(self, row: Row) -> Iterator[Placed]:
        # A printed block waits for the next row: the same step may follow in full.
        if self._held is not None and self._held.step == row.step and not row.printed:
            yield Placed(self._held, self._current(), duplicate=True)
            self._drop_held()
        yield from self._settle_held()
        if row.printed:
            self._held = row
        else:
            self._mirrors = True
            yield from self._settle(row)

    def _drop_held(self) -> None:
        self._held = None
        self._waiting += self._after_held
        self._after_held = []

    def _settle_held(self) -> Iterator[Placed]:
        held, self._held = self._held, None
        if held is not None:
            yield from self._settle(held)
        self._drop_held()

    def _settle(self, row: Row) -> Iterator[Placed]:
        if self._is_copy(row):
            yield Placed(row, self._current(), duplicate=True)
            return
        split, begun = self._start(row)
        before, after = self._waiting[:split], self._waiting[split:]
        self._waiting = []
        if begun is None:
            yield from self._give([*before, *after, row], self._current())
            return
        why, resumed_from = begun
        if before and self.all:
            yield from self._give(before, self.all[-1])
            before = []
        yield from self._give([*before, *after, row], self._begin(why, resumed_from, row.step))

    def _is_copy(self, row: Row) -> bool:
        if row.printed and self._steps.get(row.step) is False:
            return True  # known in full already
        digest = hashlib.sha256(strictjson.dumps([row.step, row.metrics])).digest()[:16]
        if digest in self._seen:
            return True
        self._seen.add(digest)
        return False

    def _start(self, row: Row) -> tuple[int, tuple[Why, int | None] | None]:
        """Where among the waiting items a new attempt begins, and why; None: the row goes on."""
        resume = self._confirmed(row)
        config = next((i for i, it in enumerate(self._waiting) if isinstance(it, ConfigBlock)), None)
        from_step = resume[1] if resume is not None else None
        if not self.all:
            return 0, ("first", from_step)
        current = self.all[-1]
        if config is not None and current.rows:
            return min(config, resume[0] if resume else config), ("configuration", from_step)
        if resume is not None and current.rows:
            return resume[0], ("resume", from_step)
        if current.last is not None and row.step <= current.last:
            back = self._going_back(current.last)
            return back, ("steps", None)
        return len(self._waiting), None

    def _confirmed(self, row: Row) -> tuple[int, int] | None:
        """The place and step of the last resume that the row bears out: it redoes or follows the step named."""
        marks = [
            (i, it.step)
            for i, it in enumerate(self._waiting)
            if isinstance(it, ResumeLine) and row.step - it.step in (0, 1)
        ]
        if not marks:
            return None
        step = marks[-1][1]
        return next(i for i, s in marks if s == step), step

    def _going_back(self, last: int) -> int:
        """The first evaluation of an earlier step is of the checkpoint that a new attempt began with."""
        return next(
            (i for i, it in enumerate(self._waiting) if isinstance(it, Row) and it.step < last), len(self._waiting)
        )

    def _begin(self, why: Why, resumed_from: int | None, first: int | None = None) -> Attempt:
        attempt = Attempt(self._next, why if self.all else "first", resumed_from, first)
        self._next += 1
        self.all.append(attempt)
        self._steps = {}
        return attempt

    def _current(self) -> Attempt:
        return self.all[-1] if self.all else self._begin("first", None)

    def _give_waiting(self) -> Iterator[Placed]:
        waiting, self._waiting = self._waiting, []
        if waiting:
            yield from self._give(waiting, self._current())

    def _give(self, items: list[Item], attempt: Attempt) -> Iterator[Placed]:
        for item in items:
            if isinstance(item, Row) and item.kind == "train":
                self._count(item, attempt)
            begins = attempt.number > self._told
            self._told = max(self._told, attempt.number)
            yield Placed(item, attempt, begins=begins)

    def _count(self, row: Row, attempt: Attempt) -> None:
        if attempt.last is not None and row.step > attempt.last + 1:
            attempt.gaps.append((attempt.last + 1, row.step - 1))
        attempt.first = row.step if attempt.first is None else attempt.first
        attempt.last = row.step
        attempt.rows += 1
        self._steps[row.step] = row.printed
