"""Facts that are wrong: each is refused with its reason, its place and a remedy, and nothing of it is recorded."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import grpc
import pytest

from ledger.events.fields import MAX_TEXT
from ledger.wire import log_pb2, provenance_pb2
from services.server.provenance import received
from tests.server.doors import BY, Doors, failure, served
from tests.server.said import asked, door, fact, record, step

BASIS = {"kind": "claimed"}
CLAIM = {"subject": {"kind": "run", "id": "r1"}, "topic": "benchmark", "statement": "none", "basis": BASIS}
CONFIG = {"run_id": "r1", "attempt": 1, "moment": "start", "digest": "0" * 64}
COMMITTED = {"run_id": "r1", "attempt": 1, "step": 5}
ENDED = {"run_id": "r1", "attempt": 1, "ending": "failed"}
HOSTING = {"export_id": "e1", "host": "h", "observations": [{"field": "quant", "value": "FP8"}]}

Fact = provenance_pb2.Fact


def of(type_: str, base: dict[str, Any], **changed: Any) -> Fact:
    """A fact with some of its fields changed; None takes a field away."""
    said = {name: value for name, value in {**base, **changed}.items() if value is not None}
    return fact(type_, said)


def with_(change: Callable[[Fact], Any], made: Fact | None = None) -> Fact:
    made = made or step()
    change(made)
    return made


def newer(number: int) -> bytes:
    """A field that this contract does not have, on the wire."""
    tag = number << 3
    return bytes([tag & 0x7F | 0x80, tag >> 7, 1])


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def bad_value(made: Fact) -> None:
    made.config_recorded.settings.fields["a"].list_value.values.add()


INVALID, PAYLOAD, UNKNOWN, LARGE = "INVALID_ARGUMENT", "INVALID_PAYLOAD", "UNKNOWN_EVENT_TYPE", "TOO_LARGE"

BAD: dict[str, tuple[Fact, str, str]] = {
    "no event": (Fact(id="x", actor=BY), INVALID, "facts[1]"),
    "an event of a newer contract": (with_(lambda f: f.MergeFromString(newer(60)), Fact(id="x")), INVALID, "facts[1]"),
    "a newer field in the event": (
        with_(lambda f: f.steps_logged.MergeFromString(newer(60))),
        INVALID,
        "facts[1].steps_logged",
    ),
    "a newer field deep in the event": (
        with_(lambda f: f.steps_logged.steps[0].MergeFromString(newer(60))),
        INVALID,
        "facts[1].steps_logged.steps[0]",
    ),
    "a newer field of the actor": (with_(lambda f: f.actor.MergeFromString(newer(60))), INVALID, "facts[1].actor"),
    "a value of no kind in a Struct": (
        with_(bad_value, of("config.recorded", CONFIG)),
        INVALID,
        "facts[1].config_recorded.settings.fields['a'].list_value.values[0]",
    ),
    "no id": (with_(lambda f: f.ClearField("id")), INVALID, "id"),
    "an id that is not ASCII": (step(id="é"), INVALID, "id"),
    "an actor without an id": (with_(lambda f: f.actor.ClearField("id")), INVALID, "actor"),
    "an actor of a kind that nobody knows": (
        with_(lambda f: f.actor.MergeFrom(log_pb2.Actor(kind=9))),  # type: ignore[arg-type]  # an open enum
        INVALID,
        "actor",
    ),
    "a producer without a name": (step(producer=log_pb2.Producer(epoch=1, seq=1)), INVALID, "producer"),
    "a tag that is not ASCII": (step(tags=["é"]), INVALID, "tags[0]"),
    "a time outside of the years": (step(occurred_at_us=10**18), INVALID, "occurred_at_us"),
    "no run": (step(run=""), INVALID, "facts[1].steps_logged.run_id"),
    "a run with a space at its end": (step(run="r1 "), INVALID, "facts[1].steps_logged.run_id"),
    "a run that is not ASCII": (step(run="é"), INVALID, "facts[1].steps_logged.run_id"),
    "a run with a line feed": (step(run="a\nb"), INVALID, "facts[1].steps_logged.run_id"),
    "a run whose name is too long": (step(run="r" * 501), INVALID, "facts[1].steps_logged.run_id"),
    "no export": (of("hosting.observed", HOSTING, export_id=""), INVALID, "facts[1].hosting_observed.export_id"),
    "no campaign": (fact("campaign.declared", {}), INVALID, "facts[1].campaign_declared.campaign_id"),
    "a claim about nothing": (of("claim.recorded", CLAIM, subject=None), INVALID, "facts[1].claim_recorded.subject.id"),
    "a claim about a kind of thing that nobody knows": (
        of("claim.recorded", CLAIM, subject={"kind": "banana", "id": "r1"}),
        PAYLOAD,
        "/subject/kind",
    ),
    "a claim without its basis": (of("claim.recorded", CLAIM, basis=None), PAYLOAD, "/basis"),
    "a claim that says nothing": (of("claim.recorded", CLAIM, statement=""), PAYLOAD, "/statement"),
    "a text that is too long": (of("claim.recorded", CLAIM, statement="x" * (MAX_TEXT + 1)), PAYLOAD, "/statement"),
    "a text with a zero": (of("claim.recorded", CLAIM, statement="a\0b"), PAYLOAD, "/statement"),
    "no attempt": (of("attempt.ended", ENDED, attempt=0), PAYLOAD, "/attempt"),
    "an attempt beyond exact integers": (of("attempt.ended", ENDED, attempt=2**53), PAYLOAD, "/attempt"),
    "an ending that nobody knows": (of("attempt.ended", ENDED, ending="crashed"), PAYLOAD, "/ending"),
    "no ending": (of("attempt.ended", ENDED, ending=None), PAYLOAD, "/ending"),
    "a time that is none": (of("attempt.ended", ENDED, ended_at="yesterday"), PAYLOAD, "/ended_at"),
    "a time without an offset": (of("attempt.ended", ENDED, ended_at="2026-07-29T09:00:00"), PAYLOAD, "/ended_at"),
    "no step": (fact("steps.logged", {"run_id": "r1", "attempt": 1}), PAYLOAD, "/steps"),
    "a metric without a name": (
        with_(lambda f: f.steps_logged.steps[0].metrics.update({"": 1.0})),
        PAYLOAD,
        "/steps/0/metrics/",
    ),
    "a number that is not one, where no metric stands": (
        with_(lambda f: setattr(f.steps_logged.steps[0], "epoch", math.nan)),
        PAYLOAD,
        "/steps/0/epoch",
    ),
    "an infinite setting of the algorithm": (
        fact("run.declared", {"run_id": "r1", "algorithm": {"learning_rate": "Infinity"}}),
        PAYLOAD,
        "/algorithm/learning_rate",
    ),
    "a digest that is none": (of("checkpoint.committed", COMMITTED, digest="abc"), PAYLOAD, "/digest"),
    "a digest in capitals": (of("config.recorded", CONFIG, digest="A" * 64), PAYLOAD, "/digest"),
    "a file without a name": (
        of("checkpoint.committed", COMMITTED, files=[{"size": 1}]),
        PAYLOAD,
        "/files/0/path",
    ),
    "a format that nobody knows": (of("checkpoint.committed", COMMITTED, format="zip"), PAYLOAD, "/format"),
    "an address that is none": (of("claim.recorded", CLAIM, basis={**BASIS, "url": "ftp://x"}), PAYLOAD, "/basis/url"),
    "an observation of nothing": (of("hosting.observed", HOSTING, observations=[]), PAYLOAD, "/observations"),
    "a key with a zero in a Struct": (of("config.recorded", CONFIG, settings={"a\0": 1}), PAYLOAD, "/settings/a\0"),
}


def test_there_are_as_many_kinds_of_wrong_facts_as_are_promised() -> None:
    assert len(BAD) >= 30


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """One server for all of them: what is refused leaves nothing behind."""
    with served(tmp_path_factory.mktemp("home") / "home") as opened:
        yield opened


@pytest.mark.parametrize("name", BAD)
def test_a_bad_fact_is_refused_with_its_place_and_nothing_is_recorded(name: str, server: Doors) -> None:
    bad, reason, place = BAD[name]
    before = server.size()
    failed = failure(lambda: record(server, step(), bad))
    assert (failed.reason, failed.code) == (reason, grpc.StatusCode.INVALID_ARGUMENT), failed.text
    assert place in failed.problems, failed.problems
    assert (failed.metadata["draft"], bool(failed.remedy)) == ("1", True)
    assert server.size() == before


def test_each_bad_fact_is_refused_alone_among_good_ones_when_the_request_is_not_atomic(either: Doors) -> None:
    before = either.size()
    facts = [one for bad, _, _ in BAD.values() for one in (bad, step())]
    answer = record(either, *facts, atomic=False)
    assert [r.refusal.reason for r in answer.receipts[::2]] == [reason for _, reason, _ in BAD.values()]
    assert [r.pos for r in answer.receipts[1::2]] == list(range(before, before + len(BAD)))
    assert answer.size == either.size() == before + len(BAD)


def test_every_fault_of_a_newer_contract_is_named(server: Doors) -> None:
    made = step()
    for part in (made, made.steps_logged, made.steps_logged.steps[0]):
        part.MergeFromString(newer(60) + newer(61))
    failed = failure(lambda: record(server, made))
    assert "nothing of it is recorded (and 5 more)" in failed.text
    assert set(failed.problems) == {"facts[0]", "facts[0].steps_logged", "facts[0].steps_logged.steps[0]"}
    assert "Upgrade the server" in failed.remedy


def test_a_request_of_a_newer_contract_is_refused_whole(server: Doors) -> None:
    before = server.size()
    request = asked(step(), atomic=False)
    request.MergeFromString(newer(60))
    assert "request" in failure(lambda: door(server).Record(request)).problems
    odd = asked(step(), atomic=False, conditions=[log_pb2.Condition(no_match=log_pb2.NoMatch())])
    odd.conditions[0].no_match.MergeFromString(newer(60))
    assert "conditions[0].no_match" in failure(lambda: door(server).Record(odd)).problems
    assert server.size() == before


def test_a_request_without_facts_is_refused(server: Doors) -> None:
    failed = failure(lambda: record(server))
    assert (failed.reason, failed.text) == (INVALID, "the request holds no fact")


def too_deep() -> bytes:
    """A request whose Struct nests deeper than protobuf reads; what writes it is as strict, so it is put together."""
    value = b"\x1a\x01x"
    for _ in range(60):
        value = _field(0x32, _field(0x0A, value))
    settings = _field(0x0A, _field(0x0A, b"a") + _field(0x12, value))
    good = of("config.recorded", CONFIG).config_recorded.SerializeToString()
    return _field(
        0x0A, Fact(id="x", actor=BY).SerializeToString() + b"\xba" + _field(0x01, good + _field(0x32, settings))
    )


def _field(tag: int, data: bytes) -> bytes:
    size = len(data)
    assert size < 1 << 14
    length = bytes([size]) if size < 0x80 else bytes([size & 0x7F | 0x80, size >> 7])
    return bytes([tag]) + length + data


@pytest.mark.parametrize("data", [b"\x0a\xff\xff", b"{}", too_deep()], ids=["cut", "JSON", "too deep"])
def test_bytes_that_are_no_request_are_refused_as_the_caller_s_fault_and_a_stream_goes_on(
    server: Doors, data: bytes
) -> None:
    before = server.size()
    one = server.channel.unary_unary("/atlas.ledger.v1.Provenance/Record")
    failed = failure(lambda: one(data, timeout=10))
    assert (failed.reason, bool(failed.remedy)) == (INVALID, True)
    many = server.channel.stream_stream(
        "/atlas.ledger.v1.Provenance/RecordStream", response_deserializer=log_pb2.AppendStreamResponse.FromString
    )
    good = asked(step()).SerializeToString()
    answers = list(many(iter([good, data, asked(step()).SerializeToString()]), timeout=10))
    assert [a.error.reason for a in answers] == ["", INVALID, ""]
    assert server.size() == before + 2


def test_a_struct_may_nest_as_deep_as_protobuf_reads(server: Doors) -> None:
    deep = asked(of("config.recorded", CONFIG, settings={"a": nested(45)}))
    assert isinstance(received(deep.SerializeToString()), provenance_pb2.RecordRequest)
    assert door(server).Record(deep).size == server.size()
