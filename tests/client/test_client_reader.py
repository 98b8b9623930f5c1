"""Reading: where to stand, whole lists, and leaves that are checked."""

from __future__ import annotations

import threading

import pytest

from ledger.client import LedgerError, Reader, Writer, actor, connect, draft, evidence
from ledger.client.reader import coordinates, parse_at
from ledger.client.retry import Patience
from ledger.core.errors import Broken, NotFound
from ledger.events.catalogue import SourceRetired
from ledger.wire import audit_pb2


@pytest.fixture
def reader(connection):
    return Reader(connection, patience=Patience(sleep=lambda _: None))


@pytest.fixture
def five(connection):
    drafts = [
        draft("source.retired", f"source/s{n % 2}", SourceRetired(collection="c", reason="r"), by=actor("a"))
        for n in range(5)
    ]
    Writer(connection).append(drafts)
    return drafts


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", audit_pb2.Coordinates(size=0)),
        ("1204", audit_pb2.Coordinates(size=1204)),
        ("9223372036854775807", audit_pb2.Coordinates(size=2**63 - 1)),
        ("1970-01-02", audit_pb2.Coordinates(recorded_at_us=86_400_000_000)),
        ("1970-01-01T00:00:01Z", audit_pb2.Coordinates(recorded_at_us=1_000_000)),
        ("1970-01-01T02:00:01.5+02:00", audit_pb2.Coordinates(recorded_at_us=1_500_000)),
    ],
)
def test_a_moment_is_a_size_a_date_or_a_time(text, expected):
    assert parse_at(text) == expected
    assert parse_at(text).WhichOneof("at") == expected.WhichOneof("at")


@pytest.mark.parametrize(
    "text",
    ["", "yesterday", "-1", "1.5", "9223372036854775808", "9" * 5000, "2026-13-01", "2026-10-01T12:00", "١٢", " 7"],
)
def test_what_is_no_moment_is_a_usage_error_that_shows_one(text):
    with pytest.raises(LedgerError) as caught:
        parse_at(text)
    assert caught.value.reason == "USAGE"
    assert "2026-10-01" in caught.value.remedy
    assert len(caught.value.message) < 300


def test_without_a_moment_the_question_is_about_now():
    assert coordinates(None, "", 4).WhichOneof("at") is None
    assert coordinates(7).size == 7


def test_a_question_carries_its_coordinates(reader, ledger):
    ledger.sources = [audit_pb2.Source(id="a")]
    answer = reader.source("a", at=2, rules="r2", min_size=9)
    assert answer.source.id == "a"
    assert answer.coordinates.size == 2
    assert ledger.asked[0].coordinates == audit_pb2.Coordinates(size=2, rules="r2", min_size=9)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (None, audit_pb2.Coordinates()),
        ("head", audit_pb2.Coordinates(policy_at_head=True)),
        (0, audit_pb2.Coordinates(policy_size=0)),
        ("1204", audit_pb2.Coordinates(policy_size=1204)),
        (2**63 - 1, audit_pb2.Coordinates(policy_size=2**63 - 1)),
    ],
)
def test_a_policy_is_that_of_a_size_or_of_the_head(policy, expected):
    made = coordinates(policy=policy)
    assert made == expected
    assert made.WhichOneof("policy") == expected.WhichOneof("policy")


@pytest.mark.parametrize("policy", ["", "now", "Head", -1, 2**63, "9" * 5000, "2026-10-01", "١٢"])
def test_what_is_no_policy_is_a_usage_error_that_shows_one(policy):
    with pytest.raises(LedgerError) as caught:
        coordinates(policy=policy)
    assert caught.value.reason == "USAGE"
    assert '"head"' in caught.value.remedy
    assert len(caught.value.message) < 200


def test_every_question_of_a_reader_may_ask_for_another_policy(reader, ledger):
    ledger.sources = [audit_pb2.Source(id="a")]
    reader.source("a", at=2, rules="now", policy="head")
    list(reader.sources(at=2, policy=7))
    reader.why("a", policy="7")
    asked = [request.coordinates for request in ledger.asked]
    assert asked == [
        audit_pb2.Coordinates(size=2, rules="now", policy_at_head=True),
        audit_pb2.Coordinates(size=2, policy_size=7),
        audit_pb2.Coordinates(policy_size=7),
    ]


def test_a_source_that_is_not_there_is_not_found(reader):
    with pytest.raises(NotFound, match="nobody"):
        reader.source("nobody")


def test_a_list_is_read_to_its_last_page(reader, ledger):
    ledger.sources = [audit_pb2.Source(id=f"s{n}", retired=n == 4) for n in range(6)]
    pages = list(reader.sources(audit_pb2.SourceFilter(include_retired=True)))
    assert [f"s{n}" for n in range(6)] == [s.id for page in pages for s in page.sources]
    assert [asked.page_token for asked in ledger.asked] == ["", "2", "4"]
    assert all(asked.filter.include_retired for asked in ledger.asked)
    assert [page.total for page in reader.sources()] == [5, 5, 5]


def test_events_are_read_through_their_filter_and_bounds(reader, five):
    assert [e.pos for e in reader.events()] == [0, 1, 2, 3, 4]
    assert [e.pos for e in reader.events(1, streams=["source/s1"])] == [1, 3]
    assert [e.pos for e in reader.events(to_size=3, tags=["collection:c"])] == [0, 1, 2]
    assert [e.pos for e in reader.events(types=["other"])] == []
    assert [e.pos for e in reader.events(limit=1)] == [0]


def test_an_event_is_found_by_position_and_by_id(reader, five):
    assert reader.event(2).pos == 2
    assert reader.event(five[3].id).pos == 3
    with pytest.raises(NotFound):
        reader.event(99)


def test_a_header_that_does_not_hash_to_its_leaf_is_not_handed_on(reader, ledger, five):
    ledger.events[1].header += b" "
    with pytest.raises(Broken, match="position 1"):
        list(reader.events())
    with pytest.raises(Broken):
        reader.event(1)
    assert reader.event(0).pos == 0


def test_following_takes_a_broken_call_up_where_it_stopped(reader, ledger, five):
    follow = reader.follow(0)
    assert [next(follow).pos for _ in range(5)] == [0, 1, 2, 3, 4]
    follow.close()
    assert ledger.asked == [0, 2, 4]


def test_a_rebuild_reports_its_way_and_its_result(reader, five):
    seen = []
    result = reader.rebuild(progress=lambda m: seen.append((m.size, m.log_size)))
    assert result.equal
    assert seen == [(0, 5), (5, 5)]
    assert reader.generations().generations[0].id == "g1"


def test_an_artifact_is_saved_only_when_its_bytes_are_proved(connection, ledger, tmp_path):
    name = Writer(connection).put_artifact(b"evidence").sha256
    assert evidence.save(connection, name, tmp_path / "out") == 8
    assert (tmp_path / "out").read_bytes() == b"evidence"
    ledger.artifacts[name] = b"evidencf"
    with pytest.raises(Broken, match=name):
        evidence.save(connection, name, tmp_path / "other")
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize(
    "address", ["", "localhost", "localhost:", "host:0", "host:70000", "unix:", "http://h:1", "::1:80"]
)
def test_what_is_no_address_is_a_usage_error(address):
    with pytest.raises(LedgerError) as caught:
        connect(address)
    assert caught.value.reason == "USAGE"


@pytest.mark.parametrize("address", ["localhost:7410", "[::1]:7410", "ledger.example:443", "unix:/tmp/s"])
def test_an_address_is_a_host_and_port_or_a_socket(address):
    with connect(address) as made:
        assert made.address == address


def test_a_call_ends_by_its_deadline(connection, ledger):
    held = threading.Event()
    ledger._coordinates = lambda _: held.wait(10)
    ledger.sources = [audit_pb2.Source(id="a")]
    connection.timeout = 0.2
    try:
        with pytest.raises(LedgerError) as caught:
            Reader(connection).source("a")
    finally:
        held.set()
    assert caught.value.reason == "DEADLINE"
