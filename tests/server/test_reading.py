"""Reading, following and finding events through the door."""

from __future__ import annotations

import itertools
import threading
import time
from pathlib import Path

import orjson
import pytest

from ledger.core.merkle import leaf_hash
from ledger.wire import log_pb2
from tests.rules import builders
from tests.server.doors import Doors, alias, failure, of, served


@pytest.fixture(params=["sqlite", "postgres"])
def filled(request: pytest.FixtureRequest, tmp_path: Path):
    """2,500 events: more than two pages."""
    db = request.getfixturevalue("database") if request.param == "postgres" else None
    with served(tmp_path / "home", db) as doors:
        for start in range(0, 2_500, 500):
            doors.append(*(alias(f"n{n % 10}", f"e{n}") for n in range(start, start + 500)))
        doors.append(*(of(builders.suspected(f"d{n}"), id=f"d{n}", tags=["t", f"t{n % 2}"]) for n in range(10)))
        yield doors


def ids(events: list[log_pb2.Event]) -> list[str]:
    return [orjson.loads(e.header)["id"] for e in events]


def test_pages_follow_one_another_without_gap_and_end_at_the_size_of_the_beginning(filled: Doors) -> None:
    pages = list(filled.log.Read(log_pb2.ReadRequest()))
    assert len(pages) > 2
    positions = [e.pos for page in pages for e in page.events]
    assert positions == list(range(2_515))
    assert pages[-1].next_pos == pages[-1].size == 2_515
    for page, following in itertools.pairwise(pages):
        assert page.next_pos == following.events[0].pos


def test_an_event_comes_as_it_was_hashed(filled: Doors) -> None:
    for event in filled.read(2_000, to_size=2_020):
        assert leaf_hash(event.header) == event.leaf_hash
        assert orjson.loads(event.header)["payload"]["len"] == len(event.payload)
        assert len(event.salt) == 32


def test_limits_filters_and_bounds_hold_together(filled: Doors) -> None:
    assert ids(filled.read(5, limit=3)) == ["e0", "e1", "e2"]
    assert ids(filled.read(5, to_size=7)) == ["e0", "e1"]
    assert len(filled.read(limit=1_700)) == 1_700
    assert filled.read(2_515) == []
    assert filled.read(2**64 - 1) == []
    assert filled.read(10, to_size=4) == []
    assert ids(filled.read(filter={"streams": ["alias/n3"]}))[:2] == ["e3", "e13"]
    assert ids(filled.read(filter={"types": ["defect.suspected"], "tags": ["t", "t1"]}, limit=2)) == ["d1", "d3"]
    assert filled.read(filter={"tags": ["t0", "t1"]}) == []
    two = filled.read(filter={"streams": ["alias/n3", "alias/n4"]})
    assert len(two) == 500


def test_a_filter_that_matches_nothing_still_says_how_far_it_looked(filled: Doors) -> None:
    (page,) = filled.log.Read(log_pb2.ReadRequest(filter=log_pb2.Filter(streams=["alias/none"])))
    assert (len(page.events), page.next_pos) == (0, 2_515)


def test_headers_alone_leave_the_payloads_out(filled: Doors) -> None:
    with_payload, without = filled.read(limit=20), filled.read(limit=20, headers_only=True)
    assert [e.header for e in with_payload] == [e.header for e in without]
    assert not any(e.HasField("payload") or e.HasField("salt") for e in without)
    assert all(e.HasField("payload") and e.HasField("salt") for e in with_payload)


def test_a_page_of_large_events_is_cut_before_it_is_too_large_to_send(doors: Doors) -> None:
    large = alias("large")
    large.payload = large.payload[:-1] + b" " * 1_000_000 + b"}"
    for number in range(12):
        large.id = f"large{number}"
        doors.append(large)
    pages = list(doors.log.Read(log_pb2.ReadRequest(from_pos=5)))
    assert [e.pos for page in pages for e in page.events] == list(range(5, 17))
    assert max(page.ByteSize() for page in pages) < 5 << 20


def test_a_follower_hears_of_what_another_connection_appends(either: Doors) -> None:
    size = either.size()
    pages = either.log.Subscribe(log_pb2.SubscribeRequest(from_pos=size, filter=log_pb2.Filter(types=["alias.mapped"])))
    heard: list[str] = []
    enough = threading.Event()

    def listen() -> None:
        for page in pages:
            heard.extend(ids(list(page.events)))
            if len(heard) >= 30:
                enough.set()
                return

    listening = threading.Thread(target=listen, daemon=True)
    listening.start()
    sent = []
    for number in range(30):
        sent.append(f"f{number}")
        either.append(alias("f", sent[-1]), of(builders.suspected(f"d{number}")))
    assert enough.wait(30)
    pages.cancel()
    assert heard == sent


def test_a_follower_whose_filter_matches_nothing_moves_forward(doors: Doors) -> None:
    pages = doors.log.Subscribe(log_pb2.SubscribeRequest(filter=log_pb2.Filter(streams=["alias/never"])))
    assert next(pages).next_pos == doors.size()
    doors.append(alias("x"))
    page = next(pages)
    assert (list(page.events), page.next_pos, page.size) == ([], doors.size(), doors.size())
    pages.cancel()


def test_a_follower_may_start_beyond_the_end(doors: Doors) -> None:
    size = doors.size()
    pages = doors.log.Subscribe(log_pb2.SubscribeRequest(from_pos=size + 1))
    time.sleep(0.2)
    doors.append(alias("x", "first"), alias("x", "second"))
    assert ids(list(next(pages).events)) == ["second"]
    pages.cancel()


def test_an_event_is_found_by_position_and_by_id_and_what_is_not_there_is_not_found(either: Doors) -> None:
    receipt = either.append(alias("x", "wanted")).receipts[0]
    by_pos = either.log.GetEvent(log_pb2.GetEventRequest(pos=receipt.pos))
    by_id = either.log.GetEvent(log_pb2.GetEventRequest(id="wanted"))
    assert by_pos == by_id
    assert (by_pos.pos, by_pos.leaf_hash) == (receipt.pos, receipt.leaf_hash)
    for missing in ({"pos": receipt.pos + 1}, {"id": "Wanted"}, {"id": ""}):
        failed = failure(lambda missing=missing: either.log.GetEvent(log_pb2.GetEventRequest(**missing)))
        assert (failed.reason, bool(failed.remedy)) == ("NOT_FOUND", True)
