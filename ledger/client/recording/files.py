"""The files of a checkpoint: each by its path below the folder, and one digest over all of them.

The digest is SHA-256 over a line for each file, in order of path: the file's SHA-256 in hex, two spaces, the path, a
line feed. That is what `sha256sum` prints, so that anyone can compute it again.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ledger.core.errors import InvalidInput
from ledger.events.checkpoints import FileDigest

MAX_FILES = 4_000
"""Files that an event names; of more, only their number and digest are recorded."""


@dataclass(frozen=True)
class Files:
    """What lies in a checkpoint."""

    files: tuple[FileDigest, ...]
    digest: str

    @property
    def total_bytes(self) -> int:
        return sum(f.size or 0 for f in self.files)

    def as_fields(self) -> dict[str, Any]:
        """As an event has them."""
        named = [f.model_dump() for f in self.files] if len(self.files) <= MAX_FILES else []
        return {
            "digest": self.digest,
            "files": named,
            "file_count": len(self.files),
            "total_bytes": self.total_bytes,
        }


def read_files(place: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> Files:
    """Reads a folder's files, or those that are named, whole.

    Raises:
        InvalidInput: reason INVALID_FILE, if there is no file or one cannot be read.
    """
    named = [Path(place)] if isinstance(place, (str, os.PathLike)) else [Path(one) for one in place]
    found = sorted((_file(path, root) for path, root in _paths(named)), key=lambda f: f.path.encode())
    if not found:
        raise InvalidInput(
            f"no file in {', '.join(map(str, named)) or 'an empty list'}",
            reason="INVALID_FILE",
            remedy="Name the folder that the checkpoint was saved to.",
        )
    return Files(tuple(found), digest_of(found))


def digest_of(files: Iterable[FileDigest]) -> str:
    """One digest over files that are in order of path."""
    return hashlib.sha256("".join(f"{f.sha256}  {f.path}\n" for f in files).encode()).hexdigest()


def _paths(named: Sequence[Path]) -> Iterable[tuple[Path, Path]]:
    """Each file, and the folder that its path is told from."""
    whole = len(named) == 1 and named[0].is_dir()
    named = [n.absolute() for n in named]
    root = named[0] if whole else Path(os.path.commonpath([n.parent for n in named] or [Path("/")]))
    for path in named:
        if path.is_dir():
            yield from ((p, root) for p in path.rglob("*") if p.is_file())
        else:
            yield path, root


def _file(path: Path, root: Path) -> FileDigest:
    try:
        with path.open("rb") as stream:
            sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
            return FileDigest(path=path.relative_to(root).as_posix(), sha256=sha256, size=stream.tell())
    except OSError as error:
        raise InvalidInput(
            f"{path} cannot be read: {error.strerror}",
            reason="INVALID_FILE",
            remedy="Record the checkpoint once its files are there.",
        ) from None
