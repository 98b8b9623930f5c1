"""Which tensors a model has is told by its configuration, and no code of a checkpoint is run for it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from transformers import Qwen3MoeConfig

from ledger.core.errors import InvalidInput, LedgerError
from services.exporter.architectures import read_architecture
from services.exporter.checkpoints import read_source
from services.exporter.exporting import Export, Request
from tests.exporter import checkpoints
from tests.exporter.checkpoints import EMBEDDINGS, HEAD


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "not-tied"])
def test_names_and_shapes_are_those_of_the_model_at_work(tmp_path, tied):
    found = read_architecture(checkpoints.side_files(tmp_path, tied=tied))
    held = checkpoints.weights(checkpoints.model(tied=tied))
    assert found.shapes == {name: tuple(tensor.shape) for name, tensor in held.items()}
    assert found.tied == ({HEAD: EMBEDDINGS} if tied else {})
    assert (found.name, found.converted) == ("Qwen3ForCausalLM", False)


def test_a_model_whose_files_name_other_tensors_needs_a_base_that_names_them(tmp_path: Path):
    folder = tmp_path / "global_step_1"
    checkpoints.save({"model.norm.weight": torch.ones(8)}, folder / "weights")
    Qwen3MoeConfig(
        vocab_size=16,
        hidden_size=8,
        intermediate_size=8,
        moe_intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        num_experts=2,
        num_experts_per_tok=1,
        architectures=["Qwen3MoeForCausalLM"],
    ).save_pretrained(folder / "huggingface")
    with pytest.raises(LedgerError, match="other tensors in files than at work") as caught:
        Export(read_source(folder), Request(to=str(tmp_path / "out"))).run()
    assert caught.value.reason == "NOT_SUPPORTED"


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"architectures": ["AutoModelForCausalLM"]}, "transformers has no model 'AutoModelForCausalLM'"),
        ({"architectures": ["os"]}, "transformers has no model 'os'"),
        ({"hidden_size": "wide"}, "describes no model that can be exported"),
        ({"model_type": "evil", "auto_map": {"AutoConfig": "modeling_evil.Config"}}, "describes no model"),
    ],
    ids=["no-class-of-a-model", "no-class", "no-number", "code-of-the-folder"],
)
def test_a_configuration_of_no_model_is_refused(tmp_path, said, why):
    config = checkpoints.side_files(tmp_path) / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_bytes()), **said}))
    with pytest.raises(InvalidInput, match=why):
        read_architecture(tmp_path)
