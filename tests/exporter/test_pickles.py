"""The index of a save is a pickle, and none of what it could do happens."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest
import torch
from torch.distributed.checkpoint import metadata as dcp
from torch.distributed.checkpoint.filesystem import FileSystemReader, _StorageInfo
from torch.distributed.checkpoint.state_dict_loader import load

from ledger.core.errors import InvalidInput, LedgerError
from services.exporter.pickles import read_index
from services.exporter.saves import open_save
from tests.exporter import checkpoints


class Runs:
    """A pickle that runs a command where it is loaded."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self):
        return os.system, (f"touch {self.mark}",)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return checkpoints.save({"a": torch.arange(6.0).reshape(3, 2), "b": torch.ones(2)}, tmp_path / "save")


def rewritten(folder: Path, change) -> Path:
    """A save whose index was changed by somebody."""
    said = FileSystemReader(folder).read_metadata()
    change(said)
    (folder / ".metadata").write_bytes(pickle.dumps(said))
    return folder


def test_a_command_in_it_does_not_run(saved, tmp_path):
    mark = tmp_path / "ran"
    rewritten(saved, lambda said: setattr(said, "planner_data", Runs(mark)))
    with pytest.raises(LedgerError, match=r"names posix\.system") as caught:
        open_save(saved)
    assert caught.value.reason == "NOT_PERMITTED"
    assert not mark.exists()
    assert open_save(saved, trust=True).tensors.keys() == {"a", "b"}
    assert mark.exists(), "the pickle does run, where it is trusted"


@pytest.mark.parametrize(
    "name",
    [b"cbuiltins\neval\n.", b"ctorch\nload\n.", b"ctorch.distributed.checkpoint.metadata\nos\n.", b"cpathlib\nPath\n."],
)
def test_names_near_those_that_are_allowed_are_not(tmp_path, name):
    (tmp_path / ".metadata").write_bytes(name)
    with pytest.raises(LedgerError) as caught:
        read_index(tmp_path / ".metadata")
    assert caught.value.reason == "NOT_PERMITTED"


def test_a_class_cannot_be_written_to(tmp_path):
    """BUILD sets attributes of whatever it is given, a class too."""
    attack = b"ctorch.distributed.checkpoint.metadata\nMetadata\n(N}X\x04\x00\x00\x00evilX\x01\x00\x00\x00xstb."
    (tmp_path / ".metadata").write_bytes(attack)
    with pytest.raises(InvalidInput, match="writes to 'evil' of a class"):
        read_index(tmp_path / ".metadata")
    assert not hasattr(dcp.Metadata, "evil")


@pytest.mark.parametrize("data", [b"", b"\x80", b"no pickle", pickle.dumps({"a": 1}), pickle.dumps([])])
def test_what_is_no_index_is_told(tmp_path, data):
    (tmp_path / ".metadata").write_bytes(data)
    with pytest.raises(InvalidInput, match="is no index of a save"):
        read_index(tmp_path / ".metadata")


@pytest.mark.parametrize("where", ["../secret", "/etc/passwd", "", ".."])
def test_bytes_outside_the_folder_are_not_read(saved, where):
    rewritten(saved, lambda said: setattr(next(iter(said.storage_data.values())), "relative_path", where))
    with pytest.raises(InvalidInput, match="would be in"):
        open_save(saved)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda entry: entry.chunks.pop(), "0 elements of 6"),
        (lambda entry: setattr(entry, "size", torch.Size([4, 2])), "6 elements of 8"),
        (lambda entry: setattr(entry, "size", torch.Size([2, 2])), "lies outside"),
        (lambda entry: setattr(entry, "size", torch.Size([6])), "lies outside"),
        (lambda entry: entry.chunks.append(entry.chunks[0]), "overlap"),
    ],
    ids=["no-part", "a-part-is-missing", "a-part-is-outside", "other-dimensions", "the-same-part-twice"],
)
def test_parts_must_make_the_tensor(saved, change, why):
    rewritten(saved, lambda said: change(said.state_dict_metadata["a"]))
    with pytest.raises(InvalidInput, match=f"the tensor a: .*{why}"):
        open_save(saved)


def test_a_shape_that_no_file_holds_is_refused_before_memory_is_asked_for(saved):
    def grow(said):
        entry = said.state_dict_metadata["a"]
        entry.size = torch.Size([1 << 40, 1 << 10])
        entry.chunks = [dcp.ChunkStorageMetadata(torch.Size([0, 0]), entry.size)]

    with pytest.raises(InvalidInput, match="bytes cannot hold"):
        open_save(rewritten(saved, grow))


def test_a_file_that_is_cut_off_is_told(saved):
    file = next(saved.glob("*.distcp"))
    os.truncate(file, file.stat().st_size - 1)
    with pytest.raises(InvalidInput, match="end behind the end of the file"):
        open_save(saved)


def test_a_part_that_is_another_than_the_index_says_is_told(saved):
    rewritten(saved, lambda said: setattr(said.state_dict_metadata["a"].properties, "dtype", torch.int32))
    with pytest.raises(InvalidInput, match=r"it is float32 \[3, 2\], and the index says int32 \[3, 2\]"):
        open_save(saved).read("a")


def test_compressed_bytes_are_refused(saved):
    def compress(said):
        for info in said.storage_data.values():
            info.transform_descriptors = ["stream.zstd"]

    with pytest.raises(InvalidInput, match="compressed"):
        open_save(rewritten(saved, compress))


def test_a_pickle_in_the_place_of_a_tensor_is_not_loaded(saved, tmp_path):
    mark = tmp_path / "ran"
    torch.save(Runs(mark), saved / "evil")

    def point(said):
        for key in [key for key in said.storage_data if key.fqn == "a"]:
            said.storage_data[key] = _StorageInfo("evil", 0, (saved / "evil").stat().st_size)

    with pytest.raises(InvalidInput, match="it cannot be read"):
        open_save(rewritten(saved, point)).read("a")
    assert not mark.exists()


def test_every_type_comes_back_as_torch_loads_it(tmp_path):
    names = [
        "float64",
        "float32",
        "float16",
        "bfloat16",
        "float8_e4m3fn",
        "int64",
        "int32",
        "int16",
        "int8",
        "uint8",
        "bool",
    ]
    tensors = {name: torch.tensor([[1, 0], [0, 1]]).to(getattr(torch, name)) for name in names}
    tensors |= {"scalar": torch.tensor(3.5), "empty": torch.empty(0, 4)}
    opened = open_save(checkpoints.save({**tensors, "state": {"step": 3}}, tmp_path / "save"))
    assert opened.others == ("state.step",)
    for name, tensor in tensors.items():
        found = opened.read(name)
        assert (found.dtype, found.shape) == (tensor.dtype, tensor.shape)
        assert found.flatten().view(torch.uint8).tolist() == tensor.flatten().view(torch.uint8).tolist()


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled:UserWarning")  # one process needs no group
def test_a_save_of_two_processes_is_read_as_torch_reads_it(two_processes):
    opened = open_save(two_processes)
    assert any(len(entry.chunks) == 2 for entry in opened.tensors.values())
    theirs = {name: torch.empty(entry.shape) for name, entry in opened.tensors.items()}
    load(theirs, checkpoint_id=two_processes, no_dist=True)
    assert all(torch.equal(opened.read(name), tensor) for name, tensor in theirs.items())
