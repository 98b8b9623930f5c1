"""The files of a Harbor job's trials: in their folders, or in archives that are copied out into one nameless file.

- Only files that a row needs are opened. No name leads out of its trial: links are named and not followed, and the
  names in an archive are keys, never paths.
- What is too large, or cannot be read, is named and is not there. An archive that is damaged has no rows at all, since
  nobody can tell which of its trials are whole.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Final, NamedTuple, Protocol, Self

from services.adapters.backfill.documents import harmless_name
from services.adapters.backfill.harbor_trials import FILES, MAX_FILE, MAX_MEMBERS, archives
from services.adapters.traces.accounts import STAGES, Account
from services.adapters.traces.reading import PlaceRead
from services.adapters.traces.trajectories import NAME

RESULT: Final = "result.json"
OUTPUT, ERRORS = "verifier/test-stdout.txt", "verifier/test-stderr.txt"
MAX_KEPT: Final = 256 << 30
"""Bytes that are copied out of one archive."""
_CHUNK: Final = 1 << 20
_AGENT: Final = "agent"
_NEEDED: Final = frozenset({*FILES, OUTPUT, ERRORS})
_MARKS: Final = ("config.json", RESULT)
_WITHIN: Final = frozenset({_AGENT, "verifier", "artifacts"})
"""Folders of a trial: what lies in them is its content, whatever it is called."""
_LINK: Final = "a link, which is not followed"
_TOO_LARGE: Final = "a file that is too large"


class Content(Protocol):
    """The files of a trial, by their names below the trial's folder."""

    def __call__(self, name: str, /) -> bytes | None:
        """A file; None: it is not there, or must not be read."""

    def holds(self, name: str) -> bool:
        """Whether it is there, to be read or not."""


class Trial(NamedTuple):
    name: str
    place: str
    """By which it is named among what was left out."""
    content: Content
    step: int | None
    """Of the archive that it lies in; a folder has none."""


class _Member(NamedTuple):
    at: int
    size: int


def job_trials(job: Path, spool: Path, account: Account, read: PlaceRead) -> Iterator[Trial]:
    """The trials of a job: of its archives by step, then of its folders by name."""
    for step, path in archives(job):
        with _Unpacked(path, spool, account) as unpacked:
            if unpacked.damage is not None:
                account.leave_out("an archive that cannot be read", f"{path.name}: {unpacked.damage}", hides=STAGES)
                continue
            read.add(path.name, unpacked.sha256, unpacked.size)
            for name, content in unpacked.trials():
                yield Trial(name, f"{path.name}/{name}", content, step)
    for folder in sorted(job.iterdir()):
        place = harmless_name(folder.name)
        if folder.is_symlink():
            account.leave_out(_LINK, place)
        elif folder.is_dir() and any((folder / mark).is_file() for mark in _MARKS):
            yield Trial(place, place, _Folder(folder, place, account, read), None)


def is_job(place: Path) -> bool:
    """Whether trials lie in it."""
    if archives(place):
        return True
    return any(f.is_dir() and any((f / mark).is_file() for mark in _MARKS) for f in place.iterdir())


@dataclass(frozen=True)
class _Folder:
    """The files of a trial's folder."""

    folder: Path
    place: str
    account: Account
    read: PlaceRead

    def holds(self, name: str) -> bool:
        return os.path.lexists(self.folder / name)

    def __call__(self, name: str, /) -> bytes | None:
        path, place = self.folder / name, f"{self.place}/{name}"
        if path.is_symlink() or path.parent.is_symlink():
            _unread(self.account, _LINK, place, name)
            return None
        if not path.is_file():
            return None
        try:
            with path.open("rb") as file:
                data = file.read(MAX_FILE + 1)
        except OSError as error:
            _unread(self.account, "a file that cannot be read", f"{place}: {error.strerror}", name)
            return None
        if len(data) > MAX_FILE:
            _unread(self.account, _TOO_LARGE, place, name)
            return None
        self.read.read(place, data)
        return data


@dataclass(frozen=True)
class _Packed:
    """The files of a trial in an archive, where they were copied to."""

    spool: Path
    members: Mapping[str, _Member | None]
    """None: it was there and was not copied."""

    def holds(self, name: str) -> bool:
        return name in self.members

    def __call__(self, name: str, /) -> bytes | None:
        member = self.members.get(name)
        if member is None:
            return None
        with self.spool.open("rb") as file:
            file.seek(member.at)
            return file.read(member.size)


class _Unpacked:
    """An archive's files of trials, one behind the other in a file of their own; that file goes with the block."""

    def __init__(self, path: Path, spool: Path, account: Account) -> None:
        self.damage: str | None = None
        self.sha256, self.size = "", 0
        self._path, self._account = path, account
        self._spool = spool / f"{path.name}.members"
        self._members: dict[PurePosixPath, dict[str, _Member | None]] = {}
        self._kept = 0

    def __enter__(self) -> Self:
        try:
            with self._spool.open("xb") as out:
                self._copy(out)
        except (tarfile.TarError, EOFError, zlib.error) as error:
            self.damage = str(error) or type(error).__name__
        except OSError as error:
            self.damage = error.strerror or str(error)
        return self

    def __exit__(self, *_: object) -> None:
        self._spool.unlink(missing_ok=True)

    def trials(self) -> Iterator[tuple[str, Content]]:
        """The trials by name. A folder below another trial's is content of that trial."""
        for folder, members in sorted(self._members.items(), key=lambda item: (item[0].name, str(item[0]))):
            if any(mark in members for mark in FILES) and not self._is_content(folder):
                yield harmless_name(folder.name), _Packed(self._spool, members)

    def _is_content(self, folder: PurePosixPath) -> bool:
        return any(above in self._members and folder.relative_to(above).parts[0] in _WITHIN for above in folder.parents)

    def _copy(self, out: IO[bytes]) -> None:
        with self._path.open("rb") as file:
            self.sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            self.size = file.tell()
        with gzip.open(self._path, "rb") as unpacked:
            with tarfile.open(fileobj=unpacked, mode="r|") as archive:
                for number, member in enumerate(archive):
                    if number >= MAX_MEMBERS or self._kept > MAX_KEPT:
                        raise tarfile.ReadError("it holds too much")
                    self._take(archive, member, out)
            while unpacked.read(_CHUNK):  # to the end: only there does it show that nothing is missing
                pass

    def _take(self, archive: tarfile.TarFile, member: tarfile.TarInfo, out: IO[bytes]) -> None:
        split = _split(member.name)
        if split is None:
            return
        folder, name = split
        place = f"{self._path.name}/{harmless_name(folder.name)}/{name}"
        members = self._members.setdefault(folder, {})
        members[name] = None
        if not member.isfile():
            _unread(self._account, _LINK, place, name)
        elif member.size > MAX_FILE:
            _unread(self._account, _TOO_LARGE, place, name)
        elif (content := archive.extractfile(member)) is not None:
            data = content.read()
            members[name] = _Member(self._kept, len(data))
            self._kept += out.write(data)


def _split(path: str) -> tuple[PurePosixPath, str] | None:
    """The trial's folder and the name below it, of a file that a row needs; folders may stand above the trial's."""
    whole = PurePosixPath(path)
    for depth in (1, 2):
        name, folder = "/".join(whole.parts[-depth:]), PurePosixPath(*whole.parts[:-depth])
        needed = name in _NEEDED or (depth == 2 and whole.parent.name == _AGENT and NAME.fullmatch(whole.name))
        if needed and folder.name not in ("", ".."):
            return folder, name
    return None


def _unread(account: Account, why: str, place: str, name: str) -> None:
    """A file that is there and was not read. Where it would tell how far its trial came, nobody knows that."""
    account.note(why, place, hides=("verified",) if name in FILES else ())
