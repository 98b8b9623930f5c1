"""A file that is imported: named by its digest, read by line in bounded memory, unpacked on the way if gzipped."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, cast

from ledger.client import faults
from ledger.core.errors import InvalidInput
from ledger.events.fields import ArtifactRef
from ledger.events.runs import Basis

MAX_LINE: Final = 8 << 20
"""Bytes of one line. Of what is longer only the beginning is read: no program that is imported writes such lines."""
_GZIP: Final = b"\x1f\x8b"


@dataclass(frozen=True)
class Document:
    """A file as it was when it was read: its name without its folder, and the digest of its bytes."""

    path: Path
    sha256: str
    size: int
    packed: bool = False
    media_type: str | None = None

    @property
    def name(self) -> str:
        return harmless_name(self.path.name)

    def basis(self, note: str | None = None) -> Basis:
        """What every event of this file says of how it is known."""
        ref = ArtifactRef(name=self.name, sha256=self.sha256, size=self.size, media_type=self.media_type)
        return Basis(kind="imported", document=ref, note=note)

    def lines(self) -> Iterator[bytes]:
        """The lines, without holding more than one of them.

        Raises:
            InvalidInput: reason INVALID_FILE, if the file cannot be read to its end.
        """
        with self.open() as file:
            while line := file.readline(MAX_LINE):
                yield line
                while len(line) == MAX_LINE and not line.endswith(b"\n"):
                    line = file.readline(MAX_LINE)

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """The bytes, unpacked, to be read within the block.

        Raises:
            InvalidInput: reason INVALID_FILE, if they cannot be read as far as the block reads them.
        """
        try:
            with cast("IO[bytes]", gzip.open(self.path, "rb")) if self.packed else self.path.open("rb") as file:
                yield file
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise _damaged(self.path, error) from None
        except OSError as error:
            raise faults.unreadable(self.path, error) from None


def read_document(path: Path, media_type: str | None = None) -> Document:
    """Hashes a file.

    Raises:
        InvalidInput: reason INVALID_FILE, if it is no regular file or cannot be read.
    """
    try:
        if not path.is_file():
            raise InvalidInput(
                f"{path} is no file",
                reason="INVALID_FILE",
                remedy="Name files that are there; a folder has a command of its own.",
                details={"file": str(path)},
            )
        with path.open("rb") as file:
            packed = file.read(2) == _GZIP
            file.seek(0)
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            return Document(path, sha256, file.tell(), packed, media_type)
    except OSError as error:
        raise faults.unreadable(path, error) from None


def harmless_name(name: str) -> str:
    """A file's name as an event can hold it: the file system allows bytes that are no text."""
    return name.encode("utf-8", "replace").decode().replace("\0", "?")[:512] or "?"


def _damaged(path: Path, error: Exception) -> InvalidInput:
    return InvalidInput(
        f"{path} is gzipped, and damaged: {error}",
        reason="INVALID_FILE",
        remedy="Unpack what can be saved of it, `gzip -dc FILE > LOG`, and import that. Nothing was appended.",
        details={"file": str(path)},
    )
