"""States at a moment, however they come to be known: from a generation's rows, or from the log folded on demand.

Both ways give the same bytes. Rows answer where a generation of the rules has folded far enough and the policy is that
of the size; whatever else is asked is folded, and the last few lists are kept.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Protocol

import orjson
from sqlalchemy import Engine, func, select

from ledger.audit.coordinates import Moment
from ledger.core.errors import InvalidInput
from ledger.log.log import Log
from ledger.projections.folding import Folder, Interval
from ledger.projections.generations import Generations, Moved
from ledger.projections.prefix import states_of_prefix
from ledger.projections.rows import LogHistory, policy_rows
from ledger.projections.tables import generation
from ledger.projections.tables import source_interval as _interval
from ledger.projections.timelines import fold_streams, read_timeline
from ledger.rules.sets import RULE_SETS

State = dict[str, Any]
FETCH: Final = 2_000
"""Rows that are held at once while many are read."""
KEPT_LISTS: Final = 4
"""A list is some kilobytes a source."""
MAX_SINGLES: Final = 3
"""Sources folded one by one for one question: each costs the environment anew, so for more the whole list is."""


class States(Protocol):
    """What is shown at one moment."""

    def one(self, key: str) -> bytes | None:
        """The state of a source; None if it is not listed there."""

    def some(self, keys: Sequence[str]) -> dict[str, bytes]:
        """The states of these sources, of those among them that are listed there."""

    def all(self) -> list[tuple[str, bytes]]:
        """Every source and its state, by origin, then id."""

    def changed(self, since: int) -> Iterable[tuple[str, bytes]]:
        """The sources that are shown otherwise than at a smaller size, in no order; an empty state: no longer.

        Since 0 it is every source. States that are folded know no other answer.
        """

    def turns(self, key: str) -> list[int]:
        """The positions among the first events at which what is shown of a source changed."""

    def earlier(self, key: str, size: int) -> bytes | None:
        """The state of a source at a smaller size, under the same rules."""


class NoStates:
    """Before the first promotion nothing is shown."""

    def one(self, key: str) -> bytes | None:  # noqa: ARG002  # as States has it
        return None

    def some(self, keys: Sequence[str]) -> dict[str, bytes]:  # noqa: ARG002
        return {}

    def all(self) -> list[tuple[str, bytes]]:
        return []

    def changed(self, since: int) -> Iterable[tuple[str, bytes]]:  # noqa: ARG002
        return []

    def turns(self, key: str) -> list[int]:  # noqa: ARG002
        return []

    def earlier(self, key: str, size: int) -> bytes | None:  # noqa: ARG002
        return None


class RowStates:
    """From the interval rows of a generation. Raises `Moved` when it is dropped meanwhile."""

    def __init__(self, engine: Engine, generations: Generations, generation: str, size: int) -> None:
        self._engine = engine
        self._generations = generations
        self._generation = generation
        self._size = size

    def one(self, key: str) -> bytes | None:
        return self.earlier(key, self._size)

    def some(self, keys: Sequence[str]) -> dict[str, bytes]:
        return {key: state for key, state in self._rows(_interval.c.key.in_(keys)) if state} if keys else {}

    def all(self) -> list[tuple[str, bytes]]:
        return self._generations.states_at(self._generation, self._size)

    def changed(self, since: int) -> Iterator[tuple[str, bytes]]:
        # Not in order: the database would sort whole states.
        return self._rows(_interval.c.from_pos >= since)

    def _rows(self, which: Any) -> Iterator[tuple[str, bytes]]:
        """Key and state of the rows of this size that pass, as they come."""
        i = _interval
        here = (i.c.from_pos < self._size) & (i.c.to_pos.is_(None) | (i.c.to_pos >= self._size))
        statement = select(i.c.key, i.c.state).where(i.c.generation == self._generation, here, which)
        with self._engine.connect() as connection:
            for key, state in connection.execution_options(yield_per=FETCH).execute(statement):
                yield key, bytes(state)
        self._check_there()

    def turns(self, key: str) -> list[int]:
        i = _interval
        statement = select(i.c.from_pos).where(
            i.c.generation == self._generation, i.c.key == key, i.c.from_pos < self._size
        )
        with self._engine.connect() as connection:
            found = list(connection.scalars(statement.order_by(i.c.from_pos)))
        self._check_there()
        return found

    def _check_there(self) -> None:
        """After reading: rows go in one transaction with their generation, so they were all there before."""
        with self._engine.connect() as connection:
            if connection.scalar(select(func.count()).where(generation.c.id == self._generation)) == 0:
                raise Moved

    def earlier(self, key: str, size: int) -> bytes | None:
        rows = self._generations.states_at(self._generation, size, key)
        return rows[0][1] if rows else None


class FoldedStates:
    """From the log itself; whole lists are kept by the shelf that made this."""

    def __init__(self, shelf: Shelf, moment: Moment) -> None:
        self._shelf = shelf
        self._moment = moment
        self._singles = 0

    def one(self, key: str) -> bytes | None:
        kept = self._shelf.kept(self._moment)
        if kept is None and self._singles < MAX_SINGLES:
            self._singles += 1
            return self._shelf.fold(self._moment, key).get(key)
        return (self._shelf.whole(self._moment) if kept is None else kept).get(key)

    def some(self, keys: Sequence[str]) -> dict[str, bytes]:
        whole = self._shelf.whole(self._moment)
        return {key: whole[key] for key in keys if key in whole}

    def all(self) -> list[tuple[str, bytes]]:
        return list(self._shelf.whole(self._moment).items())

    def changed(self, since: int) -> Iterable[tuple[str, bytes]]:
        assert since == 0, "the log is folded for one size"
        return self._shelf.whole(self._moment).items()

    def turns(self, key: str) -> list[int]:
        return [interval.from_pos for interval in self._shelf.intervals(self._moment, key)]

    def earlier(self, key: str, size: int) -> bytes | None:
        before = [i for i in self._shelf.intervals(self._moment, key) if i.from_pos < size]
        return before[-1].state or None if before else None


class Shelf:
    """Gives the states of a moment, and keeps the last lists that had to be folded. Safe to use from many threads."""

    def __init__(self, log: Log, generations: Generations) -> None:
        self._log = log
        self._generations = generations
        self._folding = threading.Lock()  # one list at a time: a second asker of the same finds it kept
        self._guard = threading.Lock()
        self._lists: OrderedDict[tuple[int, str, int, int], dict[str, bytes]] = OrderedDict()  # this and the next
        self._line: tuple[tuple[tuple[int, str, int, int], str], list[Interval]] | None = None  # guarded by _guard

    def states(self, moment: Moment) -> States:
        if not moment.rules:
            return NoStates()
        if moment.generation is not None:
            return RowStates(self._log.store.engine, self._generations, moment.generation.id, moment.size)
        return FoldedStates(self, moment)

    def kept(self, moment: Moment) -> dict[str, bytes] | None:
        """The list of a moment, if it is kept."""
        with self._guard:
            found = self._lists.get(moment.key)
            if found is not None:
                self._lists.move_to_end(moment.key)
            return found

    def whole(self, moment: Moment) -> dict[str, bytes]:
        """The list of a moment by origin, then id, folded unless it is kept."""
        with self._folding:
            found = self.kept(moment)
            if found is None:
                folded = self.fold(moment).items()
                found = dict(sorted(folded, key=lambda item: (orjson.loads(item[1])["origin"], item[0])))
                with self._guard:
                    self._lists[moment.key] = found
                    while len(self._lists) > KEPT_LISTS:
                        self._lists.popitem(last=False)
            return found

    def fold(self, moment: Moment, key: str | None = None) -> dict[str, bytes]:
        """The states of all sources, or of one, straight from the log."""
        rules, keys = RULE_SETS[moment.rules], None if key is None else {key}
        return states_of_prefix(self._log, rules, moment.size, policy_size=moment.policy_size, keys=keys)

    def intervals(self, moment: Moment, key: str) -> list[Interval]:
        """Everything that was shown of a source up to a moment, folded from its own stream and the environment.

        Raises:
            InvalidInput: the policy is of a later time, so that no event met it.
        """
        if moment.policy_moved:
            raise InvalidInput(
                "a timeline tells each event under the policy of its own time",
                remedy="Leave the policy out; `ledger audit diff` compares two policies.",
            )
        kept = (moment.key, key)
        with self._guard:
            if self._line is not None and self._line[0] == kept:
                return self._line[1]
        folder = Folder(RULE_SETS[moment.rules], self._log.registry)
        stream, history = f"source/{key}", LogHistory(self._log.store, folder)
        timeline = read_timeline(folder, policy_rows(self._log.store, folder, moment.size), history)
        streams = [(stream, history.stream(stream, moment.size))]
        folded = list(fold_streams(folder.rules, folder.registry, timeline, streams))
        found = folded[0].intervals if folded else []
        with self._guard:
            self._line = (kept, found)
        return found
