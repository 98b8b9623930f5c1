"""Which revision a downloaded file is of, as the download's own records say, and never by its name alone.

Two layouts of the Hugging Face Hub are read: the shared cache (`snapshots/<commit>/…`, where a file links to a blob)
and a local folder (`.cache/huggingface/download/….metadata`, whose first line is the commit and whose second is the
file's entity tag). Where the tag is a SHA-256, it is the hash that the file had at that commit, and is compared.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from ledger.client import faults

SNAPSHOTS: Final = "snapshots"
METADATA: Final = PurePosixPath(".cache/huggingface/download")
MAX_METADATA: Final = 4_096

_COMMIT: Final = re.compile(r"[0-9a-f]{40}")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Origin:
    """Where a file came from."""

    revision: str
    name: str
    """Its path within the repository."""
    sha256: str | None
    """Of the file at that revision; None where the download does not say it."""


def origin_of(path: Path) -> Origin | None:
    """What the records of the download say of a file; None if there are none.

    Raises:
        InvalidInput: reason INVALID_FILE, if there is such a record and it cannot be read.
    """
    # The name counts as it was given: in the cache, what it leads to is a blob that bears no revision.
    given = path.absolute()
    return _in_cache(given) or _in_local_folder(given)


def _in_cache(path: Path) -> Origin | None:
    parts = path.parts
    for i in range(len(parts) - 2, 0, -1):
        if parts[i - 1] == SNAPSHOTS and _COMMIT.fullmatch(parts[i]) and i + 1 < len(parts):
            name = PurePosixPath(*parts[i + 1 :]).as_posix()
            return Origin(revision=parts[i], name=name, sha256=_blob(path))
    return None


def _blob(path: Path) -> str | None:
    """The hash by which a cache stores a large file: the name of what the link leads to."""
    target = path.resolve().name if path.is_symlink() else ""
    return target if _SHA256.fullmatch(target) else None


def _in_local_folder(path: Path) -> Origin | None:
    for folder in path.parents:
        name = path.relative_to(folder)
        record = folder / METADATA / f"{name}.metadata"
        if record.is_file():
            return _recorded(record, name.as_posix())
    return None


def _recorded(record: Path, name: str) -> Origin | None:
    try:
        with record.open("rb") as file:
            lines = file.read(MAX_METADATA).decode("utf-8", "replace").splitlines()
    except OSError as error:
        raise faults.unreadable(record, error) from None
    commit, tag = (*lines, "", "")[:2]
    if not _COMMIT.fullmatch(commit):
        return None
    return Origin(revision=commit, name=name, sha256=tag if _SHA256.fullmatch(tag) else None)
