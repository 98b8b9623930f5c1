"""SIGTERM as an interrupt, so that whatever runs comes to an orderly end and says so; and what that waits for."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final


class Terminated(KeyboardInterrupt):
    """SIGTERM: whoever runs the trainer wants it to stop."""


STOPS: Final = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """A first SIGINT or SIGTERM within the block acts when the block ends; a second one at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    told: list[int] = []
    before = {number: signal.getsignal(number) for number in STOPS}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def note(number: int, frame: FrameType | None) -> None:
        del frame
        told.append(number)
        restore()

    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, note)
    try:
        yield
    finally:
        restore()
        if told:
            signal.raise_signal(told[0])


@contextmanager
def terminable() -> Iterator[None]:
    """SIGTERM raises within the block; a second one ends the process as ever. Off the main thread nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        del number, frame
        signal.signal(signal.SIGTERM, before)
        raise Terminated("SIGTERM")

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
