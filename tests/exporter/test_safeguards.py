"""What an export must not do to others: to what it reads, to what was there before, to the machine that it runs on."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from cryptography.hazmat.primitives.asymmetric import ec
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)

from ledger.client.exports import publishing
from ledger.client.exports.places import Folder
from ledger.client.recording.files import read_files
from ledger.core.errors import Broken, InvalidInput
from services.exporter.checkpoints import read_source
from services.exporter.exporting import Export, Exported, Request
from services.exporter.pickles import read_index
from tests.exporter import checkpoints
from tests.exporter.checkpoints import checkpoint
from tests.exporter.test_signatures import write_keys


def export(folder: Path, to: Path, **asked: object) -> Exported:
    return Export(read_source(folder), Request(to=str(to), **asked)).run()


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_keys(tmp_path_factory.mktemp("key"), ec.generate_private_key(ec.SECP256R1()))[0]


class TestTheSignature:
    def test_one_that_cannot_be_written_takes_the_export_with_it(self, tmp_path, key):
        folder = checkpoint(tmp_path)
        with pytest.raises(InvalidInput, match="cannot be written"):
            export(folder, tmp_path / "out", key=key, signature=tmp_path / "no/such/out.sig")
        assert not (tmp_path / "out").exists()

    @pytest.mark.parametrize("where", ["global_step_40/x.sig", "base/x.sig", "out/x.sig"])
    def test_it_lies_in_nothing_that_is_read_or_published(self, tmp_path, key, where):
        folder, base = checkpoint(tmp_path), checkpoints.base(tmp_path / "base")
        before = read_files(folder), read_files(base)
        with pytest.raises(InvalidInput, match="whose files stay as they are"):
            export(folder, tmp_path / "out", base=base, key=key, signature=tmp_path / where)
        assert (read_files(folder), read_files(base)) == before
        assert not (tmp_path / "out").exists()


class TestTheBase:
    def test_one_that_is_not_there_is_told_and_not_passed_over(self, tmp_path):
        with pytest.raises(InvalidInput, match="there is no folder"):
            export(checkpoint(tmp_path), tmp_path / "out", base=tmp_path / "bsae")

    def test_it_is_not_replaced_by_the_export(self, tmp_path):
        base = checkpoints.base(tmp_path / "base")
        before = read_files(base)
        with pytest.raises(InvalidInput, match="the base model"):
            export(checkpoint(tmp_path), base, base=base, replace=True)
        assert read_files(base) == before


class TestWhatWasThereBefore:
    def test_it_outlives_an_attempt_to_replace_it_that_changed_nothing(self, tmp_path, monkeypatch):
        export(checkpoint(tmp_path), tmp_path / "out")
        before = read_files(tmp_path / "out")
        monkeypatch.setattr(publishing, "_read", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            export(checkpoint(tmp_path / "other", seed=5), tmp_path / "out", replace=True)
        assert read_files(tmp_path / "out") == before

    def test_the_same_export_outlives_a_repetition_that_fails_at_its_last_step(self, tmp_path, key):
        folder = checkpoint(tmp_path)
        export(folder, tmp_path / "out")
        before = read_files(tmp_path / "out")
        with pytest.raises(InvalidInput, match="cannot be written"):
            export(folder, tmp_path / "out", replace=True, key=key, signature=tmp_path / "no/such/x.sig")
        assert read_files(tmp_path / "out") == before

    def test_what_it_put_over_other_files_is_taken_away(self, tmp_path, monkeypatch):
        export(checkpoint(tmp_path), tmp_path / "out")
        put = Folder.put

        def spoils(self: Folder, name: str, source: Path | bytes) -> None:
            put(self, name, b"{}" if name.endswith("index.json") and self.location.endswith("out") else source)

        monkeypatch.setattr(Folder, "put", spoils)
        with pytest.raises(Broken, match="reads back as"):
            export(checkpoint(tmp_path / "other", seed=5), tmp_path / "out", replace=True)
        left = {path.name for path in (tmp_path / "out").iterdir()}
        assert not any(name.endswith((".safetensors", "index.json")) for name in left)


class TestASmallPickleThatIsALargeText:
    """Sixty lists in one another, each holding the next one twice: 2 ** 60 words when they are written out."""

    @pytest.mark.parametrize("where", ["file", "type"])
    def test_it_is_refused_without_being_written_out(self, tmp_path, monkeypatch, where):
        path = tmp_path / ".metadata"
        if where == "type":
            monkeypatch.setattr(TensorProperties, "__getstate__", lambda _: (_laughs(), 0, False, 0, False))
        path.write_bytes(pickle.dumps(_index(_laughs() if where == "file" else "__0_0.distcp")))
        program = "import sys, pathlib, services.exporter.pickles as p\np.read_index(pathlib.Path(sys.argv[1]))"
        command = [sys.executable, "-c", program, path]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=30)
        assert "InvalidInput" in done.stderr
        assert "list" in done.stderr

    def test_a_name_that_no_file_system_takes_is_refused(self, tmp_path):
        (tmp_path / ".metadata").write_bytes(pickle.dumps(_index("\ud800")))
        with pytest.raises(InvalidInput, match="would be in"):
            read_index(tmp_path / ".metadata")


def test_a_step_is_said_where_a_foreign_name_is_one_too_many(tmp_path):
    """A trainer's last save may be named after the step that would have come next, and hold no state of ours."""
    folder = checkpoint(tmp_path, step=16)
    for name in ("trainer_state.json", "manifest.json"):
        (folder / name).unlink()
    said = read_source(folder, step=15)
    assert said.step == 15
    assert said.notes == ("the folder's name says 16; it is exported as step 15, as --step says.",)


def _laughs() -> object:
    made: object = "lol"
    for _ in range(60):
        made = [made, made]
    return made


def _index(file: object) -> Metadata:
    entry = TensorStorageMetadata(
        TensorProperties(dtype=torch.float32),
        torch.Size([2]),
        [ChunkStorageMetadata(torch.Size([0]), torch.Size([2]))],
    )
    return Metadata({"a": entry}, storage_data={MetadataIndex("a", torch.Size([0])): _StorageInfo(file, 0, 8)})
