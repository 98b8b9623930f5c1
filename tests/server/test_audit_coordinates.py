"""The three coordinates at the door: then, now about then, and under other rules; each echoed, each repeatable."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ledger.client import Reader
from ledger.client.connection import Connection
from ledger.rules.sets import RULE_SETS, rules_digest
from ledger.wire import audit_pb2
from tests.rules import builders
from tests.rules.builders import SOURCE
from tests.server.audited import OTHER, Told, tell
from tests.server.doors import Doors, failure, of, served


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    """The history, and a protocol that is adopted after it."""
    with served(tmp_path_factory.mktemp("audit") / "home") as doors:
        told = tell(doors)
        told.append("other measured", of(builders.report(atlas_id=OTHER), f"source/{OTHER}"))
        told.append("other suspected", of(builders.suspected("later"), f"source/{OTHER}"))
        definition = of(builders.defined("atlas-difficulty-v9"), "policy/protocols")
        told.append("defined", definition)
        replaced = builders.adopted(definition.id, "atlas-difficulty-v9", builders.V2.protocol)
        told.append("adopted", of(replaced, "policy/protocols"))
        doors.sources({"min_size": told.at["adopted"]})
        yield told


def test_the_policy_is_that_of_the_size_unless_more_is_asked(told: Told) -> None:
    said = told.doors.source(size=told.at["measured"]).coordinates
    assert (said.size, said.policy_size) == (told.at["measured"], told.at["measured"])


def test_a_policy_adopted_later_is_seen_when_the_head_is_asked_and_nothing_else_of_what_came_later_is(
    told: Told,
) -> None:
    size = told.at["other measured"]
    then, ahead = told.doors.source(OTHER, size=size), told.doors.source(OTHER, size=size, policy_at_head=True)
    assert (ahead.coordinates.size, ahead.coordinates.policy_size) == (size, told.doors.size())
    texts = [[r.text for r in answer.source.reasons if r.field == "difficulty"] for answer in (then, ahead)]
    assert ["v9" in " ".join(said) for said in texts] == [False, True]
    assert (ahead.source.quality, len(ahead.source.suspected_defects)) == (then.source.quality, 0)
    listed = told.doors.sources({"size": size, "policy_at_head": True})
    assert next(s for s in listed.sources if s.id == OTHER) == ahead.source
    between = told.doors.source(OTHER, size=size, policy_size=told.at["defined"])
    assert between.source == then.source


def test_a_policy_that_did_not_move_gives_the_same_answer_as_that_of_the_size(told: Told) -> None:
    size, further = told.at["r1"], told.at["revised"]
    then, ahead = told.doors.source(size=size), told.doors.source(size=size, policy_size=further)
    assert then.source == ahead.source
    assert ahead.coordinates.policy_size == further


def test_a_program_asks_what_is_known_now_about_then_in_one_line(told: Told) -> None:
    reader, size = Reader(Connection(told.doors.channel, "test")), told.at["other measured"]
    asked = reader.source(OTHER, at=size, rules="now", policy="head")
    assert asked == told.doors.source(OTHER, size=size, rules="now", policy_at_head=True)
    assert asked.coordinates.policy_size > reader.source(OTHER, at=size).coordinates.policy_size == size
    (page,) = reader.sources(at=size, policy=told.at["defined"])
    assert page.coordinates.policy_size == told.at["defined"]
    assert reader.why(OTHER, at=size, policy="head").coordinates.policy_size == told.doors.size()


@pytest.mark.parametrize(("size", "policy"), [(10, 9), (10, 100_000)])
def test_a_policy_before_the_size_or_beyond_the_log_is_refused(told: Told, size: int, policy: int) -> None:
    failed = failure(lambda: told.doors.source(size=size, policy_size=policy))
    assert (failed.reason, failed.metadata["policy_size"]) == ("INVALID_ARGUMENT", str(policy))


@pytest.mark.parametrize("rules", sorted(RULE_SETS))
def test_any_rule_set_of_the_release_answers_though_no_generation_holds_it(told: Told, rules: str) -> None:
    size = told.at["confirmed"]
    one = told.doors.source(size=size, rules=rules)
    assert (one.coordinates.rules, one.coordinates.rules_digest) == (rules, rules_digest(rules))
    listed = told.doors.sources({"size": size, "rules": rules})
    assert [s.id for s in listed.sources] == sorted(s.id for s in listed.sources)
    assert next(s for s in listed.sources if s.id == SOURCE) == one.source


def test_rules_in_force_now_are_named_now_and_an_unknown_set_is_not_found_with_the_known_ones(told: Told) -> None:
    in_force = told.doors.source().coordinates
    said = told.doors.source(size=told.at["r1"], rules="now").coordinates
    assert (said.rules, said.rules_digest, said.size) == (in_force.rules, in_force.rules_digest, told.at["r1"])
    assert told.doors.sources({"size": 2, "rules": "now"}).coordinates.rules == in_force.rules
    failed = failure(lambda: told.doors.source(rules="house-rules"))
    assert failed.reason == "NOT_FOUND"
    assert all(name in failed.remedy for name in RULE_SETS)


def test_an_answer_that_later_events_may_change_is_not_final_and_asked_by_what_it_echoed_it_is(told: Told) -> None:
    asked: list[dict[str, Any]] = [{"rules": "now"}, {"policy_at_head": True}, {"rules": "now", "policy_at_head": True}]
    for coordinates in asked:
        first = told.doors.source(size=told.at["r1"], **coordinates)
        said = first.coordinates
        assert not said.final
        again = told.doors.source(size=said.size, rules=said.rules, policy_size=said.policy_size)
        assert again.source == first.source
        assert again.coordinates.final
        assert again.coordinates.rules_digest == said.rules_digest


def test_after_a_promotion_then_now_about_then_and_under_other_rules_are_three_answers(either: Doors) -> None:
    told = tell(either)
    size, before = told.at["confirmed"], either.source().coordinates.rules
    other = next(name for name in sorted(RULE_SETS) if name != before)
    either.adopt(other)
    either.promote(either.rebuild(other).generation.id)
    then = either.source(size=size)
    now_about_then = either.source(size=size, rules="now", policy_at_head=True)
    under_other = either.source(size=size, rules=other)
    assert [a.coordinates.rules for a in (then, now_about_then, under_other)] == [before, other, other]
    assert now_about_then.source == under_other.source
    assert (then.coordinates.policy_size, under_other.coordinates.policy_size) == (size, size)
    assert now_about_then.coordinates.policy_size == either.size()
    assert either.source(min_size=either.size()).coordinates.rules == other
    assert either.source(size=size, rules=before).source == then.source


def every_answer(doors: Doors, coordinates: audit_pb2.Coordinates) -> list[bytes]:
    """What each question answers there, to the byte."""
    which = {"coordinates": coordinates}
    answers = [
        doors.audit.SourceAsOf(audit_pb2.SourceAsOfRequest(id=SOURCE, **which), timeout=20),
        doors.audit.ListSources(audit_pb2.ListSourcesRequest(**which), timeout=20),
        doors.audit.Why(audit_pb2.WhyRequest(id=SOURCE, **which), timeout=20),
        doors.audit.Judgments(audit_pb2.JudgmentsRequest(page_size=5, **which), timeout=20),
        doors.audit.Agreement(audit_pb2.AgreementRequest(**which), timeout=20),
        doors.audit.Timeline(audit_pb2.TimelineRequest(id=SOURCE, page_size=4, **which), timeout=20),
        doors.audit.Queue(audit_pb2.QueueRequest(page_size=2, **which), timeout=20),
        doors.audit.Diff(
            audit_pb2.DiffRequest(before=audit_pb2.Coordinates(size=7), after=coordinates, page_size=1), timeout=20
        ),
    ]
    return [answer.SerializeToString(deterministic=True) for answer in answers]


def test_equal_coordinates_give_equal_bytes_for_every_question_whatever_comes_after(either: Doors) -> None:
    told = tell(either)
    standing = [audit_pb2.Coordinates(size=told.at[name]) for name in ("listed", "r1", "audit", "superseded")]
    standing.append(audit_pb2.Coordinates(size=told.at["r1"], rules="atlas-code-1"))
    before = [every_answer(either, coordinates) for coordinates in standing]
    size = told.append("more", of(builders.suspected("d9")), of(builders.report()))
    either.sources({"min_size": size})
    assert [every_answer(either, coordinates) for coordinates in standing] == before
    assert either.rebuild().equal
    assert [every_answer(either, coordinates) for coordinates in standing] == before
