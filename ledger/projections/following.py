"""Moving a generation with the log, a page of events at a time.

A page is folded in memory; then rows and cursor are written in one transaction. When somebody else moved the cursor the
page is thrown away and everything is read again: the log is the only truth.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import orjson

from ledger.log.log import Log
from ledger.log.model import Filter
from ledger.log.reading import PAGE
from ledger.projections.disregards import Disregards, disregarded_at
from ledger.projections.environments import EnvironmentFold
from ledger.projections.folding import Folder, Kept, Surroundings, plain
from ledger.projections.generations import GenerationRow, Generations, Moved
from ledger.projections.intervals import Written
from ledger.projections.live import LiveFold
from ledger.projections.rows import LogHistory
from ledger.projections.timelines import decode_kept, encode_kept
from ledger.rules import RuleSet

MAX_KEPT_KEYS: Final = 20_000
"""Sources held in memory between pages; beyond it they are read again when they are needed."""


class Follower:
    """One generation, and the fold that goes on where it stands."""

    def __init__(self, log: Log, rules: RuleSet[Any, Any], generations: Generations, row: GenerationRow) -> None:
        self.row = row
        self._log = log
        self._rules = rules
        self._generations = generations
        self._fold = self._opened()
        self._written = self._fold.environment.surroundings
        """The environment as the row holds it."""

    def advance(self, size: int) -> GenerationRow:
        """Folds at most a page of the events before a size.

        Raises:
            Moved: somebody else moved the generation, or it is gone; this follower is of no use any more.
        """
        fold, before = self._fold, self.row
        events = self._log.store.read(before.size, size, match=Filter(types=tuple(sorted(fold.types))))
        rows = list(map(plain, events))
        fold.expect(rows)
        changes = [interval for row in rows for interval in fold.apply(row)]
        kept, failures = fold.take_changed()
        now = fold.environment.surroundings
        after = replace(
            before,
            size=events[-1].pos + 1 if len(events) == PAGE else size,
            failed_events=before.failed_events + failures + now.failures - self._written.failures,
        )
        if now is not self._written:
            after = replace(after, **encode_surroundings(self._rules, now))
        facts = {key: encode_kept(of, self._rules.encode_facts(of.facts)) for key, of in kept.items()}
        self.row = self._generations.advance(before, after, changes, facts)
        self._written = now
        return self.row

    @property
    def is_full(self) -> bool:
        """It holds more in memory than it should between pages."""
        return len(self._fold.kept) > MAX_KEPT_KEYS

    def _opened(self) -> LiveFold:
        store, registry, row = self._log.store, self._log.registry, self.row
        folder = Folder(self._rules, registry, row.identity.subject)
        history = LogHistory(store, folder)
        disregards = Disregards(store.event, registry, disregarded_at(store, registry, row.size))
        surroundings = decode_surroundings(self._rules, row)
        environment = EnvironmentFold(folder, history, surroundings, disregards)
        return LiveFold(folder, history, environment, _Shelf(self._generations, row.id, self._rules))


class Followers:
    """The generations that are moved by this process, each with its fold in memory."""

    def __init__(self, log: Log, rule_sets: Mapping[str, RuleSet[Any, Any]], generations: Generations) -> None:
        self._log = log
        self._rule_sets = rule_sets
        self._generations = generations
        self._open: dict[str, Follower] = {}

    def move(self, generation_id: str, size: int) -> GenerationRow:
        """Moves a generation by a page towards a size.

        Raises:
            Moved: somebody else moves it, or it is gone.
        """
        follower = self._open.get(generation_id) or self.follower(self._row(generation_id))
        try:
            row = follower.advance(size) if follower.row.size < size else follower.row
        except BaseException:
            self._open.pop(generation_id, None)
            raise
        if follower.is_full:
            self._open.pop(generation_id, None)
        else:
            self._open[generation_id] = follower
        return row

    def follower(self, row: GenerationRow) -> Follower:
        return Follower(self._log, self._rule_sets[row.identity.rules], self._generations, row)

    def forget(self, keep: Iterable[str] = ()) -> None:
        """Lets go of all but these: others are gone, or have to be read again."""
        self._open = {name: self._open[name] for name in keep if name in self._open}

    def _row(self, generation_id: str) -> GenerationRow:
        row = self._generations.get(generation_id)
        if row is None:
            raise Moved
        return row


class _Shelf:
    """What a generation has written, as the fold wants it."""

    def __init__(self, generations: Generations, generation_id: str, rules: RuleSet[Any, Any]) -> None:
        self._generations = generations
        self._id = generation_id
        self._rules = rules

    def some(self, keys: Iterable[str]) -> dict[str, Kept]:
        return self._decoded(self._generations.load(self._id, list(keys)))

    def every(self) -> Iterator[dict[str, Kept]]:
        return map(self._decoded, self._generations.load_all(self._id))

    def _decoded(self, found: Written) -> dict[str, Kept]:
        return {key: self._kept(data, state) for key, (data, state) in found.items()}

    def _kept(self, data: bytes, state: bytes) -> Kept:
        failed, broken, facts = decode_kept(data)
        return Kept(self._rules.decode_facts(facts), state, failed, broken)


def encode_surroundings(rules: RuleSet[Any, Any], now: Surroundings) -> dict[str, Any]:
    """The columns of a generation that hold its environment."""
    return {
        "environment": rules.encode_environment(now.environment),
        "failures": orjson.dumps(dict(now.failed), option=orjson.OPT_SORT_KEYS).decode(),
    }


def decode_surroundings(rules: RuleSet[Any, Any], row: GenerationRow) -> Surroundings:
    failed = {key: tuple(positions) for key, positions in orjson.loads(row.failures).items()}
    return Surroundings(rules.decode_environment(row.environment), failed)
