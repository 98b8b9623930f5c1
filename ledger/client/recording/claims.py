"""Which folder a recorder writes to: the one it was given, or one beside it where another process is writing."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

from ledger.client.recording import folders

_BESIDE: Final = 64
"""Spools that processes may have beside a first one."""
_LOG: Final = logging.getLogger("ledger.client.recording")


class Claim:
    """A spool's folder with the locks that are held on it."""

    def __init__(self, folder: Path, locks: list[folders.Lock]) -> None:
        self.folder = folder
        self._locks = locks

    def release(self) -> None:
        for lock in self._locks:
            lock.release()


def claim(folder: Path, *, sends: bool) -> Claim:
    """The folder, or, where another process writes to it, the first free one beside it.

    Raises:
        LedgerError: reason IN_USE.
    """
    for number in range(1, _BESIDE + 1):
        place = folder if number == 1 else folder.with_name(f"{folder.name}-{number}")
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        writer = folders.Lock(place, "writer")
        if not writer.take():
            continue
        if number > 1:
            _LOG.warning("another process records to %s: this one records to %s", folder, place)
        sender = folders.Lock(place, "sender")
        if sends and not sender.take():
            writer.release()
            continue
        return Claim(place, [writer, sender])
    raise folders.in_use(folder, "writer")
