"""A file or a folder that is there whole, or not at all."""

from __future__ import annotations

import os
import shutil
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


def take_place(built: Path, to: Path) -> None:
    """Gives a folder that is whole its name; what was there before goes only when the new one stands."""
    if not to.exists():
        built.rename(to)
        return
    before = to.with_name(f".{to.name}.{uuid4().hex}.before")
    to.rename(before)
    try:
        built.rename(to)
    except OSError:
        before.rename(to)
        raise
    shutil.rmtree(before)
