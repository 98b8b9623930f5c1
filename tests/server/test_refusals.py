"""What the log refuses, and how it says so: the reason, the place, the remedy; and nothing is recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc
import pytest

from ledger.client.drafts import Draft
from ledger.events.examples import example
from ledger.log import limits
from ledger.wire import artifacts_pb2, log_pb2, projections_pb2
from tests.rules import builders
from tests.server.doors import Doors, alias, failure, request

ALIAS = b'{"alias":"a","source_ids":["x"],"status":"confirmed","applicability":"unknown"}'


def changed(**fields: Any) -> Draft:
    made = alias()
    for name, value in fields.items():
        if isinstance(value, list):
            getattr(made, name).extend(value)
        else:
            setattr(made, name, value)
    return made


def long_payload(size: int) -> bytes:
    """Valid, and exactly so long."""
    return ALIAS[:-1] + b" " * (size - len(ALIAS)) + b"}"


def nested(depth: int) -> bytes:
    return b'{"generation_parameters":' + b'{"a":' * depth + b"1" + b"}" * depth + b"}"


BAD_DRAFTS: dict[str, tuple[Draft, str, str, str]] = {
    "a payload that is no JSON": (changed(payload=b"{"), "INVALID_PAYLOAD", "", "UTF-8 JSON"),
    "a payload with a key twice": (
        changed(payload=ALIAS[:-1] + b',"alias":"b"}'),
        "INVALID_PAYLOAD",
        "/alias",
        "",
    ),
    "a payload that lacks a field": (changed(payload=b"{}"), "INVALID_PAYLOAD", "/alias", "schema show"),
    "a payload with a number beyond what JSON holds": (
        changed(payload=ALIAS.replace(b'"a"', b"1e999")),
        "INVALID_PAYLOAD",
        "/alias",
        "",
    ),
    "a payload nested too deep": (changed(payload=nested(65)), "INVALID_PAYLOAD", "", "deeper than 64"),
    "an unknown type": (changed(type="alias.guessed"), "UNKNOWN_EVENT_TYPE", "", "GetInfo"),
    "an unknown version": (changed(type_version=9), "UNKNOWN_EVENT_TYPE", "", "Send version"),
    "another family's stream": (changed(stream="source/x"), "INVALID_ARGUMENT", "stream", ""),
    "a stream without a name": (changed(stream="alias/"), "INVALID_ARGUMENT", "stream", ""),
    "no id": (changed(id=""), "INVALID_ARGUMENT", "id", ""),
    "an id with a line feed": (changed(id="a\nb"), "INVALID_ARGUMENT", "id", ""),
    "an id with a zero": (changed(id="a\0b"), "INVALID_ARGUMENT", "id", ""),
    "a tag that is not ASCII": (changed(tags=["é"]), "INVALID_ARGUMENT", "tags[0]", ""),
    "a payload of a byte too much": (
        changed(payload=long_payload(limits.PAYLOAD_BYTES + 1)),
        "TOO_LARGE",
        "payload",
        "artifacts",
    ),
    "a tag too many": (changed(tags=[f"t{n:02}" for n in range(33)]), "TOO_LARGE", "tags", ""),
    "a cause too many": (changed(causes=[f"c{n}" for n in range(257)]), "TOO_LARGE", "causes", ""),
    "a time outside of the years": (changed(occurred_at_us=10**18), "INVALID_ARGUMENT", "occurred_at_us", "unknown"),
    "a tag of a collection that the payload does not name": (
        changed(tags=["collection:c"]),
        "INVALID_ARGUMENT",
        "tags",
        "",
    ),
}


@pytest.mark.parametrize("name", BAD_DRAFTS)
def test_a_bad_draft_is_refused_with_its_place_and_nothing_is_recorded(name: str, doors: Doors) -> None:
    bad, reason, place, remedy = BAD_DRAFTS[name]
    before = doors.size()
    failed = failure(lambda: doors.append(alias(), bad))
    assert (failed.reason, failed.domain) == (reason, "atlas.ledger")
    assert failed.code is grpc.StatusCode.INVALID_ARGUMENT
    assert failed.status.message == failed.text
    assert place in failed.problems or not place, failed.problems
    assert failed.metadata["draft"] == "1"
    assert failed.remedy
    assert remedy in failed.remedy + failed.text
    assert doors.size() == before


def test_one_bad_draft_among_good_ones_is_refused_alone_when_the_request_is_not_atomic(either: Doors) -> None:
    for name, (bad, reason, _, _) in BAD_DRAFTS.items():
        before = either.size()
        answer = either.append(alias(), bad, alias(), atomic=False)
        assert [r.refusal.reason for r in answer.receipts] == ["", reason, ""], name
        assert [r.pos for r in answer.receipts] == [before, 0, before + 1]


BAD_REQUESTS: dict[str, tuple[Callable[[], log_pb2.AppendRequest], str]] = {
    "no draft": (request, "INVALID_ARGUMENT"),
    "an event too many": (lambda: request(*(alias() for _ in range(20_001))), "TOO_LARGE"),
    "an empty condition": (lambda: request(alias(), conditions=[log_pb2.Condition()]), "INVALID_ARGUMENT"),
    "a stream version that expects nothing": (
        lambda: request(
            alias(), conditions=[log_pb2.Condition(stream_version=log_pb2.StreamVersion(stream="alias/x"))]
        ),
        "INVALID_ARGUMENT",
    ),
}


@pytest.mark.parametrize("name", BAD_REQUESTS)
def test_a_bad_request_is_refused_and_nothing_is_recorded(name: str, doors: Doors) -> None:
    make, reason = BAD_REQUESTS[name]
    before = doors.size()
    failed = failure(lambda: doors.log.Append(make()))
    assert (failed.reason, bool(failed.remedy)) == (reason, True)
    assert doors.size() == before


def test_a_request_may_have_sixteen_mebibytes_and_not_a_byte_more(doors: Doors) -> None:
    most = request(*(changed(payload=long_payload(limits.PAYLOAD_BYTES)) for _ in range(15)), alias())
    rest = limits.REQUEST_BYTES - most.ByteSize()
    # A longer payload needs a longer length before it, so the last bytes are found by looking.
    most.drafts[15].payload = long_payload(len(ALIAS) + rest)
    while most.ByteSize() > limits.REQUEST_BYTES:
        most.drafts[15].payload = long_payload(len(most.drafts[15].payload) - 1)
    assert most.ByteSize() == limits.REQUEST_BYTES
    larger = log_pb2.AppendRequest.FromString(most.SerializeToString())
    larger.drafts[15].payload = long_payload(len(larger.drafts[15].payload) + 1)
    before = doors.size()
    failed = failure(lambda: doors.log.Append(larger))
    assert (failed.reason, failed.metadata["limit"]) == ("TOO_LARGE", str(limits.REQUEST_BYTES))
    assert doors.size() == before
    assert doors.log.Append(most).size == before + 16


def test_what_is_just_within_the_limits_is_taken(doors: Doors) -> None:
    doors.append(
        changed(payload=long_payload(limits.PAYLOAD_BYTES)),
        changed(tags=[f"t{n:02}" for n in range(32)]),
        changed(causes=[f"c{n}" for n in range(256)]),
        changed(id="i" * 512),
        changed(stream="alias/" + "s" * 506),
    )


@pytest.mark.parametrize(
    "kind", ["key.introduced", "key.retired", "principal.granted", "event.redacted", "projection.promoted", "log.heads"]
)
def test_the_log_s_own_events_are_not_taken_from_callers(kind: str, doors: Doors) -> None:
    before = doors.size()
    drafted = Draft(id="own", type=kind, stream="ledger", payload=example(kind, 1))
    failed = failure(lambda: doors.append(drafted))
    assert (failed.reason, failed.code) == ("NOT_SUPPORTED", grpc.StatusCode.UNIMPLEMENTED)
    refused = doors.append(drafted, alias(), atomic=False)
    assert [r.refusal.reason for r in refused.receipts] == ["NOT_SUPPORTED", ""]
    assert doors.size() == before + 1


def test_other_wrong_questions_have_the_same_form_of_answer(doors: Doors) -> None:
    wrong = {
        "INVALID_ARGUMENT": [
            lambda: doors.log.GetEvent(log_pb2.GetEventRequest()),
            lambda: doors.artifacts.Stat(artifacts_pb2.StatArtifactsRequest(sha256=["x"])),
            lambda: doors.source(recorded_at_us=1 << 62),
            lambda: doors.read(filter={"streams": ["a\0"]}),
            lambda: doors.sources(page_token="never given"),
        ],
        "TOO_LARGE": [
            lambda: doors.artifacts.Stat(artifacts_pb2.StatArtifactsRequest(sha256=[builders.sha("x")] * 1001))
        ],
        "NOT_FOUND": [
            lambda: doors.log.GetEvent(log_pb2.GetEventRequest(pos=2**64 - 1)),
            lambda: doors.log.GetEvent(log_pb2.GetEventRequest(id="a\0")),
            lambda: doors.source("a\0"),
            lambda: list(doors.projections.Rebuild(projections_pb2.RebuildRequest(projection="checkpoints"))),
            lambda: doors.source(size=2**64 - 1),
        ],
    }
    for reason, calls in wrong.items():
        for number, call in enumerate(calls):
            failed = failure(call)
            assert (failed.reason, bool(failed.remedy)) == (reason, True), (reason, number, failed.text)


def test_a_condition_that_no_log_could_meet_fails_its_own_request_only(either: Doors) -> None:
    odd = [
        log_pb2.Condition(no_match=log_pb2.NoMatch(types=["alias.mapped"], after=2**64 - 1)),
        log_pb2.Condition(must_exist=log_pb2.EventIds(ids=["a\0b"])),
        log_pb2.Condition(stream_version=log_pb2.StreamVersion(stream="alias/\0", none=True)),
    ]
    for condition in odd:
        calls = [either.log.Append.future(request(alias(f"s{n}"))) for n in range(20)]
        strange = either.log.Append.future(request(alias("odd"), conditions=[condition]))
        calls += [either.log.Append.future(request(alias(f"s{n}"))) for n in range(20)]
        assert all(call.result().size for call in calls)
        assert strange.exception() is None or strange.exception().code() in {
            grpc.StatusCode.FAILED_PRECONDITION,
            grpc.StatusCode.INVALID_ARGUMENT,
        }


def test_a_caller_that_gives_up_does_not_disturb_the_others(either: Doors) -> None:
    calls = []
    for number in range(200):
        call = either.log.Append.future(request(*(alias(f"g{number}") for _ in range(10))))
        if number % 3 == 0:
            call.cancel()
        calls.append(call)
    streamed = either.log.AppendStream(request(alias("stream")) for _ in range(1000))
    next(streamed)
    streamed.cancel()
    assert all(c.cancelled() or c.result().size for c in calls)
    assert either.append(alias("after")).size == either.size()
