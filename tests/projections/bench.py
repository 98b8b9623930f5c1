"""A log with its generations, without a server: what is appended is not judged, so any history can be told."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import orjson
from sqlalchemy import text

from ledger.client.drafts import Draft
from ledger.core import strictjson
from ledger.core.ids import sha256_hex
from ledger.events import REGISTRY
from ledger.log import schema
from ledger.log.log import Log
from ledger.log.model import StoredEvent
from ledger.log.ports import Store
from ledger.log.postgres import PostgresStore
from ledger.log.sqlite import SqliteStore, sqlite_engine
from ledger.projections.folding import rule_event
from ledger.projections.generations import GenerationRow, Identity
from ledger.projections.projector import Projector
from ledger.projections.subjects import RUNS
from ledger.rules import RuleSet, source_of
from ledger.rules.atlas_page_1 import RULES
from tests.projections.histories import LISTED, Teller
from tests.rules import builders
from tests.server.doors import of

States = dict[str, bytes]
Rules = RuleSet[Any, Any]


def identity_of(rules: str, fold: str = "b") -> Identity:
    return Identity(rules, sha256_hex(rules.encode()), fold * 64, "c" * 64)


IDENTITY = identity_of(RULES.id)


class Bench:
    """One log and a projector that moves only when it is told to."""

    def __init__(self, store: Store, *rules: Rules, runs: Rules | None = None) -> None:
        """The first of the rule sets answers for sources; runs are folded where there are rules for them."""
        store.create("bench")
        self.rule_sets = {r.id: r for r in rules or (RULES,)}
        self.run_sets = {runs.id: runs} if runs else {}
        self.rules = (rules or (RULES,))[0]
        self.log = Log(store)
        self.log.start()
        self.projector = self.another_projector()

    def another_projector(self, fold: str = "b") -> Projector:
        """One that remembers nothing, as after a restart, of a release with this fold."""
        identities = {name: identity_of(name, fold) for name in self.rule_sets}
        of_runs = {name: replace(identity_of(name, fold), projection=RUNS.name) for name in self.run_sets}
        projector = Projector(self.log, identities, {**self.rule_sets, **self.run_sets}, of_runs)
        projector.open(self.rules.id)
        return projector

    def append(self, *drafts: Draft) -> int:
        """The log's size afterwards; none of the drafts may be refused."""
        outcome = self.log.append(drafts, atomic=False).result()
        assert [r for r in outcome.receipts if isinstance(r, Exception)] == []
        return outcome.size

    @property
    def live(self) -> GenerationRow:
        row = self.projector.generations.live()
        assert row is not None
        return row

    def shown_at(self, size: int) -> States:
        """What the live generation's rows say at a size."""
        return dict(self.projector.generations.states_at(self.live.id, size))

    @property
    def live_runs(self) -> GenerationRow:
        row = self.projector.generations.live(RUNS)
        assert row is not None
        return row

    def forget_runs(self) -> None:
        """The log as a release wrote it that knew no runs."""
        row = self.live_runs
        with self.log.store.write_gate, self.log.store.engine.begin() as connection:
            for table, column in (
                ("source_interval", "generation"),
                ("source_facts", "generation"),
                ("generation", "id"),
            ):
                connection.execute(text(f"DELETE FROM {table} WHERE {column} = :g"), {"g": row.id})

    def history(self, rules: Rules | None = None) -> list[States]:
        """What the rules show of every source at every size, told without any of the fold's short cuts."""
        return told(self.log.store.read_all(0, self.log.head().size), rules or self.rules)

    def damage(self, key: str) -> None:
        """Changes a stored state behind the projector's back."""
        with self.log.store.write_gate, self.log.store.engine.begin() as connection:
            changed = connection.execute(
                text("UPDATE source_interval SET state = :s WHERE key = :k AND to_pos IS NULL"),
                {"s": b'{"origin":"forged","reasons":[]}', "k": key},
            )
            assert changed.rowcount == 1

    def forbid_facts_of(self, key: str) -> None:
        """From here on the database refuses a source's facts, as a full disk would."""
        with self.log.store.write_gate, self.log.store.engine.begin() as connection:
            if self.log.store.dialect == "sqlite":
                sql = (
                    f"CREATE TRIGGER forbid BEFORE INSERT ON source_facts WHEN new.key = '{key}'"
                    " BEGIN SELECT RAISE(ABORT, 'forbidden'); END"
                )
            else:
                sql = f"ALTER TABLE source_facts ADD CONSTRAINT forbidden CHECK (key <> '{key}') NOT VALID"
            connection.execute(text(sql.replace(":", r"\:")))

    def permit_facts(self) -> None:
        sql = "DROP TRIGGER forbid"
        if self.log.store.dialect == "postgresql":
            sql = "ALTER TABLE source_facts DROP CONSTRAINT forbidden"
        with self.log.store.write_gate, self.log.store.engine.begin() as connection:
            connection.execute(text(sql))

    def close(self) -> None:
        self.projector.close()
        self.log.close()


def told(log: Iterable[StoredEvent], rules: Rules) -> list[States]:
    """What is shown after each event: every event once, from the first again where one is taken back."""
    events: dict[int, StoredEvent] = {}
    gone: set[int] = set()
    shown: list[States] = [{}]
    prefix = _Told(rules)
    for stored in log:
        events[stored.pos] = stored
        if (lost := _lost(stored, events, gone)) is not None:
            gone.add(lost)
            prefix = _Told(rules)
            for event in events.values():
                if event.pos not in gone:
                    prefix.take(event)
        else:
            prefix.take(stored)
        shown.append(prefix.states())
    return shown


def _lost(stored: StoredEvent, events: dict[int, StoredEvent], gone: set[int]) -> int | None:
    """The position that an event takes back, if it is a disregard that holds."""
    if stored.type != "event.disregarded":
        return None
    said = orjson.loads(stored.payload or b"")
    pos = said["pos"]
    if pos >= stored.pos or pos in gone or pos not in events or events[pos].id != said["event"]:
        return None
    decides = events[pos].stream.partition("/")[0] != "ledger"
    return pos if decides else None


class _Told:
    """A prefix of the log as the rules alone see it."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._environment = rules.initial_environment()
        self._facts: dict[str, Any] = {}

    def take(self, stored: StoredEvent) -> None:
        event = rule_event(stored, REGISTRY)
        key = source_of(event.stream)
        if event.type in self._rules.environment_types:
            self._environment = self._rules.fold_environment(self._environment, event)
        if key is not None:
            self._facts[key] = self._rules.fold(self._facts.get(key, self._rules.initial_facts()), event)

    def states(self) -> States:
        states = {k: self._rules.show(k, f, self._environment) for k, f in self._facts.items()}
        return {k: strictjson.dumps(s) for k, s in states.items() if s is not None}


def listed(opened: Bench) -> None:
    """Puts the first source into the catalogue."""
    teller = Teller()
    for step in LISTED:
        opened.append(*teller.tell(step))
    opened.projector.catch_up()


def suspicion(number: int) -> Draft:
    return of(builders.suspected(f"d{number % 7}"), id=f"s{number}")


@contextmanager
def bench(store: Store, *rules: Rules, runs: Rules | None = None) -> Iterator[Bench]:
    made = Bench(store, *rules, runs=runs)
    try:
        yield made
    finally:
        made.close()


@contextmanager
def empty_sqlite() -> Iterator[Path]:
    """A database file with the schema and nothing in it."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        path = Path(folder) / "ledger.db"
        path.write_bytes(_migrated())
        yield path


@cache
def _migrated() -> bytes:
    """A migrated database file, so that not every test migrates its own."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        path = Path(folder) / "ledger.db"
        engine = sqlite_engine(path)
        schema.upgrade(engine)
        engine.dispose()
        return path.read_bytes()


@contextmanager
def sqlite_bench(*rules: Rules, runs: Rules | None = None) -> Iterator[Bench]:
    with empty_sqlite() as path, bench(SqliteStore(path), *rules, runs=runs) as made:
        yield made


@contextmanager
def postgres_bench(uri: str, *rules: Rules, runs: Rules | None = None) -> Iterator[Bench]:
    with bench(PostgresStore(uri), *rules, runs=runs) as made:
        yield made
