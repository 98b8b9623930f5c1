"""Models: what they are said to be, what refuses them, and what is written beside their weights."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

from ledger.core.errors import InvalidInput, LedgerError
from ledger.events.runs import ModelRef
from services.trainer import models
from services.trainer.models import LoadedModel, full_names, load, save_huggingface
from services.trainer.settings import Model, Origin
from services.trainer.tiny_models import build_tokenizer
from tests.trainer.plain_rloo import rewards_of_digits

SMALL = {"kind": "tiny-qwen3", "hidden_size": 32, "layers": 1}


@pytest.fixture(scope="module")
def tiny() -> LoadedModel:
    return load(Model(**SMALL))


@pytest.fixture
def folder(tiny: LoadedModel, tmp_path: Path) -> Path:
    """Hugging Face files of the tiny model."""
    save_huggingface(tiny.model.config, tiny.tokenizer, tmp_path / "hf")
    weights = {name: tensor.detach() for name, tensor in full_names(tiny.model).items()}
    save_file(weights, tmp_path / "hf" / "model.safetensors", metadata={"format": "pt"})
    return tmp_path / "hf"


def logits(loaded: LoadedModel) -> torch.Tensor:
    with torch.no_grad():
        return loaded.model(torch.tensor([loaded.prompt_ids("2 + 3")])).logits


def test_a_seed_gives_the_same_model_and_tokenizer_byte_for_byte(tiny: LoadedModel, tmp_path: Path) -> None:
    again = load(Model(**SMALL))
    assert again.ref == tiny.ref
    assert torch.equal(logits(tiny), logits(again))
    for name, one in (("a", tiny), ("b", again)):
        save_huggingface(one.model.config, one.tokenizer, tmp_path / name)
    written = {path.name: path.read_bytes() for path in (tmp_path / "a").iterdir()}
    assert written == {path.name: path.read_bytes() for path in (tmp_path / "b").iterdir()}
    assert {"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"} <= set(written)


@pytest.mark.parametrize(
    "change", [{"seed": 1}, {"hidden_size": 48}, {"layers": 2}, {"tied": False}, {"dtype": "bfloat16"}]
)
def test_other_settings_give_another_model(tiny: LoadedModel, change: dict[str, Any]) -> None:
    assert load(Model(**{**SMALL, **change})).ref["digest"] != tiny.ref["digest"]


def test_building_a_model_moves_no_random_state() -> None:
    torch.manual_seed(7)
    before = torch.random.get_rng_state()
    load(Model(**SMALL))
    assert torch.equal(before, torch.random.get_rng_state())


def test_a_model_is_told_as_the_ledger_has_it(tiny: LoadedModel) -> None:
    ref = ModelRef.model_validate(tiny.ref)
    assert ref.name == "tiny-qwen3 of seed 0, 1 layers of 32, tied"
    assert ref.parameters == sum(tensor.numel() for tensor in full_names(tiny.model).values())
    assert tiny.root is None


def test_what_a_model_descends_from_is_told_as_it_was_named() -> None:
    root = Origin(name="Qwen3", repository="Qwen/Qwen3-8B", commit="c" * 40, license="apache-2.0")
    loaded = load(Model(**SMALL, root=root))
    assert ModelRef.model_validate(loaded.root) == ModelRef(
        name="Qwen3", repository="Qwen/Qwen3-8B", commit="c" * 40, license="apache-2.0"
    )


def test_tied_weights_are_named_once(tiny: LoadedModel) -> None:
    names = full_names(tiny.model)
    assert "model.embed_tokens.weight" in names
    assert "lm_head.weight" not in names
    apart = full_names(load(Model(**SMALL, tied=False)).model)
    assert set(apart) == {*names, "lm_head.weight"}


def test_the_named_tensors_are_the_models_own(tiny: LoadedModel) -> None:
    own = dict(tiny.model.named_parameters())
    assert all(tensor is own[name] for name, tensor in full_names(tiny.model).items())


def test_a_prompt_is_a_conversation_up_to_the_answer(tiny: LoadedModel) -> None:
    text = tiny.tokenizer.decode(tiny.prompt_ids("Say 7.\nNow!"))
    assert text == "<|user|>say 7.\nnow!<|end|><|assistant|>"


def test_an_answer_is_text_without_what_ends_it(tiny: LoadedModel) -> None:
    ids = [*tiny.tokenizer("it is  7.\n")["input_ids"], *tiny.stop_ids]
    assert tiny.text_of(ids) == "it is  7.\n"


def test_a_character_that_the_tokenizer_lacks_is_one_unknown_token(tiny: LoadedModel) -> None:
    ids = tiny.tokenizer("7é")["input_ids"]
    assert (len(ids), ids[-1]) == (2, tiny.tokenizer.unk_token_id)


def test_a_model_without_chat_template_reads_the_prompt_alone(tiny: LoadedModel, folder: Path) -> None:
    (folder / "chat_template.jinja").unlink()
    loaded = load(Model(kind="folder", path=folder))
    assert loaded.prompt_ids("7") == tiny.tokenizer("7")["input_ids"]


def test_the_configuration_names_the_class_that_runs_the_model(folder: Path) -> None:
    """An engine that finds none there takes the model for another kind."""
    assert json.loads((folder / "config.json").read_bytes())["architectures"] == ["Qwen3ForCausalLM"]


def test_the_generation_defaults_say_nothing_of_sampling(folder: Path) -> None:
    said = json.loads((folder / "generation_config.json").read_text())
    said.pop("transformers_version")
    assert said == {"eos_token_id": 1, "pad_token_id": 0}


def test_generation_defaults_may_say_how_the_run_sampled(tiny: LoadedModel, tmp_path: Path) -> None:
    save_huggingface(tiny.model.config, tiny.tokenizer, tmp_path, stop_ids=(1, 3), temperature=0.7)
    said = json.loads((tmp_path / "generation_config.json").read_text())
    said.pop("transformers_version")
    assert said == {
        "do_sample": True, "temperature": 0.7, "top_k": 0, "top_p": 1.0, "eos_token_id": [1, 3], "pad_token_id": 0
    }  # fmt: skip


def test_sampling_defaults_of_a_folder_are_not_taken_over(folder: Path) -> None:
    theirs = {"eos_token_id": [1, 3], "top_k": 20, "temperature": 0.6, "do_sample": True, "repetition_penalty": 1.1}
    (folder / "generation_config.json").write_text(json.dumps(theirs))
    loaded = load(Model(kind="folder", path=folder))
    assert loaded.stop_ids == (1, 3)
    ours = loaded.model.generation_config
    assert (ours.top_k, ours.temperature, ours.do_sample, ours.repetition_penalty) == (None,) * 4
    assert ours.eos_token_id == [1, 3]


def test_a_folder_gives_the_model_that_was_written(tiny: LoadedModel, folder: Path) -> None:
    loaded = load(Model(kind="folder", path=folder))
    assert torch.equal(logits(loaded), logits(tiny))
    assert loaded.ref["digest"] == tiny.ref["digest"]
    assert loaded.ref["digest"] == hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    assert loaded.ref["name"] == "hf"


def test_an_origin_names_the_folder(folder: Path) -> None:
    loaded = load(Model(kind="folder", path=folder, origin=Origin(name="M", repository="o/m", commit="c" * 40)))
    assert (loaded.ref["name"], loaded.ref["repository"], loaded.ref["commit"]) == ("M", "o/m", "c" * 40)


def test_the_dtype_is_the_one_that_was_asked_for(folder: Path) -> None:
    loaded = load(Model(kind="folder", path=folder, dtype="bfloat16"))
    assert {tensor.dtype for tensor in full_names(loaded.model).values()} == {torch.bfloat16}


def in_shards(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(weights)
    parts = {"model-00001-of-00002.safetensors": names[:3], "model-00002-of-00002.safetensors": names[3:]}
    for file, held in parts.items():
        save_file({name: weights[name] for name in held}, folder / file, metadata={"format": "pt"})
    index = {"metadata": {}, "weight_map": {name: file for file, held in parts.items() for name in held}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def test_the_digest_of_several_files_is_over_the_lines_of_sha256sum(tiny: LoadedModel, folder: Path) -> None:
    in_shards(folder)
    loaded = load(Model(kind="folder", path=folder))
    assert torch.equal(logits(loaded), logits(tiny))
    shards = sorted(folder.glob("model-*.safetensors"))
    lines = "".join(f"{hashlib.sha256(s.read_bytes()).hexdigest()}  {s.name}\n" for s in shards)
    assert loaded.ref["digest"] == hashlib.sha256(lines.encode()).hexdigest()


def changed_weights(change: Callable[[dict[str, torch.Tensor]], object]) -> Callable[[Path], object]:
    def spoil(folder: Path) -> None:
        weights = load_file(folder / "model.safetensors")
        change(weights)
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})

    return spoil


def without_a_shard(folder: Path) -> None:
    in_shards(folder)
    (folder / "model-00002-of-00002.safetensors").unlink()


def with_a_shard_elsewhere(folder: Path) -> None:
    in_shards(folder)
    index = folder / "model.safetensors.index.json"
    (folder / "model-00002-of-00002.safetensors").rename(folder.parent / "other.safetensors")
    index.write_text(index.read_text().replace("model-00002-of-00002.safetensors", "../other.safetensors"))


def with_two_sets(folder: Path) -> None:
    single = (folder / "model.safetensors").read_bytes()
    in_shards(folder)
    (folder / "model.safetensors").write_bytes(single)


def pickled(folder: Path) -> None:
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


def with_more_tokens(folder: Path) -> None:
    tokenizer = build_tokenizer()
    tokenizer.add_tokens(["seven"])
    tokenizer.save_pretrained(folder)


NORM = "model.norm.weight"
SPOILT: dict[str, tuple[Callable[[Path], object], str]] = {
    "a tensor is missing": (changed_weights(lambda w: w.pop(NORM)), "model.norm.weight is missing"),
    "a tensor is left over": (
        changed_weights(lambda w: w.update(ghost=torch.zeros(2))),
        "ghost belongs to no part of the model",
    ),
    "a shape is another": (changed_weights(lambda w: w.update({NORM: torch.zeros(5)})), f"{NORM} has another shape"),
    "a file is cut off": (lambda f: (f / "model.safetensors").write_bytes(struct.pack("<Q", 10**6)), "model"),
    "a shard is not there": (without_a_shard, "model-00002-of-00002.safetensors is not there"),
    "a shard lies elsewhere": (with_a_shard_elsewhere, "lies outside the folder"),
    "two sets of weights": (with_two_sets, "has both"),
    "pickled weights": (pickled, "no safetensors weights"),
    "an index of nothing": (
        lambda f: (in_shards(f), (f / "model.safetensors.index.json").write_text('{"weight_map": {}}')),
        "weight_map is empty",
    ),
    "an index that is none": (
        lambda f: (in_shards(f), (f / "model.safetensors.index.json").write_text("[]")),
        "no index",
    ),
    "no configuration": (lambda f: (f / "config.json").unlink(), "no folder with a config.json"),
    "a configuration of no model": (lambda f: (f / "config.json").write_text('{"model_type": "none"}'), "model"),
    "a tokenizer of a larger model": (with_more_tokens, "its tokenizer has 62 tokens, and the model only 61"),
    "no tokenizer": (lambda f: [p.unlink() for p in f.glob("tokenizer*")], "no tokenizer"),
}


@pytest.mark.parametrize(("spoil", "why"), SPOILT.values(), ids=SPOILT.keys())
def test_files_that_are_no_whole_model_are_refused(folder: Path, spoil: Callable[[Path], object], why: str) -> None:
    spoil(folder)
    with pytest.raises(InvalidInput) as caught:
        load(Model(kind="folder", path=folder))
    assert caught.value.reason == "INVALID_FILE"
    assert why in caught.value.message
    assert "\n" not in caught.value.message


def test_a_folder_that_is_not_there_is_never_looked_for_elsewhere(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"no folder with a config\.json"):
        load(Model(kind="folder", path=tmp_path / "Qwen" / "Qwen3-8B"))


def test_the_extra_is_named_where_gguf_files_cannot_be_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(models, "GGUF_PACKAGES", ("package_of_nobody",))
    with pytest.raises(LedgerError, match="package_of_nobody") as caught:
        load(Model(kind="gguf", path=tmp_path / "model.gguf"))
    assert caught.value.reason == "EXTRA_MISSING"


def test_a_file_that_is_not_there_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "GGUF_PACKAGES", ())
    with pytest.raises(InvalidInput, match="there is no such file"):
        load(Model(kind="gguf", path=tmp_path / "model.gguf"))


def test_a_file_that_is_no_gguf_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "GGUF_PACKAGES", ())
    (tmp_path / "model.gguf").write_bytes(b"GGUF" + bytes(64))
    with pytest.raises(InvalidInput, match="no model could be read"):
        load(Model(kind="gguf", path=tmp_path / "model.gguf"))


def test_a_model_whose_weights_have_other_names_at_work_is_refused(tiny: LoadedModel, tmp_path: Path) -> None:
    config = Qwen3MoeConfig(
        vocab_size=61, hidden_size=16, intermediate_size=16, moe_intermediate_size=8, num_hidden_layers=1, head_dim=8,
        num_attention_heads=2, num_key_value_heads=1, num_experts=2, num_experts_per_tok=1, eos_token_id=1, pad_token_id=0,
        bos_token_id=None,
    )  # fmt: skip
    Qwen3MoeForCausalLM(config).save_pretrained(tmp_path)
    tiny.tokenizer.save_pretrained(tmp_path)
    with pytest.raises(LedgerError, match="other names in files than at work") as caught:
        load(Model(kind="folder", path=tmp_path))
    assert caught.value.reason == "NOT_SUPPORTED"


@pytest.mark.parametrize("device", ["nonsense", "cuda:99", "meta2"])
def test_a_device_that_is_not_there_is_refused(device: str) -> None:
    with pytest.raises(InvalidInput, match=r"model\.device") as caught:
        load(Model(**SMALL, device=device))
    assert caught.value.reason == "USAGE"


def test_the_extra_is_named_where_a_package_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "PACKAGES", ("torch", "package_of_nobody"))
    with pytest.raises(LedgerError, match="package_of_nobody") as caught:
        load(Model(**SMALL))
    assert (caught.value.reason, caught.value.details["extra"]) == ("EXTRA_MISSING", "train")


@pytest.mark.slow
def test_the_model_learns_the_digits_with_plain_rloo() -> None:
    """Forty steps of the example's geometry: what the trainer's own tests build on."""
    rewards = rewards_of_digits(steps=40, seed=1)
    assert sum(rewards[:3]) / 3 < 0.2
    assert sum(rewards[-5:]) / 5 > 0.8
