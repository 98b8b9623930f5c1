"""Time as the ledger writes it: microseconds since 1970 in numbers, RFC 3339 with microseconds and Z in text.

Three times never share a name: `recorded_at` (when the ledger learned it), `occurred_at` (when the producer says it
happened) and the domain's own dates, such as `reviewed_at`. Code that needs the time is given a clock.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

Clock = Callable[[], int]
"""Gives microseconds since 1970-01-01T00:00Z."""

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MIN_US: Final = -62_135_596_800_000_000
"""0001-01-01T00:00:00Z"""
MAX_US: Final = 253_402_300_799_999_999
"""9999-12-31T23:59:59.999999Z"""

_TIME = re.compile(
    r"\d{4}-\d{2}-\d{2}"
    r"(?:[Tt ](?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d{1,9})?)?(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d))?",
    re.ASCII,
)
"""Hours and offsets are bounded here, since Python's own limits on them differ between its versions."""
_BEYOND_MICROSECONDS = re.compile(r"(\.\d{6})\d+")


def system_clock() -> int:
    """The wall clock in microseconds."""
    return time.time_ns() // 1000


def to_text(us: int) -> str:
    """RFC 3339, always six digits and Z: 2026-11-30T15:25:58.000000Z."""
    moment = EPOCH + timedelta(microseconds=us)
    return moment.strftime("%Y").rjust(4, "0") + moment.strftime("-%m-%dT%H:%M:%S.%fZ")


def from_text(text: str) -> int:
    """Reads RFC 3339; a date alone is 00:00Z; digits beyond microseconds are cut off.

    Raises:
        ValueError: if it is not such a time, has no offset, or is not within the years 1 to 9999 of UTC.
    """
    shown = repr(text[:40])
    if not _TIME.fullmatch(text):
        raise ValueError(f"{shown} is no RFC 3339 time with an offset, such as 2026-10-01T00:00:00Z")
    whole = text.upper() if len(text) > 10 else text + "T00:00:00Z"
    try:
        delta = datetime.fromisoformat(_BEYOND_MICROSECONDS.sub(r"\1", whole)) - EPOCH
    except ValueError as error:
        raise ValueError(f"{shown} is no time: {error}") from None
    us = (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds
    if not MIN_US <= us <= MAX_US:
        raise ValueError(f"{shown} is not within the years 1 to 9999 of UTC")
    return us
