"""Runs in a server: folded from the start of a log, built behind open doors for an older one, listed and rebuilt."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import text

from ledger.core.errors import LedgerError
from ledger.projections.generations import GenerationRow
from ledger.projections.subjects import RUNS
from ledger.rules.sets import DEFAULT_RUN_RULES, rules_digest
from ledger.wire import projections_pb2
from services.server.app import Application, fsck, in_process
from services.server.settings import Settings
from tests.projections.toy_runs import claimed, declared, logged
from tests.server.doors import BY, Doors, Failure, failure, of, request

KEYS = ["campaign/a", "export/a", "run/a"]


@contextmanager
def started(settings: Settings) -> Iterator[Application]:
    application = Application(settings)
    try:
        application.start()
        yield application
    finally:
        application.close()


@pytest.fixture(params=["sqlite", "postgres"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    db = request.getfixturevalue("database") if request.param == "postgres" else None
    made = Settings(tmp_path / "home", db=db)
    made.home.mkdir()
    return made


def tell(application: Application) -> int:
    """Something of every kind; returns the log's size, which sources and runs have reached."""
    drafts = [of(declared(key), key) for key in KEYS]
    drafts += [of(logged("a", 1), "run/a"), of(claimed("run", "a", "It is so."), "run/a")]
    size = application.log.append(drafts).result().size
    application.projector.catch_up()
    assert application.projector.catch_up(DEFAULT_RUN_RULES) == size
    return size


def forget_runs(application: Application) -> None:
    """The log as a release left it that knew no runs."""
    store, row = application.log.store, live(application)
    with store.write_gate, store.engine.begin() as connection:
        for table, column in (("source_interval", "generation"), ("source_facts", "generation"), ("generation", "id")):
            connection.execute(text(f"DELETE FROM {table} WHERE {column} = :g"), {"g": row.id})


def live(application: Application) -> GenerationRow:
    row = application.projector.generations.live(RUNS)
    assert row is not None
    return row


def shown(application: Application, size: int) -> list[tuple[str, bytes]]:
    assert application.projector.runs is not None
    return application.projector.runs.at(size)


def renewed(application: Application) -> None:
    """Waits for what goes on behind open doors."""
    application._renewing.join(60)
    assert not application._renewing.is_alive()


def test_a_new_log_folds_runs_from_its_first_event(settings: Settings) -> None:
    with started(settings) as application:
        first = live(application)
        size = tell(application)
        assert [key for key, _ in shown(application, size)] == KEYS
    with started(settings) as application:
        renewed(application)
        assert live(application).id == first.id
        assert live(application).identity.rules_digest == rules_digest(DEFAULT_RUN_RULES)


@pytest.mark.parametrize("how", ["none", "another fold", "other rules"])
def test_a_log_without_this_releases_runs_opens_at_once_and_gets_them_behind_open_doors(
    how: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with started(settings) as application:
        size = tell(application)
        expected = [shown(application, n) for n in range(size + 1)]
        old = live(application)
        if how == "none":
            forget_runs(application)
        else:
            column = "fold_digest" if how == "another fold" else "rules_digest"
            store = application.log.store
            with store.write_gate, store.engine.begin() as connection:
                changed = f"UPDATE generation SET {column} = 'otherwise' WHERE id = :g"
                connection.execute(text(changed), {"g": old.id})
    let_build = threading.Event()
    build_runs = application.projector.__class__.build_runs

    def held(self: object) -> object:
        assert let_build.wait(60)
        return build_runs(self)

    monkeypatch.setattr(application.projector.__class__, "build_runs", held)
    with started(settings) as application:
        try:
            assert [shown(application, n) for n in range(size + 1)] == expected, "the log answers meanwhile"
        finally:
            let_build.set()
        renewed(application)
        new = live(application)
        assert (new.id != old.id, new.size) == (True, size)
        assert application.projector.generations.computes(new)
        assert application.projector.generations.get(old.id) is None
        assert [shown(application, n) for n in range(size + 1)] == expected
        assert application.log.head().size == size, "nothing is recorded of it"
    assert fsck(settings).problems == []


def test_what_another_release_kept_of_runs_is_dropped(settings: Settings) -> None:
    with started(settings) as application:
        tell(application)
        old, store = live(application), application.log.store
        with store.write_gate, store.engine.begin() as connection:
            forged = "UPDATE source_interval SET state = :s WHERE generation = :g AND to_pos IS NULL"
            connection.execute(text(forged), {"s": b"{}", "g": old.id})
        assert not application.projector.rebuild(rules=DEFAULT_RUN_RULES).equal
        with store.write_gate, store.engine.begin() as connection:
            connection.execute(text("UPDATE generation SET fold_digest = 'old' WHERE id = :g"), {"g": old.id})
        assert application.projector.find(old.id).status == "kept"
    with started(settings) as application:
        renewed(application)
        assert application.projector.generations.get(old.id) is None
        assert application.projector.generations.count(old.id) == (0, 0)


def test_servers_that_start_together_on_an_older_log_leave_one_generation_of_runs(
    database: str, tmp_path: Path
) -> None:
    settings = [Settings(tmp_path / f"home{n}", db=database) for n in range(3)]
    with started(settings[0]) as application:
        size = tell(application)
        expected = shown(application, size)
        forget_runs(application)
    starters = [Application(s) for s in settings]
    try:
        threads = [threading.Thread(target=a.start) for a in starters]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        for application in starters:
            renewed(application)
        rows = starters[0].projector.generations.all()
        assert [(g.identity.projection, g.status) for g in rows] == [("sources", "live"), ("runs", "live")]
        assert [shown(application, size) for application in starters] == [expected] * 3
        assert {a.log.head().size for a in starters} == {size}
    finally:
        for application in starters:
            application.close()


def test_a_log_does_not_begin_under_the_rules_of_runs(tmp_path: Path) -> None:
    settings = Settings(tmp_path, first_rules=DEFAULT_RUN_RULES)
    with pytest.raises(LedgerError, match="cannot begin under the rules") as refused, started(settings):
        pass
    assert refused.value.reason == "USAGE"


@pytest.fixture
def doors(tmp_path: Path) -> Iterator[Doors]:
    (tmp_path / "home").mkdir()
    with in_process(Settings(tmp_path / "home")) as address:
        made = Doors(address)
        drafts = [of(declared("run/a"), "run/a"), of(logged("a", 1), "run/a")]
        made.log.Append(request(*drafts))
        yield made
        made.channel.close()


def rebuild(doors: Doors, **fields: str) -> projections_pb2.RebuildResult:
    return list(doors.projections.Rebuild(projections_pb2.RebuildRequest(**fields)))[-1].result


def test_the_list_names_the_projection_of_each_generation(doors: Doors) -> None:
    listed = doors.projections.List(projections_pb2.ListProjectionsRequest()).generations
    assert [(g.projection, g.status) for g in listed] == [("sources", "live"), ("runs", "live")]
    runs = listed[1]
    assert (runs.rules, runs.rules_digest) == (DEFAULT_RUN_RULES, rules_digest(DEFAULT_RUN_RULES))
    assert (list(runs.promoted), runs.adopted) == ([], False)


@pytest.mark.parametrize(
    "fields",
    [{"projection": "runs"}, {"rules": DEFAULT_RUN_RULES}, {"projection": "runs", "rules": DEFAULT_RUN_RULES}],
)
def test_runs_are_rebuilt_by_their_name_or_by_their_rules(fields: dict[str, str], doors: Doors) -> None:
    (before,) = doors.generations("runs")
    steps = list(doors.projections.Rebuild(projections_pb2.RebuildRequest(**fields)))
    found = steps[-1].result
    assert (found.equal, found.compared_with, found.generation.keys) == (True, before.id, 1)
    assert (found.generation.projection, found.generation.status) == ("runs", "live")
    assert "folding the runs" in {step.phase for step in steps}
    assert [g.id for g in doors.generations("runs")] == [found.generation.id]


def test_a_rebuild_of_nothing_in_particular_is_of_the_sources(doors: Doors) -> None:
    assert rebuild(doors).generation.projection == "sources"
    assert rebuild(doors, projection="sources").generation.projection == "sources"


def _promote(doors: Doors) -> object:
    asked = projections_pb2.PromoteRequest(generation=DEFAULT_RUN_RULES, diff_digest="0" * 64, actor=BY)
    return doors.projections.Promote(asked)


REFUSALS = [
    (lambda d: rebuild(d, projection="sources", rules=DEFAULT_RUN_RULES), "INVALID_ARGUMENT", "belongs to one"),
    (lambda d: rebuild(d, projection="runs", rules="ledger-1"), "INVALID_ARGUMENT", "belongs to one"),
    (lambda d: rebuild(d, projection="checkpoints"), "NOT_FOUND", "sources, runs"),
    (_promote, "NOT_SUPPORTED", f"--rules {DEFAULT_RUN_RULES}"),
    (
        lambda d: d.projections.Diff(projections_pb2.GenerationDiffRequest(generation=DEFAULT_RUN_RULES)),
        "NOT_SUPPORTED",
        f"--rules {DEFAULT_RUN_RULES}",
    ),
    (
        lambda d: d.projections.Drop(projections_pb2.DropRequest(generation=DEFAULT_RUN_RULES)),
        "CONDITION_FAILED",
        f"rebuild --rules {DEFAULT_RUN_RULES}",
    ),
]


@pytest.mark.parametrize(("ask", "reason", "remedy"), REFUSALS)
def test_what_makes_no_sense_of_runs_is_refused_with_what_does(
    ask: object, reason: str, remedy: str, doors: Doors
) -> None:
    found: Failure = failure(lambda: ask(doors))
    assert found.reason == reason
    assert remedy in found.remedy
