"""What both stores promise, through the sequencer that stands on them."""

from __future__ import annotations

import hashlib
import threading
from concurrent.futures import Future
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from sqlalchemy import text
from sqlalchemy.exc import DatabaseError

from ledger.core.errors import InvalidInput, LedgerError, Refused, Unavailable
from ledger.core.ids import ids_digest, new_id
from ledger.core.merkle import EMPTY_ROOT
from ledger.log import limits, sequencer
from ledger.log.batches import AppendRequest, GuardMoved
from ledger.log.conditions import (
    CollectionIs,
    Condition,
    MustExist,
    MustNotExist,
    NoMatch,
    StreamVersion,
)
from ledger.log.fsck import fsck
from ledger.log.log import Log
from ledger.log.model import Filter, Outcome, Prepared, Receipt
from ledger.log.ports import Store
from ledger.log.preparing import Preparer
from ledger.log.reading import PAGE
from ledger.log.sequencer import Sequencer
from tests.log.builders import Draft, alias, append, part, positions, receipts, refusal
from tests.log.conftest import Open

LATE = 2**62
"""A size beyond every log of these tests."""


def header(store: Store, pos: int) -> dict[str, Any]:
    event = store.event(pos)
    assert event is not None
    found: dict[str, Any] = orjson.loads(event.header)
    return found


def redact(store: Store, pos: int) -> None:
    """What a redaction does to a payload's row."""
    with store.write_gate, store.engine.begin() as connection:
        connection.execute(
            text("UPDATE payload SET salt = :salt, body = :body, draft_hash = NULL, redacted_by = 9 WHERE pos = :pos"),
            {"salt": b"\1" * 32, "body": b'{"alias":"[redacted]"}', "pos": pos},
        )


# Order


def test_a_new_log_is_empty_and_has_the_empty_root(store: Store) -> None:
    head = store.head()

    assert (head.size, head.peaks, head.root, head.recorded_at_us) == (0, (), EMPTY_ROOT, 0)


def test_creating_a_log_twice_keeps_the_first_origin(store: Store) -> None:
    store.create("another")

    assert store.head().origin == "log-under-test"


def test_positions_are_given_without_a_gap_in_the_order_of_the_requests(log: Log) -> None:
    first = append(log, alias("a"), alias("b"))
    second = append(log, alias("c"))

    assert positions(first) + positions(second) == [0, 1, 2]
    assert log.head().size == 3


def test_a_streams_versions_count_from_one_and_each_event_names_the_leaf_before_it(log: Log) -> None:
    made = append(log, alias("a"), alias("b"), alias("a"))
    made += append(log, alias("a"))

    assert [r.sv for r in made] == [1, 1, 2, 3]
    assert [header(log.store, r.pos)["prev"] for r in made] == [None, None, made[0].leaf.hex(), made[2].leaf.hex()]


def test_a_stream_goes_on_when_the_store_is_opened_again(open_store: Open) -> None:
    made: list[Receipt] = []
    for _ in range(2):
        log = Log(open_store())
        log.start()
        made += append(log, alias("a"))
        log.close()

    assert [(r.pos, r.sv) for r in made] == [(0, 1), (1, 2)]
    assert header(open_store(), 1)["prev"] == made[0].leaf.hex()


def test_the_receipts_leaf_is_the_hash_of_the_stored_header(log: Log) -> None:
    [receipt] = append(log, alias("a"))

    event = log.store.event(0)
    assert event is not None
    assert receipt.leaf == event.leaf == hashlib.sha256(b"\0" + event.header).digest()


def test_the_payload_is_stored_byte_for_byte(log: Log) -> None:
    spaced = b'{ "alias" : "a", "source_ids":[], "status":"unresolved",\n "applicability":"unknown", "note":"\\u00e9" }'
    append(log, Draft(id="x", type="alias.mapped", stream="alias/a", payload=spaced))

    event = log.store.event(0)
    assert event is not None
    assert event.payload == spaced


# Retries


def test_a_retry_is_answered_with_the_first_receipt(log: Log) -> None:
    again = alias("a")
    [first] = append(log, again)
    append(log, alias("b"))

    [second] = append(log, again)
    assert second == first._replace(already_recorded=True)
    assert not first.already_recorded
    assert log.head().size == 2


def test_a_retry_is_known_after_the_store_is_opened_again(open_store: Open) -> None:
    again = alias("a", tags=["t"], causes=["c"], occurred_at_us=5)
    found = []
    for _ in range(2):
        log = Log(open_store())
        log.start()
        found += append(log, again)
        log.close()

    assert found[1] == found[0]._replace(already_recorded=True)


@pytest.mark.parametrize(
    "change",
    [
        {"note": "other"},
        {"stream": "alias/b"},
        {"occurred_at_us": 1},
        {"tags": ["t"]},
        {"causes": ["c"]},
        {"actor": {"id": "someone"}},
        {"producer": {"id": "p", "epoch": 1, "seq": 1}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_known_id_with_other_content_is_a_conflict(log: Log, change: dict[str, Any]) -> None:
    append(log, alias("a", id="x"))

    error = refusal(log.append([alias("a", id="x", **change)]))
    assert (error.reason, error.details) == ("ID_CONFLICT", {"id": "x", "pos": "0"})
    assert log.head().size == 1


def test_the_order_of_tags_makes_no_other_draft(log: Log) -> None:
    [first] = append(log, alias("a", id="x", tags=["b", "a", "b"]))

    [second] = append(log, alias("a", id="x", tags=["a", "b"]))
    assert second == first._replace(already_recorded=True)


def test_an_id_that_stands_twice_in_a_request_for_the_same_content_is_recorded_once(log: Log) -> None:
    twice = alias("a")

    first, second = append(log, twice, twice)
    assert second == first._replace(already_recorded=True)
    assert log.head().size == 1


def test_an_id_that_stands_twice_in_a_request_for_other_content_refuses_an_atomic_request(log: Log) -> None:
    error = refusal(log.append([alias("a", id="x"), alias("b", id="x")]))

    assert error.reason == "ID_CONFLICT"
    assert log.head().size == 0


def test_an_id_that_stands_twice_for_other_content_refuses_only_the_second_when_not_atomic(log: Log) -> None:
    outcome = log.append([alias("a", id="x"), alias("b", id="x"), alias("c")], atomic=False).result(60)

    first, second, third = outcome.receipts
    assert isinstance(second, Refused)
    assert second.reason == "ID_CONFLICT"
    assert isinstance(first, Receipt)
    assert isinstance(third, Receipt)
    assert (first.pos, third.pos) == (0, 1)


def test_any_content_counts_as_the_same_once_the_payload_is_redacted(log: Log) -> None:
    [first] = append(log, alias("a", id="x"))
    redact(log.store, 0)

    [second] = append(log, alias("other", id="x", stream="alias/a"))
    assert second == first._replace(already_recorded=True)


def test_another_principals_id_is_refused_without_any_detail(log: Log) -> None:
    mine = alias("a", id="x")
    append(log, mine, principal="trainer")

    error = refusal(log.append([mine], principal="stranger"))
    assert (error.reason, error.details) == ("NOT_PERMITTED", {})
    assert "0" not in error.message


def test_another_principals_id_is_refused_within_one_batch_too(store: Store) -> None:
    mine = alias("a", id="x")
    log = Log(store)
    first = log.append([mine], principal="trainer")
    second = log.append([mine], principal="stranger")
    log.start()

    assert positions(receipts(first.result(60))) == [0]
    error = refusal(second)
    assert (error.reason, error.details) == ("NOT_PERMITTED", {})


# Requests


def test_an_atomic_request_of_which_a_part_is_known_is_refused_and_nothing_is_appended(log: Log) -> None:
    known = alias("a", id="x")
    append(log, known)

    error = refusal(log.append([known, alias("b")]))
    assert (error.reason, error.details) == ("PARTLY_RECORDED", {"recorded": "x"})
    assert log.head().size == 1


def test_a_request_that_is_not_atomic_has_a_receipt_or_a_refusal_for_each_draft(log: Log) -> None:
    known = alias("a", id="x")
    append(log, known)

    wrong = Draft(id="y", type="alias.mapped", stream="alias/a", payload=b"{}")
    outcome = log.append([known, wrong, alias("b", id="x"), alias("c")], atomic=False).result(60)

    first, second, third, fourth = outcome.receipts
    assert isinstance(first, Receipt)
    assert (first.pos, first.already_recorded) == (0, True)
    assert isinstance(second, InvalidInput)
    assert (second.reason, second.details["draft"], second.details["id"]) == ("INVALID_PAYLOAD", "1", "y")
    assert isinstance(third, Refused)
    assert third.reason == "ID_CONFLICT"
    assert isinstance(fourth, Receipt)
    assert (fourth.pos, fourth.already_recorded) == (1, False)
    assert outcome.size == 2


def test_an_atomic_request_names_every_draft_that_is_refused(log: Log) -> None:
    append(log, alias("a", id="x"))
    wrong = Draft(id="y", type="alias.mapped", stream="alias/a", payload=b"{}")

    error = refusal(log.append([alias("b"), wrong, alias("c", id="x")]))
    assert error.reason == "INVALID_PAYLOAD"
    assert [p.place for p in error.problems] == ["drafts[1]", "drafts[2]"]
    assert log.head().size == 1


def test_drafts_that_were_refused_before_are_answered_with_that_refusal(log: Log) -> None:
    refused = Refused("the rules say no")
    outcome = log.append([alias("a"), alias("b")], refused={0: refused}, atomic=False).result(60)

    assert outcome.receipts[0] is refused
    assert isinstance(outcome.receipts[1], Receipt)


def test_an_empty_request_is_refused(log: Log) -> None:
    with pytest.raises(InvalidInput, match="no draft"):
        log.append([])


@pytest.mark.parametrize(
    ("drafts", "conditions", "words"),
    [
        ([Draft()] * (limits.REQUEST_EVENTS + 1), [], "20001 drafts, at most 20000"),
        ([Draft(payload=b"x" * limits.PAYLOAD_BYTES)] * 17, [], "17825792 bytes of payload, at most 16777216"),
        ([Draft()], [MustExist(("x",))] * 1001, "1001 conditions, at most 1000"),
    ],
    ids=["events", "bytes", "conditions"],
)
def test_a_request_beyond_a_limit_is_refused_with_the_limit(
    log: Log, drafts: list[Draft], conditions: list[Condition], words: str
) -> None:
    with pytest.raises(InvalidInput, match=words) as caught:
        log.append(drafts, conditions=conditions)

    assert caught.value.reason == "TOO_LARGE"


# Conditions

HOLDING: dict[str, Condition] = {
    "exact": StreamVersion("alias/a", 2),
    "none": StreamVersion("alias/z", 0),
    "exists": StreamVersion("alias/b", None),
    "must_exist": MustExist(("a1", "b1")),
    "must_not_exist": MustNotExist(("z1", "z2")),
    "no_match_types": NoMatch(("tag.retracted",), (), 0),
    "no_match_tags": NoMatch((), ("red", "green"), 0),
    "no_match_after": NoMatch(("alias.mapped",), ("red",), 2),
    "no_match_at_the_end": NoMatch((), (), 4),
    "collection": CollectionIs("c-1", 1, ids_digest(["p1"])),
    "empty_collection": CollectionIs("c-2", 0, ids_digest([])),
}
FAILING: dict[str, tuple[Condition, str]] = {
    "exact": (StreamVersion("alias/a", 1), "the stream 'alias/a' is at version 2, not 1"),
    "ahead": (StreamVersion("alias/z", 1), "the stream 'alias/z' is at version 0, not 1"),
    "none": (StreamVersion("alias/a", 0), "the stream 'alias/a' is at version 2, not 0"),
    "exists": (StreamVersion("alias/z", None), "the stream 'alias/z' has no event"),
    "must_exist": (MustExist(("a1", "z1", "z2")), "not in the log: z1, z2"),
    "must_not_exist": (MustNotExist(("z1", "a1", "b1")), "already in the log: a1, b1"),
    "no_match_types": (NoMatch(("alias.mapped",), (), 0), "the event at position 0 matches"),
    "no_match_tags": (NoMatch((), ("red", "blue"), 0), "the event at position 1 matches"),
    "no_match_after": (NoMatch((), ("red",), 1), "the event at position 1 matches"),
    "no_match_both": (NoMatch(("tag.retracted", "alias.mapped"), ("blue",), 0), "the event at position 1 matches"),
    "no_match_all": (NoMatch((), (), 3), "the event at position 3 matches"),
    "count": (CollectionIs("c-1", 2, ids_digest(["p1"])), "the collection has 1 events, not 2"),
    "digest": (CollectionIs("c-1", 1, "0" * 64), f"have the digest {ids_digest(['p1'])}, not {'0' * 64}"),
}


def setting() -> list[Draft]:
    """Four events that the conditions above speak of."""
    return [
        alias("a", id="a1", tags=["red"]),
        alias("a", id="a2", tags=["red", "blue"]),
        alias("b", id="b1"),
        part("c-1", id="p1"),
    ]


@pytest.fixture(params=["recorded", "queued before"])
def prepared_log(request: pytest.FixtureRequest, store: Store) -> Log:
    """A log whose events the conditions find in the database, or among the earlier requests of their own batch."""
    log = Log(store)
    waiting = [log.append([d]) for d in setting()]
    if request.param == "recorded":
        log.start()
        assert [f.result(60).receipts for f in waiting]
    return log


def answered(log: Log, future: Future[Outcome]) -> Future[Outcome]:
    """Lets a log that was not yet started do its batch."""
    log._sequencer.close()
    return future


@pytest.mark.parametrize("condition", HOLDING.values(), ids=HOLDING.keys())
def test_a_request_is_recorded_when_its_condition_holds(prepared_log: Log, condition: Condition) -> None:
    future = answered(prepared_log, prepared_log.append([alias("new")], conditions=[condition]))

    assert positions(receipts(future.result(60))) == [4]


@pytest.mark.parametrize(("condition", "words"), FAILING.values(), ids=FAILING.keys())
def test_a_request_is_refused_with_the_present_value_when_its_condition_fails(
    prepared_log: Log, condition: Condition, words: str
) -> None:
    error = refusal(answered(prepared_log, prepared_log.append([alias("new")], conditions=[condition])))

    assert error.reason == "CONDITION_FAILED"
    assert words in error.message
    assert [p.place for p in error.problems] == ["conditions[0]"]
    assert prepared_log.head().size == 4


def test_all_failing_conditions_are_reported_with_their_places(prepared_log: Log) -> None:
    conditions: list[Condition] = [
        StreamVersion("alias/a", 9),
        MustExist(("a1",)),
        MustExist(("z",)),
        StreamVersion("alias/b", 0),
    ]
    error = refusal(answered(prepared_log, prepared_log.append([alias("new")], conditions=conditions)))

    assert [(p.place, p.message) for p in error.problems] == [
        ("conditions[0]", "the stream 'alias/a' is at version 2, not 9"),
        ("conditions[2]", "not in the log: z"),
        ("conditions[3]", "the stream 'alias/b' is at version 1, not 0"),
    ]
    assert error.message.endswith("(and 2 more)")


def test_known_ids_are_judged_before_conditions(log: Log) -> None:
    again = alias("a")
    [first] = append(log, again, conditions=[StreamVersion("alias/a", 0)])

    [second] = append(log, again, conditions=[StreamVersion("alias/a", 0)])
    assert second == first._replace(already_recorded=True)


def test_a_conflict_is_told_before_a_failing_condition(log: Log) -> None:
    append(log, alias("a", id="x"))

    error = refusal(log.append([alias("b", id="x")], conditions=[StreamVersion("alias/a", 0)]))
    assert error.reason == "ID_CONFLICT"


def test_a_guard_that_no_longer_holds_says_that_the_decision_must_be_made_again(log: Log) -> None:
    append(log, alias("a"))

    error = refusal(log.append([alias("b")], guards=[StreamVersion("alias/a", 0)]))
    assert isinstance(error, GuardMoved)
    assert error.problems[0].message == "the stream 'alias/a' is at version 1, not 0"
    assert positions(append(log, alias("b"), guards=[StreamVersion("alias/a", 1)])) == [1]


def test_a_condition_of_the_caller_is_told_before_a_guard(log: Log) -> None:
    moved = [StreamVersion("alias/a", 7)]
    error = refusal(log.append([alias("b")], conditions=moved, guards=moved))

    assert not isinstance(error, GuardMoved)


def test_a_failing_request_leaves_the_others_of_its_batch(store: Store) -> None:
    log = Log(store)
    futures = [
        log.append([alias("a")]),
        log.append([alias("a")], conditions=[StreamVersion("alias/a", 0)]),
        log.append([alias("a")], conditions=[StreamVersion("alias/a", 1)]),
    ]
    log.start()

    assert receipts(futures[0].result(60))[0].pos == 0
    assert refusal(futures[1]).reason == "CONDITION_FAILED"
    [third] = receipts(futures[2].result(60))
    assert (third.pos, third.sv) == (1, 2)
    assert fsck(store).ok


def test_a_request_that_the_database_cannot_take_fails_alone(store: Store) -> None:
    log = Log(store)
    futures = [
        log.append([alias("a")]),
        log.append([alias("b")], conditions=[NoMatch((), ("\0",), 2**70)]),
        log.append([alias("c")]),
    ]
    log.start()

    assert receipts(futures[0].result(60))[0].pos == 0
    assert isinstance(futures[1].exception(60), LedgerError)
    assert receipts(futures[2].result(60))[0].pos == log.head().size - 1


# Time


def test_recorded_at_grows_strictly_from_one_transaction_to_the_next(log: Log) -> None:
    times = [append(log, alias("a"))[0].recorded_at_us for _ in range(5)]

    assert times == sorted(set(times))
    assert log.head().recorded_at_us == times[-1]


def test_the_events_of_one_transaction_share_their_time(log: Log) -> None:
    made = append(log, alias("a"), alias("b"))

    assert made[0].recorded_at_us == made[1].recorded_at_us
    at = datetime.fromtimestamp(made[0].recorded_at_us // 1_000_000, UTC)
    assert header(log.store, 0)["recorded_at"].startswith(at.strftime("%Y-%m-%dT%H:%M:%S."))


def test_a_clock_that_lags_is_bridged_by_a_microsecond(store: Store) -> None:
    future_us = 4_000_000_000_000_000
    with store.engine.begin() as connection:
        connection.execute(text("UPDATE log SET recorded_at = :us"), {"us": future_us})
    log = Log(store)
    log.start()

    assert [append(log, alias("a"))[0].recorded_at_us for _ in range(2)] == [future_us + 1, future_us + 2]


def test_size_at_counts_what_was_recorded_at_or_before_a_moment(log: Log) -> None:
    first = append(log, alias("a"), alias("b"))[0].recorded_at_us
    last = append(log, alias("c"))[0].recorded_at_us

    assert [log.size_at(us) for us in (0, first - 1, first, last - 1, last, LATE)] == [0, 0, 2, 2, 3, 3]


# The queue


def test_batches_larger_than_the_soft_limit_are_recorded_whole(store: Store) -> None:
    log = Log(store)
    many = sequencer.SOFT_BATCH_EVENTS // 2 + 1
    futures = [log.append([alias("a") for _ in range(many)]) for _ in range(3)]
    log.start()

    found = [r for f in futures for r in receipts(f.result(60))]
    assert positions(found) == list(range(3 * many))
    assert [r.sv for r in found] == list(range(1, 3 * many + 1))
    # Two requests reach the limit: the third has a transaction of its own.
    assert found[0].recorded_at_us == found[2 * many - 1].recorded_at_us < found[-1].recorded_at_us
    assert fsck(store).ok


def requests(store: Store, count: int, **fields: Any) -> list[AppendRequest]:
    from ledger.events import REGISTRY  # noqa: PLC0415

    preparer = Preparer(store.head().origin, REGISTRY)
    return [AppendRequest(preparer.prepare_all([alias("a")]), **fields) for _ in range(count)]


def test_a_full_queue_tells_the_caller_to_wait_and_takes_requests_again_afterwards(store: Store) -> None:
    writer = Sequencer(store)
    *most, late = requests(store, sequencer.MAX_WAITING + 1)
    futures = [writer.submit(r) for r in most]

    assert writer.waiting == sequencer.MAX_WAITING
    with pytest.raises(Unavailable, match="4096 requests are waiting") as caught:
        writer.submit(late)
    assert (caught.value.reason, caught.value.details) == ("QUEUE_FULL", {"retry_after_ms": "200"})

    writer.start()
    assert futures[-1].result(60).receipts
    assert writer.waiting == 0
    assert writer.submit(late).result(60).receipts
    writer.close()
    assert store.head().size == sequencer.MAX_WAITING + 1


def test_a_queue_that_is_full_of_bytes_takes_no_more(store: Store) -> None:
    writer = Sequencer(store)
    large, second, third = requests(store, 3, payload_bytes=sequencer.MAX_WAITING_BYTES)
    for request in (large, second):
        writer.submit(request)

    with pytest.raises(Unavailable, match="waiting"):
        writer.submit(third)
    writer.start()
    assert second.future.result(60)
    assert writer.submit(third).result(60)
    writer.close()
    at = [store.recorded_at(pos) for pos in range(3)]
    assert len(set(at)) == 3  # each of its own transaction, since each is beyond the soft limit


def test_closing_finishes_what_was_accepted_and_takes_no_more(store: Store) -> None:
    writer = Sequencer(store)
    *accepted, late = requests(store, 4)
    futures = [writer.submit(r) for r in accepted]
    writer.close()

    assert [f.result(0).size for f in futures] == [3, 3, 3]
    with pytest.raises(Unavailable, match="stopping"):
        writer.submit(late)
    writer.close()


def test_whatever_is_submitted_while_closing_is_answered(store: Store) -> None:
    writer = Sequencer(store)
    writer.start()
    accepted: list[Future[Outcome]] = []
    refused = 0

    def send() -> None:
        nonlocal refused
        for request in requests(store, 50):
            try:
                accepted.append(writer.submit(request))
            except Unavailable:
                refused += 1

    sender = threading.Thread(target=send)
    sender.start()
    while not accepted:
        pass
    writer.close()
    sender.join()

    assert len(accepted) + refused == 50
    assert all(f.done() for f in accepted)
    assert store.head().size == len(accepted)


def test_a_request_whose_caller_gave_up_is_not_recorded_and_the_writer_goes_on(store: Store) -> None:
    writer = Sequencer(store)
    given_up, kept = requests(store, 2)
    futures = [writer.submit(r) for r in (given_up, kept)]
    assert futures[0].cancel()
    writer.start()

    assert futures[1].result(60).size == 1
    first = kept.prepared[0]
    assert isinstance(first, Prepared)
    event = store.event(0)
    assert event is not None
    assert event.id == first.id
    writer.close()


# Reading


@pytest.fixture
def filled(log: Log) -> Store:
    append(
        log,
        alias("a", id="0", tags=["red"]),
        alias("b", id="1", tags=["red", "blue"]),
        part("c-1", id="2", tags=["blue"]),
        alias("a", id="3"),
    )
    return log.store


@pytest.mark.parametrize(
    ("match", "found"),
    [
        (Filter(), [0, 1, 2, 3]),
        (Filter(streams=("alias/a",)), [0, 3]),
        (Filter(streams=("alias/a", "alias/b")), [0, 1, 3]),
        (Filter(types=("tag.assigned",)), [2]),
        (Filter(types=("tag.assigned", "alias.mapped"), tags=("red",)), [0, 1]),
        (Filter(tags=("red", "blue")), [1]),
        (Filter(tags=("blue",), streams=("alias/b",)), [1]),
        (Filter(tags=("collection:c-1",)), [2]),
        (Filter(tags=("re",)), []),
    ],
    ids=str,
)
def test_a_filter_matches_any_stream_any_type_and_all_tags(filled: Store, match: Filter, found: list[int]) -> None:
    assert [e.pos for e in filled.read(0, LATE, match=match)] == found
    assert [e.pos for e in filled.read_all(0, LATE, match=match)] == found


def test_reading_starts_at_a_position_and_stops_before_a_size(filled: Store) -> None:
    assert [e.pos for e in filled.read(1, 3)] == [1, 2]
    assert [e.pos for e in filled.read(0, LATE, limit=2)] == [0, 1]
    assert filled.read(4, LATE) == []


def test_reading_headers_only_leaves_payloads_out(filled: Store) -> None:
    [bare] = filled.read(0, 1, payloads=False)
    [whole] = filled.read(0, 1)

    assert (bare.payload, bare.salt, bare.draft_hash) == (None, None, None)
    assert whole.payload is not None
    assert bare.header == whole.header


def test_a_page_ends_and_read_all_goes_on(log: Log) -> None:
    append(log, *[alias("a") for _ in range(PAGE + 5)])

    assert len(log.store.read(0, LATE)) == PAGE
    assert [e.pos for e in log.store.read_all(3, PAGE + 4)] == list(range(3, PAGE + 4))


def test_an_event_is_found_by_position_and_by_id(filled: Store) -> None:
    assert filled.event(2) == filled.event_by_id("2")
    assert filled.event(4) is None
    assert filled.event_by_id("4") is None


def test_ids_compare_byte_by_byte(filled: Store, log: Log) -> None:
    append(log, alias("a", id="Ab"), alias("a", id="aB"))

    assert filled.event_by_id("ab") is None
    assert filled.existing_ids(["ab", "Ab", "aB", "0", "none"]) == {"Ab", "aB", "0"}


def test_small_questions_have_their_answers(filled: Store) -> None:
    assert [filled.stream_version(s) for s in ("alias/a", "alias/z")] == [2, 0]
    assert filled.recorded_at(0) == filled.head().recorded_at_us
    assert filled.recorded_at(9) is None
    assert [filled.first_pos(p) for p in (-5, 0, 3, 4)] == [0, 0, 3, None]
    assert filled.tags_of(0, 2) == {0: ["red"], 1: ["blue", "red"]}
    assert filled.tags_of(2, LATE) == {2: ["blue", "collection:c-1"]}


# Guards of the tables


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE event SET type = 'x' WHERE pos = 0",
        "DELETE FROM event WHERE pos = 0",
        "UPDATE event_tag SET tag = 'x'",
        "DELETE FROM event_tag",
        "DELETE FROM payload WHERE pos = 0",
        "UPDATE payload SET body = salt WHERE pos = 0",
        "UPDATE payload SET redacted_by = 5 WHERE pos = 0",
        "UPDATE payload SET draft_hash = NULL WHERE pos = 0",
        "UPDATE payload SET pos = 77, draft_hash = NULL, redacted_by = 5 WHERE pos = 0",
        "DELETE FROM log",
    ],
)
def test_the_tables_refuse_what_would_change_the_log(filled: Store, statement: str) -> None:
    with filled.engine.connect() as connection, pytest.raises(DatabaseError, match=r"append-only|redaction|stays"):
        connection.exec_driver_sql(statement)
    assert fsck(filled).ok


def test_a_payload_may_be_replaced_by_its_redaction(filled: Store) -> None:
    redact(filled, 0)

    event = filled.event(0)
    assert event is not None
    assert (event.draft_hash, event.redacted_by) == (None, 9)


def test_any_printable_ascii_is_an_id_a_tag_and_a_cause(log: Log) -> None:
    odd = ["'", '"', "\\", "{}", "NULL", "%s", "a,b", " ", "~" * limits.ID_BYTES, new_id()]
    append(log, *[alias("a", id=i, tags=[i[:128]], causes=[i]) for i in odd])

    again = append(log, *[alias("a", id=i, tags=[i[:128]], causes=[i]) for i in odd])
    assert positions(again) == list(range(len(odd)))
    assert log.store.existing_ids(odd) == set(odd)
    assert fsck(log.store).ok
