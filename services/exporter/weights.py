"""The tensors of an export: as they are written, and compared with what was written. One at a time."""

# ruff: noqa: PLC0415  # torch is of an extra, and slow to import

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ledger.client.exports.places import Folder
from ledger.client.exports.weights import read_weights
from ledger.client.exports.writing import TensorSpec, WrittenModel, write_model
from ledger.core.errors import Broken, InvalidInput
from ledger.core.text import harmless
from services.exporter.saves import Save
from services.exporter.selections import Selection

if TYPE_CHECKING:
    import torch

NAMES: Final[Mapping[str, str]] = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2", "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8", "uint8": "U8",
    "uint16": "U16", "uint32": "U32", "uint64": "U64", "bool": "BOOL", "complex64": "C64",
}  # fmt: skip
"""By torch's names, those of safetensors."""
_CAST: Final = frozenset({"float64", "float32", "float16", "bfloat16"})
"""Types that a cast changes; counts, masks and what is quantised stay as they are."""


@dataclass(frozen=True)
class Conversion:
    """Which tensors, in which type."""

    save: Save
    selection: Selection
    dtype: str | None = None
    """As torch names it; None: as saved."""

    @property
    def specs(self) -> list[TensorSpec]:
        return [self._spec(name) for name in self.selection.names]

    def tensors(self) -> Iterator[tuple[TensorSpec, Callable[[], memoryview]]]:
        """As `write_model` takes them."""
        for name in self.selection.names:
            yield self._spec(name), partial(self.bytes_of, name)

    def bytes_of(self, name: str) -> memoryview:
        """A tensor of the export, row by row, in this machine's order of bytes: little-endian wherever torch runs."""
        import torch

        tensor = self.save.read(self.selection.names[name])
        if self.dtype is not None and str(tensor.dtype).removeprefix("torch.") in _CAST:
            tensor = tensor.to(getattr(torch, self.dtype))
        return _bytes(tensor)

    def _spec(self, name: str) -> TensorSpec:
        entry = self.save.tensors[self.selection.names[name]]
        dtype = self.dtype if self.dtype is not None and entry.dtype in _CAST else entry.dtype
        return TensorSpec(name, NAMES[dtype], entry.shape)


def check_tied(save: Save, selection: Selection) -> None:
    """A tensor that is left out because it is another one must be that one: else the model would be changed.

    Raises:
        InvalidInput: reason INVALID_FILE, if it differs.
    """
    for name, other in selection.tied.items():
        if _bytes(save.read(name)) != _bytes(save.read(other)):
            raise InvalidInput(
                f"{save.folder}: config.json ties {harmless(name)} to {harmless(other)}, and the two differ",
                reason="INVALID_FILE",
                remedy='Name a folder by --base whose config.json says "tie_word_embeddings": false, if they were '
                "trained apart.",
                details={"tensor": name},
            )


def write(conversion: Conversion, folder: Path, *, max_shard_bytes: int) -> WrittenModel:
    """Writes the shards and their index.

    Raises:
        LedgerError: if a tensor cannot be read or a file not written.
    """
    return write_model(folder, conversion.tensors(), max_shard_bytes=max_shard_bytes)


def compare(conversion: Conversion, folder: Path) -> int:
    """Reads both sides again, and compares every tensor's bytes; gives how many were compared.

    Raises:
        Broken: reason VERIFICATION_FAILED, naming the first tensor that differs.
    """
    place = Folder(folder)
    weights = read_weights(place, place.names())
    held = weights.by_name()
    for name in conversion.selection.names:
        if name not in held:
            raise _differs(name, "is not in what was written")
        theirs, at = conversion.bytes_of(name), 0
        for part in weights.ranges_of(held[name]):
            if theirs[at : at + len(part)] != part:
                raise _differs(name, f"has other bytes in {held[name].shard.name} than in the checkpoint")
            at += len(part)
        if at != theirs.nbytes:
            raise _differs(
                name, f"has {at:,} bytes in {held[name].shard.name}, and {theirs.nbytes:,} in the checkpoint"
            )
    return len(conversion.selection.names)


def _bytes(tensor: torch.Tensor) -> memoryview:
    import torch

    data: memoryview = tensor.contiguous().view(-1).view(torch.uint8).numpy().data
    return data


def _differs(name: str, why: str) -> Broken:
    return Broken(
        f"the tensor {harmless(name[:200])} {why}",
        remedy="Export again; nothing else may write to the checkpoint or to the temporary folder meanwhile.",
        details={"tensor": name[:200]},
    )
