"""One header: what it says, and what it cannot say."""

from __future__ import annotations

import pytest

from ledger.client.exports.headers import read_shard
from ledger.core.errors import InvalidInput
from tests.client.exports.models import header


@pytest.mark.parametrize(
    ("said", "options"),
    [
        ({}, {"length": 2**63}),
        ({}, {"length": 200_000_000}),
        ({}, {"length": 0}),
        (b"{", {}),
        (b"[]", {}),
        (b'{"a": 1, "a": 2}', {}),
        (b"[" * 50_000, {}),
        ({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}, {"data": b"1234"}),
        ({"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}}, {"data": b"12345678"}),
        ({"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}, {"data": b"1234"}),
        ({"a": {"dtype": "F32", "shape": [True], "data_offsets": [0, 4]}}, {"data": b"1234"}),
        ({"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]}}, {"data": b"1234"}),
        ({"a": {"dtype": 3, "shape": [1], "data_offsets": [0, 4]}}, {"data": b"1234"}),
        ({"a": 3}, {}),
        ({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4, 8]}}, {"data": b"1234"}),
        ({"a": {"dtype": "", "shape": [1], "data_offsets": [0, 4]}}, {"data": b"1234"}),
        ({"a": {"dtype": "F" * 65, "shape": [1], "data_offsets": [0, 4]}}, {"data": b"1234"}),
        ({"a": {"dtype": "F3_NEW", "shape": [2**30, 2**30], "data_offsets": [0, 4]}}, {"data": b"1234"}),
        ({"a": {"dtype": "F3_NEW", "shape": [1] * 65, "data_offsets": [0, 4]}}, {"data": b"1234"}),
    ],
    ids=str,
)
def test_a_header_that_cannot_be_is_refused(tmp_path, said, options):
    with pytest.raises(InvalidInput, match="no whole safetensors file"):
        read_shard(header(tmp_path / "a.safetensors", said, **options))


def test_a_type_of_element_that_is_not_known_is_taken_by_its_bytes(tmp_path):
    said = {"a": {"dtype": "F3_NEW", "shape": [5], "data_offsets": [0, 3]}}
    read = read_shard(header(tmp_path / "a.safetensors", said, data=b"123"))
    assert (read.tensors[0].size, read.is_whole) == (3, True)
