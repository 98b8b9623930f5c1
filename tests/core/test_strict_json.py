"""Strict JSON: one reading of the bytes, or none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ledger.core import strictjson
from ledger.core.errors import InvalidInput

VECTORS = Path(__file__).parent.parent / "vectors" / "json"
EXPECTED: dict[str, list[dict[str, str]]] = json.loads((VECTORS / "expected.json").read_bytes())

GOOD = {path.stem: path.read_bytes() for path in (VECTORS / "good").iterdir()}
BAD = {path.stem: path.read_bytes() for path in (VECTORS / "bad").iterdir()}

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-strictjson.MAX_INT, strictjson.MAX_INT)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
)
KEYS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner), max_leaves=20)

TOKENS = st.sampled_from(
    [*'{}[],:" \n\\0', "-", "1.5", "1e400", "9007199254740992", "NaN", "Infinity", "null", "true", '"a"', '"a":', '""']
) | st.sampled_from([r"\u0000", r"\ud800", r"\udc00", r"\n", "é", "\0", "\x1f", "\ufeff", "[" * 70, "]" * 70])
DOCUMENTS = (
    st.binary()
    | st.lists(TOKENS).map(lambda tokens: "".join(tokens).encode())
    | st.tuples(VALUES, st.binary(max_size=2), st.integers(0, 200)).map(
        lambda t: (data := json.dumps(t[0]).encode())[: t[2] % (len(data) + 1)] + t[1] + data[t[2] % (len(data) + 1) :]
    )
)


def refused(data: bytes) -> InvalidInput:
    with pytest.raises(InvalidInput) as caught:
        strictjson.parse(data)
    return caught.value


def is_strict(data: bytes) -> bool:
    try:
        strictjson.parse(data)
    except InvalidInput:
        return False
    return True


class TestParse:
    @pytest.mark.parametrize("name", sorted(GOOD))
    def test_a_good_file_is_read_as_any_reader_would(self, name: str) -> None:
        assert json.loads(GOOD[name]) == strictjson.parse(GOOD[name])

    @pytest.mark.parametrize("name", sorted(BAD))
    def test_a_bad_file_is_refused_with_every_fault_and_its_place(self, name: str) -> None:
        error = refused(BAD[name])

        assert error.reason == "INVALID_PAYLOAD"
        assert error.remedy
        assert [e["place"] for e in EXPECTED[name]] == [p.place for p in error.problems]
        for expected, problem in zip(EXPECTED[name], error.problems, strict=True):
            assert expected["says"] in problem.message

    def test_every_bad_file_has_its_expectation_and_no_expectation_lacks_its_file(self) -> None:
        assert set(EXPECTED) == set(BAD)

    @given(VALUES)
    def test_what_is_in_range_is_read_back_as_it_was_written(self, value: Any) -> None:
        assert value == strictjson.parse(json.dumps(value).encode())

    @given(DOCUMENTS)
    @example(b"\xed\xb0\x80")
    def test_no_bytes_get_another_answer_than_a_value_or_a_refusal(self, data: bytes) -> None:
        if is_strict(data):
            json.loads(data)
        else:
            assert refused(data).problems

    @given(DOCUMENTS)
    def test_what_is_accepted_is_accepted_by_a_second_strict_reader(self, data: bytes) -> None:
        if is_strict(data):
            # orjson takes neither lone surrogates nor literals that are not JSON.
            orjson.loads(data)

    def test_the_message_counts_the_faults_and_names_the_first(self) -> None:
        error = refused(b'{"a":{"b":NaN},"c":Infinity}')

        assert "at /a/b: NaN is no JSON number (and 1 more)" in error.message

    def test_nesting_too_deep_is_placed_after_the_siblings_and_the_strings_on_the_way(self) -> None:
        deep = "[" * 62 + "[]" + "]" * 62
        text = r'{"x":["]}\"",[{}],{"y":1}],"a/b\ud800":[7,"[{",' + deep + "]}"

        assert [f"/a~1b?/2{'/0' * 62}"] == [p.place for p in refused(text.encode()).problems]

    def test_nesting_is_counted_by_what_is_open_and_not_by_what_was_closed(self) -> None:
        assert strictjson.parse(b"[" + b"[],{}," * 100 + b"[" * 63 + b"]" * 64)

    def test_faults_beyond_a_hundred_are_not_collected(self) -> None:
        assert len(refused(b"[" + b"NaN," * 5000 + b"NaN]").problems) == strictjson.MAX_PROBLEMS

    def test_a_long_key_is_cut_in_the_place_so_that_an_error_stays_small(self) -> None:
        key = "k" * 500_000
        error = refused(json.dumps({key: [float("nan")] * 1000}).encode())

        assert f"/{'k' * strictjson.MAX_PLACE_PART}…/0" == error.problems[0].place
        assert sum(len(p.place) for p in error.problems) < 50_000


class TestQuickForm:
    @given(VALUES)
    def test_what_orjson_writes_is_accepted(self, value: Any) -> None:
        assert strictjson.is_canonical_free_form(orjson.dumps(value))

    @given(DOCUMENTS)
    def test_what_parse_refuses_is_never_accepted(self, data: bytes) -> None:
        if strictjson.is_canonical_free_form(data):
            strictjson.parse(data)

    @pytest.mark.parametrize("name", sorted(BAD))
    def test_no_bad_file_is_accepted(self, name: str) -> None:
        assert not strictjson.is_canonical_free_form(BAD[name])

    @pytest.mark.parametrize(
        "name", ["nesting-64", "many-brackets-side-by-side", "largest-integer", "astral-text", "delete-and-c1-controls"]
    )
    def test_a_good_file_in_canonical_form_is_accepted(self, name: str) -> None:
        assert strictjson.is_canonical_free_form(GOOD[name])

    @pytest.mark.parametrize(("depth", "accepted"), [(0, True), (10, True), (11, False), (64, False)])
    def test_a_part_may_nest_only_as_deep_as_it_is_told(self, depth: int, accepted: bool) -> None:
        data = b"[" * depth + b"0" + b"]" * depth

        assert accepted == strictjson.is_canonical_free_form(data, max_depth=10)

    def test_brackets_side_by_side_are_not_depth(self) -> None:
        assert strictjson.is_canonical_free_form(b"[" + b",".join([b"[{}]"] * 100) + b"]", max_depth=3)
        assert not strictjson.is_canonical_free_form(b"[" + b",".join([b"[{}]"] * 100) + b"]", max_depth=2)

    @pytest.mark.parametrize(
        ("data", "answer"),
        [(b'{"a":"\\u0000"}', True), (b'{"a":"\\n"}', False), (b"{}", False), (b'{"a":"\\\\u0000"}', True)],
    )
    def test_an_escaped_nul_is_suspected_wherever_it_may_be(self, data: bytes, answer: bool) -> None:
        assert answer == strictjson.may_hold_nul(data)


class TestDumps:
    def test_keys_are_sorted_and_nothing_is_spaced(self) -> None:
        assert strictjson.dumps({"b": [1, None], "a": "é"}) == '{"a":"é","b":[1,null]}'.encode()

    @given(VALUES)
    def test_what_is_written_is_strict(self, value: Any) -> None:
        assert value == strictjson.parse(strictjson.dumps(value))

    def test_an_integer_out_of_range_is_not_written(self) -> None:
        with pytest.raises(TypeError):
            strictjson.dumps(2**53)


class TestPointer:
    @pytest.mark.parametrize(
        ("parts", "pointer"), [((), ""), (("a", 0), "/a/0"), (("",), "/"), (("a/b", "m~n"), "/a~1b/m~0n")]
    )
    def test_a_pointer_is_escaped_as_rfc_6901_has_it(self, parts: tuple[object, ...], pointer: str) -> None:
        assert pointer == strictjson.pointer(*parts)

    def test_a_pointer_is_exact_and_a_place_is_cut(self) -> None:
        key = "k" * (strictjson.MAX_PLACE_PART + 1)

        assert f"/{key}" == strictjson.pointer(key)
        assert f"/{key[:-1]}…" == strictjson.place(key)
