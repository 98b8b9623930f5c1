"""Whether a Hugging Face export is whole: its index against the headers of its shards, in both directions, and what
else can be asked of it. Without a base and without recorded files, headers and the index are all that is read.

    index_parses         the index parses, names at least one tensor, and bare file names only
    shards_present       the files named are those that are there, as many as their names say
    weight_map_complete  every shard holds the tensors that the index says, and no other
    total_size           the bytes of all tensors are what the index says
    not_truncated        no shard is cut off or longer than its header says
    base_tensors         names, shapes and types are the base's, and no two names were exchanged: see `bases`
    parameter_count      the parameters are counted from shapes, and there are some
    file_digests         the files are those that were recorded, each read whole and hashed
    differs_from_base    the weights are not those that training began with: see `bases`

A check that needs what is not here is told as not checked, with the reason, and never as passed. Nothing that is wrong
with an export is raised: it is told, with the tensor and the file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from ledger.client.cards.text import counted
from ledger.client.exports import bases
from ledger.client.exports.configurations import Configuration, Generation, read_configuration, size_label
from ledger.client.exports.headers import Shard
from ledger.client.exports.indexes import INDEX, Index, count_in_names, read_index
from ledger.client.exports.places import Place
from ledger.client.exports.weights import Weights, read_weights, recordable
from ledger.core.errors import InvalidInput, NotFound
from ledger.core.strictjson import MAX_INT
from ledger.events.checkpoints import FileDigest
from ledger.events.exports import Check, IndexNumbers

REQUIRED: Final = ("index_parses", "shards_present", "weight_map_complete", "total_size", "not_truncated")
"""Without these nobody calls an export verified."""
_NAMED: Final = 100
"""Tensors that are named of one kind of fault."""
_NO_INDEX: Final = "one file without an index: there is nothing to compare it with"


@dataclass
class Checked:
    """What the checks found."""

    location: str
    shards: Sequence[Shard]
    index: Index
    configuration: Configuration
    checks: list[Check] = field(default_factory=list)
    ghosts: list[str] = field(default_factory=list)
    """In the index, and not in the file that it names."""
    unlisted: list[str] = field(default_factory=list)

    @property
    def failed(self) -> list[Check]:
        return [c for c in self.checks if c.outcome == "failed"]

    @property
    def is_verified(self) -> bool:
        """Whether nothing failed, and what must be checked was."""
        passed = {c.name for c in self.checks if c.outcome == "passed"}
        return not self.failed and self.numbers is not None and passed.issuperset(REQUIRED)

    @property
    def why_not(self) -> str:
        """What stands against calling it verified; empty: nothing does."""
        if self.is_verified:
            return ""
        first = next(iter([*self.failed, *(c for c in self.checks if c.name in REQUIRED and c.outcome != "passed")]))
        where = "".join(f", {what} {name}" for what, name in (("tensor", first.tensor), ("file", first.file)) if name)
        return f"{first.name}: {first.detail}{where}"

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
    def size_label(self) -> str:
        """The size that the weights themselves make, such as 8B."""
        return size_label((t for s in self.shards for t in s.tensors), self.configuration)

    @property
    def dtypes(self) -> list[str]:
        return sorted({t.dtype for s in self.shards for t in s.tensors})

    @property
    def tied_weights(self) -> bool | None:
        return self.configuration.tied_weights

    @property
    def generation(self) -> Generation | None:
        return self.configuration.generation

    @property
    def numbers(self) -> IndexNumbers | None:
        """The numbers by which anyone can see that it adds up; None where there is no index to compare with."""
        weight_map, total = self.index.weight_map, self.index.total_size
        if weight_map is None or total is None or countable(self.tensor_bytes) is None:
            return None
        return IndexNumbers(
            shard_files=len(self.shards),
            shards_named=len(set(weight_map.values())),
            shards_in_names=count_in_names(s.name for s in self.shards),
            index_total_size=total,
            tensor_bytes=self.tensor_bytes,
            tensors_in_index=len(weight_map),
            tensors_in_shards=self.tensor_count,
            ghost_tensors=[recordable(t) for t in self.ghosts[:_NAMED]],
            unlisted_tensors=[recordable(t) for t in self.unlisted[:_NAMED]],
            parameter_count=countable(self.parameter_count),
        )

    def note(
        self, name: str, fault: str | None, detail: str, *, tensor: str | None = None, file: str | None = None
    ) -> None:
        """Adds a check that was made; `tensor` and `file` are those of the fault."""
        failed = fault is not None
        self.checks.append(
            Check(
                name=name,
                outcome="failed" if failed else "passed",
                detail=recordable_text(fault or detail),
                tensor=recordable(tensor) if failed and tensor is not None else None,
                file=recordable(file) if failed and file is not None else None,
            )
        )

    def leave(self, name: str, reason: str) -> None:
        """Adds a check that could not be made."""
        self.checks.append(Check(name=name, outcome="not_checked", detail=reason))


def check_export(
    place: Place, *, base: Place | None = None, dtypes: Collection[str] = (), files: Iterable[FileDigest] = ()
) -> Checked:
    """Reads the index and all headers of an export, and checks them.

    Args:
        base: The model that training began with.
        dtypes: The types that tensors may have, by their names in safetensors; else they are the base's.
        files: The files as they were recorded. With them each file is read whole.

    Raises:
        InvalidInput: reason INVALID_FILE, if a place holds no weights at all, or the base's cannot be read.
        LedgerError: if a place cannot be read.
    """
    names = place.names()
    weights = read_weights(place, names)
    index = read_index(place, names)
    if not weights.files and not index.is_there:
        raise _no_weights(place)
    checked = Checked(place.location, weights.shards, index, read_configuration(place, names))
    _check_index(weights, checked)
    _check_whole(weights, checked)
    model = bases.Model(weights, checked.configuration, weights.by_name())
    theirs = None if base is None else _base(base)
    _add(checked, "base_tensors", bases.base_tensors(model, theirs, dtypes))
    _check_parameters(checked)
    _check_digests(place, names, tuple(files), checked)
    _add(checked, "differs_from_base", bases.differs_from_base(model, theirs))
    return checked


def countable(count: int) -> int | None:
    """A count as an event can hold it: a header that lies may claim more."""
    return count if count <= MAX_INT else None


def recordable_text(text: str) -> str:
    return text.encode("utf-8", "replace").decode().replace("\0", "?")


def _base(place: Place) -> bases.Model:
    names = place.names()
    weights = read_weights(place, names)
    if not weights.files:
        raise _no_weights(place)
    if weights.unread:
        raise InvalidInput(
            f"the base cannot be compared with: {weights.unread[0].why}",
            reason="INVALID_FILE",
            remedy="Name the folder or URL of the whole model that training began with.",
            details={"place": place.location},
        )
    return bases.Model(weights, read_configuration(place, names), weights.by_name())


def _no_weights(place: Place) -> InvalidInput:
    return InvalidInput(
        f"{place.location} holds no safetensors files and no index",
        reason="INVALID_FILE",
        remedy="Name the folder of the exported model. A checkpoint's huggingface/ folder has no weights in it.",
        details={"file": place.location},
    )


def _check_index(weights: Weights, checked: Checked) -> None:
    index = checked.index
    if not index.is_there and len(weights.files) == 1:
        for name in ("index_parses", "shards_present", "weight_map_complete", "total_size"):
            checked.leave(name, _NO_INDEX)
        return
    tensors = counted(len(index.weight_map or {}), "tensor")
    checked.note("index_parses", index.fault, tensors, file=INDEX)
    if index.weight_map is None:
        for name in ("shards_present", "weight_map_complete", "total_size"):
            checked.leave(name, "the index cannot be read")
        return
    _check_files(weights.files, index.weight_map, checked)
    _check_tensors(index.weight_map, checked)
    _check_total(checked)


def _check_files(files: Iterable[str], weight_map: dict[str, str], checked: Checked) -> None:
    there, named = set(files), set(weight_map.values())
    numbered = count_in_names(there)
    fault = file = None
    if missing := sorted(named - there):
        fault, file = f"{_are(len(missing), 'file')} not there that the index names", missing[0]
    elif extra := sorted(there - named):
        fault, file = f"{_are(len(extra), 'shard')} there that the index does not name", extra[0]
    elif numbered is not None and numbered != len(there):
        fault = f"the names say {counted(numbered, 'shard')}, and {_are(len(there), 'file')} there"
    checked.note("shards_present", fault, counted(len(there), "shard"), file=file)


def _are(count: int, noun: str) -> str:
    """1 shard is, 2 shards are."""
    return f"{counted(count, noun)} {'is' if count == 1 else 'are'}"


def _check_tensors(weight_map: dict[str, str], checked: Checked) -> None:
    held = {(t.name, s.name) for s in checked.shards for t in s.tensors}
    checked.ghosts = sorted(name for name, file in weight_map.items() if (name, file) not in held)
    checked.unlisted = sorted(name for name, file in held if weight_map.get(name) != file)
    fault = tensor = file = None
    if checked.ghosts:
        tensor = checked.ghosts[0]
        fault, file = f"{_are(len(checked.ghosts), 'tensor')} not in the file that the index names", weight_map[tensor]
    elif checked.unlisted:
        tensor = checked.unlisted[0]
        fault = f"{_are(len(checked.unlisted), 'tensor')} in shards and not in the index"
        file = min(f for name, f in held if name == tensor and weight_map.get(name) != f)
    detail = f"{counted(len(weight_map), 'tensor')} in the index, {checked.tensor_count:,} in the shards"
    checked.note("weight_map_complete", fault, detail, tensor=tensor, file=file)


def _check_total(checked: Checked) -> None:
    total, there = checked.index.total_size, checked.tensor_bytes
    fault = None
    if total is None:
        fault = "the index says no total_size"
    elif total != there:
        fault = f"the index says {total:,} bytes, and the tensors have {there:,}"
    checked.note("total_size", fault, f"{there:,} bytes", file=INDEX)


def _check_whole(weights: Weights, checked: Checked) -> None:
    cut = [s for s in checked.shards if not s.is_whole]
    fault = file = None
    if weights.unread:
        file, fault = weights.unread[0].file, weights.unread[0].why
    elif cut:
        file = cut[0].name
        fault = f"{_are(len(cut), 'shard')} of another size than the header says: {cut[0].file_size:,} bytes of "
        fault += f"{cut[0].data_end:,}"
    checked.note("not_truncated", fault, f"{counted(len(checked.shards), 'header')} read", file=file)


def _check_parameters(checked: Checked) -> None:
    count = checked.parameter_count
    fault = None
    if not count:
        fault = "the shards hold no parameters"
    elif countable(count) is None:
        fault = "the headers claim more parameters than any file holds"
    checked.note("parameter_count", fault, f"{counted(count, 'parameter')}: {checked.size_label}")


def _check_digests(place: Place, names: Iterable[str], files: Sequence[FileDigest], checked: Checked) -> None:
    if not files:
        checked.leave("file_digests", "no recorded files to compare with")
        return
    there, recorded = set(names), {f.path: f for f in files}
    fault = file = None
    if missing := sorted(recorded.keys() - there):
        fault, file = f"{_are(len(missing), 'recorded file')} not there", missing[0]
    elif extra := sorted(there - recorded.keys()):
        fault, file = (
            f"{_are(len(extra), 'file')} there that {'was' if len(extra) == 1 else 'were'} not recorded",
            extra[0],
        )
    else:
        fault, file = _first_changed(place, files)
    checked.note("file_digests", fault, f"{counted(len(recorded), 'file')} as recorded", file=file)


def _first_changed(place: Place, files: Iterable[FileDigest]) -> tuple[str | None, str | None]:
    for recorded in files:
        made, size = hashlib.sha256(), 0
        try:
            for data in place.chunks(recorded.path):
                made.update(data)
                size += len(data)
        except (InvalidInput, NotFound) as error:
            return error.message, recorded.path
        if recorded.size is not None and size != recorded.size:
            return f"it has {size:,} bytes, and was recorded with {recorded.size:,}", recorded.path
        if recorded.sha256 is not None and made.hexdigest() != recorded.sha256:
            return f"it is {made.hexdigest()}, and was recorded as {recorded.sha256}", recorded.path
    return None, None


def _add(checked: Checked, name: str, found: Check | bases.Fault) -> None:
    if isinstance(found, Check):
        checked.checks.append(found)
        return
    # What is missing is missing in the file that should name it.
    naming = INDEX if checked.index.is_there else checked.shards[0].name
    checked.note(name, found.detail, "", tensor=found.tensor, file=found.file or naming)
