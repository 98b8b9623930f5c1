"""A log driven at random, beside a plain list that says what it must answer; fsck after every step."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from ledger.core.errors import LedgerError
from ledger.core.ids import ids_digest
from ledger.log.conditions import CollectionIs, Condition, MustExist, MustNotExist, NoMatch, StreamVersion
from ledger.log.fsck import fsck
from ledger.log.log import Log
from ledger.log.model import Filter, Outcome, Receipt
from ledger.log.ports import Store
from ledger.log.postgres import PostgresStore
from ledger.log.sqlite import SqliteStore
from tests.log import oracle
from tests.log.builders import Draft, alias, part
from tests.log.conftest import Open, created, empty

LATE = 2**62
STREAMS = ["alias/a", "alias/b", "source/c"]
TAGS = ["red", "green", "blue"]
COLLECTIONS = ["c-1", "c-2"]
TYPES = ["alias.mapped", "tag.assigned"]

Answer = list[tuple[str, int, int] | str] | str
"""A receipt a draft as (new or known, position, version), or the reason of its refusal; or of the whole request's."""


@dataclass
class Model:
    """The log as a list. Each event is its draft's fields and payload."""

    events: list[tuple[dict[str, Any], bytes]] = field(default_factory=list)

    def find(self, event_id: str) -> int | None:
        return next((pos for pos, (made, _) in enumerate(self.events) if made["id"] == event_id), None)

    def version(self, stream: str, *, before: int = LATE) -> int:
        return sum(made["stream"] == stream for made, _ in self.events[:before])

    def append(self, drafts: list[Draft], conditions: list[Condition], *, atomic: bool) -> Answer:
        kinds = [self._kind(d, drafts[:n]) for n, d in enumerate(drafts)]
        if atomic and "ID_CONFLICT" in kinds:
            return "ID_CONFLICT"
        if atomic and "known" in kinds and set(kinds) & {"new", "twin"}:
            return "PARTLY_RECORDED"
        if set(kinds) & {"new", "twin"} and not all(self.holds(c) for c in conditions):
            return "CONDITION_FAILED"
        answers: list[tuple[str, int, int] | str] = []
        for draft, kind in zip(drafts, kinds, strict=True):
            if kind == "ID_CONFLICT":
                answers.append(kind)
                continue
            if kind == "new":
                self.events.append((oracle.fields(draft), draft.payload))
            pos = self.find(draft.id)
            assert pos is not None
            answers.append((kind.replace("twin", "known"), pos, self.version(draft.stream, before=pos + 1)))
        return answers

    def _kind(self, draft: Draft, before: list[Draft]) -> str:
        content = (oracle.fields(draft), draft.payload)
        pos = self.find(draft.id)
        if pos is not None:
            return "known" if self.events[pos] == content else "ID_CONFLICT"
        twin = next((d for d in before if d.id == draft.id), None)
        if twin is None:
            return "new"
        return "twin" if (oracle.fields(twin), twin.payload) == content else "ID_CONFLICT"

    def holds(self, condition: Condition) -> bool:
        match condition:
            case StreamVersion(stream, exact):
                version = self.version(stream)
                return version > 0 if exact is None else version == exact
            case MustExist(ids):
                return all(self.find(i) is not None for i in ids)
            case MustNotExist(ids):
                return all(self.find(i) is None for i in ids)
            case NoMatch(types=types, tags=tags, after=after):
                return not any(
                    (not types or made["type"] in types) and set(tags) <= set(made["tags"])
                    for made, _ in self.events[after:]
                )
            case CollectionIs(collection, count, digest):
                found = [made["id"] for made, _ in self.events if f"collection:{collection}" in made["tags"]]
                return (len(found), ids_digest(found)) == (count, digest)


@st.composite
def conditions(draw: st.DrawFn, model: Model, ids: list[str]) -> Condition:
    """Conditions near what is there, so that about half of them hold."""
    some_ids = st.lists(st.sampled_from([*ids, "unheard"]), min_size=1, max_size=2).map(tuple)
    stream = draw(st.sampled_from(STREAMS))
    near = model.version(stream) + draw(st.sampled_from([0, 0, 0, -1, 1]))
    match draw(st.integers(0, 4)):
        case 0:
            return StreamVersion(stream, draw(st.sampled_from([near, near, 0, None])))
        case 1:
            return MustExist(draw(some_ids))
        case 2:
            return MustNotExist(draw(some_ids))
        case 3:
            after = max(0, len(model.events) - draw(st.integers(0, 3)))
            tags = draw(st.lists(st.sampled_from(TAGS), max_size=2, unique=True))
            types = draw(st.lists(st.sampled_from(TYPES), max_size=1))
            return NoMatch(types=tuple(types), tags=tuple(tags), after=after)
        case _:
            collection = draw(st.sampled_from(COLLECTIONS))
            found = [made["id"] for made, _ in model.events if f"collection:{collection}" in made["tags"]]
            return CollectionIs(collection, len(found) + draw(st.sampled_from([0, 0, 1])), ids_digest(found))


class LogMachine(RuleBasedStateMachine):
    """What a log may be asked to do, in any order."""

    open_store: Open

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.sent: list[Draft] = []
        self.numbers = itertools.count()
        self.log = Log(self.open_store())
        self.queued: list[tuple[Future[Outcome], Answer]] = []
        self.started = False
        self.times: dict[int, int] = {}

    def teardown(self) -> None:
        self.log.close()

    # Requests

    @rule(data=st.data())
    def queue_a_request(self, data: st.DataObject) -> None:
        """Requests that are queued before the log starts share one transaction."""
        drafts = data.draw(st.lists(self._drafts(), min_size=1, max_size=4), label="drafts")
        known = [made["id"] for made, _ in self.model.events]
        asked = data.draw(st.lists(conditions(self.model, known), max_size=2), label="conditions")
        atomic = data.draw(st.booleans(), label="atomic")
        future = self.log.append(drafts, conditions=asked, atomic=atomic)
        self.sent += drafts
        self.queued.append((future, self.model.append(drafts, asked, atomic=atomic)))
        if self.started:
            self._compare()

    @rule()
    @precondition(lambda self: self.queued and not self.started)
    def start(self) -> None:
        self.log.start()
        self.started = True
        self._compare()

    @rule()
    @precondition(lambda self: self.started or not self.queued)
    def open_again(self) -> None:
        self.log.close()
        self.log = Log(self.open_store())
        self.started = False

    # Questions

    @rule(data=st.data())
    @precondition(lambda self: self.started or not self.queued)
    def read(self, data: st.DataObject) -> None:
        match = Filter(
            tuple(data.draw(st.lists(st.sampled_from(STREAMS), max_size=2))),
            tuple(data.draw(st.lists(st.sampled_from(TYPES), max_size=1))),
            tuple(data.draw(st.lists(st.sampled_from(TAGS), max_size=2))),
        )
        start, size = data.draw(st.integers(0, 8)), data.draw(st.integers(0, 30))
        wanted = [
            (pos, made["id"], payload)
            for pos, (made, payload) in enumerate(self.model.events[:size])
            if pos >= start
            and (not match.streams or made["stream"] in match.streams)
            and (not match.types or made["type"] in match.types)
            and set(match.tags) <= set(made["tags"])
        ]
        found = self.log.store.read(start, size, match=match)
        assert [(e.pos, e.id, e.payload) for e in found] == wanted

    @rule(stream=st.sampled_from(STREAMS))
    @precondition(lambda self: self.started or not self.queued)
    def ask_a_streams_version(self, stream: str) -> None:
        assert self.log.store.stream_version(stream) == self.model.version(stream)

    @rule(data=st.data())
    @precondition(lambda self: self.times)
    def ask_for_the_size_at_a_time(self, data: st.DataObject) -> None:
        at = data.draw(st.sampled_from(sorted(self.times.values())))
        assert self.log.size_at(at) == 1 + max(pos for pos, us in self.times.items() if us <= at)

    @invariant()
    def the_log_is_the_model_and_clean(self) -> None:
        if self.queued:
            return
        report = fsck(self.log.store)
        assert report.problems == []
        assert report.size == len(self.model.events)
        stored = {e.pos: (e.id, e.stream, e.payload) for e in self.log.store.read_all(0, LATE)}
        assert stored == {
            pos: (made["id"], made["stream"], payload) for pos, (made, payload) in enumerate(self.model.events)
        }

    def _drafts(self) -> st.SearchStrategy[Draft]:
        new = st.builds(self._new, st.sampled_from(STREAMS), st.sets(st.sampled_from(TAGS)), st.booleans())
        if not self.sent:
            return new
        again = st.sampled_from(self.sent)
        changed = st.builds(_changed, again, st.sampled_from(["payload", "causes", "occurred_at_us"]))
        return st.one_of(new, new, again, changed)

    def _new(self, stream: str, tags: set[str], has_producer: bool) -> Draft:
        number = next(self.numbers)
        extra: dict[str, Any] = {"producer": {"id": "p", "epoch": 1, "seq": number}} if has_producer else {}
        if stream.startswith("source/"):
            return part(COLLECTIONS[number % 2], id=f"e{number}", stream=stream, tags=tags, **extra)
        return alias("x", id=f"e{number}", stream=stream, tags=tags, **extra)

    def _compare(self) -> None:
        for future, wanted in self.queued:
            assert _answer(future) == wanted
            if future.exception() is None:
                for receipt in future.result().receipts:
                    self._note_time(receipt)
        self.queued.clear()

    def _note_time(self, receipt: Receipt | LedgerError) -> None:
        if isinstance(receipt, Receipt):
            assert self.times.setdefault(receipt.pos, receipt.recorded_at_us) == receipt.recorded_at_us


def _changed(draft: Draft, what: str) -> Draft:
    """Other content under the same id."""
    changed = Draft()
    changed.CopyFrom(draft)
    match what:
        case "payload":
            changed.payload += b" "
        case "causes":
            changed.causes.append("because")
        case _:
            changed.occurred_at_us += 1
    return changed


def _answer(future: Future[Outcome]) -> Answer:
    error = future.exception(60)
    if error is not None:
        assert isinstance(error, LedgerError)
        return error.reason
    return [
        r.reason if isinstance(r, LedgerError) else ("known" if r.already_recorded else "new", r.pos, r.sv)
        for r in future.result().receipts
    ]


def run_machine(open_store: Open, clean: Any, *, examples: int, phases: tuple[Phase, ...] = tuple(Phase)) -> None:
    """Runs the machine on one kind of store, each example on an empty log."""

    class Machine(LogMachine):
        def __init__(self) -> None:
            self.around = clean()
            self.around.__enter__()
            super().__init__()

        def teardown(self) -> None:
            super().teardown()
            self.around.__exit__(None, None, None)

    Machine.open_store = staticmethod(open_store)
    thorough = settings().max_examples > 50
    run_state_machine_as_test(
        Machine,
        settings=settings(
            settings(),
            max_examples=examples * 20 if thorough else examples,
            phases=phases,
            stateful_step_count=40 if thorough else 15,
        ),
    )


def test_a_log_on_sqlite_answers_as_the_model(migrated_sqlite: bytes) -> None:
    where: list[Path] = []

    @contextmanager
    def clean() -> Iterator[None]:
        with tempfile.TemporaryDirectory() as folder:
            where[:] = [Path(folder) / "ledger.db"]
            where[0].write_bytes(migrated_sqlite)
            created(SqliteStore(where[0])).close()
            yield

    run_machine(lambda: SqliteStore(where[0]), clean, examples=40)


def test_a_log_on_postgres_answers_as_the_model(shared_database: str) -> None:
    @contextmanager
    def clean() -> Iterator[None]:
        empty(shared_database)
        yield

    run_machine(lambda: PostgresStore(shared_database), clean, examples=10)


@pytest.mark.parametrize("fault", ["a lost event", "a wrong answer"])
def test_the_machine_sees_a_log_that_is_wrong(migrated_sqlite: bytes, tmp_path: Path, fault: str) -> None:
    """The known-bad variants: a store that forgets a retry's first receipt, and one that hides an event."""

    class Wrong(SqliteStore):
        def read(self, *arguments: Any, **named: Any) -> Any:
            found = super().read(*arguments, **named)
            return found[:-1] if fault == "a lost event" and len(found) > 2 else found

        def stream_version(self, stream: str) -> int:
            return super().stream_version(stream) + (fault == "a wrong answer")

    numbers = itertools.count()
    path = tmp_path

    @contextmanager
    def clean() -> Iterator[None]:
        nonlocal path
        path = tmp_path / f"{next(numbers)}.db"
        path.write_bytes(migrated_sqlite)
        created(SqliteStore(path)).close()
        yield

    def opened() -> Store:
        return Wrong(path)

    with pytest.raises((AssertionError, ExceptionGroup)):
        run_machine(opened, clean, examples=60, phases=(Phase.generate,))
