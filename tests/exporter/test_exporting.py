"""A checkpoint becomes a model that loads as the one that was trained, or nothing at all."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import Qwen3ForCausalLM

from ledger.client.exports.indexes import INDEX
from ledger.client.exports.places import Folder
from ledger.client.recording.files import read_files
from ledger.core.errors import Broken, InvalidInput, LedgerError, Refused
from services.exporter import weights
from services.exporter.checkpoints import read_source
from services.exporter.exporting import Export, Exported, Request
from services.exporter.saves import open_save
from services.exporter.selections import Selection
from tests.exporter import checkpoints
from tests.exporter.checkpoints import EMBEDDINGS, HEAD, checkpoint, model


def export(folder: Path, to: Path | str, **asked: object) -> Exported:
    return Export(read_source(folder), Request(to=str(to), **asked)).run()


def tensors(folder: Path | str) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = {}
    for path in sorted(Path(folder).glob("*.safetensors")):
        found |= load_file(path)
    return found


def outcomes(done: Exported) -> dict[str, str]:
    return {check.name: check.outcome for check in done.checked.checks}


def empty_but(folder: Path, *names: str) -> bool:
    """Nothing else lies there: neither a model nor a temporary folder."""
    return sorted(path.name for path in folder.iterdir()) == sorted(names)


class TestWhatIsExported:
    @pytest.mark.parametrize("tied", [True, False], ids=["tied", "not-tied"])
    def test_the_logits_are_those_of_the_trained_model(self, tmp_path, tied):
        export(checkpoint(tmp_path, tied=tied), tmp_path / "out")
        loaded = Qwen3ForCausalLM.from_pretrained(tmp_path / "out", attn_implementation="eager")
        tokens = torch.arange(24).reshape(2, 12)
        with torch.no_grad():
            assert torch.equal(loaded.eval()(tokens).logits, model(tied=tied)(tokens).logits)

    def test_two_processes_and_one_give_the_same_bytes(self, tmp_path, two_processes):
        assert len(list(two_processes.glob("*.distcp"))) == 2
        one = export(checkpoint(tmp_path), tmp_path / "one", max_shard_bytes=30_000)
        side = checkpoints.side_files(tmp_path / "side")
        two = export(two_processes, tmp_path / "two", base=side, max_shard_bytes=30_000)
        assert len(one.checked.shards) > 2
        assert one.files == two.files

    def test_the_checkpoint_is_left_as_it_was(self, tmp_path):
        folder = checkpoint(tmp_path)
        before = read_files(folder)
        done = export(folder, tmp_path / "out")
        assert read_files(folder) == before
        assert done.digest_before == done.digest_after == before.digest

    def test_no_code_goes_with_it_and_the_rest_is_copied_byte_for_byte(self, tmp_path):
        side = checkpoint(tmp_path) / "huggingface"
        export(side.parent, tmp_path / "out")
        copied = {"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"}
        others = {path.name for path in (tmp_path / "out").iterdir() if path.suffix != ".safetensors"}
        assert others == copied | {INDEX}
        assert all((tmp_path / "out" / name).read_bytes() == (side / name).read_bytes() for name in copied)

    def test_a_cast_is_torch_s_and_config_json_says_it(self, tmp_path):
        done = export(checkpoint(tmp_path), tmp_path / "out", dtype="bfloat16")
        assert done.checked.dtypes == ["BF16"]
        expected = checkpoints.weights(model())
        found = tensors(tmp_path / "out")
        assert found.keys() == expected.keys()
        assert all(torch.equal(found[name], tensor.bfloat16()) for name, tensor in expected.items())
        assert json.loads((tmp_path / "out/config.json").read_bytes())["dtype"] == "bfloat16"
        assert any('dtype is "bfloat16", and was "float32"' in note for note in done.notes)

    def test_integers_are_not_cast(self, tmp_path):
        save = checkpoints.save({"counts": torch.arange(4), "scale": torch.ones(2)}, tmp_path / "save")
        selection = Selection({"counts": "counts", "scale": "scale"}, {}, "", 0, (), 0)
        made = weights.Conversion(open_save(save), selection, "bfloat16")
        assert [(spec.name, spec.dtype) for spec in made.specs] == [("counts", "I64"), ("scale", "BF16")]

    def test_an_architecture_that_the_trainer_left_out_is_named(self, tmp_path):
        folder = checkpoint(tmp_path)
        path = folder / "huggingface/config.json"
        path.write_text(json.dumps({**json.loads(path.read_bytes()), "architectures": None}))
        done = export(checkpoints.seal(folder), tmp_path / "out")
        assert json.loads((tmp_path / "out/config.json").read_bytes())["architectures"] == ["Qwen3ForCausalLM"]
        assert any("architectures" in note for note in done.notes)

    def test_repeating_it_changes_nothing(self, tmp_path):
        folder = checkpoint(tmp_path)
        first = export(folder, tmp_path / "out")
        times = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()}
        assert export(folder, tmp_path / "out").files == first.files
        assert {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()} == times

    def test_an_object_store_gets_the_same_files(self, tmp_path, s3):
        folder = checkpoint(tmp_path)
        there = export(folder, f"{s3}/arm-0/step-40", max_shard_bytes=30_000)
        assert there.location == f"{s3}/arm-0/step-40"
        assert outcomes(there)["file_digests"] == "passed"
        assert export(folder, tmp_path / "out", max_shard_bytes=30_000).files == there.files


class TestWhatIsLeftOut:
    def test_the_optimizer_beside_the_weights_is_not_read(self, tmp_path):
        folder = checkpoint(tmp_path)
        (folder / "optimizer/.metadata").write_bytes(b"damaged")
        assert outcomes(export(checkpoints.seal(folder), tmp_path / "out"))["weight_map_complete"] == "passed"

    def test_the_optimizer_among_the_weights_is_counted(self, tmp_path):
        named = checkpoints.weights(model())
        mixed = {
            **{f"model.{name}": tensor for name, tensor in named.items()},
            **{f"optim.state.model.{name}.exp_avg": torch.ones_like(tensor) for name, tensor in named.items()},
            "critic.value_head.weight": torch.ones(3),
            "lr_scheduler": {"last_epoch": 3},
        }
        done = export(checkpoint(tmp_path, tensors=mixed), tmp_path / "out")
        chosen = done.selection
        assert (chosen.prefix, chosen.optimizer, chosen.others) == ("model.", 24, ("critic.value_head.weight",))
        assert chosen.objects == 1
        assert tensors(tmp_path / "out").keys() == named.keys()

    def test_moments_that_bear_the_tensors_names_are_the_optimizer_s(self, tmp_path):
        named = checkpoints.weights(model())
        mixed = {
            **named,
            **{f"{name}.exp_avg": tensor for name, tensor in named.items()},
            f"{EMBEDDINGS}.step": torch.ones(1),
        }
        assert export(checkpoint(tmp_path, tensors=mixed), tmp_path / "out").selection.optimizer == 25

    def test_a_tied_output_layer_is_dropped_once_it_is_seen_to_be_equal(self, tmp_path):
        named = checkpoints.weights(model())
        done = export(checkpoint(tmp_path, tensors={**named, HEAD: named[EMBEDDINGS].clone()}), tmp_path / "out")
        assert done.selection.tied == {HEAD: EMBEDDINGS}
        assert HEAD not in tensors(tmp_path / "out")

    def test_a_tied_output_layer_that_differs_is_refused(self, tmp_path):
        named = checkpoints.weights(model())
        folder = checkpoint(tmp_path, tensors={**named, HEAD: named[EMBEDDINGS] + 1})
        with pytest.raises(InvalidInput, match=f"ties {HEAD} to {EMBEDDINGS}, and the two differ"):
            export(folder, tmp_path / "out")
        assert empty_but(tmp_path, folder.name)


class TestWhatIsRefused:
    def refused(self, tmp_path: Path, named: dict[str, object], **asked: object) -> InvalidInput:
        folder = checkpoint(tmp_path, tensors=named)
        with pytest.raises(InvalidInput) as caught:
            export(folder, tmp_path / "out", **asked)
        assert empty_but(tmp_path, folder.name)
        return caught.value

    def test_a_missing_tensor(self, tmp_path):
        named = checkpoints.weights(model())
        del named["model.norm.weight"]
        assert "model.norm.weight is not in the checkpoint" in self.refused(tmp_path, named).message

    def test_a_tensor_too_many(self, tmp_path):
        named = {**checkpoints.weights(model()), "model.layers.2.mlp.gate.weight": torch.ones(2)}
        assert "model.layers.2.mlp.gate.weight is no tensor of Qwen3" in self.refused(tmp_path, named).message

    def test_another_shape(self, tmp_path):
        named = {**checkpoints.weights(model()), "model.norm.weight": torch.ones(31)}
        assert "model.norm.weight is [31], and Qwen3ForCausalLM has [32]" in self.refused(tmp_path, named).message

    def test_an_output_layer_that_is_not_tied_and_not_there(self, tmp_path):
        folder = checkpoint(tmp_path, tied=False, tensors=checkpoints.weights(model()))
        with pytest.raises(InvalidInput, match=f"{HEAD} is not in the checkpoint"):
            export(folder, tmp_path / "out")

    def test_two_models_in_one_save_until_one_is_named(self, tmp_path):
        named = checkpoints.weights(model())
        other = checkpoints.weights(model(seed=5))
        both = {**{f"ref.{n}": t for n, t in named.items()}, **{f"policy.{n}": t for n, t in other.items()}}
        assert "'policy.', 'ref.'" in self.refused(tmp_path, both).message
        export(tmp_path / "global_step_40", tmp_path / "out", prefix="policy.")
        assert torch.equal(tensors(tmp_path / "out")[EMBEDDINGS], other[EMBEDDINGS])

    def test_no_configuration(self, tmp_path):
        folder = checkpoint(tmp_path)
        checkpoints.moved(folder / "huggingface", tmp_path / "side")
        with pytest.raises(InvalidInput, match=r"no config\.json goes with the checkpoint") as caught:
            export(checkpoints.seal(folder), tmp_path / "out")
        assert "--base" in caught.value.remedy
        assert outcomes(export(folder, tmp_path / "out", base=tmp_path / "side"))["differs_from_base"] == "not_checked"

    def test_a_place_that_holds_something_else(self, tmp_path):
        folder = checkpoint(tmp_path)
        (tmp_path / "out").mkdir()
        (tmp_path / "out/notes.txt").write_text("mine")
        with pytest.raises(Refused, match=r"holds other files already: notes\.txt"):
            export(folder, tmp_path / "out")
        assert empty_but(tmp_path / "out", "notes.txt")
        export(folder, tmp_path / "out", replace=True)
        assert not (tmp_path / "out/notes.txt").exists()

    @pytest.mark.parametrize("inside", ["global_step_40/out", "."])
    def test_a_place_in_the_checkpoint_or_around_it(self, tmp_path, inside):
        with pytest.raises(InvalidInput, match="lie in one another"):
            export(checkpoint(tmp_path), tmp_path / inside)

    def test_what_is_equal_to_the_base_was_never_trained(self, tmp_path):
        folder, base = checkpoint(tmp_path, seed=99), checkpoints.base(tmp_path / "base")
        work = Export(read_source(folder), Request(to=str(tmp_path / "out"), base=base))
        with pytest.raises(Broken, match="differs_from_base"):
            work.run()
        assert (work.stage, [check.name for check in work.failed_checks]) == ("verify", ["differs_from_base"])
        assert empty_but(tmp_path, folder.name, "base")

    def test_a_model_of_another_base(self, tmp_path):
        folder, base = checkpoint(tmp_path, tied=False), checkpoints.base(tmp_path / "base")
        with pytest.raises(Broken, match=f"base_tensors: .*tensor {HEAD}"):
            export(folder, tmp_path / "out", base=base)


class TestFaults:
    """Whatever happens on the way, nothing is at the place and nothing is left beside it."""

    def test_a_checkpoint_that_changes_meanwhile(self, tmp_path, monkeypatch):
        folder = checkpoint(tmp_path)
        source = read_source(folder)
        (folder / "rng").mkdir()
        (folder / "rng/rank_0.json").write_text("{}")
        work = Export(source, Request(to=str(tmp_path / "out")))
        with pytest.raises(Broken, match="changed while it was exported"):
            work.run()
        assert work.stage == "verify"
        assert empty_but(tmp_path, folder.name)

    def test_an_error_half_way_through_the_tensors(self, tmp_path):
        folder = checkpoint(tmp_path)
        shard = next((folder / "weights").glob("*.distcp"))
        data = bytearray(shard.read_bytes())
        data[len(data) // 2 : len(data) // 2 + 4_000] = bytes(4_000)
        shard.write_bytes(data)
        work = Export(read_source(checkpoints.seal(folder)), Request(to=str(tmp_path / "deep/er/out")))
        with pytest.raises(LedgerError) as caught:
            work.run()
        assert (work.stage, caught.value.reason) == ("convert", "INVALID_FILE")
        assert empty_but(tmp_path, folder.name)

    @pytest.mark.parametrize("fails_at", [INDEX, "config.json", "model-00001-of-00001.safetensors"])
    def test_a_place_that_stops_answering(self, tmp_path, monkeypatch, fails_at):
        put = Folder.put

        def stops(self, name, source):
            if name == fails_at and self.location == str(tmp_path / "new/out"):
                raise OSError("the disk is gone")
            put(self, name, source)

        monkeypatch.setattr(Folder, "put", stops)
        folder = checkpoint(tmp_path)
        work = Export(read_source(folder), Request(to=str(tmp_path / "new/out")))
        with pytest.raises(OSError, match="the disk is gone"):
            work.run()
        assert work.stage == "upload"
        assert empty_but(tmp_path, folder.name)

    def test_a_tensor_that_was_written_otherwise_than_it_was_saved(self, tmp_path):
        folder = checkpoint(tmp_path)
        loaded = Export(read_source(folder), Request(to=str(tmp_path / "out")))._load()
        (tmp_path / "staged").mkdir()
        weights.write(loaded.conversion, tmp_path / "staged", max_shard_bytes=10**9)
        assert weights.compare(loaded.conversion, tmp_path / "staged") == 24
        shard = tmp_path / "staged/model-00001-of-00001.safetensors"
        data = bytearray(shard.read_bytes())
        data[-1] ^= 1
        shard.write_bytes(data)
        with pytest.raises(Broken, match="has other bytes in model-00001-of-00001"):
            weights.compare(loaded.conversion, tmp_path / "staged")

    def test_a_process_that_is_killed_leaves_nothing_that_loads(self, tmp_path):
        """Killed while the shards are published: the index is not there, and the same command ends it."""
        folder = checkpoint(tmp_path)
        child = os.fork()
        if not child:
            put = Folder.put

            def dies(self, name, source):
                if name == INDEX:
                    os._exit(9)
                put(self, name, source)

            Folder.put = dies
            try:
                export(folder, tmp_path / "out")
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
        assert (tmp_path / "out/model-00001-of-00001.safetensors").exists()
        assert not (tmp_path / "out" / INDEX).exists()
        assert outcomes(export(folder, tmp_path / "out"))["file_digests"] == "passed"
