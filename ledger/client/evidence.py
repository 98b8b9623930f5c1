"""Evidence bytes over the wire, in chunks. What goes up is hashed first; what comes down is hashed before it counts."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, Protocol

from ledger.client import faults
from ledger.client.connection import STREAM_TIMEOUT, Connection
from ledger.client.drafts import Upload
from ledger.core.errors import Broken, InvalidInput
from ledger.wire import artifacts_pb2

CHUNK: Final = 1024 * 1024
MAX_STAT: Final = 1_000


class _Out(Protocol):
    """Where bytes are written."""

    def write(self, data: bytes, /) -> object: ...


def upload_of(content: Path | bytes) -> Upload:
    """A file, or bytes, under their hash.

    Raises:
        InvalidInput: reason INVALID_FILE, if the file cannot be read.
    """
    digest = hashlib.sha256()
    size = 0
    for chunk in _chunks(content):
        digest.update(chunk)
        size += len(chunk)
    return Upload(sha256=digest.hexdigest(), size=size, content=content)


def missing(connection: Connection, hashes: Iterable[str]) -> set[str]:
    """Which of these artifacts are not stored."""
    wanted = sorted(set(hashes))
    absent: set[str] = set()
    for start in range(0, len(wanted), MAX_STAT):
        request = artifacts_pb2.StatArtifactsRequest(sha256=wanted[start : start + MAX_STAT])
        answer = connection.call(connection.artifacts.Stat, request)
        stored = {a.sha256 for a in answer.artifacts if a.HasField("size")}
        absent.update(set(request.sha256) - stored)
    return absent


def put(connection: Connection, upload: Upload) -> artifacts_pb2.Artifact:
    """Stores the bytes; storing what is there already changes nothing.

    Raises:
        Refused: reason HASH_MISMATCH, if the content is no longer what was hashed; nothing is kept then.
    """
    stored = connection.call(connection.artifacts.Put, _messages(upload), timeout=STREAM_TIMEOUT)
    if stored.sha256 != upload.sha256 or stored.size != upload.size:
        raise Broken(
            f"the server says that it stored {stored.sha256} ({stored.size} bytes), "
            f"not {upload.sha256} ({upload.size} bytes)",
            remedy="Trust no answer of this server until `ledger log fsck` is clean.",
        )
    return stored


def save(connection: Connection, sha256: str, target: Path) -> int:
    """Writes an artifact to a file, which appears only once its bytes are proved; gives their number.

    Raises:
        NotFound: if it is not stored.
        Broken: if the bytes do not hash to their name.
    """
    try:
        with tempfile.NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.", delete=False) as file:
            partial = Path(file.name)
            try:
                size = write(connection, sha256, file)
            except BaseException:
                partial.unlink()
                raise
        partial.replace(target)
    except OSError as error:
        raise InvalidInput(
            f"{target} cannot be written: {error.strerror}",
            reason="USAGE",
            remedy="Name a file that can be, or make room.",
        ) from None
    return size


def write(connection: Connection, sha256: str, out: _Out) -> int:
    """Writes an artifact as it comes, and raises at the end if the bytes were not those of its name."""
    digest = hashlib.sha256()
    size = 0
    request = artifacts_pb2.GetArtifactRequest(sha256=sha256)
    for message in connection.stream(connection.artifacts.Get, request):
        digest.update(message.chunk)
        size += len(message.chunk)
        out.write(message.chunk)
    if digest.hexdigest() != sha256:
        raise Broken(
            f"the bytes of artifact {sha256} hash to {digest.hexdigest()}",
            remedy="Run `ledger log fsck` where the store is, and restore the artifact from a copy.",
            details={"sha256": sha256, "found": digest.hexdigest(), "bytes": str(size)},
        )
    return size


def _messages(upload: Upload) -> Iterator[artifacts_pb2.PutArtifactRequest]:
    yield artifacts_pb2.PutArtifactRequest(artifact=artifacts_pb2.Artifact(sha256=upload.sha256, size=upload.size))
    for chunk in _chunks(upload.content):
        yield artifacts_pb2.PutArtifactRequest(chunk=chunk)


def _chunks(content: Path | bytes) -> Iterator[bytes]:
    if isinstance(content, bytes):
        yield from (content[start : start + CHUNK] for start in range(0, len(content), CHUNK))
        return
    try:
        with content.open("rb") as file:
            while chunk := file.read(CHUNK):
                yield chunk
    except OSError as error:
        raise faults.unreadable(content, error) from None
