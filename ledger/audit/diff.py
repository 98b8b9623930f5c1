"""What differs between two answers: two sizes, two rule sets, or two policies.

Differences are told in what a reader would notice (`ledger.projections.outcomes`): applied to the first answer's
outcomes they give the second's. A source is told of when it passes the filter on either side.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import Final

import orjson

from ledger.audit.briefs import SourceFilter, brief_of
from ledger.audit.coordinates import Moment
from ledger.audit.pages import Room, encode_token
from ledger.audit.reading import CHECK_EVERY, Check, go_on
from ledger.audit.states import Shelf, State
from ledger.projections import outcomes
from ledger.projections.outcomes import Move

QUESTION: Final = "diff"
KEPT: Final = 2
"""Whole differences kept for their further pages."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Every source that is shown otherwise, by id."""

    moves: tuple[Move, ...]
    counts: Mapping[str, int]
    digest: str


@dataclass(frozen=True, slots=True)
class DiffPage:
    """Some of the sources that differ, and how to ask for more."""

    moves: tuple[Move, ...]
    whole: Difference
    next_token: str = ""


_Key = tuple[tuple[int, str, int, int], tuple[int, str, int, int], SourceFilter]


class Diffs:
    """Answers about what differs."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._guard = threading.Lock()
        self._kept: OrderedDict[_Key, Difference] = OrderedDict()  # guarded by _guard

    def page(
        self, before: Moment, after: Moment, which: SourceFilter, *, size: int = 0, start: int = 0, check: Check = go_on
    ) -> DiffPage:
        """The sources that differ, from the one with the number `start`."""
        key = (before.key, after.key, which)
        with self._guard:
            whole = self._kept.get(key)
        if whole is None:
            whole = self._made(before, after, which, check)
            with self._guard:
                self._kept[key] = whole
                while len(self._kept) > KEPT:
                    self._kept.popitem(last=False)
        room = Room(size)
        moves = tuple(takewhile(lambda move: room.takes(_weight(move)), whole.moves[start:]))
        end = start + len(moves)
        token = encode_token(QUESTION, which, [before, after], end) if end < len(whole.moves) else ""
        return DiffPage(moves, whole, token)

    def _made(self, before: Moment, after: Moment, which: SourceFilter, check: Check) -> Difference:
        old = dict(self._shelf.states(before).all())
        new = dict(self._shelf.states(after).all())
        return difference(old, new, which, check)


def difference(
    before: Mapping[str, bytes], after: Mapping[str, bytes], which: SourceFilter, check: Check = go_on
) -> Difference:
    """What differs between two lists of states, by id."""
    moves = []
    for number, key in enumerate(sorted(before.keys() | after.keys())):
        if number % CHECK_EVERY == 0:
            check()
        old, new = before.get(key), after.get(key)
        if old == new:
            continue
        move = outcomes.move(key, _read(old), _read(new))
        if move is not None and any(which.takes(brief_of(state)) for state in (old, new) if state is not None):
            moves.append(move)
    return Difference(tuple(moves), outcomes.counts(moves), outcomes.digest(moves))


def _weight(move: Move) -> int:
    return len(orjson.dumps([move.before, move.after]))


def _read(data: bytes | None) -> State | None:
    return None if data is None else orjson.loads(data)
