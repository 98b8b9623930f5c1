"""Where an export lies: a folder, or an object store, behind one interface.

- A name is a bare file name. One that leads elsewhere is refused, and so is a link out of the folder: what is read at a
  place is digested, copied and published. Only a hub's cache may link from a snapshot to its own blobs.
- `put` appears whole: a file takes its name by a rename, an object once the store has all of it.
- What a store says is told with the place and what to do. Credentials come from the environment, as the store's own
  tools read them (`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL` and the like); a place that holds any is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Protocol

from ledger.client.recording.folders import sync_folder
from ledger.client.whole import whole
from ledger.core.errors import InvalidInput, NotFound
from ledger.core.text import harmless

CHUNK: Final = 8 << 20
"""Bytes that are held at a time of a file that is read or written whole."""
_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_MAX_NAME: Final = 255
_PARTIAL: Final = re.compile(r"\..+\.[0-9a-f]{32}", re.DOTALL)
"""What `whole` writes to before a file has its name; one is left only by a kill."""


class Place(Protocol):
    """Files under bare names. One place is used by one thread at a time."""

    @property
    def location(self) -> str:
        """The folder or URL, as people are told it."""

    def names(self) -> list[str]:
        """The files directly in it, in order; none where there is no such folder yet."""

    def size(self, name: str) -> int:
        """The bytes of a file."""

    def read(self, name: str, begin: int = 0, end: int | None = None) -> bytes:
        """A part of a file; what lies behind its end is left out."""

    def chunks(self, name: str) -> Iterator[bytes]:
        """A whole file, a few MiB at a time."""

    def put(self, name: str, source: Path | bytes) -> None:
        """Writes a file, or replaces it: it appears whole, or not at all."""

    def delete(self, name: str) -> None:
        """Removes a file, if it is there."""


def place(where: str | Path) -> Place:
    """A folder, or for `scheme://` an object store. Neither has to be there yet.

    Raises:
        LedgerError: reason EXTRA_MISSING, if the store's packages are not installed.
        InvalidInput: reason USAGE, if there is no such kind of store, or the URL holds credentials.
    """
    scheme = _URL.match(where) if isinstance(where, str) else None
    if scheme is None or scheme[1].lower() == "file":
        return Folder(Path(where if scheme is None else str(where)[scheme.end() :]))
    # fsspec and a store's packages are an extra: they are imported where one is opened.
    from ledger.client.exports.stores import ObjectStore  # noqa: PLC0415

    return ObjectStore(str(where))


def is_bare_name(name: str) -> bool:
    """Whether a name stays in its folder, on any system."""
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        return False
    return 0 < size <= _MAX_NAME and name not in {".", ".."} and not set(name) & set("/\\\0")


def check_name(name: str, location: str) -> str:
    """The name.

    Raises:
        InvalidInput: reason INVALID_FILE, if it leads out of the place.
    """
    if is_bare_name(name):
        return name
    raise InvalidInput(
        f"{harmless(name[:200])!r} is no name of a file in {location}",
        reason="INVALID_FILE",
        remedy="Name files by their bare names: an export has no folders.",
        details={"place": location},
    )


class Folder:
    """A folder on this machine."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def location(self) -> str:
        return str(self._path)

    def names(self) -> list[str]:
        try:
            found = [p.name for p in self._path.iterdir() if p.is_file() or p.is_symlink()]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _unreadable(self._path, error) from None
        return sorted(name for name in found if not _PARTIAL.fullmatch(name))

    def size(self, name: str) -> int:
        path = self._at(name)
        try:
            return path.stat().st_size
        except OSError as error:
            raise _unreadable(path, error) from None

    def read(self, name: str, begin: int = 0, end: int | None = None) -> bytes:
        path = self._at(name)
        try:
            with path.open("rb") as file:
                file.seek(begin)
                return file.read(-1 if end is None else max(0, end - begin))
        except OSError as error:
            raise _unreadable(path, error) from None

    def chunks(self, name: str) -> Iterator[bytes]:
        path = self._at(name)
        try:
            with path.open("rb") as file:
                while data := file.read(CHUNK):
                    yield data
        except OSError as error:
            raise _unreadable(path, error) from None

    def put(self, name: str, source: Path | bytes) -> None:
        path = self._path / check_name(name, self.location)
        try:
            self._path.mkdir(parents=True, exist_ok=True)
            self._sweep(name)
        except OSError as error:
            raise _unwritable(self._path, error) from None
        with whole(path) as file:
            for data in _bytes_of(source):
                file.write(data)
        sync_folder(self._path)

    def delete(self, name: str) -> None:
        path = self._path / check_name(name, self.location)
        try:
            path.unlink(missing_ok=True)
            sync_folder(self._path)
        except FileNotFoundError:
            return
        except OSError as error:
            raise _unwritable(path, error) from None

    def _holds(self, target: Path) -> bool:
        """Whether a link's target is the folder's own. A hub's cache keeps files beside its snapshots, and links there:
        MODEL/snapshots/COMMIT/config.json -> MODEL/blobs/DIGEST."""
        folder = self._path.resolve()
        if folder.parent.name == "snapshots" and target.is_relative_to(folder.parent.parent / "blobs"):
            return True
        return target.is_relative_to(folder)

    def _sweep(self, name: str) -> None:
        """Removes what an attempt that was killed left of this file."""
        for path in self._path.iterdir():
            if _PARTIAL.fullmatch(path.name) and path.name[1:-33] == name:
                path.unlink(missing_ok=True)

    def _at(self, name: str) -> Path:
        """Where a file lies, if that is in the folder."""
        path = self._path / check_name(name, self.location)
        try:
            if path.is_symlink() and not self._holds(path.resolve()):
                raise InvalidInput(
                    f"{path} is a link out of its folder, which is not followed",
                    reason="INVALID_FILE",
                    remedy="Name a folder that holds the files themselves: `cp -rL FOLDER COPY` makes one.",
                    details={"file": str(path)},
                )
        except (OSError, RuntimeError) as error:  # links in a circle
            raise _unreadable(path, error) from None
        return path


def _bytes_of(source: Path | bytes) -> Iterator[bytes]:
    if isinstance(source, bytes):
        yield source
        return
    try:
        with source.open("rb") as file:
            while data := file.read(CHUNK):
                yield data
    except OSError as error:
        raise _unreadable(source, error) from None


def _unreadable(path: Path, error: OSError | RuntimeError) -> InvalidInput | NotFound:
    why = getattr(error, "strerror", None) or str(error)
    kind = NotFound if isinstance(error, FileNotFoundError) else InvalidInput
    return kind(
        f"{path} cannot be read: {why}",
        reason=None if kind is NotFound else "INVALID_FILE",
        remedy="Name files that are there and that you may read.",
        details={"file": str(path)},
    )


def _unwritable(path: Path, error: OSError) -> InvalidInput:
    return InvalidInput(
        f"{path} cannot be written: {error.strerror}",
        reason="USAGE",
        remedy="Name a folder that you may write to.",
        details={"file": str(path)},
    )
