"""A release that computes otherwise: changed rules are refused, a changed fold takes over and says what it moved."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from sqlalchemy import text

from ledger.core.errors import LedgerError
from ledger.projections.differences import EMPTY_DIFF
from ledger.projections.generations import Identity
from ledger.projections.promotions import in_force
from services.server.app import Application, fsck, release_identity
from services.server.renewal import _promoter
from services.server.settings import Settings
from tests.rules import builders
from tests.server.doors import FIRST_EVENTS, of

NOW = release_identity()
NEXT = replace(NOW, fold_digest="f" * 64)


@contextmanager
def started(settings: Settings, identity: Identity = NOW) -> Iterator[Application]:
    application = Application(settings, identity=identity)
    try:
        application.start()
        yield application
    finally:
        application.close()


@pytest.fixture(params=["sqlite", "postgres"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    """A log that this release wrote, with one source."""
    db = request.getfixturevalue("database") if request.param == "postgres" else None
    made = Settings(tmp_path / "home", db=db)
    made.home.mkdir()
    with started(made) as application:
        part = of(builders.declared())
        application.log.append([part, of(builders.synced("c1", [part.id]))]).result()
        application.projector.catch_up()
    return made


def promotions(application: Application) -> list[dict]:
    events = application.log.store.read_all(0, application.log.head().size)
    return [orjson.loads(e.payload or b"") for e in events if e.type == "projection.promoted"]


def test_the_same_release_promotes_nothing(settings: Settings) -> None:
    with started(settings) as application:
        assert len(promotions(application)) == 1
        assert application.log.head().size == FIRST_EVENTS + 2


def test_rules_that_were_changed_without_a_new_id_are_refused(settings: Settings) -> None:
    changed = replace(NOW, rules_digest="e" * 64)
    with pytest.raises(LedgerError) as refused, started(settings, changed):
        pass
    assert (refused.value.reason, refused.value.door.exit) == ("RULES_CHANGED", 5)
    assert NOW.rules_digest in refused.value.message
    assert "new id" in refused.value.remedy
    with started(settings) as application:
        assert application.log.head().size == FIRST_EVENTS + 2, "a refused start wrote something"


def test_rules_in_force_that_this_release_does_not_serve_are_refused(settings: Settings) -> None:
    with pytest.raises(LedgerError) as refused, started(settings, replace(NOW, rules="house-rules")):
        pass
    assert (refused.value.reason, "'atlas-page-1'" in refused.value.message) == ("RULES_CHANGED", True)


@pytest.mark.parametrize("part", ["fold_digest", "upcaster_digest"])
def test_a_changed_fold_builds_its_own_generation_which_a_promotion_puts_in_force(
    part: str, settings: Settings
) -> None:
    identity = replace(NOW, **{part: "9" * 64})
    with started(settings, identity) as application:
        generations = application.projector.generations
        assert [g.identity for g in generations.all()] == [identity]
        promoted = promotions(application)[-1]
        assert promoted[part] == "9" * 64
        assert (promoted["size"], promoted["moved"], promoted["diff_digest"]) == (FIRST_EVENTS + 2, 0, EMPTY_DIFF)
        assert in_force(application.log).identity == identity
        size = application.projector.catch_up()
        assert dict(generations.states_at(generations.live().id, size)).keys() == {builders.SOURCE}
    with started(settings, identity) as application:
        assert len(promotions(application)) == 2, "the second start promoted again"
    assert fsck(settings).problems == []


def test_what_the_changed_fold_moves_is_counted_and_has_a_digest(settings: Settings) -> None:
    with started(settings) as application:
        store, forged = application.log.store, {"s": b'{"origin":"as the old fold had it"}'}
        with store.write_gate, store.engine.begin() as connection:
            connection.execute(text("UPDATE source_interval SET state = :s"), forged)
    with started(settings, NEXT) as application:
        promoted = promotions(application)[-1]
        assert promoted["moved"] == 1
        assert promoted["diff_digest"] != EMPTY_DIFF


def test_killed_between_the_promotion_and_the_take_over_the_next_start_does_not_promote_again(
    settings: Settings,
) -> None:
    with started(settings) as application:

        def promote_and_die(found: object) -> None:
            _promoter(application.log, NEXT)(found)
            raise KeyboardInterrupt

        application.projector.identity = NEXT
        with pytest.raises(KeyboardInterrupt):
            application.projector.rebuild(promote=promote_and_die)
        assert application.projector.generations.live().identity == NOW
        assert in_force(application.log).identity == NEXT
    with started(settings, NEXT) as application:
        assert len(promotions(application)) == 2
        assert application.projector.generations.live().identity == NEXT


def test_servers_of_a_new_release_that_start_together_promote_it_once(database: str, tmp_path: Path) -> None:
    settings = [Settings(tmp_path / f"home{n}", db=database) for n in range(3)]
    with started(settings[0]):
        pass
    starters = [Application(s, identity=NEXT) for s in settings]
    together = threading.Barrier(len(starters))

    def start(application: Application) -> None:
        together.wait()
        application.start()

    threads = [threading.Thread(target=start, args=(a,)) for a in starters]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert len(promotions(starters[0])) == 2
        assert [g.identity for g in starters[0].projector.generations.all()] == [NEXT]
    finally:
        for application in starters:
            application.close()


def test_an_old_server_beside_a_new_one_goes_on_writing_and_leaves_the_fold_to_it(
    database: str, tmp_path: Path
) -> None:
    old_settings, new_settings = (Settings(tmp_path / name, db=database) for name in ("old", "new"))
    with started(old_settings) as old, started(new_settings, NEXT) as new:
        part = of(builders.declared())
        size = old.log.append([part, of(builders.synced("c1", [part.id]))]).result().size
        assert new.projector.catch_up() >= size
        assert old.projector.step() >= size
        live = old.projector.generations.live()
        assert live.identity == NEXT
        assert dict(old.projector.generations.states_at(live.id, size)).keys() == {builders.SOURCE}
