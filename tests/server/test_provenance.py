"""The typed door: facts are recorded as the drafts that they are, and every promise of the other door holds here."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import grpc
import orjson
import pytest
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from ledger.events import REGISTRY
from ledger.log import limits
from ledger.wire import log_pb2, provenance_pb2
from services.server.provenance import INLINE_BYTES
from services.server.provenance_drafts import draft_of
from tests.server.doors import Doors, alias, failure, opened, request
from tests.server.process import server_process
from tests.server.said import KINDS, asked, door, fact, record, step, told

FACTS = [kind for kind in KINDS if not kind.decision]


def test_every_type_of_fact_is_recorded_whatever_is_known_of_its_run(either: Doors) -> None:
    facts = [told(kind) for kind in FACTS]
    answer = record(either, *facts)
    stored = either.read(answer.size - len(facts))
    for kind, made, event in zip(FACTS, facts, stored, strict=True):
        header, sent = orjson.loads(event.header), draft_of(made)
        assert (header["id"], header["type"], header["stream"]) == (made.id, kind.type, sent.stream)
        assert event.payload == sent.payload
        assert header["payload"]["len"] == len(event.payload)


def test_a_fact_sent_again_is_answered_with_its_first_receipt(either: Doors) -> None:
    made = step()
    first, again = record(either, made), record(either, made)
    assert [(r.pos, r.leaf_hash) for r in again.receipts] == [(r.pos, r.leaf_hash) for r in first.receipts]
    assert ([r.already_recorded for r in first.receipts], [r.already_recorded for r in again.receipts]) == (
        [False],
        [True],
    )


@pytest.mark.parametrize("typed_first", [True, False])
def test_a_retry_may_come_through_the_other_door(either: Doors, typed_first: bool) -> None:
    producer = log_pb2.Producer(id="recorder", epoch=1, seq=3)
    facts = [told(kind, producer=producer, tags=["sample"], occurred_at_us=5) for kind in FACTS]
    drafts = [draft_of(made) for made in facts]
    doors = [lambda: record(either, *facts), lambda: either.append(*drafts)]
    first, second = (call() for call in (doors if typed_first else doors[::-1]))
    assert all(r.already_recorded for r in second.receipts)
    assert [r.pos for r in second.receipts] == [r.pos for r in first.receipts]
    assert second.size == first.size


def test_the_same_id_with_another_fact_is_a_conflict_at_either_door(either: Doors) -> None:
    record(either, step(1, id="taken"))
    assert failure(lambda: record(either, step(2, id="taken"))).reason == "ID_CONFLICT"
    assert failure(lambda: either.append(draft_of(step(2, id="taken")))).reason == "ID_CONFLICT"


def test_facts_of_one_request_are_all_recorded_or_none(either: Doors) -> None:
    before = either.size()
    failed = failure(lambda: record(either, step(1), provenance_pb2.Fact(id="empty"), step(2)))
    assert (failed.reason, failed.metadata["draft"], failed.metadata["id"]) == ("INVALID_ARGUMENT", "1", "empty")
    assert "facts[1]" in failed.problems
    assert either.size() == before


def test_of_a_request_that_is_not_atomic_each_fact_has_its_own_answer(either: Doors) -> None:
    wrong = step(2, id="wrong")
    wrong.steps_logged.attempt = 0
    answer = record(either, step(1), provenance_pb2.Fact(id="empty"), wrong, step(3), atomic=False)
    assert [r.refusal.reason for r in answer.receipts] == ["", "INVALID_ARGUMENT", "INVALID_PAYLOAD", ""]
    assert [r.refusal.details.get("id") for r in answer.receipts[1:3]] == ["empty", "wrong"]
    assert [r.pos for r in answer.receipts] == [answer.size - 2, 0, 0, answer.size - 1]


def test_conditions_hold_at_this_door_too(either: Doors) -> None:
    none = log_pb2.Condition(stream_version=log_pb2.StreamVersion(stream="run/r1", none=True))
    record(either, step(1), conditions=[none])
    before = either.size()
    failed = failure(lambda: record(either, step(2), conditions=[none]))
    assert failed.reason == "CONDITION_FAILED"
    assert "'run/r1' is at version 1" in failed.problems["conditions[0]"]
    assert either.size() == before


def test_a_stream_answers_every_request_in_the_order_sent_and_a_bad_one_ends_nothing(either: Doors) -> None:
    def requests() -> Iterator[provenance_pb2.RecordRequest]:
        for number in range(100):
            yield asked(step(number, id=f"s{number}"), atomic=False)
            if number % 10 == 0:
                yield asked(provenance_pb2.Fact(id="empty"))
                yield asked()

    answers = list(door(either).RecordStream(requests(), timeout=60))
    assert [a.request for a in answers] == list(range(120))
    errors = [a.error.reason for a in answers if a.WhichOneof("answer") == "error"]
    assert errors == ["INVALID_ARGUMENT"] * 20
    kept = [a.response.receipts[0].stream_version for a in answers if a.WhichOneof("answer") == "response"]
    assert kept == list(range(1, 101))


def test_a_stream_sent_again_after_it_broke_records_nothing_twice(either: Doors) -> None:
    requests = [asked(step(number, id=f"s{number}"), atomic=False) for number in range(60)]
    broken = door(either).RecordStream(iter(requests))
    for _ in range(10):
        next(broken)
    broken.cancel()
    answers = list(door(either).RecordStream(iter(requests), timeout=60))
    versions = [a.response.receipts[0].stream_version for a in answers]
    assert versions == list(range(1, 61))
    assert all(a.response.receipts[0].already_recorded for a in answers[:10])


def test_a_server_that_stops_answers_what_a_stream_has_sent_and_then_says_so(tmp_path: Path) -> None:
    def requests() -> Iterator[provenance_pb2.RecordRequest]:
        yield from (asked(step(number), atomic=False) for number in range(5))
        stopped.wait(30)

    stopped = threading.Event()
    with server_process(tmp_path / "home") as server, opened(server.address) as doors:
        call = door(doors).RecordStream(requests(), timeout=60)
        answers = [next(call) for _ in range(5)]
        code = server.stop()
        with pytest.raises(grpc.RpcError) as ended:
            next(call)
        stopped.set()
    assert [a.response.receipts[0].stream_version for a in answers] == [1, 2, 3, 4, 5]
    assert (code, ended.value.code()) == (0, grpc.StatusCode.UNAVAILABLE)


def test_a_large_request_is_translated_as_a_small_one_is(doors: Doors) -> None:
    facts = [step(number, id=f"s{number}") for number in range(1500)]
    assert asked(*facts).ByteSize() > INLINE_BYTES
    answer = record(doors, *facts)
    assert [e.payload for e in doors.read(answer.size - 1500)] == [draft_of(made).payload for made in facts]


def test_a_request_has_the_limits_of_the_other_door(doors: Doors) -> None:
    before = doors.size()
    many = failure(lambda: record(doors, *(step(n) for n in range(limits.REQUEST_EVENTS + 1))))
    assert (many.reason, many.metadata["limit"]) == ("TOO_LARGE", str(limits.REQUEST_EVENTS))
    large = step()
    large.steps_logged.basis.quote = "x" * 150_000
    much = failure(lambda: record(doors, *([large] * 120)))
    assert (much.reason, much.metadata["limit"]) == ("TOO_LARGE", str(limits.REQUEST_BYTES))
    longer = step()
    for n in range(60_000):
        longer.steps_logged.steps[0].metrics[f"a metric of its own {n}"] = 0.123456789
    payload = failure(lambda: record(doors, longer))
    assert (payload.reason, "payload" in payload.problems) == ("TOO_LARGE", True)
    assert doors.size() == before


def test_a_recorded_fact_survives_a_server_that_is_killed(tmp_path: Path) -> None:
    made = [step(n, id=f"s{n}") for n in range(20)]
    with server_process(tmp_path / "home") as server:
        with opened(server.address) as doors:
            first = record(doors, *made)
        server.kill()
        with opened(server.start()) as doors:
            again = record(doors, *made)
    assert [(r.pos, r.leaf_hash) for r in again.receipts] == [(r.pos, r.leaf_hash) for r in first.receipts]
    assert all(r.already_recorded for r in again.receipts)


def test_get_info_names_every_type_of_training_and_export(doors: Doors) -> None:
    info = doors.log.GetInfo(log_pb2.GetInfoRequest())
    listed = {t.type: (list(t.versions), t.family, t.decision) for t in info.event_types}
    assert len(KINDS) == 29
    for kind in KINDS:
        assert listed[kind.type] == ([kind.version], kind.family, kind.decision)
    assert {t.type for t in REGISTRY if t.family in {"training", "export"} and t.decision} == {
        "checkpoint.selected",
        "export.verified",
    }


@pytest.mark.parametrize(("service", "message"), [("Provenance", b"LoggedStep"), ("Runs", b"RunSummary")])
def test_the_services_of_runs_are_healthy_and_reflected_with_their_messages(
    doors: Doors, service: str, message: bytes
) -> None:
    name = f"atlas.ledger.v1.{service}"
    answer = doors.health.Check(health_pb2.HealthCheckRequest(service=name))
    assert answer.status == health_pb2.HealthCheckResponse.SERVING
    reflected = reflection_pb2_grpc.ServerReflectionStub(doors.channel)
    wanted = reflection_pb2.ServerReflectionRequest(file_containing_symbol=name)
    (found,) = reflected.ServerReflectionInfo(iter([wanted]))
    assert any(message in data for data in found.file_descriptor_response.file_descriptor_proto)


def test_both_doors_write_into_one_stream_in_the_order_of_arrival(either: Doors) -> None:
    for number in range(5):
        record(either, step(2 * number, id=f"typed{number}"))
        either.log.Append(request(draft_of(step(2 * number + 1, id=f"draft{number}"))))
    events = either.read(filter={"streams": ["run/r1"]})
    assert [json.loads(e.payload)["steps"][0]["step"] for e in events] == list(range(10))
    assert either.append(alias()).size == either.size()


def test_a_call_that_is_no_message_is_refused_and_disturbs_nobody(doors: Doors) -> None:
    raw = doors.channel.unary_unary("/atlas.ledger.v1.Provenance/Record")
    before = doors.size()
    with pytest.raises(grpc.RpcError):
        raw(b"\x0a\xff\xff", timeout=10)
    assert record(doors, step()).size == before + 1


def test_a_claim_of_a_campaign_an_export_and_a_run_stand_in_their_streams(doors: Doors) -> None:
    said = {"topic": "benchmark", "statement": "none is named", "absent": True, "basis": {"kind": "claimed"}}
    kinds = ["campaign", "export", "checkpoint"]
    answer = record(doors, *(fact("claim.recorded", {"subject": {"kind": k, "id": "x"}, **said}) for k in kinds))
    streams = [orjson.loads(e.header)["stream"] for e in doors.read(answer.size - 3)]
    assert streams == ["campaign/x", "export/x", "run/x"]
