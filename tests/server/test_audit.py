"""Questions at the door: what was known at a size, at a time, now, and that the answer never changes."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import orjson
import pytest

from ledger.core import clock
from ledger.rules.sets import rules_digest
from ledger.wire import audit_pb2
from tests.rules import builders
from tests.rules.builders import ORIGIN, SOURCE
from tests.server.doors import FIRST_EVENTS, Doors, alias, failure, of, served

RULES = "atlas-page-1"


def recorded_at(doors: Doors, pos: int) -> int:
    return clock.from_text(orjson.loads(doors.read(pos, limit=1)[0].header)["recorded_at"])


@pytest.fixture(params=["sqlite", "postgres"])
def told(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Doors]:
    """A source that is listed (size 7), reviewed as good, and then has a defect confirmed."""
    db = request.getfixturevalue("database") if request.param == "postgres" else None
    with served(tmp_path / "home", db, first_rules=RULES) as doors:
        doors.put_named("input-1", "input-2")
        doors.list_source()
        doors.publish("r1", builders.good("r1"))
        size = doors.append(of(builders.confirmed())).size
        doors.source(min_size=size)
        yield doors


def test_a_source_is_shown_as_it_was_at_every_size(told: Doors) -> None:
    assert failure(lambda: told.source(size=FIRST_EVENTS + 1)).reason == "NOT_FOUND"
    shown = {size: told.source(size=size).source.quality for size in range(FIRST_EVENTS + 2, told.size() + 1)}
    assert shown == {7: "unreviewed", 8: "unreviewed", 9: "unreviewed", 10: "unreviewed", 11: "unreviewed",
                     12: "unreviewed", 13: "good", 14: "some_issues"}  # fmt: skip
    assert told.source().source.quality == "some_issues"


def test_an_answer_says_where_it_stands(told: Doors) -> None:
    size = told.size()
    now, then = told.source().coordinates, told.source(size=13).coordinates
    assert (now.size, now.final, now.rules, now.rules_digest) == (size, False, RULES, rules_digest(RULES))
    assert (then.size, then.final, then.recorded_at_us) == (13, True, recorded_at(told, 12))
    assert now.redactions_through == 0


def test_a_time_stands_for_everything_recorded_until_it(told: Doors) -> None:
    moment = recorded_at(told, 12)
    at, before = told.source(recorded_at_us=moment), told.source(recorded_at_us=moment - 1)
    assert (at.coordinates.size, at.coordinates.final, at.source.quality) == (13, True, "good")
    # The review's parts and its closing were one transaction, which is never split.
    assert (before.coordinates.size, before.source.quality) == (7, "unreviewed")


def test_a_time_before_the_first_event_knows_nothing(told: Doors) -> None:
    answer = told.sources({"recorded_at_us": recorded_at(told, 0) - 1})
    said = answer.coordinates
    assert (said.size, said.final, said.rules, said.rules_digest) == (0, True, "", "")
    assert not said.HasField("recorded_at_us")
    assert (answer.total, list(answer.sources)) == (0, [])
    assert failure(lambda: told.source(recorded_at_us=0)).reason == "NOT_FOUND"


def test_a_time_later_than_the_last_event_is_answered_as_of_the_head_and_is_not_final(told: Doors) -> None:
    answer = told.source(recorded_at_us=recorded_at(told, told.size() - 1) + 3_600_000_000)
    assert (answer.coordinates.size, answer.coordinates.final) == (told.size(), False)
    last = told.source(recorded_at_us=recorded_at(told, told.size() - 1))
    assert (last.coordinates.size, last.coordinates.final) == (told.size(), True)


def test_before_the_first_promotion_no_rules_are_in_force_and_the_answer_says_so(told: Doors) -> None:
    for size in range(FIRST_EVENTS):
        answer = told.sources({"size": size})
        assert (answer.coordinates.rules, answer.total) == ("", 0)
        failed = failure(lambda size=size: told.source(size=size))
        assert failed.reason == "NOT_FOUND"
    assert told.sources({"size": FIRST_EVENTS}).coordinates.rules == RULES


def test_rules_can_be_named_and_unknown_ones_are_not_found(told: Doors) -> None:
    named, in_force = told.source(size=13, rules=RULES), told.source(size=13)
    assert named == in_force
    assert told.sources({"size": 3, "rules": RULES}).coordinates.rules == RULES
    failed = failure(lambda: told.source(rules="house-rules-9"))
    assert (failed.reason, "house-rules-9" in failed.text) == ("NOT_FOUND", True)


def test_a_size_that_the_log_has_not_reached_is_not_found_unless_the_caller_waits_for_it(told: Doors) -> None:
    size = told.size()
    failed = failure(lambda: told.source(size=size + 2))
    assert (failed.reason, failed.metadata["size"]) == ("NOT_FOUND", str(size))
    later = threading.Timer(0.5, lambda: told.append(alias(), alias()))
    later.start()
    assert told.source(size=size + 2, min_size=size + 2).coordinates.size == size + 2
    later.join()


def test_who_asks_too_early_waits_and_is_told_before_the_deadline_that_the_log_is_behind(told: Doors) -> None:
    asked = audit_pb2.SourceAsOfRequest(id=SOURCE, coordinates=audit_pb2.Coordinates(min_size=told.size() + 1))
    began = time.monotonic()
    failed = failure(lambda: told.audit.SourceAsOf(asked, timeout=1.5))
    waited = time.monotonic() - began
    assert (failed.reason, failed.code) == ("BEHIND", grpc.StatusCode.UNAVAILABLE)
    assert 0.8 < waited < 1.5
    assert failed.metadata["needed"] == str(told.size() + 1)
    assert failure(lambda: told.audit.SourceAsOf(asked, timeout=0.2)).reason == "BEHIND"


def test_however_many_wait_for_the_log_others_are_answered_at_once(told: Doors) -> None:
    asked = audit_pb2.SourceAsOfRequest(id=SOURCE, coordinates=audit_pb2.Coordinates(min_size=told.size() + 1))
    waiting = [told.audit.SourceAsOf.future(asked, timeout=5) for _ in range(40)]
    began = time.monotonic()
    while time.monotonic() - began < 1:
        assert told.source().source.id == SOURCE
    assert not any(call.done() for call in waiting)
    told.append(alias())
    assert {call.result().source.id for call in waiting} == {SOURCE}


def test_what_was_just_written_is_read(either: Doors) -> None:
    either.list_source()
    for number in range(30):
        size = either.append(of(builders.suspected(f"d{number}"))).size
        answer = either.source(min_size=size)
        assert len(answer.source.suspected_defects) == number + 1


def test_equal_coordinates_give_equal_bytes_whatever_came_after_and_whoever_built_the_rows(told: Doors) -> None:
    def answers() -> list[bytes]:
        found = []
        for size in range(7, 15):
            found.append(told.source(size=size).SerializeToString(deterministic=True))
            found.append(told.why(size=size).SerializeToString(deterministic=True))
            found.append(told.sources({"size": size}).SerializeToString(deterministic=True))
        return found

    before = answers()
    told.append(of(builders.withdrawn()))
    told.list_source(f"{ORIGIN}:other", collection="c2", replaces=_refresh(told))
    assert answers() == before
    assert told.rebuild().equal
    assert answers() == before


def _refresh(doors: Doors) -> str:
    (closing,) = doors.read(filter={"types": ["catalogue.synced"]})
    return str(orjson.loads(closing.header)["id"])


def test_why_names_every_event_that_a_reason_rests_on_once_and_in_order(told: Doors) -> None:
    answer = told.why()
    named = {pos for reason in answer.source.reasons for pos in reason.events}
    assert [e.pos for e in answer.events] == sorted(named)
    by_pos = {e.pos: e for e in told.read()}
    for event in answer.events:
        header = orjson.loads(by_pos[event.pos].header)
        assert (event.id, event.type, event.stream) == (header["id"], header["type"], header["stream"])
        assert event.actor == header["actor"]["id"]
    assert "defect.confirmed" in {e.type for e in answer.events}
    assert answer.source == told.source().source


def test_a_sample_event_and_its_time_are_shown_as_such(doors: Doors) -> None:
    doors.list_source()
    doors.append(of(builders.suspected(), tags=["sample"], occurred_at_us=1_700_000_000_000_000))
    size = doors.size()
    events = [e for e in doors.why(min_size=size).events if e.type == "defect.suspected"]
    assert doors.source(min_size=size).source.sample
    assert [(e.sample, e.occurred_at_us) for e in events] == [(True, 1_700_000_000_000_000)] * len(events)


CATALOGUE: tuple[dict[str, Any], ...] = (
    {"id": "Alpha:one", "origin": "Alpha", "name": "Word problems", "family": "math", "atlas_status": "Available"},
    {"id": "Alpha:two", "origin": "Alpha", "name": "Proofs", "family": "math", "is_benchmark": True},
    {"id": "Beta:one", "origin": "Beta", "name": "Unit tests", "family": "code", "dataset_id": "org/Unit-Set"},
    {"id": "Beta:two", "origin": "Beta", "name": "Old tests", "family": "code", "atlas_status": "Excluded"},
)


@pytest.fixture
def catalogue(tmp_path: Path) -> Iterator[Doors]:
    """Four sources of two origins, one of them retired, one with an open defect."""
    with served(tmp_path / "home", first_rules=RULES) as doors:
        _fill(doors)
        yield doors


def _fill(doors: Doors) -> None:
    doors.put_named("input-1", "input-2")
    for origin in ("Alpha", "Beta"):
        rows = [row for row in CATALOGUE if row["origin"] == origin]
        parts = [of(builders.declared(f"c-{origin}", **row)) for row in rows]
        closing = of(builders.synced(f"c-{origin}", [p.id for p in parts], origin=origin), id=f"closed-{origin}")
        doors.append(*parts, closing)
    gone = of(builders.retired("c-gone"), "source/Beta:two")
    doors.append(gone, of(builders.synced("c-gone", [gone.id], origin="Beta", replaces="closed-Beta")))
    size = doors.append(of(builders.confirmed(), "source/Alpha:one")).size
    doors.sources({"min_size": size})


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, ["Alpha:one", "Alpha:two", "Beta:one"]),
        ({"include_retired": True}, ["Alpha:one", "Alpha:two", "Beta:one", "Beta:two"]),
        ({"origins": ["Beta"]}, ["Beta:one"]),
        ({"origins": ["Alpha", "Beta"], "families": ["code"]}, ["Beta:one"]),
        ({"qualities": ["some_issues"]}, ["Alpha:one"]),
        ({"qualities": ["unreviewed", "some_issues"], "origins": ["Alpha"]}, ["Alpha:one", "Alpha:two"]),
        ({"difficulties": ["current"]}, []),
        ({"difficulties": ["not_measured"], "families": ["code"]}, ["Beta:one"]),
        ({"atlas_statuses": ["Available"]}, ["Alpha:one"]),
        ({"atlas_statuses": ["Excluded"], "include_retired": True}, ["Beta:two"]),
        ({"has_open_defects": True}, ["Alpha:one"]),
        ({"has_open_defects": False}, ["Alpha:two", "Beta:one"]),
        ({"is_benchmark": True}, ["Alpha:two"]),
        ({"search": "PROOF"}, ["Alpha:two"]),
        ({"search": "unit-set"}, ["Beta:one"]),
        ({"search": "math"}, ["Alpha:one", "Alpha:two"]),
        ({"search": "nothing like it"}, []),
    ],
)
def test_a_list_holds_what_passes_the_filter_by_origin_then_id(
    filters: dict[str, Any], expected: list[str], catalogue: Doors
) -> None:
    answer = catalogue.sources(filter=filters)
    assert [s.id for s in answer.sources] == expected
    assert answer.total == len(expected)


def test_pages_stand_where_the_first_one_stood_though_more_events_come(catalogue: Doors) -> None:
    first = catalogue.sources(page_size=1)
    pages = [first]
    while pages[-1].next_page_token:
        size = catalogue.append(
            of(builders.confirmed(f"more{len(pages)}"), "source/Beta:one"),
            of(builders.suspected(f"d{len(pages)}"), "source/Alpha:two"),
        ).size
        catalogue.sources({"min_size": size})
        pages.append(catalogue.sources(page_size=1, page_token=pages[-1].next_page_token))
    assert [s.id for page in pages for s in page.sources] == ["Alpha:one", "Alpha:two", "Beta:one"]
    assert {page.coordinates.SerializeToString(deterministic=True) for page in pages} == {
        first.coordinates.SerializeToString(deterministic=True)
    }
    assert {page.total for page in pages} == {3}
    assert not pages[2].sources[0].open_defects
    assert catalogue.source("Beta:one").source.open_defects


@pytest.mark.parametrize("token", ["x", "!!!!", "NQ==", "e30=", "WzEsMiwzXQ==", "Wy0xLGZhbHNlLCIiLDBd", "é"])
def test_a_page_token_of_another_make_is_refused(token: str, catalogue: Doors) -> None:
    failed = failure(lambda: catalogue.sources(page_token=token))
    assert (failed.reason, "next_page_token" in failed.remedy) == ("INVALID_ARGUMENT", True)


def test_a_question_asked_while_generations_are_replaced_is_answered_whole(catalogue: Doors) -> None:
    over = threading.Event()
    found: list[tuple[int, int]] = []

    def ask() -> None:
        while not over.is_set():
            found.append((catalogue.sources().total, catalogue.source("Alpha:one").coordinates.size))

    asking = [threading.Thread(target=ask) for _ in range(3)]
    for thread in asking:
        thread.start()
    for _ in range(15):
        assert catalogue.rebuild().equal
    over.set()
    for thread in asking:
        thread.join(20)
    assert len(found) > 15
    assert set(found) == {(3, catalogue.size())}
