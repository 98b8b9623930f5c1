"""Shards as the format's own library writes and reads them, with one tensor in memory."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import safetensors.torch
import torch
from hypothesis import given
from hypothesis import strategies as st

from ledger.client.exports.headers import read_shard
from ledger.client.exports.indexes import INDEX
from ledger.client.exports.writing import TensorSpec, write_model
from ledger.core.errors import InvalidInput

TYPES = {
    "BOOL": torch.bool, "U8": torch.uint8, "I8": torch.int8, "F8_E5M2": torch.float8_e5m2, "F8_E4M3": torch.float8_e4m3fn,
    "I16": torch.int16, "U16": torch.uint16, "F16": torch.float16, "BF16": torch.bfloat16, "I32": torch.int32,
    "U32": torch.uint32, "F32": torch.float32, "C64": torch.complex64, "F64": torch.float64, "I64": torch.int64,
    "U64": torch.uint64,
}  # fmt: skip
SHARD = "model-00001-of-00001.safetensors"


def given_as(tensors: dict[str, torch.Tensor]):
    names = {dtype: name for name, dtype in TYPES.items()}
    for name, tensor in tensors.items():
        data = bytes(tensor.flatten().view(torch.uint8).numpy()) if tensor.numel() else b""
        yield TensorSpec(name, names[tensor.dtype], tuple(tensor.shape)), lambda data=data: data


def some(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    return torch.arange(int(np.prod(shape)), dtype=torch.int32).reshape(shape).to(dtype)


class TestTheBytes:
    def test_they_are_those_of_the_library_for_every_type_and_shape(self, tmp_path):
        tensors = {
            f"{name}.{at}": some(dtype, *shape)
            for name, dtype in TYPES.items()
            for at, shape in enumerate([(3, 5), (1,)])
        }
        tensors |= {"scalar": torch.tensor(1.5), "none": torch.zeros(0, 4), 'große.Schicht"\\': some(torch.bfloat16, 7)}
        write_model(tmp_path, given_as(tensors), max_shard_bytes=10**9)
        assert (tmp_path / SHARD).read_bytes() == safetensors.torch.save(tensors, {"format": "pt"})

    @given(
        st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12).filter(
                lambda n: n != "__metadata__"
            ),
            st.tuples(
                st.sampled_from([np.float32, np.float16, np.int64, np.uint8, np.bool_]),
                st.lists(st.integers(0, 4), max_size=3),
            ),
            min_size=1,
            max_size=8,
        )
    )
    def test_they_are_those_of_the_library_whatever_the_names(self, tmp_path_factory, kinds):
        arrays = {name: np.ones(shape, kind) for name, (kind, shape) in kinds.items()}
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        folder = tmp_path_factory.mktemp("model")
        write_model(folder, given_as(tensors), max_shard_bytes=10**9)
        assert (folder / SHARD).read_bytes() == safetensors.numpy.save(arrays, {"format": "pt"})

    def test_the_library_reads_what_the_shards_hold(self, tmp_path):
        tensors = {f"layer.{at}": some(torch.bfloat16, 4, at + 1) for at in range(9)}
        written = write_model(tmp_path, given_as(tensors), max_shard_bytes=100)
        read = {n: t for f in written.files[:-1] for n, t in safetensors.torch.load_file(tmp_path / f).items()}
        assert read.keys() == tensors.keys()
        assert all(torch.equal(read[name], tensors[name]) for name in tensors)

    def test_metadata_stand_in_every_header_in_order_or_not_at_all(self, tmp_path):
        for metadata in ({"format": "pt", "a": "1"}, {}):
            write_model(tmp_path, given_as({"a": some(torch.float32, 2)}), max_shard_bytes=99, metadata=metadata)
            assert list(read_shard(tmp_path / SHARD).metadata.items()) == sorted(metadata.items())
        assert b"__metadata__" not in (tmp_path / SHARD).read_bytes()


class TestTheShards:
    def test_each_holds_no_more_than_allowed_but_a_larger_tensor_by_itself(self, tmp_path):
        sizes = {"a": 40, "b": 60, "c": 1, "large": 250, "d": 100, "e": 1}
        tensors = {name: some(torch.uint8, size) for name, size in sizes.items()}
        written = write_model(tmp_path, given_as(tensors), max_shard_bytes=100)
        held = [[t.name for t in read_shard(tmp_path / f).tensors] for f in written.files[:-1]]
        assert held == [["a", "b"], ["c"], ["large"], ["d"], ["e"]]
        assert written.files == (*(f"model-0000{i}-of-00005.safetensors" for i in range(1, 6)), INDEX)

    def test_what_was_written_is_counted_as_the_index_says_it(self, tmp_path):
        tensors = {"a": some(torch.float32, 2, 3), "b": some(torch.bfloat16, 5)}
        written = write_model(tmp_path, given_as(tensors), max_shard_bytes=25)
        assert (written.total_size, written.tensor_count, written.parameter_count) == (34, 2, 11)
        assert written.dtypes == ("BF16", "F32")
        assert json.loads((tmp_path / INDEX).read_bytes()) == {
            "metadata": {"total_size": 34},
            "weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"},
        }

    @pytest.mark.parametrize("max_shard_bytes", [1, 100, 10**9])
    def test_memory_holds_one_tensor_and_each_is_asked_for_once(self, tmp_path, max_shard_bytes):
        alive, most, asked = 0, 0, []

        class Buffer(bytearray):
            def __init__(self, size: int) -> None:
                nonlocal alive, most
                super().__init__(size)
                alive += 1
                most = max(most, alive)

            def __del__(self) -> None:
                nonlocal alive
                alive -= 1

        def source(name: str):
            def ask() -> memoryview:
                asked.append(name)
                return memoryview(Buffer(40))

            return ask

        specs = [TensorSpec(f"t{i}", "U8", (40,)) for i in range(20)]
        write_model(tmp_path, ((s, source(s.name)) for s in specs), max_shard_bytes=max_shard_bytes)
        assert (most, alive) == (1, 0)
        assert sorted(asked) == sorted(s.name for s in specs)


class TestWhatCannotBeWritten:
    @pytest.mark.parametrize(
        ("tensors", "words"),
        [
            ([], "no tensors"),
            ([("a", "F32", (1,), 4), ("a", "F32", (1,), 4)], "given twice"),
            ([("__metadata__", "F32", (1,), 4)], "the format's own"),
            ([("a", "F31", (1,), 4)], "cannot be"),
            ([("a", "F32", (-1,), 4)], "cannot be"),
            ([("a", "F4", (3,), 2)], "cannot be"),
            ([("a", "F32", (2,), 4)], "came with 4 bytes, and its shape makes 8"),
            ([("\ud800", "F32", (1,), 4)], "is no text"),
        ],
    )
    def test_it_is_refused_and_leaves_no_index(self, tmp_path, tensors, words):
        made = [(TensorSpec(n, d, s), lambda size=size: bytes(size)) for n, d, s, size in tensors]
        with pytest.raises(InvalidInput, match=words):
            write_model(tmp_path, made, max_shard_bytes=10)
        assert list(tmp_path.iterdir()) == []

    def test_a_source_that_fails_half_way_leaves_whole_shards_and_no_index(self, tmp_path):
        def fail() -> bytes:
            raise RuntimeError("out of memory")

        made = [(TensorSpec("a", "U8", (4,)), lambda: b"1234"), (TensorSpec("b", "U8", (4,)), fail)]
        with pytest.raises(RuntimeError, match="out of memory"):
            write_model(tmp_path, made, max_shard_bytes=4)
        assert [p.name for p in tmp_path.iterdir()] == ["model-00001-of-00002.safetensors"]

    def test_a_folder_that_cannot_be_made_and_shards_of_nothing_are_faults_of_usage(self, tmp_path):
        (tmp_path / "file").write_text("")
        for folder, most in ((tmp_path / "file" / "in", 10), (tmp_path, 0)):
            with pytest.raises(InvalidInput) as caught:
                write_model(Path(folder), [(TensorSpec("a", "U8", (1,)), lambda: b"1")], max_shard_bytes=most)
            assert caught.value.reason == "USAGE"
