"""From a fact to a draft: every type, every field, one fixed way, and nothing that is lost on it."""

from __future__ import annotations

import json
import math
from types import NoneType
from typing import Any, Literal, get_args, get_origin

import pytest
from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, JsonValue

from ledger.client.drafts import draft
from ledger.core.errors import InvalidInput
from ledger.events import EventType
from ledger.events.examples import example
from ledger.events.streams import stream_of
from ledger.wire import log_pb2, provenance_pb2
from services.server.provenance_drafts import TYPES, draft_of, drafts_of
from services.server.provenance_payloads import is_map
from tests.server.doors import BY
from tests.server.said import EXPORT, KINDS, RUN, fact, payloads, step, told

EVERY_KIND = pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.type)
FILE = provenance_pb2.DESCRIPTOR


def said(made: provenance_pb2.Fact) -> Any:
    """The payload that a fact becomes."""
    return json.loads(draft_of(made).payload)


@EVERY_KIND
def test_the_example_of_a_type_said_as_a_message_is_the_same_payload(kind: EventType) -> None:
    model = kind.model.model_validate_json(example(kind.type, kind.version))
    made = draft_of(told(kind))
    assert kind.model.model_validate_json(made.payload) == model
    assert (made.type, made.type_version) == (kind.type, kind.version)


@EVERY_KIND
def test_the_draft_of_a_fact_is_the_draft_that_the_sdk_makes_byte_for_byte(kind: EventType) -> None:
    @settings(max_examples=25, suppress_health_check=list(HealthCheck), deadline=None)
    @given(payloads(kind.model))
    def holds(model: BaseModel) -> None:
        body = json.loads(model.model_dump_json())
        assume(_names_a_stream(body))
        assert draft_of(fact(kind.type, body, id="x")) == draft(kind.type, stream_of(model), model, by=BY, id="x")

    holds()


def _names_a_stream(body: dict[str, Any]) -> bool:
    """The subject of a claim may be anything; only what is a run, an export or a campaign is one's stream."""
    id_ = body["subject"]["id"] if "subject" in body else "x"
    return id_.isascii() and id_.isprintable() and id_ == id_.strip() and len(id_) <= 500


@EVERY_KIND
def test_the_quick_check_takes_the_payload_of_a_fact(kind: EventType) -> None:
    assert kind.proves(draft_of(told(kind)).payload)


def test_every_type_of_training_and_export_is_an_event_of_a_fact_and_no_other_is() -> None:
    assert {kind.type for kind in TYPES.values()} == {kind.type for kind in KINDS}
    assert all(name == kind.type.replace(".", "_") for name, kind in TYPES.items())


@EVERY_KIND
def test_a_message_has_the_fields_of_its_model_and_no_others(kind: EventType) -> None:
    field = provenance_pb2.Fact.DESCRIPTOR.fields_by_name[kind.type.replace(".", "_")]
    assert field.message_type.name == kind.model.__name__
    assert _faults(kind.model, field.message_type) == []


def test_every_message_of_the_contract_is_part_of_a_fact() -> None:
    reached: set[str] = {"RecordRequest", "Fact"}
    waiting = [provenance_pb2.Fact.DESCRIPTOR]
    while waiting:
        for field in waiting.pop().fields:
            inner = field.message_type
            if inner is not None and inner.file is FILE and inner.name not in reached and not is_map(field):
                reached.add(inner.name)
                waiting.append(inner)
    assert reached == set(FILE.message_types_by_name)


def test_the_comparison_of_models_and_messages_finds_what_is_different() -> None:
    """The test above cannot pass because it looks at nothing."""

    class Arm(BaseModel):
        arm: int
        run_id: str
        settings: dict[str, JsonValue] = {}
        colour: str | None = None

    assert _faults(Arm, FILE.message_types_by_name["Arm"]) == [
        "Arm: in one of the two alone: ['atlas_id', 'colour']",
        "Arm.arm: 'string' is not 'uint64'",
        "Arm.run_id: the message may leave it out, the model may not",
    ]


def _faults(model: type[BaseModel], message: Descriptor) -> list[str]:
    """Where a model and a message do not say the same."""
    apart = sorted(set(model.model_fields) ^ set(message.fields_by_name))
    faults = [f"{message.name}: in one of the two alone: {apart}"] if apart else []
    for name, info in model.model_fields.items():
        if name in message.fields_by_name:
            faults += _field_faults(info, message.fields_by_name[name], f"{message.name}.{name}")
    return faults


def _field_faults(info: Any, field: FieldDescriptor, place: str) -> list[str]:
    needed, inner = _shape(info.annotation)
    found = _written(field)
    faults = [f"{place}: {found!r} is not {needed!r}"] if found != needed else []
    may_lack = not info.is_required() or NoneType in get_args(info.annotation)
    if field.message_type is None and not field.is_repeated and field.has_presence != may_lack:
        may, may_not = ("message", "model") if field.has_presence else ("model", "message")
        faults.append(f"{place}: the {may} may leave it out, the {may_not} may not")
    return faults + (_faults(inner, field.message_type) if inner is not None and not faults else [])


def _written(field: FieldDescriptor) -> str:
    names = {
        FieldDescriptor.TYPE_STRING: "string",
        FieldDescriptor.TYPE_UINT64: "uint64",
        FieldDescriptor.TYPE_DOUBLE: "double",
        FieldDescriptor.TYPE_BOOL: "bool",
    }
    if is_map(field):
        key, value = (field.message_type.fields_by_name[part] for part in ("key", "value"))
        return f"map {_written(key)} {_written(value)}"
    one = field.message_type.name if field.message_type is not None else names[field.type]
    return f"repeated {one}" if field.is_repeated else one


def _shape(annotation: Any) -> tuple[str, type[BaseModel] | None]:
    """How a message writes what a model's annotation allows, and the record in it."""
    origin, args = get_origin(annotation), tuple(a for a in get_args(annotation) if a is not NoneType)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation.__name__, annotation
    if origin is Literal:
        return "string", None
    if origin is list:
        of, inner = _shape(args[0])
        return f"repeated {of}", inner
    if origin is dict:
        return ("Struct", None) if args == (str, JsonValue) else (f"map string {_shape(args[1])[0]}", None)
    if args:  # an annotation with its limits, or a union: the first says what it is
        return _shape(args[0])
    return {str: "string", int: "uint64", float: "double", bool: "bool"}[annotation], None


def test_what_is_absent_is_left_out_where_it_may_be_and_null_where_it_must_be_said() -> None:
    found = said(fact("run.declared", {"run_id": "r1"}))
    assert found == {"run_id": "r1", "rl_start": None, "sources": []}


def test_a_field_that_is_set_to_what_is_its_default_anyway_is_left_out() -> None:
    source = {"dataset_id": "d", "role": "train"}
    found = said(fact("run.declared", {"run_id": "r1", "sources": [source, {**source, "role": "eval"}]}))
    assert found["sources"] == [
        {"atlas_id": None, "dataset_id": "d"},
        {"atlas_id": None, "dataset_id": "d", "role": "eval"},
    ]
    base = {
        "subject": {"kind": "run", "id": "r1"},
        "topic": "benchmark",
        "statement": "none",
        "basis": {"kind": "claimed"},
    }
    assert "absent" not in said(fact("claim.recorded", {**base, "absent": False}))
    assert said(fact("claim.recorded", {**base, "absent": True}))["absent"] is True


def test_zero_that_is_said_is_not_absent() -> None:
    found = said(fact("run.declared", {"run_id": "r1", "planned_steps": 0, "algorithm": {"kl_loss_coef": 0.0}}))
    assert (found["planned_steps"], found["algorithm"]) == (0, {"kl_loss_coef": 0.0})


def test_a_message_that_is_there_and_empty_is_not_absent() -> None:
    saved = {"run_id": "r1", "step": 5, "contents": {}}
    assert said(fact("checkpoint.committed", saved))["contents"] == {}
    assert "contents" not in said(fact("checkpoint.committed", {"run_id": "r1", "step": 5}))


def test_a_metric_that_is_not_finite_is_written_by_name_and_none_is_lost() -> None:
    values = {"a": math.nan, "b": math.inf, "c": -math.inf, "d": 1e300, "e": -0.0, "f": 20.0}
    made = provenance_pb2.Fact(steps_logged=provenance_pb2.StepsLogged(run_id="r1", attempt=1))
    made.steps_logged.steps.add(step=1, metrics=values)
    assert draft_of(made).payload == (
        b'{"run_id":"r1","attempt":1,"steps":[{"step":1,"metrics":'
        b'{"a":"NaN","b":"Infinity","c":"-Infinity","d":1e+300,"e":-0.0,"f":20.0}}]}'
    )


def test_the_bytes_of_a_payload_are_these_and_stay_these() -> None:
    """A fact that was recorded by one release is sent again to the next: other bytes would be a conflict."""
    numbers = [1e15, 1e16, 123456789012345680.0, 1.7976931348623157e308, 5e-324, 8e-06, 0.1, 1 / 3, -1e-7, 0.0]
    made = provenance_pb2.Fact(steps_logged=provenance_pb2.StepsLogged(run_id="r", attempt=1))
    made.steps_logged.steps.add(step=2**53 - 1, metrics={f"{n:02}": value for n, value in enumerate(numbers)})
    made.steps_logged.basis.quote = 'é "q" \\ / \b\f\n\r\t\x01\x1f\x7f\u2028\U0001f600'
    assert (
        draft_of(made).payload
        == (
            '{"run_id":"r","attempt":1,"steps":[{"step":9007199254740991,"metrics":{'
            '"00":1000000000000000.0,"01":1e+16,"02":1.2345678901234568e+17,"03":1.7976931348623157e+308,"04":5e-324,'
            '"05":8e-6,"06":0.1,"07":0.3333333333333333,"08":-1e-7,"09":0.0}}],'
            '"basis":{"kind":"","quote":"é \\"q\\" \\\\ / \\b\\f\\n\\r\\t\\u0001\\u001f\x7f\u2028\U0001f600"}}'
        ).encode()
    )


def test_names_are_sorted_so_that_equal_facts_have_equal_bytes() -> None:
    names = [f"metric/{n}" for n in range(50)]
    one, other = (
        provenance_pb2.LoggedStep(step=1, metrics=dict.fromkeys(order, 1.0)) for order in (names, names[::-1])
    )
    bodies = {
        draft_of(
            provenance_pb2.Fact(steps_logged=provenance_pb2.StepsLogged(run_id="r", attempt=1, steps=[made]))
        ).payload
        for made in (one, other)
    }
    assert len(bodies) == 1
    assert list(json.loads(bodies.pop())["steps"][0]["metrics"]) == sorted(names)


def test_whole_numbers_of_a_struct_are_integers_as_far_as_a_double_holds_them() -> None:
    given = {"c": 2**53 - 1, "d": 2.0**53, "b": 0.5, "a": [1, True, None, {"y": -3, "x": "1"}], "e": math.nan}
    made = provenance_pb2.Fact(config_recorded=provenance_pb2.ConfigRecorded(run_id="r", attempt=1))
    made.config_recorded.settings.update(given)
    assert (
        b'"settings":{"a":[1,true,null,{"x":"1","y":-3}],"b":0.5,"c":9007199254740991,"d":9007199254740992.0,"e":"NaN"}'
        in draft_of(made).payload
    )


def test_what_surrounds_the_event_is_taken_as_it_is() -> None:
    producer = log_pb2.Producer(id="recorder", epoch=2, seq=7)
    made = draft_of(step(occurred_at_us=0, causes=["b", "a"], tags=["sample"], producer=producer))
    assert (made.HasField("occurred_at_us"), made.occurred_at_us, list(made.causes)) == (True, 0, ["b", "a"])
    assert (made.actor, list(made.tags), made.producer) == (BY, ["sample"], producer)
    bare = draft_of(provenance_pb2.Fact(steps_logged=provenance_pb2.StepsLogged(run_id="r1")))
    assert not any(bare.HasField(name) for name in ("occurred_at_us", "actor", "producer"))


@EVERY_KIND
def test_the_stream_is_that_of_the_run_export_or_campaign_which_is_named(kind: EventType) -> None:
    of = {"run": f"run/{RUN}", "export": f"export/{EXPORT}", "campaign": "campaign/word-problems-quality"}
    expected = f"campaign/{RUN}" if kind.type == "claim.recorded" else of[kind.streams[0]]
    assert draft_of(told(kind)).stream == expected


@pytest.mark.parametrize(
    ("subject", "stream"),
    [
        ("campaign", "campaign/x y"),
        ("run", "run/x y"),
        ("checkpoint", "run/x y"),
        ("traces", "run/x y"),
        ("logs", "run/x y"),
        ("export", "export/x y"),
        ("model", "export/x y"),
        ("hosting", "export/x y"),
    ],
)
def test_a_claim_stands_where_its_subject_does(subject: str, stream: str) -> None:
    assert draft_of(fact("claim.recorded", {"subject": {"kind": subject, "id": "x y"}})).stream == stream


def _messages(message: Message, place: str) -> list[tuple[str, Message]]:
    """Every message within one, itself included, with its place."""
    found = [(place, message)]
    for field, value in message.ListFields():
        here = f"{place}.{field.name}"
        if field.message_type is None:
            continue
        if is_map(field):
            found += [m for k in value if isinstance(value[k], Message) for m in _messages(value[k], f"{here}[{k!r}]")]
        elif field.is_repeated:
            found += [m for n, one in enumerate(value) for m in _messages(one, f"{here}[{n}]")]
        else:
            found += _messages(value, here)
    return found


@EVERY_KIND
def test_a_field_of_a_newer_contract_is_refused_wherever_it_stands(kind: EventType) -> None:
    places = [place for place, _ in _messages(told(kind, producer=log_pb2.Producer(id="p")), "fact")]
    assert {"fact", "fact.actor", "fact.producer"} < set(places)
    for number, place in enumerate(places):
        newer = told(kind, producer=log_pb2.Producer(id="p"))
        _messages(newer, "fact")[number][1].MergeFromString(b"\xb8\x3e\x01")  # field 999, the number 1
        with pytest.raises(InvalidInput, match="newer contract") as refused:
            draft_of(newer)
        assert [(p.place, p.message) for p in refused.value.problems] == [(place, "field 999 is not known here")]


@given(st.binary(max_size=40))
@settings(max_examples=200, deadline=None)
def test_whatever_bytes_are_sent_as_a_fact_it_becomes_a_draft_or_is_refused_with_the_place(data: bytes) -> None:
    made = provenance_pb2.Fact()
    try:
        made.ParseFromString(data)
    except DecodeError:
        return  # no message at all: the transport refuses it
    drafts, refused = drafts_of([made])
    assert [index for index, one in enumerate(drafts) if not one.type] == list(refused)
    assert all(problem.place.startswith("facts[0]") for error in refused.values() for problem in error.problems)
    assert all(error.problems for error in refused.values())


def test_a_fact_survives_being_written_and_read_as_json() -> None:
    made = step()
    assert draft_of(json_format.Parse(json_format.MessageToJson(made), provenance_pb2.Fact())) == draft_of(made)
