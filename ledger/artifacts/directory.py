"""Evidence bytes in a folder, each file named by the SHA-256 of what it holds.

A file appears under its name only when it is whole, hashed and on the disk; it is never changed after. Putting the same
bytes again changes nothing. What a killed upload left behind is removed when the store opens, a day later.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final, Self

from ledger.core.errors import InvalidInput, NotFound, Refused

CHUNK: Final = 1 << 20
ABANDONED_SECONDS: Final = 24 * 3600
"""Nobody has written to it for so long: no upload takes that time, and other processes may have some under way."""
_NAME: Final = re.compile(r"[0-9a-f]{64}")


class ArtifactDirectory:
    """A content-addressed store in a folder. Safe to use from many threads and processes."""

    def __init__(self, root: Path) -> None:
        self._files = root / "sha256"
        self._incoming = root / "incoming"
        self._files.mkdir(parents=True, exist_ok=True)
        self._incoming.mkdir(exist_ok=True)
        self._remove_abandoned()

    def put(self, sha256: str, size: int) -> Upload:
        """Opens an upload; nothing is kept unless it is finished."""
        self._path(sha256)
        return Upload(self, sha256, size)

    def size(self, sha256: str) -> int | None:
        """How many bytes are stored under the name; None if it is not stored."""
        try:
            return self._path(sha256).stat().st_size
        except FileNotFoundError:
            return None

    def open(self, sha256: str) -> BinaryIO:
        try:
            return self._path(sha256).open("rb")
        except FileNotFoundError:
            raise NotFound(
                f"the artifact {sha256} is not stored", remedy="Check the name, or put the bytes first."
            ) from None

    def chunks(self, sha256: str) -> Iterator[bytes]:
        with self.open(sha256) as file:
            while chunk := file.read(CHUNK):
                yield chunk

    def verify(self, sha256: str) -> bool:
        """Whether the stored bytes hash to their name."""
        digest = hashlib.sha256()
        for chunk in self.chunks(sha256):
            digest.update(chunk)
        return digest.hexdigest() == sha256

    def names(self) -> Iterator[str]:
        for path in sorted(self._files.glob("*/*")):
            if _NAME.fullmatch(path.name) and path == self._path(path.name):
                yield path.name

    def _remove_abandoned(self) -> None:
        before = time.time() - ABANDONED_SECONDS
        for path in self._incoming.iterdir():
            # Another process may be removing it too.
            with contextlib.suppress(FileNotFoundError):
                if path.stat().st_mtime < before:
                    path.unlink()

    def _path(self, sha256: str) -> Path:
        if not _NAME.fullmatch(sha256):
            raise InvalidInput(
                "an artifact is named by 64 lower-case hex digits", remedy="Give the SHA-256 of the bytes."
            )
        return self._files / sha256[:2] / sha256


class Upload:
    """Bytes on their way in. Use as a context manager: left without `finish`, nothing stays."""

    def __init__(self, store: ArtifactDirectory, sha256: str, size: int) -> None:
        self._store = store
        self._sha256 = sha256
        self._size = size
        self._written = 0
        self._digest = hashlib.sha256()
        handle, name = tempfile.mkstemp(dir=store._incoming)  # noqa: SLF001  # one module
        self._temporary = Path(name)
        self._file = os.fdopen(handle, "wb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._temporary.unlink(missing_ok=True)

    def write(self, chunk: bytes) -> None:
        self._written += len(chunk)
        if self._written > self._size:
            raise self._mismatch(f"more than the announced {self._size} bytes came")
        self._digest.update(chunk)
        self._file.write(chunk)

    def finish(self) -> None:
        """Makes the artifact visible, durably.

        Raises:
            Refused: reason HASH_MISMATCH; nothing is kept.
        """
        if self._written != self._size:
            raise self._mismatch(f"{self._written} bytes came, {self._size} were announced")
        if self._digest.hexdigest() != self._sha256:
            raise self._mismatch(f"the bytes hash to {self._digest.hexdigest()}")
        self._file.flush()
        os.fsync(self._file.fileno())
        path = self._store._path(self._sha256)  # noqa: SLF001  # one module
        path.parent.mkdir(exist_ok=True)
        self._temporary.replace(path)
        _sync_folder(path.parent)

    def _mismatch(self, what: str) -> Refused:
        return Refused(
            f"artifact {self._sha256}: {what}; nothing was kept",
            reason="HASH_MISMATCH",
            remedy="Send the bytes whose SHA-256 is the name.",
            details={"sha256": self._sha256},
        )


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
