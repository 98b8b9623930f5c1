"""A dataset's folder: it appears whole or not at all, and what others put there is never deleted.

A folder is one that was made here if its manifest says so and names every file in it.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from ledger.core.errors import InvalidInput, Refused

MANIFEST: Final = "manifest.json"
CARD: Final = "README.md"
FORMAT: Final = "atlas-ledger-traces"
_MAX_MANIFEST: Final = 64 << 20


@contextmanager
def building(to: Path) -> Iterator[tuple[Path, Path]]:
    """A folder for the dataset and one for what is needed on the way; both are gone in the end unless `take_place` ran.

    Raises:
        InvalidInput: reason USAGE, if nothing can be written there.
    """
    partial = to.with_name(f".{to.name}.{uuid4().hex}")
    try:
        (partial / "dataset").mkdir(parents=True)
        (partial / "spool").mkdir()
    except OSError as error:
        raise InvalidInput(
            f"{to} cannot be written: {error.strerror}", reason="USAGE", remedy="Name a folder that can be."
        ) from None
    try:
        yield partial / "dataset", partial / "spool"
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def absolute(to: Path) -> Path:
    """Of `.` too; a path's own method keeps `..`, which has no name."""
    return Path(os.path.abspath(to))  # noqa: PTH100


def check_place(to: Path, *, force: bool) -> None:
    """Refuses a place that holds something.

    Raises:
        InvalidInput: reason USAGE, if it is no folder.
        Refused: reason IN_USE, if it holds something else than traces, or traces that were not to be replaced.
    """
    if to.is_symlink() or (to.exists() and not to.is_dir()):
        raise InvalidInput(f"{to} is no folder", reason="USAGE", remedy="Name a folder, or a place where none is yet.")
    if not to.is_dir() or not any(to.iterdir()):
        return
    others = _others(to)
    if others is None or others:
        what = f": {others[0]!a}" if others else ""
        raise Refused(
            f"{to} holds something else than traces that were built here{what}",
            reason="IN_USE",
            remedy="Name another folder: what others put there is never deleted.",
            details={"folder": str(to)},
        )
    if not force:
        raise Refused(
            f"{to} holds traces already",
            reason="IN_USE",
            remedy="Replace them with --force, or name another folder.",
            details={"folder": str(to)},
        )


def _others(folder: Path) -> list[str] | None:
    """What in the folder its manifest does not name; None if it is no manifest of traces."""
    path = folder / MANIFEST
    try:
        with path.open("rb") as file:
            said: Any = json.loads(file.read(_MAX_MANIFEST))
        if path.is_symlink() or said["format"] != FORMAT:
            return None
        named = {MANIFEST, CARD, *(str(shard["path"]) for shard in said["shards"])}
    except (OSError, ValueError, TypeError, KeyError):
        return None
    held = (p for p in folder.rglob("*") if p.is_symlink() or not p.is_dir())
    return sorted(name for p in held if (name := p.relative_to(folder).as_posix()) not in named)
