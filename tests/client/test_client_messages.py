"""Messages as JSON: every field there, unknown as null."""

from __future__ import annotations

import json

import pytest
from google.protobuf.json_format import ParseDict

from ledger.client.messages import coordinates_dict, source_dict, to_dict
from ledger.wire import audit_pb2, log_pb2, runs_pb2


def test_what_is_absent_is_null_and_what_is_zero_is_zero():
    got = to_dict(audit_pb2.Source(id="a", input_rows=0, is_benchmark=False))
    assert got["input_rows"] == 0
    assert got["is_benchmark"] is False
    assert got["name"] is None
    assert got["review"] is None
    assert got["difficulty"] is None
    assert got["open_defects"] == []
    assert got["retired"] is False


def test_a_time_is_rfc_3339_under_its_own_name():
    got = to_dict(audit_pb2.WhyEvent(pos=3, recorded_at_us=1_000_000))
    assert got["recorded_at"] == "1970-01-01T00:00:01.000000Z"
    assert got["occurred_at"] is None
    assert not any(name.endswith("_us") for name in got)


def test_the_time_of_an_empty_log_and_one_beyond_the_calendar_are_null():
    assert to_dict(log_pb2.GetInfoResponse())["recorded_at"] is None
    assert to_dict(log_pb2.Receipt(recorded_at_us=2**62))["recorded_at"] is None


def test_an_optional_time_of_zero_is_the_epoch():
    assert to_dict(log_pb2.Draft(occurred_at_us=0))["occurred_at"] == "1970-01-01T00:00:00.000000Z"


def test_bytes_are_lower_case_hex_and_enums_are_words():
    assert to_dict(log_pb2.Receipt(leaf_hash=b"\xab\xcd"))["leaf_hash"] == "abcd"
    assert to_dict(log_pb2.Actor(id="m", kind=log_pb2.ACTOR_KIND_MODEL)) == {"id": "m", "kind": "model"}
    newer = log_pb2.Actor.FromString(b"\x10\x63")
    assert to_dict(newer)["kind"] == 99


def test_a_map_is_an_object_and_the_other_members_of_a_oneof_are_null():
    refusal = log_pb2.Refusal(reason="R", details={"b": "2", "a": "1"})
    assert to_dict(refusal)["details"] == {"a": "1", "b": "2"}
    got = to_dict(log_pb2.AppendStreamResponse(request=1, error=refusal))
    assert got["response"] is None
    assert got["error"]["reason"] == "R"


def test_a_source_is_one_object_with_the_coordinates_of_the_answer():
    source = audit_pb2.Source(id="a", quality="good", difficulty=audit_pb2.Difficulty(status="not_measured"))
    where = audit_pb2.AnswerCoordinates(size=7, recorded_at_us=5, final=True, rules="r", redactions_through=7)
    got = source_dict(source, where)
    coordinates = ["size", "recorded_at", "final", "rules", "rules_digest", "redactions_through", "policy_size"]
    assert list(got)[-7:] == coordinates
    assert got["size"] == 7
    assert got["recorded_at"] == "1970-01-01T00:00:00.000005Z"
    assert got["difficulty"]["models"] == []
    promised = (
        "id origin name family dataset_id dataset_revision revision verifier_revision atlas_status intended_use "
        "is_benchmark input_rows quality applicability review difficulty open_defects suspected_defects reasons sample"
    )
    assert set(promised.split()) <= set(got)


def test_before_any_rules_were_in_force_they_are_null():
    got = coordinates_dict(audit_pb2.AnswerCoordinates())
    nowhere = {"size": 0, "recorded_at": None, "final": False, "redactions_through": 0, "policy_size": 0}
    assert got == {**nowhere, "rules": None, "rules_digest": None}


@pytest.mark.parametrize(
    ("value", "name"), [(float("nan"), "NaN"), (float("inf"), "Infinity"), (float("-inf"), "-Infinity")]
)
def test_a_number_that_is_not_finite_is_its_name_in_strict_json(value, name):
    row = to_dict(runs_pb2.StepRow(step=1, metrics={"m": value}, ema=value))
    assert (row["metrics"], row["ema"]) == ({"m": name}, name)
    assert json.loads(json.dumps(row, allow_nan=False))["ema"] == name


def test_a_struct_is_the_object_that_it_stands_for_with_whole_numbers_as_integers():
    settings = {"a.b": 8, "lr": 8e-6, "on": True, "none": None, "list": [1, "x", {"deep": []}], "text": "1"}
    state = ParseDict({"settings": settings}, runs_pb2.ConfigState())
    got = to_dict(state)["settings"]
    assert got == settings
    assert type(got["a.b"]) is int
    assert list(got) == sorted(settings)
