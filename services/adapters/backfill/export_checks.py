"""Whether a Hugging Face export is whole: its index against the headers of its shards, in both directions.

Checks, cheapest first; headers are enough for all of them. One that needs what is not here (the base model) is told as
not checked, never as passed.

    index_parses         the index parses, names at least one tensor, and bare file names only
    shards_present       the files named are those that are there, as many as their names say
    weight_map_complete  every shard holds the tensors that the index says, and no other
    total_size           the bytes of all tensors are what the index says
    not_truncated        no shard is cut off or longer than its header says
    parameter_count      the parameters are counted from shapes, and there are some
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Final

from ledger.client.cards.text import counted
from ledger.core.errors import InvalidInput, LedgerError
from ledger.events.exports import Check, IndexNumbers
from services.adapters.backfill.documents import harmless_name
from services.adapters.safetensors_headers import Shard, read_shard

INDEX: Final = "model.safetensors.index.json"
SINGLE: Final = "model.safetensors"
NOT_CHECKED: Final = ("base_tensors", "differs_from_base")
MAX_INDEX: Final = 200 << 20
"""Bytes; of a longer index only as many are read, so that it does not parse."""
_NUMBERED: Final = re.compile(r"model-(\d{5,6})-of-(\d{5,6})\.safetensors", re.ASCII)
_NAMED: Final = 100
"""Tensors that are named of one kind of fault."""


@dataclass
class Checked:
    """What the checks found."""

    shards: list[Shard]
    index: dict[str, str] | None
    """The file of each tensor; None: there is no index."""
    index_total_size: int | None
    checks: list[Check] = field(default_factory=list)
    ghosts: list[str] = field(default_factory=list)
    unlisted: list[str] = field(default_factory=list)

    @property
    def failed(self) -> list[Check]:
        return [c for c in self.checks if c.outcome == "failed"]

    @property
    def tensor_bytes(self) -> int:
        return sum(t.size for s in self.shards for t in s.tensors)

    @property
    def tensor_count(self) -> int:
        return sum(len(s.tensors) for s in self.shards)

    @property
    def parameter_count(self) -> int:
        return sum(t.parameters for s in self.shards for t in s.tensors)

    @property
    def dtypes(self) -> list[str]:
        return sorted({t.dtype for s in self.shards for t in s.tensors})

    @property
    def numbers(self) -> IndexNumbers | None:
        """The numbers by which anyone can see that it adds up; None where there is no index to compare with."""
        if self.index is None or self.index_total_size is None:
            return None
        return IndexNumbers(
            shard_files=len(self.shards),
            shards_named=len(set(self.index.values())),
            shards_in_names=_count_in_names(s.name for s in self.shards),
            index_total_size=self.index_total_size,
            tensor_bytes=self.tensor_bytes,
            tensors_in_index=len(self.index),
            tensors_in_shards=self.tensor_count,
            ghost_tensors=[harmless_name(t) for t in self.ghosts[:_NAMED]],
            unlisted_tensors=[harmless_name(t) for t in self.unlisted[:_NAMED]],
            parameter_count=self.parameter_count,
        )


def check_export(folder: Path) -> Checked:
    """Reads the index and all headers, and checks them. Nothing that is wrong with the files is raised.

    Raises:
        InvalidInput: reason INVALID_FILE, if the folder holds no weights at all.
    """
    paths = sorted(p for p in folder.iterdir() if p.name.endswith(".safetensors") and p.is_file())
    index_path = folder / INDEX
    if not paths and not index_path.is_file():
        raise InvalidInput(
            f"{folder} holds no safetensors files and no index",
            reason="INVALID_FILE",
            remedy="Name the folder of the exported model. A checkpoint's huggingface/ folder has no weights in it.",
            details={"file": str(folder)},
        )
    checked = Checked([], None, None)
    if index_path.is_file():
        _read_index(index_path, checked)
    unread = _read_shards(paths, checked)
    if checked.index is not None:
        _check_files(paths, checked.index, checked)
        _check_tensors(checked.index, checked)
        _check_total(checked)
    _check_whole(unread, checked)
    _check_parameters(checked)
    checked.checks += [Check(name=n, outcome="not_checked", detail="the base model is not here") for n in NOT_CHECKED]
    return checked


def _read_index(path: Path, checked: Checked) -> None:
    fault = None
    try:
        with path.open("rb") as file:
            said = json.loads(file.read(MAX_INDEX).decode())
        checked.index, checked.index_total_size = _index(said)
    except (ValueError, RecursionError, OSError) as error:
        fault = f"the index cannot be read: {error}"
    if fault is None and any(name != PurePosixPath(name).name or name in ("", "..") for name in set(_files(checked))):
        fault = "the index names a file outside the folder"
    if fault is None and not checked.index:
        fault = "the index names no tensor"
    _note(checked, "index_parses", fault, counted(len(checked.index or {}), "tensor"), file=INDEX)


def _index(said: Any) -> tuple[dict[str, str], int | None]:
    weight_map = said.get("weight_map") if isinstance(said, dict) else None
    if not isinstance(weight_map, dict) or not all(isinstance(v, str) for v in weight_map.values()):
        raise ValueError("it has no weight_map of names")
    metadata = said.get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    if isinstance(total, float) and total.is_integer():
        total = int(total)  # some writers sum in floating point
    return weight_map, total if type(total) is int and 0 <= total < 2**53 else None


def _files(checked: Checked) -> Iterable[str]:
    return (checked.index or {}).values()


def _read_shards(paths: Iterable[Path], checked: Checked) -> list[tuple[str, str]]:
    """Reads the headers; gives the files that have no sound one, and why."""
    unread = []
    for path in paths:
        try:
            checked.shards.append(read_shard(path))
        except LedgerError as error:
            unread.append((path.name, error.message))
    return unread


def _check_files(paths: Iterable[Path], index: dict[str, str], checked: Checked) -> None:
    there, named = {p.name for p in paths}, set(index.values())
    numbered = _count_in_names(there)
    fault = file = None
    if missing := sorted(named - there):
        fault, file = f"{_are(len(missing), 'file')} not there that the index names", missing[0]
    elif extra := sorted(there - named):
        fault, file = f"{_are(len(extra), 'shard')} there that the index does not name", extra[0]
    elif numbered is not None and numbered != len(there):
        fault = f"the names say {counted(numbered, 'shard')}, and {_are(len(there), 'file')} there"
    _note(checked, "shards_present", fault, counted(len(there), "shard"), file=file)


def _are(count: int, noun: str) -> str:
    """1 shard is, 2 shards are."""
    return f"{counted(count, noun)} {'is' if count == 1 else 'are'}"


def _count_in_names(names: Iterable[str]) -> int | None:
    """The N that all names of numbered shards agree on."""
    found = {int(m[2]) if (m := _NUMBERED.fullmatch(name)) else None for name in names}
    return found.pop() if len(found) == 1 else None


def _check_tensors(index: dict[str, str], checked: Checked) -> None:
    held = {t.name: s.name for s in checked.shards for t in s.tensors}
    checked.ghosts = sorted(t for t, file in index.items() if held.get(t) != file)
    checked.unlisted = sorted(t.name for s in checked.shards for t in s.tensors if index.get(t.name) != s.name)
    fault = tensor = file = None
    if checked.ghosts:
        tensor = checked.ghosts[0]
        fault, file = f"{_are(len(checked.ghosts), 'tensor')} not in the file that the index names", index[tensor]
    elif checked.unlisted:
        tensor = checked.unlisted[0]
        fault, file = f"{_are(len(checked.unlisted), 'tensor')} in shards and not in the index", held[tensor]
    detail = f"{counted(len(index), 'tensor')} in the index, {checked.tensor_count:,} in the shards"
    _note(checked, "weight_map_complete", fault, detail, tensor=tensor, file=file)


def _check_total(checked: Checked) -> None:
    total = checked.index_total_size
    fault = None
    if total is None:
        fault = "the index says no total_size"
    elif total != checked.tensor_bytes:
        fault = f"the index says {total:,} bytes, and the tensors have {checked.tensor_bytes:,}"
    _note(checked, "total_size", fault, f"{checked.tensor_bytes:,} bytes", file=INDEX if fault else None)


def _check_whole(unread: list[tuple[str, str]], checked: Checked) -> None:
    cut = [s for s in checked.shards if not s.is_whole]
    fault = file = None
    if unread:
        file, fault = unread[0]
    elif cut:
        file = cut[0].name
        fault = f"{_are(len(cut), 'shard')} of another size than the header says: {cut[0].file_size:,} bytes of "
        fault += f"{cut[0].data_end:,}"
    _note(checked, "not_truncated", fault, f"{counted(len(checked.shards), 'header')} read", file=file)


def _check_parameters(checked: Checked) -> None:
    count = checked.parameter_count
    _note(checked, "parameter_count", None if count else "the shards hold no parameters", counted(count, "parameter"))


def _note(
    checked: Checked, name: str, fault: str | None, detail: str, *, tensor: str | None = None, file: str | None = None
) -> None:
    checked.checks.append(
        Check(
            name=name,
            outcome="passed" if fault is None else "failed",
            detail=fault or detail,
            tensor=None if tensor is None or fault is None else harmless_name(tensor),
            file=None if file is None else harmless_name(file),
        )
    )
