"""The order in which an exported model appears at a place, so that nobody ever loads half of one.

The invariant: at every moment either no index is visible at the place, or one whose files are all there with the bytes
that they were published with. What is visible between is shards that nothing names.

    1  every index that is there is removed, unless nothing at all has to change
    2  what is there and will not stay is removed: files of an earlier export
    3  shards, then other files, are put, and each is read back and compared
    4  the index is put, and read back

It may be killed anywhere: what it put is found equal by the next attempt, and stays. A model of one file has no index;
that file stands in its place, put last and removed first.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ledger.client.exports.indexes import INDEX, SINGLE
from ledger.client.exports.places import Folder, Place
from ledger.client.recording.files import Files, digest_of
from ledger.core.errors import Broken, InvalidInput, Refused
from ledger.core.text import harmless
from ledger.events.checkpoints import FileDigest

_NAMED: Final = 5


def publish(folder: Path, to: Place, *, replace: bool = False) -> Files:
    """Puts a folder's files to a place; gives them as they were read back there.

    Files that are there already with the same bytes stay as they are.

    Args:
        replace: Whether other files at the place may be overwritten and removed.

    Raises:
        InvalidInput: reason INVALID_FILE, if the folder holds no whole model.
        Refused: reason CONDITION_FAILED, if the place holds other files and `replace` is off.
        Broken: reason VERIFICATION_FAILED, if a file reads back otherwise than it was put. There is no index then.
        LedgerError: if the place cannot be read or written.
    """
    ours = _read(folder)
    there = set(to.names())
    kept = {name for name in there & ours.keys() if _digest(to, name) == ours[name]}
    if (other := sorted(there - kept)) and not replace:
        raise _occupied(to, other)
    changing = bool(other) or kept != ours.keys()
    if changing:
        for name in sorted(there, key=_is_last, reverse=True):
            if _is_last(name) or name not in ours:
                to.delete(name)
    for name in sorted(ours, key=_turn):
        if name not in kept or (changing and _is_last(name)):
            _put(folder / name, to, name, ours[name])
    return _files(ours)


def _read(folder: Path) -> dict[str, FileDigest]:
    """The folder's files by name, if they make a model that can be published."""
    if deep := sorted(p.name for p in _children(folder) if p.is_dir()):
        raise _bad(folder, f"it holds the folder {harmless(deep[0])}, and an export has none", "Move it elsewhere.")
    source = Folder(folder)
    names = source.names()
    if not any(_is_last(name) for name in names):
        raise _bad(folder, f"it holds neither {INDEX} nor {SINGLE}")
    if INDEX in names and (missing := sorted(_named(source) - set(names))):
        raise _bad(folder, f"its index names {harmless(missing[0][:200])}, which is not there")
    return {name: _digest(source, name) for name in names}


def _children(folder: Path) -> Iterator[Path]:
    try:
        yield from folder.iterdir()
    except OSError as error:
        raise _bad(folder, error.strerror or str(error), "Name the folder of the export.") from None


def _named(source: Folder) -> set[str]:
    try:
        files = json.loads(source.read(INDEX))["weight_map"].values()
        return {str(name) for name in files}
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise _bad(Path(source.location), f"its index cannot be read: {type(error).__name__}") from None


def _is_last(name: str) -> bool:
    """Whether readers begin with this file, so that it must not be there before all others."""
    return name.endswith(".index.json") or name == SINGLE


def _turn(name: str) -> tuple[int, bytes]:
    turn = 2 if _is_last(name) else 0 if name.endswith(".safetensors") else 1
    return turn, name.encode()


def _put(path: Path, to: Place, name: str, expected: FileDigest) -> None:
    to.put(name, path)
    found = _digest(to, name)
    if found == expected:
        return
    if _is_last(name):
        to.delete(name)
    raise Broken(
        f"{harmless(name)} was put to {to.location} as {expected.sha256} and reads back as {found.sha256}",
        remedy="Publish again, once nothing else writes to the folder or the place. No index was left there.",
        details={"file": name, "place": to.location},
    )


def _digest(place: Place, name: str) -> FileDigest:
    made, size = hashlib.sha256(), 0
    for data in place.chunks(name):
        made.update(data)
        size += len(data)
    return FileDigest(path=name, sha256=made.hexdigest(), size=size)


def _files(by_name: dict[str, FileDigest]) -> Files:
    files = tuple(sorted(by_name.values(), key=lambda f: f.path.encode()))
    return Files(files, digest_of(files))


def _occupied(to: Place, other: list[str]) -> Refused:
    named = ", ".join(harmless(name[:200]) for name in other[:_NAMED])
    more = f" and {len(other) - _NAMED} more" if len(other) > _NAMED else ""
    return Refused(
        f"{to.location} holds other files already: {named}{more}",
        reason="CONDITION_FAILED",
        remedy="Publish to a place of its own, or say that what is there may be replaced.",
        details={"place": to.location},
    )


def _bad(folder: Path, why: str, remedy: str = "Export the model again.") -> InvalidInput:
    return InvalidInput(
        f"{folder} cannot be published: {why}", reason="INVALID_FILE", remedy=remedy, details={"file": str(folder)}
    )
