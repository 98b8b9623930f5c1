"""What of a place was read: each file's digest as its bytes went by, and one digest over all of them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

from ledger.client.recording.files import digest_of
from ledger.events.checkpoints import FileDigest
from services.adapters.backfill.documents import harmless_name


@dataclass
class PlaceRead:
    """A place, by its name without the folders above it, and the files of it that rows were made of."""

    name: str
    kind: str
    files: list[FileDigest] = field(default_factory=list)

    def read(self, path: str, data: bytes) -> None:
        """A file that was read whole."""
        self.add(path, hashlib.sha256(data).hexdigest(), len(data))

    def add(self, path: str, sha256: str, size: int) -> None:
        self.files.append(FileDigest(path=harmless_name(path), sha256=sha256, size=size))

    def as_dict(self) -> dict[str, Any]:
        ordered = sorted(self.files, key=lambda file: (file.path.encode(), file.sha256))
        return {
            "name": self.name,
            "kind": self.kind,
            "files": len(ordered),
            "bytes": sum(file.size or 0 for file in ordered),
            "digest": digest_of(ordered),
        }
