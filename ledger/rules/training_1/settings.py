"""Settings of a configuration, as they are kept and found: by dotted path.

Both forms come to one: dotted keys, and objects in objects. A configuration that is too large to be carried along is
kept without what is long: the artifact beside it has all of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

MOST_BYTES: Final = 32_768
"""Up to here settings are kept as they were written."""

LONGEST_VALUE: Final = 128
"""Of a value in larger ones, as JSON: what is longer is a list or prose, and no setting that a rule asks for."""


def kept(settings: bytes) -> bytes:
    """The settings, without long values where they are large, and cut where they still are."""
    if len(settings) <= MOST_BYTES:
        return settings
    left: dict[str, Any] = {}
    size = 0
    for path, value in dotted(msgspec.json.decode(settings)):
        length = len(msgspec.json.encode(value))
        if length > LONGEST_VALUE:
            continue
        size += length + len(path.encode()) + len('"":,')
        if size > MOST_BYTES:
            break
        left[path] = value
    return msgspec.json.encode(left)


def dotted(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Each setting that is no object, by its path."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from dotted(inner, f"{path}.{key}" if path else key)
    elif path:
        yield path, value
