"""The headers of safetensors files: which tensors they hold, of which shape and type, and where. No tensor is read.

    u64 little-endian: length of the header · the header: JSON {tensor: {dtype, shape, data_offsets}} · the data

Headers are judged as they are read: an absurd length is refused before it is allocated, and data that is not laid end
to end, or has another size than its shape, is a fault of the file. A header is two reads, eight bytes and the header,
so that one in an object store costs two small requests.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Final, TypeGuard

from ledger.core.errors import InvalidInput
from ledger.core.strictjson import MAX_INT

MAX_HEADER: Final = 100_000_000
"""Bytes; the format's own reader refuses more."""
MAX_DIMENSIONS: Final = 64
_TYPE: Final = re.compile(r"[\w.-]{1,64}", re.ASCII)
LENGTH: Final = 8
"""Bytes before the header that say how long it is."""
BITS: Final = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
    "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32, "I64": 64, "U64": 64, "F64": 64,
    "C64": 64,
}  # fmt: skip
"""How many bits one element has."""

Read = Callable[[int, int], bytes]
"""The bytes of a file from a place to another; fewer only where the file ends."""


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
    def data_begin(self) -> int:
        """Where in the file the data begins, from which tensors count their bytes."""
        return LENGTH + self.header_size

    @property
    def data_end(self) -> int:
        """The size that a whole file of this header has."""
        return self.data_begin + max((t.end for t in self.tensors), default=0)

    @property
    def is_whole(self) -> bool:
        return self.file_size == self.data_end


def read_shard(path: Path) -> Shard:
    """Reads the header of a file on this machine.

    Raises:
        InvalidInput: reason INVALID_FILE, if it has none, or one that cannot be.
    """
    try:
        with path.open("rb") as file:

            def read(begin: int, end: int) -> bytes:
                file.seek(begin)
                return file.read(end - begin)

            return read_header(path.name, path.stat().st_size, read)
    except OSError as error:
        raise _bad(path.name, error.strerror or str(error)) from None


def read_header(name: str, size: int, read: Read) -> Shard:
    """Reads the header of a file wherever it lies.

    Raises:
        InvalidInput: reason INVALID_FILE, if it has none, or one that cannot be.
    """
    length = int.from_bytes(read(0, LENGTH), "little") if size >= LENGTH else 0
    if not 2 <= length <= min(MAX_HEADER, size - LENGTH):
        raise _bad(name, f"its header would have {length:,} bytes, and the file has {size:,}")
    said = _parsed(name, read(LENGTH, LENGTH + length))
    metadata = said.pop("__metadata__", {})
    tensors = tuple(_tensor(name, tensor, entry) for tensor, entry in said.items())
    _check_layout(name, tensors)
    plain = {str(k): str(v) for k, v in metadata.items()} if isinstance(metadata, dict) else {}
    return Shard(name, size, length, tensors, plain)


def _parsed(file: str, header: bytes) -> dict[str, Any]:
    try:
        said = json.loads(header.decode(), object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        raise _bad(file, f"its header is no JSON: {error}") from None
    if not isinstance(said, dict):
        raise _bad(file, "its header is no JSON object")
    return said


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object, for json.loads.

    Raises:
        ValueError: if it has a name twice: of two values readers take different ones.
    """
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a name stands in it twice")
    return made


def _tensor(file: str, name: str, entry: Any) -> Tensor:
    shape = entry.get("shape") if isinstance(entry, dict) else None
    offsets = entry.get("data_offsets") if isinstance(entry, dict) else None
    dtype = entry.get("dtype") if isinstance(entry, dict) else None
    if not (
        isinstance(dtype, str) and _TYPE.fullmatch(dtype) and _counts(shape) and _counts(offsets) and len(offsets) == 2
    ):
        raise _bad(file, f"its header says nothing sound of the tensor {name[:200]!r}")
    tensor = Tensor(name, dtype, tuple(shape), offsets[0], offsets[1])
    if len(shape) > MAX_DIMENSIONS or tensor.parameters > MAX_INT:
        raise _bad(file, f"the tensor {name[:200]!r} would have more elements than any file")
    bits = BITS.get(dtype)
    if tensor.size < 0 or (bits is not None and tensor.size * 8 != tensor.parameters * bits):
        raise _bad(file, f"the tensor {name[:200]!r} has {tensor.size} bytes, which its shape and type do not make")
    return tensor


def _counts(value: Any) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(type(v) is int and 0 <= v <= MAX_INT for v in value)


def _check_layout(file: str, tensors: Sequence[Tensor]) -> None:
    at = 0
    for tensor in sorted(tensors, key=lambda t: (t.begin, t.end)):
        if tensor.begin != at:
            raise _bad(file, f"the tensor {tensor.name[:200]!r} begins at byte {tensor.begin}, not at {at}")
        at = tensor.end


def _bad(file: str, why: str) -> InvalidInput:
    return InvalidInput(
        f"{file} is no whole safetensors file: {why}",
        reason="INVALID_FILE",
        remedy="Export or copy it again.",
        details={"file": file},
    )
