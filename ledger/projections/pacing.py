"""How much of a machine the projector takes: after each step it pauses, longer while somebody writes."""

from __future__ import annotations

from typing import Final

from ledger.log.log import Log

PAUSE: Final = 1.0
PAUSE_BEHIND_WRITERS: Final = 3.0
"""A step is followed by a pause of so many times its length: what is appended goes before what is derived from it."""
WRITING_SECONDS: Final = 0.02
"""Writers are at work when one was answered so lately, or waits."""
MIN_PAUSE_SECONDS: Final = 0.1
"""While writers are at work: many small steps would cost them more than few large ones. A reader ends a pause."""
MAX_PAUSE_SECONDS: Final = 0.25


def pause(log: Log, step_seconds: float) -> None:
    """After a step that took so long; a reader who waits ends it."""
    seconds = step_seconds * PAUSE
    if log.waiting or log.growth.is_recent(WRITING_SECONDS):
        seconds = max(step_seconds * PAUSE_BEHIND_WRITERS, MIN_PAUSE_SECONDS)
    log.growth.pause(min(seconds, MAX_PAUSE_SECONDS))
