"""Safetensors shards and their index, from tensors as bytes.

- The files are those that the format's own library writes for the same tensors: a header padded with spaces to eight
  bytes; within a shard the larger types first, by name among equals, so that every tensor is aligned to its type.
- Tensors are dealt to shards in the order in which they are given. A shard is closed before the tensor that would make
  its data larger than allowed; a tensor that is larger by itself has a shard to itself.
- A tensor's bytes are asked for once, when they are written, and not kept: memory holds one tensor.
- Each file takes its name when it is whole, and the index last.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import BinaryIO, Final

from ledger.client.exports.headers import BITS, LENGTH, MAX_HEADER
from ledger.client.exports.indexes import INDEX
from ledger.client.whole import whole
from ledger.core.errors import InvalidInput

_ALIGNED: Final = 8
_ORDER: Final = (
    "BOOL", "F4", "F6_E2M3", "F6_E3M2", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0", "I16", "U16", "F16", "BF16", "I32",
    "U32", "F32", "C64", "F64", "I64", "U64",
)  # fmt: skip
"""As the format's library ranks them; the last stands first in a file."""
_RANK: Final = {dtype: rank for rank, dtype in enumerate(_ORDER)}

Source = Callable[[], bytes | memoryview]


@dataclass(frozen=True)
class TensorSpec:
    """A tensor to be written; the type by its name in safetensors, such as BF16."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def parameters(self) -> int:
        return prod(self.shape)

    @property
    def size(self) -> int:
        """Bytes."""
        return self.parameters * BITS[self.dtype] // 8


@dataclass(frozen=True)
class WrittenModel:
    """What was written: the shards and the index, which is last."""

    files: tuple[str, ...]
    total_size: int
    tensor_count: int
    parameter_count: int
    dtypes: tuple[str, ...]


_Shard = list[tuple[TensorSpec, Source]]


def write_model(
    folder: Path,
    tensors: Iterable[tuple[TensorSpec, Source]],
    *,
    max_shard_bytes: int,
    metadata: Mapping[str, str] | None = None,
) -> WrittenModel:
    """Writes the shards of a model and their index; `metadata` stands in every header, else `format: pt` does.

    Raises:
        InvalidInput: reason INVALID_FILE, if a tensor's name, type or bytes cannot be; USAGE, if a file cannot be
            written. Shards that were written before it stay, without an index.
    """
    given = list(tensors)
    _check([spec for spec, _ in given], max_shard_bytes)
    shards = _dealt(given, max_shard_bytes)
    names = [f"model-{i:05d}-of-{len(shards):05d}.safetensors" for i in range(1, len(shards) + 1)]
    _make(folder)
    for name, shard in zip(names, shards, strict=True):
        _write_shard(folder / name, shard, {"format": "pt"} if metadata is None else dict(metadata))
    total = sum(spec.size for spec, _ in given)
    files = {spec.name: name for name, shard in zip(names, shards, strict=True) for spec, _ in shard}
    with whole(folder / INDEX) as index:
        index.write(_index(total, files))
    specs = [spec for spec, _ in given]
    return WrittenModel(
        files=(*names, INDEX),
        total_size=total,
        tensor_count=len(specs),
        parameter_count=sum(s.parameters for s in specs),
        dtypes=tuple(sorted({s.dtype for s in specs})),
    )


def _check(specs: Sequence[TensorSpec], max_shard_bytes: int) -> None:
    if max_shard_bytes < 1:
        raise InvalidInput("a shard must be allowed at least 1 byte", reason="USAGE", remedy="Allow some GB.")
    if not specs:
        raise _bad("there are no tensors to write")
    seen: set[str] = set()
    for spec in specs:
        if spec.name in seen or spec.name == "__metadata__":
            raise _bad(f"the tensor {spec.name[:200]!r} is given twice, or has a name of the format's own")
        seen.add(spec.name)
        if not _is_text(spec.name):
            raise _bad(f"the tensor {spec.name[:200]!r} has a name that is no text")
        bits = BITS.get(spec.dtype)
        if bits is None or min(spec.shape, default=0) < 0 or spec.parameters * bits % 8:
            raise _bad(f"the tensor {spec.name[:200]!r} of type {spec.dtype} and shape {list(spec.shape)} cannot be")


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _dealt(tensors: Iterable[tuple[TensorSpec, Source]], most: int) -> list[_Shard]:
    shards: list[_Shard] = [[]]
    room = most
    for spec, source in tensors:
        if shards[-1] and spec.size > room:
            shards.append([])
            room = most
        shards[-1].append((spec, source))
        room -= spec.size
    return shards


def _write_shard(path: Path, shard: _Shard, metadata: Mapping[str, str]) -> None:
    shard = sorted(shard, key=lambda one: (-_RANK[one[0].dtype], one[0].name.encode()))
    header = _header([spec for spec, _ in shard], metadata)
    with whole(path) as file:
        file.write(len(header).to_bytes(LENGTH, "little") + header)
        for spec, source in shard:
            _write_tensor(file, spec, source)


def _write_tensor(file: BinaryIO, spec: TensorSpec, source: Source) -> None:
    data = source()
    size = data.nbytes if isinstance(data, memoryview) else len(data)
    if size != spec.size:
        raise _bad(f"the tensor {spec.name[:200]!r} came with {size:,} bytes, and its shape makes {spec.size:,}")
    file.write(data)


def _header(specs: Iterable[TensorSpec], metadata: Mapping[str, str]) -> bytes:
    said: dict[str, object] = {"__metadata__": dict(sorted(metadata.items()))} if metadata else {}
    at = 0
    for spec in specs:
        said[spec.name] = {"dtype": spec.dtype, "shape": list(spec.shape), "data_offsets": [at, at + spec.size]}
        at += spec.size
    header = json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode()
    header += b" " * (-len(header) % _ALIGNED)
    if len(header) > MAX_HEADER:
        raise _bad(f"its header would have {len(header):,} bytes, which no reader takes", "Allow less a shard.")
    return header


def _index(total: int, files: Mapping[str, str]) -> bytes:
    said = {"metadata": {"total_size": total}, "weight_map": dict(sorted(files.items()))}
    return json.dumps(said, indent=2, ensure_ascii=False).encode() + b"\n"


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(
            f"{folder} cannot be made: {error.strerror}", reason="USAGE", remedy="Name a folder that can be."
        ) from None


def _bad(why: str, remedy: str = "Give each tensor once, with the bytes of its shape.") -> InvalidInput:
    return InvalidInput(f"the model cannot be written: {why}", reason="INVALID_FILE", remedy=remedy)
