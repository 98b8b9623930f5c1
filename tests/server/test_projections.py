"""Generations at the door: built beside the live one, compared with it, promoted, rolled back, dropped."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import grpc
import orjson
import pytest

from ledger.core.ids import new_id
from ledger.rules.sets import rules_digest
from ledger.wire import projections_pb2
from services.server.app import fsck, release_identity
from services.server.settings import Settings
from tests.rules import builders
from tests.server.doors import BY, Doors, Failure, failure, of, served

OLD, NEW = "atlas-page-1", "ledger-1"
OTHER = f"{builders.ORIGIN}:other"


def reviewed(doors: Doors) -> None:
    """A source with a review whose verifier revision nobody executed: the two rule sets differ on it."""
    doors.list_source()
    doors.publish("r1", builders.good("r1"), verifier_revision_basis="catalogue")


@pytest.fixture
def begun(either: Doors) -> Doors:
    """A log begun under the page's rules, with a review, and the new rules built beside them."""
    reviewed(either)
    either.adopt(NEW)
    built = either.rebuild(NEW)
    assert (built.generation.status, built.generation.rules) == ("shadow", NEW)
    return either


def in_force(doors: Doors) -> str:
    return str(doors.source(min_size=doors.size()).coordinates.rules)


def promotions(doors: Doors) -> list[dict[str, Any]]:
    return [orjson.loads(e.payload) for e in doors.read(filter={"types": ["projection.promoted"]})]


def test_the_list_says_of_each_generation_what_it_is(begun: Doors) -> None:
    begun.diff(NEW)
    live, shadow = begun.generations()
    assert [(g.rules, g.status, g.adopted) for g in (live, shadow)] == [(OLD, "live", True), (NEW, "shadow", True)]
    assert (list(live.promoted), list(shadow.promoted)) == ([4], [])
    assert shadow.rules_digest == rules_digest(NEW)
    assert shadow.fold_digest == release_identity(NEW).fold_digest
    assert {g.size for g in (live, shadow)} == {begun.size()}
    assert {g.keys for g in (live, shadow)} == {1}


def test_a_shadow_follows_the_log_beside_the_live_generation(begun: Doors) -> None:
    begun.list_source(OTHER, collection="c2", replaces=_last_sync(begun))
    diff = begun.diff(NEW)
    assert diff.size == begun.size()
    assert {g.keys for g in begun.generations()} == {2}


def _last_sync(doors: Doors) -> str:
    return str(orjson.loads(doors.read(filter={"types": ["catalogue.synced"]})[-1].header)["id"])


def test_a_difference_names_every_source_that_moves_with_both_sides_reasons(begun: Doors) -> None:
    diff = begun.diff(NEW)
    assert (diff.live.rules, diff.candidate.rules, diff.total, len(diff.changes)) == (OLD, NEW, 1, 1)
    (change,) = diff.changes
    assert change.id == builders.SOURCE
    fields = {f.field: (f.before, f.after) for f in change.fields}
    assert fields["applicability"] == ("current", "unknown")
    assert diff.counts["applicability: current -> unknown"] == 1
    sides = [[r for r in side if r.field == "applicability"] for side in (change.before, change.after)]
    assert all(reasons and reasons[0].rule for reasons in sides)
    assert any(r.events for r in change.after), "no event is named"


def test_a_difference_changes_nothing(begun: Doors) -> None:
    begun.diff(NEW)
    before = (begun.size(), begun.generations(), begun.source())
    begun.diff(NEW)
    assert (begun.size(), begun.generations(), begun.source()) == before


def test_promoting_lets_the_other_rules_answer_from_its_size_on_and_never_before(begun: Doors) -> None:
    then = begun.size()
    shown_then = begun.source(size=then)
    diff = begun.diff(NEW)
    answer = begun.promote(NEW, diff.diff_digest, note="as agreed")
    assert (answer.generation.status, answer.generation.rules, answer.already_in_force) == ("live", NEW, False)
    assert (answer.receipt.pos, answer.size, answer.moved) == (then, then + 1, 1)
    said = promotions(begun)[-1]
    assert (said["rules"], said["diff_digest"], said["moved"]) == (NEW, diff.diff_digest, 1)
    assert (said["size"], said["generation"], said["note"]) == (then, diff.candidate.id, "as agreed")
    header = orjson.loads(begun.read(then, limit=1)[0].header)
    assert header["actor"] == {"id": BY.id, "kind": "human"}
    now = begun.source(min_size=answer.size)
    assert (now.coordinates.rules, now.source.applicability) == (NEW, "unknown")
    assert begun.source(size=then) == shown_then


def test_rolling_back_is_promoting_what_was_in_force_before(begun: Doors) -> None:
    before = begun.source(min_size=begun.size())
    begun.promote(NEW)
    assert {g.rules: g.status for g in begun.generations()} == {NEW: "live", OLD: "kept"}
    answer = begun.promote(OLD)
    assert {g.rules: g.status for g in begun.generations()} == {OLD: "live", NEW: "kept"}
    back = begun.source(min_size=answer.size)
    assert (back.coordinates.rules, back.source) == (OLD, before.source)
    assert [p["rules"] for p in promotions(begun)] == [OLD, NEW, OLD]
    assert [list(g.promoted) for g in begun.generations() if g.rules == OLD] == [[4, answer.receipt.pos]]


def test_promoting_what_is_in_force_records_nothing_and_says_so(begun: Doors) -> None:
    first = begun.promote(NEW)
    again = begun.promote(NEW, "0" * 64)
    assert (again.already_in_force, again.size, again.generation.id) == (True, first.size, first.generation.id)
    assert not again.HasField("receipt")
    assert begun.size() == first.size


def test_rules_that_were_not_adopted_are_not_promoted(either: Doors) -> None:
    reviewed(either)
    either.rebuild(NEW)
    before = either.size()
    failed = failure(lambda: either.promote(NEW))
    assert (failed.reason, failed.code) == ("NOT_ADOPTED", grpc.StatusCode.FAILED_PRECONDITION)
    assert f"ledger rules adopt {NEW}" in failed.remedy
    assert either.size() == before
    assert in_force(either) == OLD


def test_an_adoption_that_was_disregarded_permits_nothing(begun: Doors) -> None:
    begun.disregard(begun.read(filter={"types": ["rules.adopted"]})[-1].pos)
    assert failure(lambda: begun.promote(NEW)).reason == "NOT_ADOPTED"
    assert not next(g for g in begun.generations() if g.rules == NEW).adopted
    begun.adopt(NEW)
    assert begun.promote(NEW).generation.rules == NEW


def test_a_difference_that_moved_is_refused_with_the_one_that_it_is_now(begun: Doors) -> None:
    seen = begun.diff(NEW)
    begun.list_source(OTHER, collection="c2", replaces=_last_sync(begun))
    publish_on(begun, OTHER, "r9")
    before = begun.size()
    failed = failure(lambda: begun.promote(NEW, seen.diff_digest))
    assert (failed.reason, failed.code) == ("DIFF_MOVED", grpc.StatusCode.FAILED_PRECONDITION)
    now = begun.diff(NEW)
    assert failed.metadata["diff_digest"] == now.diff_digest != seen.diff_digest
    assert (begun.size(), in_force(begun)) == (before, OLD)
    assert begun.promote(NEW, now.diff_digest).moved == now.total == 2


def publish_on(doors: Doors, source: str, name: str) -> None:
    """Publishes a review of another source than the builders'."""
    doors.put_named("trace", "quality-reviews.json")
    parts: list[Any] = builders.good(name)
    about = [p.model_copy(update={"subject": p.subject.model_copy(update={"source_id": source})}) for p in parts]
    drafts = [of(part, f"source/{source}") for part in about]
    ids = [d.id for d in drafts]
    closing = builders.published(name, name, ids, source_id=source, verifier_revision_basis="catalogue")
    doors.append(*drafts, of(closing, f"source/{source}"))


def test_a_difference_that_did_not_move_is_promoted_though_the_log_grew(begun: Doors) -> None:
    seen = begun.diff(NEW)
    begun.append(of(builders.suspected("d9"), f"source/{builders.ORIGIN}:unlisted"))
    assert begun.promote(NEW, seen.diff_digest).generation.rules == NEW


def test_the_pages_of_a_difference_belong_together(either: Doors) -> None:
    ids = [f"{builders.ORIGIN}:{n}" for n in range(5)]
    parts = [of(builders.declared("c1", id=i)) for i in ids]
    either.append(*parts, of(builders.synced("c1", [p.id for p in parts])))
    for n, source in enumerate(ids):
        publish_on(either, source, f"r{n}")
    either.rebuild(NEW)
    first = either.diff(NEW, page_size=2)
    second = either.diff(NEW, page_size=2, page_token=first.next_page_token)
    third = either.diff(NEW, page_size=2, page_token=second.next_page_token)
    assert [c.id for page in (first, second, third) for c in page.changes] == ids
    assert third.next_page_token == ""
    assert {p.diff_digest for p in (first, second, third)} == {first.diff_digest}
    assert {p.total for p in (first, second, third)} == {5}


def test_a_page_token_of_something_else_is_refused(begun: Doors) -> None:
    assert failure(lambda: begun.diff(NEW, page_token="bm90aGluZw==")).reason == "INVALID_ARGUMENT"


@pytest.mark.parametrize("call", ["diff", "promote", "drop"])
def test_a_generation_that_is_none_is_not_found(call: str, doors: Doors) -> None:
    asked = {"diff": doors.diff, "promote": lambda ref: doors.promote(ref, "0" * 64), "drop": doors.drop}[call]
    failed = failure(lambda: asked("nothing"))
    assert failed.reason == "NOT_FOUND"
    assert failed.remedy


def test_a_promotion_must_name_the_difference_that_it_rests_on(doors: Doors) -> None:
    assert failure(lambda: doors.promote("ledger-1", "")).reason == "INVALID_ARGUMENT"


def test_dropping_deletes_what_does_not_answer_and_the_log_builds_it_again(begun: Doors) -> None:
    promise = begun.diff(NEW).diff_digest
    dropped = begun.drop(NEW)
    assert [g.rules for g in begun.generations()] == [OLD]
    assert failure(lambda: begun.diff(NEW)).reason == "NOT_FOUND"
    begun.rebuild(NEW)
    again = begun.diff(NEW)
    assert (again.diff_digest, again.candidate.id != dropped.id) == (promise, True)


def test_what_answers_is_not_dropped(begun: Doors) -> None:
    failed = failure(lambda: begun.drop(OLD))
    assert failed.code == grpc.StatusCode.FAILED_PRECONDITION
    assert begun.source(min_size=begun.size()).source.id == builders.SOURCE


def test_a_rebuild_tells_its_phases_and_ends_with_its_result(either: Doors) -> None:
    reviewed(either)
    messages = list(either.projections.Rebuild(projections_pb2.RebuildRequest(rules=NEW, processes=1)))
    assert [m.HasField("result") for m in messages] == [False] * (len(messages) - 1) + [True]
    phases = list(dict.fromkeys(m.phase for m in messages[:-1]))
    assert "folding the sources" in phases
    assert all(m.done <= m.total for m in messages[:-1])
    result = messages[-1].result
    assert (result.equal, result.resumed, result.compared_with, result.processes) == (True, False, "", 1)
    assert (result.generation.size, result.generation.keys) == (either.size(), 1)


def test_a_rebuild_of_rules_that_are_none_is_not_found(doors: Doors) -> None:
    failed = failure(lambda: doors.rebuild("house-rules"))
    assert failed.reason == "NOT_FOUND"
    assert NEW in failed.remedy


def test_a_rebuild_under_the_rules_in_force_is_compared_with_the_live_generation(begun: Doors) -> None:
    live = begun.generations()[0]
    result = begun.rebuild()
    assert (result.equal, result.compared_with, result.generation.status) == (True, live.id, "live")
    assert result.generation.id != live.id


def test_a_rebuild_takes_no_more_processes_than_a_machine_may_have(doors: Doors) -> None:
    assert failure(lambda: doors.rebuild(processes=65)).reason == "INVALID_ARGUMENT"


def test_decisions_after_a_promotion_are_judged_by_the_rules_in_force(begun: Doors) -> None:
    """The page's rules know no evidence that a review rests on; the new ones ask for it."""
    nothing = {"rests_on": [new_id()]}
    begun.publish("r2", builders.good("r2"), **nothing)
    begun.promote(NEW)
    failed = failure(lambda: begun.publish("r3", builders.good("r3"), **nothing))
    assert failed.reason == "REFUSED_BY_RULES"
    assert any(place.startswith("/rests_on") for place in failed.problems)
    begun.promote(OLD)
    begun.publish("r3", builders.good("r3"), **nothing)


def promoted_before_it(doors: Doors, rules: str) -> bool:
    """Promotes, unless another promotion came first, which changes what this one would move."""
    try:
        doors.promote(rules)
    except grpc.RpcError as error:
        if Failure(error).reason == "DIFF_MOVED":
            return True
        raise
    return False


def test_of_two_servers_that_promote_at_once_the_log_s_last_word_answers(database: str, tmp_path: Path) -> None:
    with (
        served(tmp_path / "one", database, first_rules=OLD) as one,
        served(tmp_path / "two", database, first_rules=OLD) as two,
    ):
        reviewed(one)
        for rules in (NEW, "atlas-code-1"):
            one.adopt(rules)
            one.rebuild(rules)
        together = threading.Barrier(2)

        def promote(doors: Doors, rules: str) -> None:
            together.wait()
            while promoted_before_it(doors, rules):
                pass

        threads = [threading.Thread(target=promote, args=a) for a in ((one, NEW), (two, "atlas-code-1"))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        said = [p["rules"] for p in promotions(one)]
        assert sorted(said[1:]) == ["atlas-code-1", NEW]
        (live,) = [g for g in two.generations() if g.status == "live"]
        assert live.rules == said[-1] == in_force(one) == in_force(two)
    assert fsck(Settings(tmp_path / "one", db=database)).problems == []


def test_another_server_answers_by_what_was_promoted_through_the_first(database: str, tmp_path: Path) -> None:
    with (
        served(tmp_path / "one", database, first_rules=OLD) as one,
        served(tmp_path / "two", database, first_rules=OLD) as two,
    ):
        reviewed(one)
        one.adopt(NEW)
        one.rebuild(NEW)
        size = one.promote(NEW).size
        now = two.source(min_size=size)
        assert (now.coordinates.rules, now.source.applicability) == (NEW, "unknown")
        nothing = {"rests_on": [new_id()]}
        assert failure(lambda: two.publish("r3", builders.good("r3"), **nothing)).reason == "REFUSED_BY_RULES"
