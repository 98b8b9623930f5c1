"""A release that computes otherwise: changed rules are refused, a changed fold takes over and says what it moved."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from sqlalchemy import text

from ledger.client.drafts import draft
from ledger.core.errors import LedgerError
from ledger.events.policy import RulesAdopted
from ledger.projections import outcomes
from ledger.projections.generations import Generations, Identity
from ledger.projections.promotions import in_force
from services.server.app import Application, fsck, release_identities
from services.server.promoting import promotion_payload
from services.server.settings import Settings
from tests.rules import builders
from tests.server.doors import BY, FIRST_EVENTS, of

OLD, NEW = "atlas-page-1", "ledger-1"
NOW = release_identities()
EMPTY_DIFF = outcomes.digest([])

Identities = Mapping[str, Identity]


def computed_otherwise(**digests: str) -> dict[str, Identity]:
    """A release whose fold, upcasters or rules have other digests."""
    return {rules: replace(identity, **digests) for rules, identity in NOW.items()}


NEXT = computed_otherwise(fold_digest="f" * 64)


@contextmanager
def started(settings: Settings, identities: Identities = NOW) -> Iterator[Application]:
    application = Application(settings, identities=identities)
    try:
        application.start()
        yield application
    finally:
        application.close()


@pytest.fixture(params=["sqlite", "postgres"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    """A log that this release wrote under the page's rules, with one source."""
    db = request.getfixturevalue("database") if request.param == "postgres" else None
    made = Settings(tmp_path / "home", db=db, first_rules=OLD)
    made.home.mkdir()
    with started(made) as application:
        part = of(builders.declared())
        application.log.append([part, of(builders.synced("c1", [part.id]))]).result()
        application.projector.catch_up()
    return made


def promotions(application: Application) -> list[dict]:
    events = application.log.store.read_all(0, application.log.head().size)
    return [orjson.loads(e.payload or b"") for e in events if e.type == "projection.promoted"]


def statuses(application: Application) -> list[tuple[str, str, Identity]]:
    """Of the generations of sources."""
    rows = application.projector.generations.all()
    return [(g.identity.rules, g.status, g.identity) for g in rows if g.identity.projection == "sources"]


def renewed(application: Application) -> None:
    """Waits for what goes on behind open doors."""
    application._renewing.join(60)
    assert not application._renewing.is_alive()


def adopt(application: Application, rules: str) -> None:
    application.log.append([of(RulesAdopted(rules=rules, digest=NOW[rules].rules_digest))]).result()


def promote(application: Application, rules: str) -> None:
    adopt(application, rules)
    application.projector.rebuild(rules=rules)
    _, _, found = application.projector.impact(rules)
    application.promoter.promote(rules, found.digest, by=BY)


def test_the_same_release_promotes_nothing(settings: Settings) -> None:
    with started(settings) as application:
        assert len(promotions(application)) == 1
        assert application.log.head().size == FIRST_EVENTS + 2


def test_a_log_keeps_its_rules_whatever_a_new_one_would_begin_with(settings: Settings) -> None:
    with started(replace(settings, first_rules=NEW)) as application:
        assert application.projector.generations.live().identity == NOW[OLD]
        assert in_force(application.log).identity == NOW[OLD]
        assert application.log.head().size == FIRST_EVENTS + 2


def test_rules_that_were_changed_without_a_new_id_are_refused(settings: Settings) -> None:
    changed = computed_otherwise(rules_digest="e" * 64)
    with pytest.raises(LedgerError) as refused, started(settings, changed):
        pass
    assert (refused.value.reason, refused.value.door.exit) == ("RULES_CHANGED", 5)
    assert NOW[OLD].rules_digest in refused.value.message
    assert "new id" in refused.value.remedy
    with started(settings) as application:
        assert application.log.head().size == FIRST_EVENTS + 2, "a refused start wrote something"


def test_rules_that_were_only_adopted_may_not_change_either(settings: Settings) -> None:
    with started(settings) as application:
        adopt(application, NEW)
    changed = {**NOW, NEW: replace(NOW[NEW], rules_digest="e" * 64)}
    with pytest.raises(LedgerError) as refused, started(settings, changed):
        pass
    assert (refused.value.reason, repr(NEW) in refused.value.message) == ("RULES_CHANGED", True)


def test_rules_that_the_log_never_named_may_change(settings: Settings) -> None:
    changed = {**NOW, NEW: replace(NOW[NEW], rules_digest="e" * 64)}
    with started(settings, changed) as application:
        assert application.log.head().size == FIRST_EVENTS + 2


def test_rules_in_force_that_this_release_does_not_carry_are_refused(settings: Settings) -> None:
    without = {rules: identity for rules, identity in NOW.items() if rules != OLD}
    with pytest.raises(LedgerError) as refused, started(settings, without):
        pass
    assert (refused.value.reason, repr(OLD) in refused.value.message) == ("RULES_CHANGED", True)


@pytest.mark.parametrize("part", ["fold_digest", "upcaster_digest"])
def test_a_changed_fold_builds_its_own_generation_which_a_promotion_puts_in_force(
    part: str, settings: Settings
) -> None:
    identities = computed_otherwise(**{part: "9" * 64})
    with started(settings, identities) as application:
        generations = application.projector.generations
        assert statuses(application) == [(OLD, "live", identities[OLD])]
        promoted = promotions(application)[-1]
        assert (promoted["rules"], promoted[part]) == (OLD, "9" * 64)
        assert (promoted["size"], promoted["moved"], promoted["diff_digest"]) == (FIRST_EVENTS + 2, 0, EMPTY_DIFF)
        assert in_force(application.log).identity == identities[OLD]
        size = application.projector.catch_up()
        assert dict(generations.states_at(generations.live().id, size)).keys() == {builders.SOURCE}
    with started(settings, identities) as application:
        assert len(promotions(application)) == 2, "the second start promoted again"
    assert fsck(settings).problems == []


def test_what_the_changed_fold_moves_is_counted_and_has_a_digest(settings: Settings) -> None:
    with started(settings) as application:
        forge(application, "good")
    with started(settings, NEXT) as application:
        promoted = promotions(application)[-1]
        assert promoted["moved"] == 1
        assert promoted["diff_digest"] != EMPTY_DIFF


def forge(application: Application, quality: str) -> None:
    """Lets the stored rows say what the fold never said."""
    generations, store = application.projector.generations, application.log.store
    ((_, state),) = generations.states_at(generations.live().id, application.log.head().size)
    forged = {"s": orjson.dumps({**orjson.loads(state), "quality": quality})}
    with store.write_gate, store.engine.begin() as connection:
        connection.execute(text("UPDATE source_interval SET state = :s"), forged)


class _Killed(BaseException):
    """Stands for the end of the process."""


def test_killed_between_the_promotion_and_the_take_over_the_next_start_does_not_promote_again(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_arguments: object) -> None:
        raise _Killed

    with started(settings) as application:
        monkeypatch.setattr(Generations, "swap", killed)
        with pytest.raises(_Killed):
            promote(application, NEW)
        assert application.projector.generations.live().identity == NOW[OLD]
        assert in_force(application.log).identity == NOW[NEW]
    monkeypatch.undo()
    with started(settings) as application:
        assert len(promotions(application)) == 2
        assert [(rules, status) for rules, status, _ in statuses(application)] == [(NEW, "live"), (OLD, "kept")]


def test_killed_while_a_changed_fold_takes_over_the_next_start_ends_it(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_arguments: object) -> None:
        raise _Killed

    monkeypatch.setattr(Generations, "swap", killed)
    with pytest.raises(_Killed), started(settings, NEXT):
        pass
    monkeypatch.undo()
    with started(settings, NEXT) as application:
        renewed(application)
        assert len(promotions(application)) == 2
        assert statuses(application) == [(OLD, "live", NEXT[OLD])]


def test_a_kept_generation_of_another_release_is_built_again_behind_open_doors(settings: Settings) -> None:
    with started(settings) as application:
        promote(application, NEW)
    with started(settings, NEXT) as application:
        assert application.projector.generations.live().identity == NEXT[NEW]
        renewed(application)
        assert {(rules, identity) for rules, _, identity in statuses(application)} == set(NEXT.items()) - {
            ("atlas-code-1", NEXT["atlas-code-1"])
        }
        _, candidate, _ = application.projector.impact(OLD)
        assert candidate.identity == NEXT[OLD]


def test_a_shadow_of_another_release_is_dropped(settings: Settings) -> None:
    with started(settings) as application:
        application.projector.rebuild(rules=NEW)
    with started(settings, NEXT) as application:
        renewed(application)
        assert statuses(application) == [(OLD, "live", NEXT[OLD])]


def test_rows_that_were_lost_are_made_again_and_a_new_release_says_once_that_it_made_them(settings: Settings) -> None:
    with started(settings) as application:
        store = application.log.store
        with store.write_gate, store.engine.begin() as connection:
            for table in ("source_interval", "source_facts", "generation"):
                connection.execute(text(f"DELETE FROM {table}"))
    for _ in range(2):
        with started(settings, NEXT) as application:
            assert statuses(application) == [(OLD, "live", NEXT[OLD])]
            assert len(promotions(application)) == 2
            size = application.projector.catch_up()
            generations = application.projector.generations
            assert dict(generations.states_at(generations.live().id, size)).keys() == {builders.SOURCE}


def test_a_build_that_is_not_done_is_not_promoted(settings: Settings) -> None:
    with started(settings) as application:
        generations = application.projector.generations
        adopt(application, NEW)
        with generations.build(NOW[NEW], b"{}", 1):
            pass
        before = application.log.head().size
        with pytest.raises(LedgerError, match="is not built yet") as refused:
            application.promoter.promote(NEW, EMPTY_DIFF, by=BY)
        assert f"--rules {NEW}" in refused.value.remedy
        assert application.log.head().size == before


def test_what_another_server_recorded_and_has_yet_to_take_over_is_not_recorded_again(settings: Settings) -> None:
    with started(settings) as application:
        adopt(application, NEW)
        application.projector.rebuild(rules=NEW)
        _, candidate, found = application.projector.impact(NEW)
        said = promotion_payload(candidate, found, None)
        application.log.append([draft("projection.promoted", "ledger", said, by=BY)]).result()
        told = application.promoter.promote(NEW, found.digest, by=BY)
        assert told.receipt is None
        assert len(promotions(application)) == 2
        assert application.projector.generations.live().identity == NOW[NEW]


def test_servers_of_a_new_release_that_start_together_promote_it_once(database: str, tmp_path: Path) -> None:
    settings = [Settings(tmp_path / f"home{n}", db=database, first_rules=OLD) for n in range(3)]
    with started(settings[0]):
        pass
    starters = [Application(s, identities=NEXT) for s in settings]
    together = threading.Barrier(len(starters))
    faults: list[BaseException] = []

    def start(application: Application) -> None:
        together.wait()
        try:
            application.start()
        except BaseException as fault:
            faults.append(fault)
            raise

    threads = [threading.Thread(target=start, args=(a,)) for a in starters]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert faults == []
        assert len(promotions(starters[0])) == 2
        for application in starters:
            renewed(application)
        assert statuses(starters[0]) == [(OLD, "live", NEXT[OLD])]
    finally:
        for application in starters:
            application.close()


def test_an_old_server_beside_a_new_one_goes_on_writing_and_leaves_the_fold_to_it(
    database: str, tmp_path: Path
) -> None:
    old_settings, new_settings = (Settings(tmp_path / name, db=database, first_rules=OLD) for name in ("old", "new"))
    with started(old_settings) as old, started(new_settings, NEXT) as new:
        part = of(builders.declared())
        size = old.log.append([part, of(builders.synced("c1", [part.id]))]).result().size
        assert new.projector.catch_up() >= size
        assert old.projector.step() >= size
        live = old.projector.generations.live()
        assert live.identity == NEXT[OLD]
        assert dict(old.projector.generations.states_at(live.id, size)).keys() == {builders.SOURCE}
