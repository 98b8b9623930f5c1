"""Questions about sources: one, and all that pass a filter.

A state is JSON as the fold wrote it; nothing here computes it again, and an explanation is what the fold recorded with
it. When the generation that answers is dropped in the midst of a question, `Moved` is raised: take the moment again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import orjson

from ledger.audit.briefs import SourceFilter
from ledger.audit.coordinates import Moment
from ledger.audit.listings import Listings
from ledger.audit.pages import Room, encode_token
from ledger.audit.reading import Check, go_on
from ledger.audit.states import Shelf, State
from ledger.audit.wording import quoted
from ledger.core.errors import InvalidInput, NotFound
from ledger.core.text import is_header_text
from ledger.log import limits
from ledger.log.log import Log
from ledger.log.model import StoredEvent
from ledger.projections.generations import Generations

QUESTION: Final = "sources"
STATES_A_QUERY: Final = 200
"""Whole states that are read at once."""


@dataclass(frozen=True)
class Page:
    """Some of the sources that pass, and how to ask for the next ones."""

    states: list[State] = field(default_factory=list)
    total: int = 0
    next_token: str = ""


class Sources:
    """Answers about what is shown of sources."""

    def __init__(self, log: Log, generations: Generations) -> None:
        self.log = log
        self.shelf = Shelf(log, generations)
        self._listings = Listings(self.shelf)

    def one(self, source_id: str, moment: Moment) -> State:
        """One source's state.

        Raises:
            InvalidInput: if the id is empty.
            NotFound: it did not exist at the moment.
        """
        self.check_id(source_id, moment)
        found = self.shelf.states(moment).one(source_id)
        if found is None:
            raise self._unknown(source_id, moment)
        state: State = orjson.loads(found)
        return state

    def check_id(self, source_id: str, moment: Moment) -> None:
        """What no source can be called is not asked of the database, which might not even take it.

        Raises:
            InvalidInput: if the id is empty.
            NotFound: no source can have it.
        """
        if not source_id:
            raise InvalidInput("the id of the source is empty", remedy="Give the id as `ledger source list` shows it.")
        if not is_header_text(source_id, limits.STREAM_BYTES):
            raise self._unknown(source_id, moment)

    def _unknown(self, source_id: str, moment: Moment) -> NotFound:
        later = " It may have been declared later than this moment." if moment.size < self.log.head().size else ""
        return NotFound(
            f"there is no source {quoted(source_id)!r} at size {moment.size}",
            remedy=f"`ledger source list --retired` names them all; ids are case sensitive.{later}",
            details={"id": quoted(source_id), "size": str(moment.size)},
        )

    def passing(self, moment: Moment, which: SourceFilter, check: Check = go_on) -> Iterator[State]:
        """The states that pass, by origin, then id."""
        for state, _ in self._states(moment, self._keys(moment, which, check), check):
            yield state

    def page(self, moment: Moment, which: SourceFilter, *, size: int = 0, start: int = 0, check: Check = go_on) -> Page:
        """The sources that pass, from the one with the number `start`."""
        keys = self._keys(moment, which, check)
        room, states = Room(size), []
        for state, weight in self._states(moment, keys[start:], check):
            if not room.takes(weight):
                break
            states.append(state)
        end = start + len(states)
        token = encode_token(QUESTION, which, [moment], end) if end < len(keys) else ""
        return Page(states, len(keys), token)

    def _keys(self, moment: Moment, which: SourceFilter, check: Check) -> list[str]:
        return [brief.id for brief in self._listings.of(moment, check) if which.takes(brief)]

    def _states(self, moment: Moment, keys: list[str], check: Check) -> Iterator[tuple[State, int]]:
        """States in the order of their keys, each with its length in bytes; read as far as they are wanted."""
        states = self.shelf.states(moment)
        for start in range(0, len(keys), STATES_A_QUERY):
            check()
            some = keys[start : start + STATES_A_QUERY]
            found = states.some(some)
            yield from ((orjson.loads(found[key]), len(found[key])) for key in some)

    def events_of(self, state: State) -> list[StoredEvent]:
        """Every event that the state's reasons name, once, in log order."""
        positions = sorted({pos for reason in state["reasons"] for pos in reason["events"]})
        found = [self.log.store.event(pos) for pos in positions]
        return [event for event in found if event is not None]
