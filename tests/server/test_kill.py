"""A server that is killed under load loses nothing that it acknowledged, and doubles nothing."""

from __future__ import annotations

import random
import time
from pathlib import Path

import orjson
import pytest

from ledger.wire import projections_pb2
from services.server.app import fsck
from services.server.settings import Settings
from tests.rules import builders
from tests.server.doors import Doors, of, opened, served
from tests.server.process import ServerProcess, server_process
from tests.server.writers import SOURCES, Acknowledged, start_writers

STORES = pytest.mark.parametrize("store", ["sqlite", "postgres"])


@STORES
def test_killed_eight_times_under_load_the_log_holds_every_acknowledged_event_once(
    store: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    survive(tmp_path, _database(store, request), kills=8)


@pytest.mark.slow
@pytest.mark.timeout(900)
@STORES
def test_killed_twenty_five_times_under_load_the_log_holds_every_acknowledged_event_once(
    store: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    survive(tmp_path, _database(store, request), kills=25)


@STORES
def test_killed_while_it_rebuilds_the_live_generation_answers_and_the_next_rebuild_goes_on(
    store: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    settings = Settings(tmp_path / "home", db=_database(store, request))
    with served(settings.home, settings.db) as doors:
        list_sources(doors)
        for start in range(0, 4_000, 1_000):
            facts = (builders.suspected(f"d{n % 9}") for n in range(start, start + 1_000))
            doors.append(*(of(fact, f"source/{SOURCES[0]}") for fact in facts))
        before = doors.sources({"min_size": doors.size()})
    with server_process(settings.home, settings.db) as server, opened(server.address) as doors:
        next(doors.projections.Rebuild(projections_pb2.RebuildRequest()))
        server.kill()
        with opened(server.start()) as again:
            listed = again.projections.List(projections_pb2.ListProjectionsRequest())
            live, build = again.generations()
            assert (live.status, live.size, build.status) == ("live", listed.log_size, "building")
            assert again.sources() == before
            rebuilt = again.rebuild()
            assert (rebuilt.resumed, rebuilt.equal, rebuilt.generation.id) == (True, True, build.id)
            assert [g.id for g in again.generations()] == [build.id]


def survive(folder: Path, db: str | None, *, kills: int) -> None:
    settings = Settings(folder / "home", db=db)
    acknowledged = Acknowledged()
    with served(settings.home, db) as doors:
        list_sources(doors)
    with server_process(settings.home, db) as server:
        writers = start_writers(lambda: server.address, acknowledged)
        _kill_now_and_then(server, kills)
        for writer in writers:
            writer.finish()
        assert server.stop() == 0
    assert acknowledged.faults == []
    assert len(acknowledged.receipts) > 20 * kills, "the load was too small to say anything"
    check_whole(settings, acknowledged)


def list_sources(doors: Doors) -> None:
    parts = [of(builders.declared("c1", id=source)) for source in SOURCES]
    doors.append(*parts, of(builders.synced("c1", [p.id for p in parts])))


def check_whole(settings: Settings, acknowledged: Acknowledged) -> None:
    """The log against what it promised, itself, and its projection."""
    report = fsck(settings)
    assert report.problems == []
    with served(settings.home, settings.db) as doors:
        events = doors.read()
        assert [e.pos for e in events] == list(range(report.size))
        loaded = doors.read(filter={"tags": ["load"]})
        headers = [orjson.loads(e.header) for e in loaded]
        held = {h["id"]: (h["pos"], h["sv"], e.leaf_hash) for h, e in zip(headers, loaded, strict=True)}
        assert len(held) == len(loaded)
        assert held == acknowledged.receipts
        assert doors.sources({"min_size": report.size}).total == len(SOURCES)
        rebuilt = doors.rebuild()
        assert (rebuilt.equal, rebuilt.generation.size) == (True, report.size)
        assert any(source.suspected_defects for source in doors.sources().sources)


def _kill_now_and_then(server: ServerProcess, kills: int) -> None:
    moments = random.Random(kills)
    for _ in range(kills):
        time.sleep(moments.uniform(0.05, 0.6))
        server.kill()
        server.start()
    time.sleep(0.3)


def _database(store: str, request: pytest.FixtureRequest) -> str | None:
    return request.getfixturevalue("database") if store == "postgres" else None
