"""Small models as they lie on a disk: whole ones, and each way of being faulty by a name of its own.

A model has two layers whose matrices have one shape, so that names can be exchanged and nothing but numbers would tell.
"""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable, Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any

from ledger.client.exports.indexes import INDEX
from ledger.client.exports.places import Folder
from ledger.client.exports.writing import TensorSpec, write_model

SHAPES: Mapping[str, tuple[int, ...]] = {
    "model.embed_tokens.weight": (32, 16),
    "model.layers.0.q_proj.weight": (16, 16),
    "model.layers.0.k_proj.weight": (16, 16),
    "model.layers.1.q_proj.weight": (16, 16),
    "model.norm.weight": (16,),
}
EMBEDDINGS, NORM = "model.embed_tokens.weight", "model.norm.weight"
Q0, K0 = "model.layers.0.q_proj.weight", "model.layers.0.k_proj.weight"
ONE, TWO, THREE = (f"model-0000{i}-of-00003.safetensors" for i in (1, 2, 3))
CONFIG = {"architectures": ["Qwen3ForCausalLM"], "tie_word_embeddings": True}
GENERATION = {"do_sample": True, "temperature": 0.6, "top_k": 20, "eos_token_id": 3, "_from_model_config": True}


def numbers(name: str, count: int, *, moved: float = 0.0) -> list[float]:
    """What a tensor of this name holds; `moved`: how far training took it, as a part of itself."""
    base, step = random.Random(name), random.Random(f"step {name}")
    return [base.gauss(0, 1) * (1 + moved * step.gauss(0, 1)) for _ in range(count)]


def packed(dtype: str, values: list[float]) -> bytes:
    wide = struct.pack(f"<{len(values)}f", *values)
    return wide if dtype == "F32" else b"".join(wide[i + 2 : i + 4] for i in range(0, len(wide), 4))


def tensors(
    shapes: Mapping[str, tuple[int, ...]] = SHAPES, *, moved: float = 0.0, dtype: str = "BF16"
) -> Iterator[tuple[TensorSpec, Callable[[], bytes]]]:
    for name, shape in shapes.items():
        data = packed(dtype, numbers(name, prod(shape), moved=moved))
        yield TensorSpec(name, dtype, shape), lambda data=data: data


def model(
    folder: Path,
    shapes: Mapping[str, tuple[int, ...]] = SHAPES,
    *,
    moved: float = 0.01,
    dtype: str = "BF16",
    config: Mapping[str, Any] = CONFIG,
    max_shard_bytes: int = 1_024,
) -> Path:
    """A whole model of three shards."""
    write_model(folder, tensors(shapes, moved=moved, dtype=dtype), max_shard_bytes=max_shard_bytes)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "generation_config.json").write_text(json.dumps(GENERATION))
    (folder / "tokenizer.json").write_text("{}")
    return folder


def base(folder: Path, **options: Any) -> Folder:
    """The model that training began with."""
    return Folder(model(folder, moved=0.0, **options))


def edit_index(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    said = json.loads((folder / INDEX).read_bytes())
    change(said)
    (folder / INDEX).write_text(json.dumps(said))


def header(path: Path, said: object, *, data: bytes = b"", length: int | None = None) -> Path:
    """A safetensors file that says anything."""
    text = said if isinstance(said, bytes) else json.dumps(said).encode()
    path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data)
    return path


def edit_header(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Changes what a shard says of its tensors, and none of their bytes."""
    whole = path.read_bytes()
    length = int.from_bytes(whole[:8], "little")
    said = json.loads(whole[8 : 8 + length])
    change(said)
    header(path, said, data=whole[8 + length :])


def exchange(folder: Path, one: str, other: str) -> None:
    """Gives two tensors each other's names, in their shards; the index stays right about where names are."""
    files = json.loads((folder / INDEX).read_bytes())["weight_map"]
    if files[one] == files[other]:
        edit_header(folder / files[one], lambda said: said.update({one: said[other], other: said[one]}))
        return
    edit_header(folder / files[one], lambda said: said.update({other: said.pop(one)}))
    edit_header(folder / files[other], lambda said: said.update({one: said.pop(other)}))
    edit_index(folder, lambda said: said["weight_map"].update({one: files[other], other: files[one]}))


def cut(path: Path, by: int) -> None:
    path.write_bytes(path.read_bytes()[:-by])


def lengthen(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"!")


def link_away(folder: Path, name: str) -> None:
    """Moves a file out of the folder and leaves a link to it."""
    (folder / name).rename(folder.parent / "elsewhere")
    (folder / name).symlink_to(folder.parent / "elsewhere")


def flip(path: Path, at: int = -1) -> None:
    """Changes one bit of a file."""
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
