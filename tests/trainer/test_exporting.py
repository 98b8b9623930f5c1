"""The trainer's own export: what is published is what was trained, and what is faulty is told and never published."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from ledger.client.exports.places import place
from ledger.client.exports.writing import write_model
from ledger.client.recording import Recorder
from ledger.client.recording.files import read_files
from ledger.client.testing import FakeLedger
from ledger.core.errors import Broken, InvalidInput, LedgerError
from services.trainer import checkpoint_folders, checkpoints, models
from services.trainer.checkpoint_folders import Checkpoint
from services.trainer.distributed import Team
from services.trainer.exporting import DTYPES, Exporter, bytes_of, spec_of
from services.trainer.models import full_names, save_huggingface
from services.trainer.provenance import open_recorder
from services.trainer.settings import Settings
from tests.trainer.runs import Ran, settings, train

INDEX = "model.safetensors.index.json"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return train(settings(tmp_path_factory.mktemp("trained")))


@pytest.fixture
def run(trained: Ran, tmp_path: Path) -> Path:
    """A run's folder of a test's own."""
    shutil.copytree(trained.folder / "checkpoints", tmp_path / "run" / "checkpoints")
    return tmp_path / "run"


@pytest.fixture
def ledger() -> Iterator[FakeLedger]:
    with FakeLedger() as fake:
        yield fake


class Exporting:
    """An exporter of a run, with the model that it reads checkpoints into."""

    def __init__(self, given: Settings, recorder: Recorder) -> None:
        self.loaded = models.load(given.model)
        self.team = Team(self.loaded.device)
        self.exporter = Exporter(given, self.loaded, recorder)
        self.checkpoint = checkpoint_folders.find_step(given.run.folder, 4)

    def load(self) -> Mapping[str, torch.Tensor]:
        named = full_names(self.loaded.model)
        checkpoints.load_weights(self.checkpoint.path, named, self.team)
        return self.team.gather(named)

    def untrained(self) -> Mapping[str, torch.Tensor]:
        return self.team.gather(full_names(self.loaded.model))


@pytest.fixture
def exporting(ledger: FakeLedger) -> Iterator[Callable[[Settings], Exporting]]:
    recorders: list[Recorder] = []

    def make(given: Settings) -> Exporting:
        recorders.append(open_recorder(given, ledger.address, 1))
        return Exporting(given, recorders[-1])

    yield make
    for recorder in recorders:
        recorder.close()


def told(exporting: Exporting, ledger: FakeLedger) -> list[str]:
    """What the ledger knows of exports, in order."""
    exporting.exporter.recorder.close()
    return [event.type for event in ledger.events if event.type.startswith("export.")]


def test_an_export_in_shards_has_the_checkpoints_weights_and_tells_of_each_number(run, exporting, ledger, tmp_path):
    work = exporting(settings(run, export={"enabled": True, "max_shard_bytes": 20_000}))
    digest = read_files(work.checkpoint.path).digest
    exported = work.exporter.export(work.checkpoint, work.load, tmp_path / "out", route="in_trainer")
    assert told(work, ledger) == ["export.started", "export.completed", "export.verified"]
    started, completed, verified = (event.payload for event in ledger.events[:3])
    assert started["checkpoint"] == {"run_id": "tiny", "step": 4, "attempt": 1, "digest": digest}
    assert completed["checkpoint_digest_before"] == completed["checkpoint_digest_after"] == digest
    index = json.loads((tmp_path / "out" / INDEX).read_text())
    shards = sorted(set(index["weight_map"].values()))
    assert len(shards) == completed["shard_count"] == verified["numbers"]["shards_named"] > 2
    weights = {name: tensor for shard in shards for name, tensor in load_file(tmp_path / "out" / shard).items()}
    expected = work.load()
    assert weights.keys() == expected.keys()
    assert all(tensor.equal(expected[name]) for name, tensor in weights.items())
    assert completed["total_size"] == sum(t.nbytes for t in weights.values()) == index["metadata"]["total_size"]
    assert completed["digest"] == verified["digest"] == read_files(tmp_path / "out").digest
    assert exported.to_dict()["parameters"] == sum(t.numel() for t in weights.values())
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "out", attn_implementation="eager")
    ids = torch.tensor([work.loaded.prompt_ids("1 + 2")])
    with torch.no_grad():
        assert model(ids).logits.equal(work.loaded.model(ids).logits)


def test_an_export_leaves_the_checkpoint_and_the_runs_folder_as_they_were(run, exporting, tmp_path):
    def there() -> dict[Path, tuple[bytes, int]]:
        files = (path for path in run.rglob("*") if path.is_file() and "spool" not in path.parts)
        return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in files}

    before, work = there(), exporting(settings(run))
    work.exporter.export(work.checkpoint, work.load, tmp_path / "out", route="rerun")
    assert there() == before
    assert [p.name for p in run.iterdir() if p.name.startswith(".exporting")] == []


def test_two_exports_of_one_checkpoint_are_two_and_have_the_same_bytes(run, exporting, ledger, tmp_path):
    work = exporting(settings(run))
    one, two = (work.exporter.export(work.checkpoint, work.load, tmp_path / n, route="rerun") for n in ("a", "b"))
    assert one.export_id != two.export_id
    assert read_files(tmp_path / "a").digest == read_files(tmp_path / "b").digest
    assert told(work, ledger).count("export.verified") == 2


def test_of_a_checkpoint_that_changes_meanwhile_nothing_is_published(run, exporting, ledger, tmp_path):
    work = exporting(settings(run))

    def load_and_harm() -> Mapping[str, torch.Tensor]:
        weights = work.load()
        (work.checkpoint.path / "more").write_bytes(b"x")
        return weights

    with pytest.raises(Broken, match="changed while it was exported"):
        work.exporter.export(work.checkpoint, load_and_harm, tmp_path / "out", route="in_trainer")
    assert not (tmp_path / "out").exists()
    assert told(work, ledger) == ["export.started", "export.failed"]
    assert ledger.events[1].payload["stage"] == "verify"


def test_an_export_that_fails_a_check_is_not_published_and_the_check_is_told(run, exporting, ledger, tmp_path):
    """Weights that are the base's to the last bit: nothing of the training is in them."""
    base = models.load(settings(run).model)
    save_huggingface(base.model.config, base.tokenizer, tmp_path / "base")
    weights = {name: tensor.detach() for name, tensor in full_names(base.model).items()}
    save_file(weights, tmp_path / "base" / "model.safetensors", metadata={"format": "pt"})
    given = settings(run)
    model = given.model.model_copy(update={"kind": "folder", "path": tmp_path / "base"})
    work = exporting(given.model_copy(update={"model": model}))
    with pytest.raises(Broken, match="differs_from_base") as raised:
        work.exporter.export(work.checkpoint, work.untrained, tmp_path / "out", route="in_trainer")
    assert "Export again" in raised.value.remedy
    assert not (tmp_path / "out").exists()
    assert told(work, ledger) == ["export.started", "export.failed"]
    [failed] = ledger.events[1].payload["failed_checks"]
    assert (failed["name"], failed["outcome"]) == ("differs_from_base", "failed")
    # The control: of the same base and checkpoint, what was trained is verified.
    again = exporting(given.model_copy(update={"model": model}))
    checked = again.exporter.export(again.checkpoint, again.load, tmp_path / "out", route="in_trainer").checked
    outcomes = {check.name: check.outcome for check in checked.checks}
    assert outcomes["differs_from_base"] == outcomes["base_tensors"] == "passed"


def test_an_interrupt_ends_an_export_and_is_told(run, exporting, ledger, tmp_path):
    work = exporting(settings(run))

    def interrupted() -> Mapping[str, torch.Tensor]:
        raise KeyboardInterrupt("SIGTERM")

    with pytest.raises(KeyboardInterrupt):
        work.exporter.export(work.checkpoint, interrupted, tmp_path / "out", route="rerun")
    assert told(work, ledger) == ["export.started", "export.failed"]
    assert ledger.events[1].payload["reason"] == "KeyboardInterrupt: SIGTERM"
    assert ledger.events[1].payload["stage"] == "load"


@pytest.mark.parametrize("inside", ["", "huggingface", "new/deep"])
def test_an_export_into_the_checkpoint_itself_is_refused(run, exporting, ledger, inside):
    work = exporting(settings(run))
    before = read_files(work.checkpoint.path).digest
    with pytest.raises(InvalidInput, match="lies in the checkpoint that is exported"):
        work.exporter.export(work.checkpoint, work.load, work.checkpoint.path / inside, route="rerun", replace=True)
    assert read_files(work.checkpoint.path).digest == before
    assert told(work, ledger) == ["export.started", "export.failed"]


def test_an_export_of_a_damaged_checkpoint_is_refused_before_its_weights_are_read(run, exporting, ledger, tmp_path):
    work = exporting(settings(run))
    shard = next((work.checkpoint.path / "weights").glob("*.distcp"))
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.write_bytes(data)
    before = {name: tensor.clone() for name, tensor in work.untrained().items()}
    with pytest.raises(Broken, match="has other bytes than were saved"):
        work.exporter.export(work.checkpoint, work.load, tmp_path / "out", route="in_trainer")
    assert all(tensor.equal(before[name]) for name, tensor in work.untrained().items())
    assert not (tmp_path / "out").exists()
    assert told(work, ledger) == ["export.started", "export.failed"]


def test_weights_are_not_exported_under_another_models_configuration(run, exporting, tmp_path):
    work = exporting(settings(run))
    work.loaded.model.config.rms_norm_eps = 1e-5
    with pytest.raises(InvalidInput, match="another model: rms_norm_eps is 1e-06 in the checkpoint, and 1e-05"):
        work.exporter.export(work.checkpoint, work.load, tmp_path / "out", route="rerun")
    assert not (tmp_path / "out").exists()


def test_an_earlier_export_is_replaced_only_when_that_is_said(run, exporting, tmp_path):
    work = exporting(settings(run))
    earlier = Checkpoint(work.checkpoint.path.with_name("global_step_2"), 2, 1)

    def load_earlier() -> Mapping[str, torch.Tensor]:
        named = full_names(work.loaded.model)
        checkpoints.load_weights(earlier.path, named, work.team)
        return work.team.gather(named)

    work.exporter.export(earlier, load_earlier, tmp_path / "out", route="rerun")
    first = read_files(tmp_path / "out").digest
    with pytest.raises(LedgerError) as raised:
        work.exporter.export(work.checkpoint, work.load, tmp_path / "out", route="rerun")
    assert raised.value.reason == "CONDITION_FAILED"
    assert read_files(tmp_path / "out").digest == first
    work.exporter.export(work.checkpoint, work.load, tmp_path / "out", route="rerun", replace=True)
    assert read_files(tmp_path / "out").digest != first


def test_tensors_of_every_type_are_written_as_the_formats_own_library_does(tmp_path):
    made = torch.arange(24).reshape(2, 3, 4)
    tensors = {str(dtype): made.to(dtype) for dtype in DTYPES}
    tensors |= {"scalar": torch.tensor(1.5), "transposed": made.float().mT, "empty": torch.empty(0, 3)}
    given = [(spec_of(name, tensor), partial(bytes_of, tensor)) for name, tensor in tensors.items()]
    write_model(tmp_path / "ours", given, max_shard_bytes=10**9)
    save_file({n: t.contiguous() for n, t in tensors.items()}, tmp_path / "theirs", metadata={"format": "pt"})
    name = "model-00001-of-00001.safetensors"
    assert place(tmp_path / "ours").read(name) == (tmp_path / "theirs").read_bytes()
