"""What turned about sources after runs had consumed them.

A turn is an event after which a reader sees something else of a source (`ledger.projections.outcomes`). It is told of a
run that had declared the source before: then its model rests on what is no longer said. All turns of one answer are
told under the rules of its moment, so that two rule sets that say the same thing otherwise are no turn.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import orjson

from ledger.audit.coordinates import At, Clockwork, Moment
from ledger.audit.reading import Check, Events, go_on
from ledger.audit.run_briefs import Consumption
from ledger.audit.states import Shelf, State, States
from ledger.audit.wording import quoted
from ledger.projections import outcomes
from ledger.projections.outcomes import Change


@dataclass(frozen=True, slots=True)
class Turn:
    """One event that changed what is shown of a source, and who had consumed it before."""

    pos: int
    recorded_at_us: int
    source: str
    event_type: str
    before_quality: str
    after_quality: str
    changes: tuple[str, ...]
    runs: tuple[str, ...]


class Turning:
    """Answers about what turned."""

    def __init__(self, events: Events, shelf: Shelf, clockwork: Clockwork) -> None:
        self._events = events
        self._shelf = shelf
        self._clockwork = clockwork

    def turns(
        self, moment: Moment, consumed: Iterable[Consumption], since: int = 0, check: Check = go_on
    ) -> list[Turn]:
        """Every turn at or after `since`, in log order.

        Args:
            moment: Where the answer stands.
            consumed: Which runs declared which sources, and where.
            since: Only what was recorded at or after this size.
            check: Called between sources.
        """
        states = self._told(moment)
        found: list[Turn] = []
        for source, takers in sorted(_by_source(consumed).items()):
            check()
            first = max(since, min(takers.values()) + 1)
            for pos, changes in _changes(states, source, first):
                found.append(self._turn(states, source, pos, changes, takers))
        return sorted(found, key=lambda turn: (turn.pos, turn.source))

    def positions(self, moment: Moment, source: str, start: int) -> tuple[int, ...]:
        """Where one source turned, from a size on."""
        return tuple(pos for pos, _ in _changes(self._told(moment), source, start))

    def _told(self, moment: Moment) -> States:
        """Each event under the policy of its own time: of a later policy no event is the cause."""
        if moment.policy_moved:
            moment = self._clockwork.moment(At(size=moment.size, rules=moment.rules, final=moment.final))
        return self._shelf.states(moment)

    def _turn(
        self, states: States, source: str, pos: int, changes: Sequence[Change], takers: Mapping[str, int]
    ) -> Turn:
        event = self._events.at(pos)
        assert event is not None, f"the log has an event at position {pos}"
        return Turn(
            pos=pos,
            recorded_at_us=event.recorded_at_us,
            source=source,
            event_type=event.type,
            before_quality=_quality(_earlier(states, source, pos)),
            after_quality=_quality(_earlier(states, source, pos + 1)),
            changes=tuple(map(_told, (c for c in changes if c.field != "quality"))),
            runs=tuple(sorted(run for run, taken in takers.items() if taken < pos)),
        )


def _by_source(consumed: Iterable[Consumption]) -> dict[str, dict[str, int]]:
    """By source the runs that took it, each with where it first said so."""
    found: dict[str, dict[str, int]] = {}
    for one in consumed:
        takers = found.setdefault(one.source, {})
        takers[one.run] = min(one.pos, takers.get(one.run, one.pos))
    return found


def _changes(states: States, source: str, start: int) -> Iterator[tuple[int, Sequence[Change]]]:
    for pos in states.turns(source):
        if pos >= start:
            changes = outcomes.changes(_earlier(states, source, pos), _earlier(states, source, pos + 1))
            if changes:
                yield pos, changes


def _earlier(states: States, source: str, size: int) -> State | None:
    data = states.earlier(source, size)
    return None if data is None else orjson.loads(data)


def _quality(state: State | None) -> str:
    """Empty while the source was not listed."""
    return "" if state is None else str(state["quality"])


def _told(change: Change) -> str:
    name = change.field.replace("_", " ")
    return f"{name}: {_side(change.before)} → {_side(change.after)}"


def _side(value: str | None) -> str:
    return "none" if value is None else quoted(value)


def known_runs(consumed: Collection[Consumption], runs: Collection[str]) -> list[Consumption]:
    """What these runs consumed; no run named: what all did."""
    return [one for one in consumed if not runs or one.run in runs]
