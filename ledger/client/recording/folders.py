"""The folder of a spool: its names, its small files, and who may write or send.

    spool.json      whose it is: producer, run, actor; made once
    epoch.json      how often it was opened for writing, whether the last time ended, and what was not kept then
    cursor.json     up to where everything was answered, and the producer's count there
    config.json     the configuration as it was last recorded
    0000000001.seg  what was recorded; deleted when all of it was answered
    refused/        what the ledger or the recorder refused, with the reason
    writer.lock, sender.lock

A small file is replaced whole, so that a reader sees the old one or the new one. The locks are the kernel's, held by a
process and not by its children: a killed holder leaves nothing behind.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import threading
from pathlib import Path
from typing import Any, ClassVar, Final

import orjson
from platformdirs import user_state_path

from ledger.core.errors import InvalidInput, LedgerError
from ledger.core.ids import sha256_hex

FORMAT: Final = 1
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+|^\.")
_MAX_NAME: Final = 200


def default_root() -> Path:
    """Where spools lie that were given no place."""
    return user_state_path("atlas-ledger") / "spool"


def default_folder(run: str) -> Path:
    """The spool of a run that was given no place: no two runs have the same.

    Characters that no file name may hold, and a dot at the beginning, are written as %XX; a long name ends in a digest.
    """
    name = _UNSAFE.sub(lambda m: "".join(f"%{b:02X}" for b in m[0].encode()), run)
    if len(name) > _MAX_NAME:
        name = f"{name[: _MAX_NAME - 33]}-{sha256_hex(run.encode())[:32]}"
    return default_root() / name


def is_spool(folder: Path) -> bool:
    return (folder / "spool.json").is_file()


def read(file: Path) -> dict[str, Any]:
    """A small file; empty if it is not there, or is damaged, which costs no more than looking again."""
    try:
        found = orjson.loads(file.read_bytes())
    except (FileNotFoundError, orjson.JSONDecodeError):
        return {}
    return found if isinstance(found, dict) else {}


def write(file: Path, value: dict[str, Any], *, durable: bool = False) -> None:
    """Replaces a small file."""
    temporary = file.with_name(f"{file.name}.{os.getpid()}.{threading.get_ident()}.new")
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as stream:
        stream.write(orjson.dumps(value))
        stream.flush()
        if durable:
            os.fsync(stream.fileno())
    temporary.replace(file)
    if durable:
        sync_folder(file.parent)


def make_durable(handle: int) -> None:
    """Brings a file's content to the disk; its length too, but not its times where the system tells them apart."""
    getattr(os, "fdatasync", os.fsync)(handle)


def sync_folder(folder: Path) -> None:
    """Makes the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class Lock:
    """A lock of a spool. Between processes the kernel keeps it; within one, a set of those that are held."""

    _held: ClassVar[set[Path]] = set()  # guarded by _guard
    _guard: ClassVar = threading.Lock()

    def __init__(self, folder: Path, role: str) -> None:
        self._file = (folder / f"{role}.lock").resolve()
        self._handle: int | None = None

    def take(self) -> bool:
        """Takes it if nobody holds it."""
        with self._guard:
            # Looked up first: to open and close the file would release what this process holds.
            if self._file in self._held:
                return False
            handle = os.open(self._file, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                os.close(handle)
                if isinstance(error, (BlockingIOError, PermissionError)):
                    return False
                raise
            self._held.add(self._file)
            self._handle = handle
            return True

    def release(self) -> None:
        """Gives it back; once more does nothing."""
        with self._guard:
            if self._handle is not None:
                self._held.discard(self._file)
                os.close(self._handle)
                self._handle = None

    @classmethod
    def forget_all(cls) -> None:
        """In a forked child: what the parent holds is not the child's. Another thread may have held the guard."""
        cls._held, cls._guard = set(), threading.Lock()


os.register_at_fork(after_in_child=Lock.forget_all)


def in_use(folder: Path, role: str) -> LedgerError:
    doing = "writes to" if role == "writer" else "sends"
    return LedgerError(
        f"another process {doing} the spool {folder}",
        reason="IN_USE",
        remedy="Wait until it ends, or give each process a spool of its own.",
        details={"spool": str(folder)},
    )


def no_spool(folder: Path) -> InvalidInput:
    return InvalidInput(
        f"{folder} is no spool: it holds no spool.json",
        reason="INVALID_FILE",
        remedy="Name the folder that the recorder was given, or the one that its last line named.",
    )


def bytes_held(folder: Path) -> int:
    """What the segments of a spool take."""
    total = 0
    for file in folder.glob("*.seg"):
        with contextlib.suppress(FileNotFoundError):  # sent and deleted meanwhile
            total += file.stat().st_size
    return total
