"""Checkpoints as trainers write them, made on the spot from a tiny model: whole, and with one thing wrong."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import torch
from torch.distributed.checkpoint.state_dict_saver import save as dcp_save
from transformers import GenerationConfig, Qwen3Config, Qwen3ForCausalLM

from ledger.client.recording.files import read_files

RUN: Final = "arm-0"
EMBEDDINGS: Final = "model.embed_tokens.weight"
HEAD: Final = "lm_head.weight"


def config(*, tied: bool = True, layers: int = 2) -> Qwen3Config:
    return Qwen3Config(
        vocab_size=96,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        max_position_embeddings=128,
        tie_word_embeddings=tied,
        attn_implementation="eager",
        dtype=torch.float32,
        architectures=["Qwen3ForCausalLM"],
    )


@cache
def model(*, tied: bool = True, seed: int = 0) -> Qwen3ForCausalLM:
    """The same one for a seed; nobody may change it."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Qwen3ForCausalLM(config(tied=tied)).eval()


def weights(of: Any) -> dict[str, torch.Tensor]:
    """By name, tied ones once."""
    found: dict[int, tuple[str, torch.Tensor]] = {}
    for name, tensor in of.state_dict(keep_vars=True).items():
        found.setdefault(id(tensor), (name, tensor.detach()))
    return dict(found.values())


def save(tensors: Mapping[str, Any], folder: Path) -> Path:
    """One process's save."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is disabled", category=UserWarning)
        dcp_save(dict(tensors), checkpoint_id=folder, no_dist=True)
    return folder


def side_files(folder: Path, *, tied: bool = True) -> Path:
    """What goes beside weights, as a trainer or a base has it."""
    folder.mkdir(parents=True, exist_ok=True)
    config(tied=tied).save_pretrained(folder)
    GenerationConfig(eos_token_id=1, do_sample=True, temperature=0.7, top_k=0).save_pretrained(folder)
    (folder / "tokenizer.json").write_text('{"version": "1.0"}')
    (folder / "tokenizer_config.json").write_text("{}")
    (folder / "modeling_evil.py").write_text("raise SystemExit")
    return folder


def checkpoint(
    root: Path,
    step: int = 40,
    *,
    tied: bool = True,
    seed: int = 0,
    tensors: Mapping[str, Any] | None = None,
    state: Mapping[str, Any] | None = None,
    name: str | None = None,
) -> Path:
    """As the product's own trainer leaves one."""
    folder = root / (name or f"global_step_{step}")
    named = weights(model(tied=tied, seed=seed)) if tensors is None else tensors
    save(named, folder / "weights")
    moments = {f"{name}.exp_avg": torch.ones_like(t) for name, t in named.items() if isinstance(t, torch.Tensor)}
    save(moments, folder / "optimizer")
    side_files(folder / "huggingface", tied=tied)
    said = {"schema_version": 1, "run_id": RUN, "attempt": 2, "step": step, **(state or {})}
    (folder / "trainer_state.json").write_text(json.dumps(said))
    return seal(folder)


def seal(folder: Path) -> Path:
    """Writes the manifest, which comes last."""
    manifest = folder / "manifest.json"
    manifest.unlink(missing_ok=True)
    files = [file.model_dump(mode="json") for file in read_files(folder).files]
    manifest.write_text(json.dumps({"schema_version": 1, "files": files}))
    return folder


def base(folder: Path, *, seed: int = 99, tied: bool = True) -> Path:
    """The model that training began with."""
    model(tied=tied, seed=seed).save_pretrained(folder)
    side_files(folder, tied=tied)
    return folder


_TWO: Final = """
import os
import sys
import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from tests.exporter.checkpoints import model, weights

torch.set_num_threads(1)
dist.init_process_group("gloo")
of = model(seed=0)
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
for layer in of.model.layers:
    fully_shard(layer, mesh=mesh)
fully_shard(of, mesh=mesh)
save(weights(of), checkpoint_id=sys.argv[1])
dist.barrier()
dist.destroy_process_group()
os._exit(0)  # gloo's threads may still run, and would abort an interpreter that ends by itself
"""


def save_by_two_processes(folder: Path) -> Path:
    """The model of seed 0, spread over two gloo processes."""
    root = Path(__file__).parents[2]
    store = f"file://{folder}.rendezvous"
    command = [
        sys.executable,
        "-c",
        _TWO.replace('"gloo"', f'"gloo", init_method={store!r}, rank=int(sys.argv[2]), world_size=2'),
        str(folder),
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(root)}
    processes = [subprocess.Popen([*command, str(rank)], env=environment, cwd=root) for rank in (0, 1)]
    assert [process.wait(timeout=120) for process in processes] == [0, 0]
    return folder


def moved(folder: Path, to: Path) -> Path:
    shutil.move(folder, to)
    return to
