"""The quick check may give up, and may never accept what the slow check refuses.

Payloads near the stored examples are tried for every type: bytes changed here and there, and members replaced by values
from the edges of what is allowed.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, Field, field_validator, model_validator

from ledger.core import strictjson
from ledger.core.errors import InvalidInput
from ledger.events import REGISTRY, EventType, Registry
from ledger.events.examples import example
from ledger.events.fields import Record, SourceId, Timestamp
from ledger.events.quick import MODEL_DEPTH, _struct, quick_check

KINDS = pytest.mark.parametrize("kind", list(REGISTRY), ids=lambda k: f"{k.type}.v{k.version}")
CONTEXT = REGISTRY.get("difficulty.context_recorded", 1)
CONFIRMED = REGISTRY.get("defect.confirmed", 1)
STRUCT, _ = _struct(CONFIRMED.model)

NUMBERS = [0, 1, -1, -0.0, 0.5, 1e22, 1e-7, 1.0, 2**53 - 1, 2**53, -(2**53), 10**400]
TEXTS = ["", " ", "x", "é", "\x7f", "\0", "\x1b", "source\n", "a" * 40, "a" * 64, "a" * 64 + "\n", "a" * 513]
NAMES = ["NaN", "Infinity", "nan", "keep", "good", "filed", "missing", "https://example.org/\n", "/~", "/a/0"]
TIMES = [
    "2026-10-01T00:00:00Z",
    "2026-10-01T00:00:00+00:00",
    "2026-10-01T00:00:00-23:59",
    "2026-10-01T00:00:00.000000Z",
    "2026-10-01T00:00:00.5Z",
    "2026-10-01T00:00:00",
    "2026-10-01T24:00:00Z",
    "2026-10-01T23:59:60Z",
    "2026-10-01",
    "2026-02-29T00:00:00Z",
    "0001-01-01T00:00:00Z",
    "0001-01-01T00:00:00+01:00",
    "9999-12-31T23:59:59-01:00",
]
VALUES = st.sampled_from([None, True, [], {}, [None], {"a": 1}, *NUMBERS, *TEXTS, *NAMES, *TIMES])
NESTED = st.integers(1, 70).map(lambda n: json.loads('{"a":' + "[" * n + "]" * n + "}"))
TOKENS = st.sampled_from(
    [
        b"\\u0000",
        b"\\ud800",
        b"\\n",
        b"\n",
        b"\xff",
        b"\0",
        b" ",
        b"0",
        b"e9",
        b"null",
        b"NaN",
        b'"',
        b",",
        b'"a":1,',
        b"[" * 66,
    ]
)


def slow(kind: EventType, payload: bytes) -> bool:
    registry = Registry({(kind.type, kind.version): replace(kind, quick=None)})
    try:
        registry.check(kind.type, kind.version, payload)
    except InvalidInput:
        return False
    return True


def quick(kind: EventType, payload: bytes) -> bool:
    assert kind.quick is not None
    return kind.quick(payload)


def as_sent(kind: EventType) -> bytes:
    """The example in the form in which the SDK sends it."""
    model = kind.model.model_validate_json(example(kind.type, kind.version))
    return model.model_dump_json(exclude_defaults=True).encode()


def compact(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def paths(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a document but the whole."""
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in members:
        yield (*at, key)
        yield from paths(item, (*at, key))


@st.composite
def changed_bytes(draw: st.DrawFn, kind: EventType) -> bytes:
    data = as_sent(kind)
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.integers(0, 3)))
        put = draw(TOKENS | st.binary(max_size=2) | st.just(data[start:end] * 2))
        data = data[:start] + put + data[end:]
    return data


@st.composite
def changed_members(draw: st.DrawFn, kind: EventType) -> bytes:
    document = json.loads(as_sent(kind))
    for _ in range(draw(st.integers(1, 2))):
        *parents, last = draw(st.sampled_from(list(paths(document))))
        parent = document
        for key in parents:
            parent = parent[key]
        match draw(st.sampled_from(["set", "set", "set", "remove", "repeat"])):
            case "set":
                parent[last] = copy.deepcopy(draw(VALUES | NESTED))
            case "remove":
                del parent[last]
            case "repeat" if isinstance(parent, list):
                parent.insert(last, parent[last])
            case "repeat":
                parent[f"{last}2"] = parent[last]
        if not document:
            break
    return compact(document)


def near(kind: EventType) -> st.SearchStrategy[bytes]:
    return changed_members(kind) | changed_bytes(kind)


@KINDS
@given(data=st.data())
def test_what_the_slow_check_refuses_is_never_accepted(kind: EventType, data: st.DataObject) -> None:
    payload = data.draw(near(kind))
    if quick(kind, payload):
        assert slow(kind, payload)


@pytest.mark.parametrize(
    "too_kind",
    [
        pytest.param(lambda _: True, id="any bytes"),
        pytest.param(
            lambda p: msgspec.json.encode(msgspec.json.decode(p, type=STRUCT)) == p, id="blind to the validator"
        ),
        pytest.param(lambda p: msgspec.json.encode(msgspec.json.decode(p)) == p, id="blind to the schema"),
    ],
)
def test_the_search_above_finds_a_check_that_is_too_kind(too_kind: Callable[[bytes], bool]) -> None:
    def is_wrong(payload: bytes) -> bool:
        try:
            return too_kind(payload) and not slow(CONFIRMED, payload)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return False

    wrong = find(
        near(CONFIRMED), is_wrong, settings=settings(max_examples=5000, phases=[Phase.generate], database=None)
    )

    assert not quick(CONFIRMED, wrong)


@KINDS
def test_the_search_above_reaches_payloads_that_are_accepted(kind: EventType) -> None:
    other = find(
        near(kind),
        lambda payload: payload != as_sent(kind) and quick(kind, payload),
        settings=settings(max_examples=5000, phases=[Phase.generate], database=None),
    )

    assert slow(kind, other)


@KINDS
def test_what_the_sdk_sends_is_accepted(kind: EventType) -> None:
    assert quick(kind, as_sent(kind))


@KINDS
def test_another_form_of_the_same_is_left_to_the_slow_check(kind: EventType) -> None:
    spaced = as_sent(kind).replace(b'":', b'": ', 1)

    assert not quick(kind, spaced)
    assert slow(kind, spaced)


@given(st.binary())
def test_no_bytes_make_it_raise(payload: bytes) -> None:
    assert not quick(CONTEXT, payload)


class TestFreeParts:
    """A free-form part stands within the payload, so what holds for the whole must hold with what is around it."""

    def payload(self, part: bytes) -> bytes:
        return (
            b'{"atlas_id":"Example:a","context":null,"reviewer_rollout_baseline":'
            + part
            + b',"historical_reference":{}}'
        )

    def nested(self, depth: int) -> bytes:
        return self.payload(b'{"a":' * (depth - 1) + b"{}" + b"}" * (depth - 1))

    @pytest.mark.parametrize("depth", [1, 2, strictjson.MAX_DEPTH - MODEL_DEPTH])
    def test_a_part_of_modest_depth_is_accepted(self, depth: int) -> None:
        assert quick(CONTEXT, self.nested(depth))

    def test_the_deepest_part_is_left_to_the_slow_check(self) -> None:
        assert not quick(CONTEXT, self.nested(strictjson.MAX_DEPTH - 1))
        assert slow(CONTEXT, self.nested(strictjson.MAX_DEPTH - 1))

    def test_a_part_that_is_too_deep_only_within_its_payload_is_not_accepted(self) -> None:
        payload = self.nested(strictjson.MAX_DEPTH)

        assert strictjson.is_canonical_free_form(
            json.dumps(json.loads(payload)["reviewer_rollout_baseline"]).replace(" ", "").encode()
        )
        assert not quick(CONTEXT, payload)
        assert not slow(CONTEXT, payload)

    def test_a_part_that_is_deeper_than_any_parser_goes_is_refused_and_raises_nothing_else(self) -> None:
        payload = self.payload(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}")

        assert not quick(CONTEXT, payload)
        assert not slow(CONTEXT, payload)

    @pytest.mark.parametrize(
        "part",
        [b"[]", b"1", b"null", b'"a"', b'{"a":1,"a":1}', b'{"a":NaN}', b'{"a":"\\u0000"}', b'{"a":9007199254740992}'],
    )
    def test_a_part_that_is_no_strict_object_is_not_accepted(self, part: bytes) -> None:
        assert not quick(CONTEXT, self.payload(part))
        assert not slow(CONTEXT, self.payload(part))

    def test_no_model_nests_deeper_than_free_parts_leave_room_for(self) -> None:
        def depth(value: Any) -> int:
            inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
            return 0 if inner is None else 1 + max(map(depth, inner), default=0)

        # The examples fill every field of every model.
        assert max(depth(json.loads(example(k.type, k.version))) for k in REGISTRY) < MODEL_DEPTH


class TestModels:
    """What can be expressed is judged alike; what cannot has no quick check."""

    def test_a_line_feed_at_the_end_does_not_match_a_pattern(self) -> None:
        class Named(Record):
            id: SourceId

        check = quick_check(Named)

        assert check is not None
        assert check(b'{"id":"Example:a"}')
        assert not check(b'{"id":"Example:a\\n"}')

    @pytest.mark.parametrize("text", ["0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00"])
    def test_a_time_that_its_offset_carries_out_of_range_is_not_accepted(self, text: str) -> None:
        class Dated(Record):
            at: Timestamp

        check = quick_check(Dated)

        assert check is not None
        assert check(b'{"at":"2026-10-01T00:00:00+01:00"}')
        assert not check(compact({"at": text}))

    def test_a_validator_over_several_fields_is_run(self) -> None:
        sent = json.loads(as_sent(CONFIRMED))

        assert quick(CONFIRMED, compact(sent))
        assert not quick(CONFIRMED, compact({**sent, "issue_url": None}))
        assert not quick(CONFIRMED, compact({**sent, "issue_state": "missing"}))

    def test_a_validator_before_or_around_a_model_cannot_be_expressed(self) -> None:
        class Changing(Record):
            a: int

            @model_validator(mode="before")
            @classmethod
            def change(cls, data: Any) -> Any:
                return data

        assert quick_check(Changing) is None

    def test_a_validator_of_an_inner_model_cannot_be_expressed(self) -> None:
        class Inner(Record):
            a: int

            @model_validator(mode="after")
            def hold(self) -> Inner:
                return self

        class Outer(Record):
            inner: list[Inner]

        assert quick_check(Outer) is None

    @pytest.mark.parametrize(
        "annotation",
        [
            pytest.param(Annotated[str, AfterValidator(str.upper)], id="a validator of its own"),
            pytest.param(Annotated[int, Field(multiple_of=2)], id="a limit that it does not know"),
            pytest.param(Literal["a"] | SourceId, id="two kinds of text in one union"),
            pytest.param(set[int], id="a container that JSON lacks"),
            pytest.param(bytes, id="a type that JSON lacks"),
        ],
    )
    def test_what_cannot_be_expressed_has_no_quick_check(self, annotation: Any) -> None:
        made = type("Made", (Record,), {"__annotations__": {"a": annotation}, "__module__": __name__})

        assert quick_check(made) is None

    def test_a_validator_of_one_field_cannot_be_expressed(self) -> None:
        class Checked(BaseModel):
            a: int

            @field_validator("a")
            @classmethod
            def check(cls, value: int) -> int:
                return value

        assert quick_check(Checked) is None
