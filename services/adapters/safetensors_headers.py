"""The headers of safetensors files: which tensors they hold, of which shape and type, and where. No tensor is read.

    u64 little-endian: length of the header · the header: JSON {tensor: {dtype, shape, data_offsets}} · the data

Headers are judged as they are read: an absurd length is refused before it is allocated, and data that is not laid end
to end, or has another size than its shape, is a fault of the file.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Final, TypeGuard

from ledger.core.errors import InvalidInput

MAX_HEADER: Final = 100_000_000
"""Bytes; the format's own reader refuses more."""
_LENGTH: Final = 8
BITS: Final = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
    "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32, "I64": 64, "U64": 64, "F64": 64,
    "C64": 64,
}  # fmt: skip
"""How many bits one element has."""


@dataclass(frozen=True)
class Tensor:
    """One tensor as a header names it."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.begin

    @property
    def parameters(self) -> int:
        return prod(self.shape)


@dataclass(frozen=True)
class Shard:
    """One file's header."""

    name: str
    file_size: int
    header_size: int
    tensors: tuple[Tensor, ...]
    metadata: dict[str, str]

    @property
    def data_end(self) -> int:
        """The size that a whole file of this header has."""
        return _LENGTH + self.header_size + max((t.end for t in self.tensors), default=0)

    @property
    def is_whole(self) -> bool:
        return self.file_size == self.data_end


def read_shard(path: Path) -> Shard:
    """Reads a file's header.

    Raises:
        InvalidInput: reason INVALID_FILE, if it has none, or one that cannot be.
    """
    try:
        with path.open("rb") as file:
            size = path.stat().st_size
            length = int.from_bytes(file.read(_LENGTH), "little")
            if size < _LENGTH or not 2 <= length <= min(MAX_HEADER, size - _LENGTH):
                raise _bad(path, f"its header would have {length:,} bytes, and the file has {size:,}")
            said = _parsed(path, file.read(length))
    except OSError as error:
        raise _bad(path, error.strerror or str(error)) from None
    metadata = said.pop("__metadata__", {})
    tensors = tuple(_tensor(path, name, entry) for name, entry in said.items())
    _check_layout(path, tensors)
    plain = {str(k): str(v) for k, v in metadata.items()} if isinstance(metadata, dict) else {}
    return Shard(path.name, size, length, tensors, plain)


def _parsed(path: Path, header: bytes) -> dict[str, Any]:
    try:
        said = json.loads(header.decode(), object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise _bad(path, f"its header is no JSON: {error}") from None
    if not isinstance(said, dict):
        raise _bad(path, "its header is no JSON object")
    return said


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a name stands in it twice")
    return made


def _tensor(path: Path, name: str, entry: Any) -> Tensor:
    shape = entry.get("shape") if isinstance(entry, dict) else None
    offsets = entry.get("data_offsets") if isinstance(entry, dict) else None
    dtype = entry.get("dtype") if isinstance(entry, dict) else None
    if not (isinstance(dtype, str) and _counts(shape) and _counts(offsets) and len(offsets) == 2):
        raise _bad(path, f"its header says nothing sound of the tensor {name[:200]!r}")
    tensor = Tensor(name, dtype, tuple(shape), offsets[0], offsets[1])
    bits = BITS.get(dtype)
    if tensor.size < 0 or (bits is not None and tensor.size * 8 != tensor.parameters * bits):
        raise _bad(path, f"the tensor {name[:200]!r} has {tensor.size} bytes, which its shape and type do not make")
    return tensor


def _counts(value: Any) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(type(v) is int and 0 <= v < 2**53 for v in value)


def _check_layout(path: Path, tensors: Sequence[Tensor]) -> None:
    at = 0
    for tensor in sorted(tensors, key=lambda t: (t.begin, t.end)):
        if tensor.begin != at:
            raise _bad(path, f"the tensor {tensor.name[:200]!r} begins at byte {tensor.begin}, not at {at}")
        at = tensor.end


def _bad(path: Path, why: str) -> InvalidInput:
    return InvalidInput(
        f"{path.name} is no whole safetensors file: {why}",
        reason="INVALID_FILE",
        remedy="Export or copy it again.",
        details={"file": str(path)},
    )
