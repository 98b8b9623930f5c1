"""What is wrong with a file.

A file is refused once: its headline names it and counts, and each problem stands below with its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ledger.core.errors import InvalidInput, Problem


def refused(path: Path, what: str, problems: Sequence[Problem], *, remedy: str) -> InvalidInput:
    """A file that does not hold what it must: `what` names that, and every problem is told."""
    counted = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    return InvalidInput(
        f"{path} is no {what}: {counted}",
        reason="INVALID_FILE",
        remedy=remedy,
        details={"file": str(path)},
        problems=problems,
    )


def unreadable(path: Path, error: OSError) -> InvalidInput:
    """A file that cannot be read at all: its content is not what is wrong."""
    return InvalidInput(
        f"{path} cannot be read: {error.strerror}",
        reason="INVALID_FILE",
        remedy="Name a file that is there and that you may read.",
        details={"file": str(path)},
    )
