"""A log's own clock: when its lines were written, as far as the log says it and its zone is known."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from ledger.core import clock
from ledger.core.errors import InvalidInput

_OFFSET: Final = re.compile(r"([+-])(\d{2}):?(\d{2})", re.ASCII)
_YEAR_TURNS: Final = timedelta(days=180)


def zone(name: str) -> tzinfo:
    """A time zone by its name, such as Europe/Berlin, or by its offset, such as +02:00.

    Raises:
        InvalidInput: reason USAGE.
    """
    if name.upper() in {"UTC", "Z"}:
        return UTC
    if found := _OFFSET.fullmatch(name):
        offset = timedelta(hours=int(found[2]), minutes=int(found[3]))
        if offset < timedelta(hours=24):
            return timezone(-offset if found[1] == "-" else offset)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidInput(
            f"{name!r} is no time zone",
            reason="USAGE",
            remedy="Give a name such as Europe/Berlin, an offset such as +02:00, or UTC.",
        ) from None


class LogClock:
    """Reads the times of one log. What has no zone, and no zone was given for, is unknown."""

    def __init__(self, given: tzinfo | None, year: int | None = None) -> None:
        self._zone = given
        self._year = year
        self._before: datetime | None = None

    def stamp(self, text: str | None) -> int | None:
        """Microseconds since 1970 of a time as a log writes it; None: not known."""
        if text is None:
            return None
        try:
            found = datetime.fromisoformat(text.strip().replace(",", "."))
            if found.tzinfo is None:
                if self._zone is None:
                    return None
                found = found.replace(tzinfo=self._zone)
            return clock.from_text(found.astimezone(UTC).isoformat())
        except (ValueError, OverflowError):
            return None

    def yearless(self, month: int, day: int, hour: int, minute: int, second: int) -> int | None:
        """The same of a time that has no year; lines come in order, so that a year that turns is seen."""
        if self._year is None or self._zone is None:
            return None
        try:
            found = datetime(self._year, month, day, hour, minute, second, tzinfo=self._zone)
            if self._before is not None and self._before - found > _YEAR_TURNS:
                found = found.replace(year=self._year + 1)
                self._year += 1
        except ValueError:
            return None
        self._before = found
        return clock.from_text(found.astimezone(UTC).isoformat())


def text_or_none(us: int | None) -> str | None:
    return None if us is None else clock.to_text(us)


def from_seconds(seconds: object) -> int | None:
    """Microseconds since 1970 from seconds since then, as trackers write them."""
    return _scaled(seconds, 1e6)


def from_milliseconds(milliseconds: object) -> int | None:
    return _scaled(milliseconds, 1e3)


def _scaled(value: object, by: float) -> int | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        us = round(value * by)
    except (OverflowError, ValueError):
        return None
    return us if 0 < us <= clock.MAX_US else None
