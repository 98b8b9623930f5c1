"""Settings of the interpreter that a serving process is better off with.

Events come by the hundred thousand and die young, by their reference counts; cycles are rare. And the writer thread
waits for the database several times a transaction: each time it must get the interpreter back from a busy event loop.
"""

from __future__ import annotations

import gc
import sys
from typing import Final

GC_THRESHOLDS: Final = (50_000, 20, 50)
"""New containers, and younger collections, between two collections of a generation."""
SWITCH_SECONDS: Final = 0.0005
"""How long a thread that wants the interpreter waits before it is given up; Python's own 5 ms is several commits."""


def tune() -> None:
    """For a process that serves and does nothing else; what is loaded by now is never looked at again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    sys.setswitchinterval(SWITCH_SECONDS)
