"""Metric values as programs write them: numbers, numbers in text, and those that are not finite, by name."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import orjson

from ledger.events.fields import Metric, NotFinite

Value = Metric
Metrics = dict[str, Metric]

MAX_KEY: Final = 512
_NAMED: Final[Mapping[str, NotFinite]] = {
    "nan": "NaN",
    "inf": "Infinity",
    "infinity": "Infinity",
    "-inf": "-Infinity",
    "-infinity": "-Infinity",
}
_NUMBER: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)


class Read(NamedTuple):
    """Metrics, and the keys whose values are no numbers."""

    metrics: Metrics
    left_out: list[str]


class _Beyond:
    """A number that no double holds: its writer cannot have meant infinity."""


def numbers(values: Mapping[str, Any]) -> Read:
    """The values that are numbers, by their keys."""
    metrics: Metrics = {}
    left_out: list[str] = []
    for key, value in values.items():
        read = number(value)
        if read is None or not _is_key(key):
            left_out.append(shown(key))
        else:
            metrics[key] = read
    return Read(metrics, left_out)


def number(value: Any) -> Value | None:
    """A number, or the name of one that is not finite; None for anything else, an empty text and null among it."""
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, (int, float)):
        try:
            return _named(float(value))
        except OverflowError:
            return None
    return from_text(value) if isinstance(value, str) else None


def from_text(text: str) -> Value | None:
    """A number that was written as text: exactly one, with nothing around it."""
    text = text.strip()
    if (name := _NAMED.get(text.lower().removeprefix("+"))) is not None:
        return name
    if not _NUMBER.fullmatch(text):
        return None
    value = float(text)
    return value if math.isfinite(value) else None


def loads(text: str) -> Any:
    """JSON as Python writes it: NaN, Infinity and -Infinity are values.

    Raises:
        ValueError: if it is none, or nests deeper than can be read.
    """
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        pass
    try:
        return json.loads(text, parse_float=_finite)
    except RecursionError:
        raise ValueError("nested too deep") from None


def step_number(value: Any) -> int | None:
    """A step: a whole number that is not negative, also where it was written as 15.0 or as text."""
    read = number(value)
    if isinstance(value, bool) or not isinstance(read, float) or read < 0 or read != int(read) or read > 2**53 - 1:
        return None
    return int(read)


def shown(key: str) -> str:
    """A key as it can be told of."""
    return key[:80].encode("utf-8", "replace").decode()


def _is_key(key: str) -> bool:
    if not 0 < len(key) <= MAX_KEY or "\0" in key:
        return False
    # Python's JSON reads a lone surrogate, which no event can hold.
    return key.isascii() or not any("\ud800" <= c <= "\udfff" for c in key)


def _named(value: float) -> Value:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _finite(text: str) -> float | _Beyond:
    value = float(text)
    return value if math.isfinite(value) else _Beyond()
