"""A log with a projection on it, without a server: what is appended is not judged, so any history can be told."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from sqlalchemy import text

from ledger.client.drafts import Draft
from ledger.core import strictjson
from ledger.events import REGISTRY
from ledger.log import schema
from ledger.log.log import Log
from ledger.log.ports import Store
from ledger.log.postgres import PostgresStore
from ledger.log.sqlite import SqliteStore, sqlite_engine
from ledger.projections.folding import rule_event
from ledger.projections.generations import GenerationRow, Identity
from ledger.projections.projector import Projector
from ledger.rules import RuleSet, source_of
from ledger.rules.atlas_page_1 import RULES

IDENTITY = Identity("atlas-page-1", "a" * 64, "b" * 64, "c" * 64)
States = dict[str, bytes]


class Bench:
    """One log and a projector that moves only when it is told to."""

    def __init__(self, store: Store, rules: RuleSet[Any, Any] = RULES) -> None:
        store.create("bench")
        self.rules = rules
        self.log = Log(store)
        self.log.start()
        self.projector = self.another_projector()

    def another_projector(self, identity: Identity = IDENTITY) -> Projector:
        """One that remembers nothing, as after a restart."""
        projector = Projector(self.log, self.rules, identity)
        projector.open()
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

    def history(self) -> list[States]:
        """What the rules show of every source at every size, told without any of the fold's short cuts."""
        environment = self.rules.initial_environment()
        facts: dict[str, Any] = {}
        shown: list[States] = [{}]
        for stored in self.log.store.read_all(0, self.log.head().size):
            event = rule_event(stored, REGISTRY)
            key = source_of(event.stream)
            if event.type in self.rules.environment_types:
                environment = self.rules.fold_environment(environment, event)
            if key is not None:
                facts[key] = self.rules.fold(facts.get(key, self.rules.initial_facts()), event)
            states = {k: self.rules.show(k, f, environment) for k, f in facts.items()}
            shown.append({k: strictjson.dumps(s) for k, s in states.items() if s is not None})
        return shown

    def damage(self, key: str) -> None:
        """Changes a stored state behind the projector's back."""
        with self.log.store.write_gate, self.log.store.engine.begin() as connection:
            changed = connection.execute(
                text("UPDATE source_interval SET state = :s WHERE key = :k AND to_pos IS NULL"),
                {"s": b'{"origin":"forged","reasons":[]}', "k": key},
            )
            assert changed.rowcount == 1

    def close(self) -> None:
        self.projector.close()
        self.log.close()


@contextmanager
def bench(store: Store, rules: RuleSet[Any, Any] = RULES) -> Iterator[Bench]:
    made = Bench(store, rules)
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
def sqlite_bench(rules: RuleSet[Any, Any] = RULES) -> Iterator[Bench]:
    with empty_sqlite() as path, bench(SqliteStore(path), rules) as made:
        yield made


@contextmanager
def postgres_bench(uri: str, rules: RuleSet[Any, Any] = RULES) -> Iterator[Bench]:
    with bench(PostgresStore(uri), rules) as made:
        yield made
