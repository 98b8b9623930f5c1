"""Segments: files of framed records, written by one process and read by any.

- A frame is the length of its body and a CRC-32 over length and body, both big-endian, then the body.
- A frame counts only when it is whole. What follows the last whole frame of a file is torn: a crash left it there, or
  its writer is just writing it.
- A place is a segment's number and an offset in it. Places are ordered as the frames were written.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

MAX_BODY: Final = 2 * 1024 * 1024
"""No draft is larger: a longer length is damage, and is not believed."""
_HEAD: Final = struct.Struct(">II")
_LENGTH: Final = struct.Struct(">I")
_CHUNK: Final = 2 * MAX_BODY
_SUFFIX: Final = ".seg"


class Place(NamedTuple):
    """Where in a spool."""

    segment: int
    offset: int


START: Final = Place(0, 0)


def frame(body: bytes) -> bytes:
    """The body as it lies in a segment."""
    length = _LENGTH.pack(len(body))
    return length + _LENGTH.pack(zlib.crc32(body, zlib.crc32(length))) + body


def whole_frames(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The bodies of the whole frames that the data begins with, each with the offset of its end."""
    at = 0
    while at + _HEAD.size <= len(data):
        length, crc = _HEAD.unpack_from(data, at)
        start, end = at + _HEAD.size, at + _HEAD.size + length
        if length > MAX_BODY or end > len(data):
            return
        body = data[start:end]
        if zlib.crc32(body, zlib.crc32(data[at : at + _LENGTH.size])) != crc:
            return
        yield end, body
        at = end


def path(folder: Path, number: int) -> Path:
    return folder / f"{number:010d}{_SUFFIX}"


def create(folder: Path, number: int) -> int:
    """Makes a segment to append to."""
    return os.open(path(folder, number), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)


def numbers(folder: Path) -> list[int]:
    """The segments that are there, in order."""
    return sorted(int(file.stem) for file in folder.glob(f"*{_SUFFIX}") if file.stem.isdecimal())


class Tail(NamedTuple):
    """What the frames of a segment from an offset on come to."""

    frames: int
    end: int
    last: bytes | None
    torn: int
    """Bytes after the last whole frame."""


def tail(file: Path, offset: int = 0) -> Tail:
    """Reads a segment to its end."""
    frames, end, last = 0, offset, None
    for end, body in bodies(file, offset):  # noqa: B007  # the last ones are what is asked for
        frames, last = frames + 1, body
    return Tail(frames, end, last, max(0, file.stat().st_size - end))


def bodies(file: Path, offset: int) -> Iterator[tuple[int, bytes]]:
    """The bodies of a segment's whole frames from an offset on, each with the offset of its end."""
    while True:
        found = list(whole_frames(_read(file, offset)))
        if not found:
            return
        yield from ((offset + end, body) for end, body in found)
        offset += found[-1][0]


def _read(file: Path, offset: int) -> bytes:
    with file.open("rb") as stream:
        stream.seek(offset)
        return stream.read(_CHUNK)


class Record(NamedTuple):
    """One record, and the place after it."""

    body: bytes
    end: Place


class SpoolReader:
    """Reads the records of a folder from a place on, while somebody may be writing on. For one thread."""

    def __init__(self, folder: Path, place: Place) -> None:
        self._folder = folder
        self.place = place
        self._ready: list[Record] = []

    def go_to(self, place: Place) -> None:
        self.place = place
        self._ready = []

    def take(self, most: int, most_bytes: int, until: Place | None = None) -> list[Record]:
        """The next records: at most so many, at least one if there is one, none that ends after `until`."""
        taken: list[Record] = []
        size = 0
        while len(taken) < most and self._fill():
            record = self._ready[-1]
            if until is not None and record.end > until:
                break
            size += len(record.body)
            if taken and size > most_bytes:
                break
            taken.append(self._ready.pop())
            self.place = record.end
        return taken

    def _fill(self) -> bool:
        """Whether there is a record to take; the next one is the last of `_ready`."""
        while not self._ready:
            # Listed before it is read: a segment that another one follows by now is not written to any more.
            there = [n for n in numbers(self._folder) if n >= self.place.segment]
            if not there:
                return False
            if there[0] != self.place.segment:
                self.place = Place(there[0], 0)
            offset = self.place.offset
            found = list(whole_frames(_read(path(self._folder, there[0]), offset)))
            self._ready = [Record(body, Place(there[0], offset + end)) for end, body in reversed(found)]
            if not found:
                if len(there) == 1:
                    return False
                self.place = Place(there[1], 0)
        return True
