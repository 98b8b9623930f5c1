"""A file that is there whole, or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from ledger.core.errors import InvalidInput


@contextmanager
def whole(path: Path) -> Iterator[BinaryIO]:
    """A file that takes its name when all is written and durable, and leaves nothing behind otherwise.

    Raises:
        InvalidInput: reason USAGE, if it cannot be written.
    """
    partial = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        with partial.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        raise InvalidInput(
            f"{path} cannot be written: {error.strerror}",
            reason="USAGE",
            remedy="Name a file that can be, or make room.",
        ) from None
    finally:
        partial.unlink(missing_ok=True)
