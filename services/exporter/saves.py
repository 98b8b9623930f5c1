"""The tensors of a save of torch.distributed.checkpoint, whatever number of processes wrote it, read one at a time.

- Its index is judged before a tensor is read: the parts of a tensor must cover it, once, and its bytes must be there.
  What no part covered would else be whatever lay in memory.
- A part is read by torch's weights-only reader, and must have the type and the shape that the index says.
- Memory holds one tensor, and while it is put together one part of it.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from math import prod
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO, Final, cast

from ledger.core.errors import InvalidInput
from ledger.core.text import harmless
from services.exporter.pickles import METADATA, Chunk, Entry, read_index

if TYPE_CHECKING:
    import torch

MAX_DIMENSIONS: Final = 64
_FEW: Final = 1_024
"""Parts that are spread over more than one dimension, of which each pair is compared."""


@dataclass(frozen=True)
class Save:
    """A folder with an index and files of tensors."""

    folder: Path
    tensors: dict[str, Entry]
    others: tuple[str, ...]

    def read(self, name: str) -> torch.Tensor:
        """A tensor, whole.

        Raises:
            InvalidInput: reason INVALID_FILE, if its bytes are not what the index says.
        """
        import torch  # noqa: PLC0415  # of an extra, and slow

        entry = self.tensors[name]
        if len(entry.chunks) == 1:
            return self._part(entry, entry.chunks[0])
        made = torch.empty(entry.shape, dtype=getattr(torch, entry.dtype))
        for chunk in entry.chunks:
            where = tuple(slice(at, at + size) for at, size in zip(chunk.offsets, chunk.sizes, strict=True))
            made[where] = self._part(entry, chunk)
        return made

    def _part(self, entry: Entry, chunk: Chunk) -> torch.Tensor:
        import torch  # noqa: PLC0415  # of an extra, and slow

        path = self.folder / chunk.file
        try:
            with path.open("rb") as file:
                view = cast("IO[bytes]", _Slice(file, chunk.begin, chunk.length))
                part = torch.load(view, map_location="cpu", weights_only=True)
        except Exception as error:  # damaged bytes raise whatever the reader comes upon
            raise _bad(path, entry.name, f"it cannot be read: {type(error).__name__}") from error
        if not isinstance(part, torch.Tensor) or part.layout is not torch.strided:
            raise _bad(path, entry.name, "there is no plain tensor in its place")
        if tuple(part.shape) != chunk.sizes or str(part.dtype) != f"torch.{entry.dtype}":
            there = f"{str(part.dtype).removeprefix('torch.')} {list(part.shape)}"
            raise _bad(path, entry.name, f"it is {there}, and the index says {entry.dtype} {list(chunk.sizes)}")
        return part


def open_save(folder: Path, *, trust: bool = False) -> Save:
    """Reads a save's index and judges it.

    Raises:
        LedgerError: reason NOT_PERMITTED, if the index would load something else than an index.
        InvalidInput: reason INVALID_FILE, if it is damaged, or names what is not there.
    """
    index = read_index(folder / METADATA, trust=trust)
    sizes: dict[str, int] = {}
    for entry in index.tensors.values():
        _check_parts(folder, entry)
        for chunk in entry.chunks:
            _check_bytes(folder, entry, chunk, sizes)
    return Save(folder, index.tensors, index.others)


def _check_parts(folder: Path, entry: Entry) -> None:
    """The parts lie in the tensor, side by side, and make all of it."""
    shape, chunks = entry.shape, entry.chunks
    for chunk in chunks:
        if not len(chunk.offsets) == len(chunk.sizes) == len(shape) <= MAX_DIMENSIONS or any(
            at + size > whole for at, size, whole in zip(chunk.offsets, chunk.sizes, shape, strict=True)
        ):
            raise _bad(folder / METADATA, entry.name, "a part of it lies outside of it")
    full = [chunk for chunk in chunks if prod(chunk.sizes)]
    if not _are_apart(full):
        raise _bad(folder / METADATA, entry.name, "parts of it overlap")
    covered = sum(prod(chunk.sizes) for chunk in chunks)
    if not chunks or covered != prod(shape):
        raise _bad(folder / METADATA, entry.name, f"its parts make {covered:,} elements of {prod(shape):,}")


def _are_apart(chunks: Sequence[Chunk]) -> bool:
    """Parts that are rows of a tensor are compared with their neighbours alone: there may be one of each process."""
    spread = {
        dimension
        for chunk in chunks
        for dimension, place in enumerate(zip(chunk.offsets, chunk.sizes, strict=True))
        if place != (chunks[0].offsets[dimension], chunks[0].sizes[dimension])
    }
    if len(spread) == 1:
        along = spread.pop()
        ordered = sorted(chunks, key=lambda chunk: chunk.offsets[along])
        return all(a.offsets[along] + a.sizes[along] <= b.offsets[along] for a, b in pairwise(ordered))
    return len(chunks) <= _FEW and not any(_overlap(one, other) for one, other in combinations(chunks, 2))


def _overlap(one: Chunk, other: Chunk) -> bool:
    return all(
        a < b + there and b < a + here
        for a, here, b, there in zip(one.offsets, one.sizes, other.offsets, other.sizes, strict=True)
    )


def _check_bytes(folder: Path, entry: Entry, chunk: Chunk, sizes: dict[str, int]) -> None:
    path = folder / chunk.file
    if chunk.transformed:
        raise _bad(path, entry.name, "its bytes are compressed or otherwise transformed, which is not read here")
    if chunk.file not in sizes:
        try:
            sizes[chunk.file] = path.stat().st_size
        except OSError as error:
            raise _bad(path, entry.name, error.strerror or str(error)) from None
    if chunk.begin + chunk.length > sizes[chunk.file]:
        raise _bad(path, entry.name, f"its bytes end behind the end of the file, which has {sizes[chunk.file]:,}")
    if prod(chunk.sizes) > chunk.length * 2:  # no type has less than half a byte an element
        raise _bad(path, entry.name, f"{chunk.length:,} bytes cannot hold {prod(chunk.sizes):,} elements")


class _Slice(io.RawIOBase):
    """A part of a file, as a file."""

    def __init__(self, file: BinaryIO, begin: int, length: int) -> None:
        super().__init__()
        self._file, self._begin, self._length, self._at = file, begin, length, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._length}[whence]
        self._at = max(0, base + offset)
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        wanted = max(0, min(len(view), self._length - self._at))
        self._file.seek(self._begin + self._at)
        data = self._file.read(wanted)
        view[: len(data)] = data
        self._at += len(data)
        return len(data)


def _bad(path: Path, name: str, why: str) -> InvalidInput:
    return InvalidInput(
        f"{path}: the tensor {harmless(name[:200])}: {why}",
        reason="INVALID_FILE",
        remedy="The save is damaged or was never finished: name another checkpoint.",
        details={"file": str(path), "tensor": name[:200]},
    )
