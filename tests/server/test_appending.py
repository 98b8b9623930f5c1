"""Appends through the door: receipts, retries, conditions, and many requests on one call."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import grpc
import orjson
import pytest

from ledger.core.errors import LedgerError, Unavailable
from ledger.core.ids import ids_digest
from ledger.log.log import Log
from ledger.wire import log_pb2
from services.server.app import Application
from services.server.appending import Appender
from services.server.decisions import Decider
from services.server.settings import Settings
from tests.rules import builders
from tests.server.doors import Doors, alias, failure, of, request


def condition(**kind: object) -> log_pb2.Condition:
    return log_pb2.Condition(**kind)


def test_a_request_sent_again_is_answered_with_its_first_receipts(either: Doors) -> None:
    drafts = [alias("x"), alias("y"), alias("x")]
    first = either.append(*drafts)
    again = either.append(*drafts)
    assert [r.already_recorded for r in first.receipts] == [False] * 3
    assert [r.already_recorded for r in again.receipts] == [True] * 3
    for one, two in zip(first.receipts, again.receipts, strict=True):
        assert (one.pos, one.stream_version, one.recorded_at_us, one.leaf_hash) == (
            two.pos,
            two.stream_version,
            two.recorded_at_us,
            two.leaf_hash,
        )
    assert [r.stream_version for r in first.receipts] == [1, 1, 2]
    assert first.size == again.size == either.size()


def test_an_id_with_other_content_is_a_conflict_that_names_the_place(either: Doors) -> None:
    pos = either.append(alias("x", "taken")).receipts[0].pos
    failed = failure(lambda: either.append(alias("y", "taken")))
    assert (failed.reason, failed.code) == ("ID_CONFLICT", grpc.StatusCode.ALREADY_EXISTS)
    assert (failed.metadata["id"], failed.metadata["pos"]) == ("taken", str(pos))


def test_a_known_part_refuses_an_atomic_request_and_is_a_receipt_in_another(either: Doors) -> None:
    known, new = alias("x"), alias("y")
    either.append(known)
    before = either.size()
    assert failure(lambda: either.append(known, new)).reason == "PARTLY_RECORDED"
    assert either.size() == before
    answer = either.append(known, new, atomic=False)
    assert [r.already_recorded for r in answer.receipts] == [True, False]
    assert answer.size == before + 1


def test_every_condition_that_fails_is_named_with_what_holds_instead(either: Doors) -> None:
    pos = either.append(alias("x", "known")).receipts[0].pos
    before = either.size()
    failed = failure(
        lambda: either.append(
            alias("x"),
            conditions=[
                condition(stream_version=log_pb2.StreamVersion(stream="alias/x", exact=7)),
                condition(stream_version=log_pb2.StreamVersion(stream="alias/x", none=True)),
                condition(stream_version=log_pb2.StreamVersion(stream="alias/x", exists=True)),
                condition(must_exist=log_pb2.EventIds(ids=["known", "unknown"])),
                condition(must_not_exist=log_pb2.EventIds(ids=["known"])),
                condition(no_match=log_pb2.NoMatch(types=["alias.mapped"], after=pos)),
                condition(collection=log_pb2.Collection(id="c", count=1, digest=ids_digest(["known"]))),
            ],
        )
    )
    assert (failed.reason, failed.code) == ("CONDITION_FAILED", grpc.StatusCode.FAILED_PRECONDITION)
    assert failed.problems == {
        "conditions[0]": "the stream 'alias/x' is at version 1, not 7",
        "conditions[1]": "the stream 'alias/x' is at version 1, not 0",
        "conditions[3]": "not in the log: unknown",
        "conditions[4]": "already in the log: known",
        "conditions[5]": f"the event at position {pos} matches",
        "conditions[6]": "the collection has 0 events, not 1",
    }
    assert either.size() == before


def test_conditions_that_hold_let_the_request_pass(either: Doors) -> None:
    part = of(builders.declared("held"))
    either.append(alias("x", "known"), part, atomic=False)
    after = either.size()
    either.append(
        alias("x"),
        conditions=[
            condition(stream_version=log_pb2.StreamVersion(stream="alias/x", exact=1)),
            condition(stream_version=log_pb2.StreamVersion(stream="alias/other", none=True)),
            condition(must_exist=log_pb2.EventIds(ids=["known"])),
            condition(must_not_exist=log_pb2.EventIds(ids=["unknown"])),
            condition(no_match=log_pb2.NoMatch(types=["alias.mapped"], after=after)),
            condition(collection=log_pb2.Collection(id="held", count=1, digest=ids_digest([part.id]))),
        ],
    )


def test_one_version_is_won_by_one_of_many_that_ask_for_it(either: Doors) -> None:
    asked = condition(stream_version=log_pb2.StreamVersion(stream="alias/race", none=True))
    calls = [either.log.Append.future(request(alias("race"), conditions=[asked])) for _ in range(20)]
    won = [c for c in calls if c.exception() is None]
    assert len(won) == 1


def test_requests_of_a_stream_are_numbered_recorded_in_order_and_a_refused_one_ends_nothing(either: Doors) -> None:
    size = either.size()
    bad = alias()
    bad.payload = b"{}"
    sent = [request(alias("s", f"s{n}"), bad) if n % 7 == 3 else request(alias("s", f"s{n}")) for n in range(200)]
    answers = list(either.log.AppendStream(iter(sent)))
    assert [a.request for a in answers] == list(range(200))
    refused = [a for a in answers if a.WhichOneof("answer") == "error"]
    assert {a.request for a in refused} == {n for n in range(200) if n % 7 == 3}
    assert {(a.error.reason, a.error.details["draft"]) for a in refused} == {("INVALID_PAYLOAD", "1")}
    assert all(a.error.remedy for a in refused)
    taken = [a.response.receipts[0] for a in answers if a.WhichOneof("answer") == "response"]
    assert [r.pos for r in taken] == list(range(size, size + len(taken)))
    assert [orjson.loads(e.header)["id"] for e in either.read(size)] == [f"s{n}" for n in range(200) if n % 7 != 3]


def test_a_stream_goes_on_sending_while_answers_are_awaited(doors: Doors) -> None:
    allowed = threading.Event()

    def requests() -> Iterator[log_pb2.AppendRequest]:
        for number in range(100):
            yield request(alias("s", f"a{number}"))
        allowed.wait(30)
        yield request(alias("s", "last"))

    answers = doors.log.AppendStream(requests())
    assert [next(answers).request for _ in range(100)] == list(range(100))
    allowed.set()
    assert [a.request for a in answers] == [100]


def test_a_decision_on_a_stream_sees_the_requests_sent_before_it(either: Doors) -> None:
    for round_ in range(5):
        parts = [of(builders.declared(f"r{round_}", id=f"{builders.ORIGIN}:{round_}-{n}")) for n in range(50)]
        replaces = None if round_ == 0 else f"closing{round_ - 1}"
        closing = of(builders.synced(f"r{round_}", [p.id for p in parts], replaces=replaces), id=f"closing{round_}")
        sent = [*(request(p, atomic=False) for p in parts), request(closing)]
        answers = list(either.log.AppendStream(iter(sent)))
        assert [a.error.message for a in answers if a.WhichOneof("answer") == "error"] == []
    assert either.sources({"min_size": either.size()}).total == 250


def test_a_full_queue_slows_a_stream_down_and_is_told_to_a_single_call(tmp_path: Path) -> None:
    application = Application(Settings(tmp_path / "home"))
    application.start()
    try:
        full = _FullAtFirst(application.log)
        decider = Decider(application.log, application.projector.generations, application.artifacts)
        appender = Appender(full, decider)
        with pytest.raises(LedgerError) as refused:
            asyncio.run(appender.append(request(alias("x", "refused"))))
        assert refused.value.reason == "QUEUE_FULL"

        async def streamed() -> int:
            return (await (await appender.submit_when_there_is_room(request(alias("x", "patient"))))).receipts[0].pos

        assert asyncio.run(streamed()) == application.log.store.event_by_id("patient").pos
        assert full.refusals == 0
    finally:
        application.close()


class _FullAtFirst:
    """A log whose queue is full for the first three requests."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self.refusals = 3

    def append(self, *args: object, **fields: object) -> object:
        if self.refusals:
            self.refusals -= 1
            raise Unavailable("full", reason="QUEUE_FULL")
        return self._log.append(*args, **fields)
