"""What the rules show at a size, straight from the log: no generation is needed, and none is made.

The policy may be taken from further on than the sources: then the environment has the policy's events up to there too,
less what is disregarded of them by then, and nothing else of what came later.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import chain, groupby
from operator import itemgetter
from typing import Any, Final

from ledger.log.log import Log
from ledger.log.model import Filter, StoredEvent
from ledger.projections.disregards import DISREGARDED, Disregards
from ledger.projections.environments import surroundings_of
from ledger.projections.folding import Folder, Kept, Row, Surroundings, plain
from ledger.projections.rows import LogHistory, policy_rows, streams_of
from ledger.projections.subjects import SOURCES, Projection
from ledger.projections.timelines import Timeline, decode_kept, fold_streams, read_timeline
from ledger.rules import RuleSet

_POLICY: Final = "policy/"


def states_of_prefix(
    log: Log,
    rules: RuleSet[Any, Any],
    size: int,
    *,
    policy_size: int | None = None,
    keys: Collection[str] | None = None,
    kinds: Collection[str] = (),
    projection: Projection = SOURCES,
) -> dict[str, bytes]:
    """The states at a size, as JSON by key; of what is not shown there nothing is said.

    Args:
        log: The log.
        rules: The rule set.
        size: The first so many events are known.
        policy_size: Beyond them, the policy's events among the first so many; None: no more than the others.
        keys: What is asked for; None: all.
        kinds: Of all keys, those whose streams are of these kinds; none named: every kind.
        projection: That the rule set belongs to.
    """
    folder = Folder(rules, log.registry, projection)
    return _Prefix(log, folder, size, max(size, policy_size or size)).states(keys, kinds)


class _Prefix:
    """A prefix of the log, under one rule set."""

    def __init__(self, log: Log, folder: Folder, size: int, policy_size: int) -> None:
        self._log = log
        self._size = size
        self._policy_size = policy_size
        self._folder = folder
        self._history = LogHistory(log.store, self._folder)
        self._disregarded = self._find_disregarded()
        self._surroundings = self._surround()
        self._timeline: Timeline | None = None

    def states(self, keys: Collection[str] | None, kinds: Collection[str]) -> dict[str, bytes]:
        states: dict[str, bytes] = {}
        for stream, rows in self._streams(keys, kinds):
            key = self._folder.projection.key_of(stream)
            if key is not None and (state := self._state(key, rows)):
                states[key] = state
        return states

    def _streams(self, keys: Collection[str] | None, kinds: Collection[str]) -> Iterator[tuple[str, Iterable[Row]]]:
        projection = self._folder.projection
        if keys is None:
            return groupby(streams_of(self._log.store.engine, projection, self._size, kinds), key=itemgetter(3))
        streams = map(projection.stream_of, sorted(set(keys)))
        return ((stream, self._history.stream(stream, self._size)) for stream in streams)

    def _state(self, key: str, rows: Iterable[Row]) -> bytes:
        folder, kept = self._folder, Kept(self._folder.rules.initial_facts())
        for row in rows:
            if row[2] in folder.types and row[0] not in self._disregarded:
                folder.fold(kept, row)
        folder.show(key, kept, self._surroundings, self._policy_size - 1)
        return kept.state if kept.broken is None else self._last_good(key)

    def _last_good(self, key: str) -> bytes:
        """What is shown where the rules cannot derive a state: the source's history decides, so all of it is told."""
        folder, stream = self._folder, self._folder.projection.stream_of(key)
        if self._timeline is None:
            rows = policy_rows(self._log.store, folder, self._size)
            self._timeline = read_timeline(folder, rows, self._history)
        told = [(stream, self._history.stream(stream, self._size))]
        for folded in fold_streams(folder.rules, folder.registry, self._timeline, told, folder.projection):
            failed, broken, facts = decode_kept(folded.kept)
            state = folded.intervals[-1].state if folded.intervals else b""
            kept = Kept(folder.rules.decode_facts(facts), state, failed, broken)
            folder.show(key, kept, self._surroundings, self._policy_size - 1)
            return kept.state
        return b""

    def _surround(self) -> Surroundings:
        types = tuple(sorted(self._folder.environment_types))
        if not types:
            return self._folder.initial()
        later = self._log.store.read_all(self._size, self._policy_size, match=Filter(types=types))
        policy = (plain(event) for event in later if _is_policy(event))
        return surroundings_of(self._folder, chain(self._history.environment(self._size), policy), self._disregarded)

    def _find_disregarded(self) -> frozenset[int]:
        store, registry, match = self._log.store, self._log.registry, Filter(types=(DISREGARDED,))
        found = Disregards(store.event, registry)
        for event in store.read_all(0, self._size, match=match):
            found.take(plain(event))
        later = Disregards(self._policy_event, registry, found.positions)
        for event in store.read_all(self._size, self._policy_size, match=match):
            later.take(plain(event))
        return frozenset(later.positions)

    def _policy_event(self, pos: int) -> StoredEvent | None:
        event = self._log.store.event(pos)
        return event if event is not None and _is_policy(event) else None


def _is_policy(event: StoredEvent) -> bool:
    return event.stream.startswith(_POLICY)
