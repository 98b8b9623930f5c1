"""The index of a torch.distributed.checkpoint save, `.metadata`: a pickle, read without running anything of it.

A pickle is a program: it may call whatever it names. Here it can name only what such an index is made of, and each of
those names means a record of ours that holds values and does nothing, so that not even torch is touched. Any other name
refuses the file. With `trust` it is unpickled as torch does it, and may do anything.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from ledger.client.exports.places import is_bare_name
from ledger.core.errors import InvalidInput, LedgerError
from ledger.core.text import harmless

METADATA: Final = ".metadata"
MAX_SIZE: Final = 1 << 30
"""Bytes. An entry of a tensor takes some hundreds: far more than any model has."""


class _Sealed(type):
    """A class that a pickle cannot write to: one of its instructions sets attributes of whatever it is given."""

    def __setattr__(cls, name: str, value: object) -> None:
        raise pickle.UnpicklingError(f"it writes to {name!r} of a class")


class _Record(metaclass=_Sealed):
    """Values by name, as the pickle gives them."""


class _Properties(_Record):
    """Of a tensor: its type and more, in this order."""

    def __setstate__(self, state: Any) -> None:
        self.dtype = state[0]


class _Index(_Record):
    """Which chunk of which tensor: a key."""

    fqn: str
    offset: Any = None

    def __hash__(self) -> int:
        return hash((self.fqn, self.offset))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Index) and (self.fqn, self.offset) == (other.fqn, other.offset)


class _Size(tuple[Any, ...], metaclass=_Sealed):  # noqa: SLOT001  # a pickle may give it attributes
    """A shape."""


class _Unused(metaclass=_Sealed):
    """What is said with it bears on nothing here: a layout, a format of memory, a path."""

    def __init__(self, *_: Any) -> None:
        pass


class _Tensor(_Record):
    """The entry of a tensor."""


class _Bytes(_Record):
    """The entry of an object that is no tensor."""


@dataclass(frozen=True)
class _Dtype:
    name: str


_METADATA: Final = "torch.distributed.checkpoint.metadata"
_ALLOWED: Final[dict[tuple[str, str], type]] = {
    (_METADATA, "Metadata"): _Record,
    (_METADATA, "MetadataIndex"): _Index,
    (_METADATA, "StorageMeta"): _Record,
    (_METADATA, "TensorStorageMetadata"): _Tensor,
    (_METADATA, "ChunkStorageMetadata"): _Record,
    (_METADATA, "BytesStorageMetadata"): _Bytes,
    (_METADATA, "TensorProperties"): _Properties,
    (_METADATA, "_MEM_FORMAT_ENCODING"): _Unused,
    ("torch.distributed.checkpoint.filesystem", "_StorageInfo"): _Record,
    ("torch", "Size"): _Size,
    ("torch.serialization", "_get_layout"): _Unused,
    ("pathlib", "PosixPath"): _Unused,
}
_DTYPES: Final = frozenset(
    {
        "float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int64", "int32", "int16", "int8",
        "uint8", "uint16", "uint32", "uint64", "bool", "complex64",
    }
)  # fmt: skip


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: BinaryIO, path: Path) -> None:
        super().__init__(file)
        self._path = path

    def find_class(self, module: str, name: str) -> Any:
        if module == "torch" and name in _DTYPES:
            return _Dtype(name)
        found = _ALLOWED.get((module, name))
        if found is None:
            raise _refused(self._path, f"{module}.{name}")
        return found


@dataclass(frozen=True)
class Chunk:
    """A part of a tensor, and where its bytes are."""

    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    file: str
    begin: int
    length: int
    transformed: bool
    """Its bytes went through a filter of the writer's, such as a compression."""


@dataclass(frozen=True)
class Entry:
    """A tensor as the index has it."""

    name: str
    dtype: str
    """As torch names it, such as bfloat16."""
    shape: tuple[int, ...]
    chunks: tuple[Chunk, ...]


@dataclass(frozen=True)
class SaveIndex:
    """What a save holds."""

    tensors: dict[str, Entry]
    others: tuple[str, ...]
    """Objects that are no tensors. They are pickles of their own, and never loaded."""


def read_index(path: Path, *, trust: bool = False) -> SaveIndex:
    """Reads a save's `.metadata`.

    Raises:
        Refused: reason NOT_PERMITTED, if it names anything that such a file does not need.
        InvalidInput: reason INVALID_FILE, if it is no such file.
    """
    try:
        with path.open("rb") as file:
            _check_size(path)
            said = pickle.load(file) if trust else _Unpickler(file, path).load()  # noqa: S301  # only when told so
        return _index(path, said)
    except LedgerError:
        raise
    except OSError as error:
        raise _bad(path, error.strerror or str(error)) from None
    except Exception as error:  # noqa: BLE001  # a damaged pickle raises whatever it comes upon
        raise _bad(path, f"{type(error).__name__}: {error}") from None


def _check_size(path: Path) -> None:
    if path.stat().st_size > MAX_SIZE:
        raise _bad(path, "it is larger than any index")


def _index(path: Path, said: Any) -> SaveIndex:
    stored = {(key.fqn, _whole(key.offset)): info for key, info in said.storage_data.items()}
    tensors, others = {}, []
    for name, entry in said.state_dict_metadata.items():
        if not isinstance(name, str):
            raise _bad(path, "a name in it is no text")
        if hasattr(entry, "chunks"):
            tensors[name] = _entry(path, name, entry, stored)
        else:
            others.append(name)
    return SaveIndex(tensors, tuple(sorted(others)))


def _entry(path: Path, name: str, entry: Any, stored: dict[tuple[str, tuple[int, ...] | None], Any]) -> Entry:
    shape = _counts(entry.size)
    dtype = _dtype(entry.properties.dtype)
    if dtype not in _DTYPES:
        raise _bad(path, f"the tensor {harmless(name[:200])} has the type {harmless(dtype[:100])}")
    chunks = []
    for chunk in entry.chunks:
        offsets = _counts(chunk.offsets)
        info = stored.get((name, offsets)) or (stored.get((name, None)) if len(entry.chunks) == 1 else None)
        if info is None:
            raise _bad(path, f"the tensor {harmless(name[:200])} has a part that is in no file")
        file, (begin, length) = info.relative_path, _counts((info.offset, info.length))
        if not isinstance(file, str) or not is_bare_name(file):
            where = harmless(file[:200]) if isinstance(file, str) else type(file).__name__
            raise _bad(path, f"the tensor {harmless(name[:200])} would be in {where!r}")
        transformed = bool(getattr(info, "transform_descriptors", None))
        chunks.append(Chunk(offsets, _counts(chunk.sizes), file, begin, length, transformed))
    return Entry(name, dtype, shape, tuple(chunks))


def _dtype(said: Any) -> str:
    """The name of a type. Of what is none only its kind is told: a small pickle can be a text of any size."""
    if isinstance(said, _Dtype):
        return said.name
    kind = type(said)
    return str(said).removeprefix("torch.") if (kind.__module__, kind.__name__) == ("torch", "dtype") else kind.__name__


def _whole(offset: Any) -> tuple[int, ...] | None:
    return None if offset is None else _counts(offset)


def _counts(values: Any) -> tuple[int, ...]:
    made = tuple(values)
    if not all(type(value) is int and value >= 0 for value in made):
        raise ValueError("a size or a place is no number")
    return made


def _refused(path: Path, name: str) -> LedgerError:
    return LedgerError(
        f"{path} is a pickle that names {harmless(name[:200])}, which an index of tensors does not need; "
        "it was not loaded",
        reason="NOT_PERMITTED",
        remedy="Find out who wrote it. With --trust-pickles it is loaded all the same, and may run any program.",
        details={"file": str(path), "name": name[:200]},
    )


def _bad(path: Path, why: str) -> InvalidInput:
    return InvalidInput(
        f"{path} is no index of a save: {harmless(why[:300])}",
        reason="INVALID_FILE",
        remedy="Name a checkpoint that was saved whole by torch.distributed.checkpoint.",
        details={"file": str(path)},
    )
