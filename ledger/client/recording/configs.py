"""A configuration as it was before anything changed it: its digest, its settings by path, and what drifted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ledger.core import strictjson
from ledger.core.errors import InvalidInput
from ledger.core.ids import sha256_hex

MAX_RECORDED: Final = 256 * 1024
"""Bytes of settings that an event holds; of a larger configuration only the digest is recorded."""
MAX_CHANGES: Final = 200
_MAX_VALUE: Final = 2_000


@dataclass(frozen=True)
class Config:
    """A configuration as plain JSON, secrets replaced."""

    settings: Mapping[str, Any]
    """By dotted path."""
    digest: str

    @classmethod
    def of(cls, plain: Any) -> Config:
        """The configuration that a mapping is.

        Raises:
            InvalidInput: reason INVALID_PAYLOAD, if it is no mapping.
        """
        if not isinstance(plain, dict):
            raise InvalidInput(
                f"a configuration is a mapping, and this is a {type(plain).__name__}",
                reason="INVALID_PAYLOAD",
                remedy="Give the settings by their names.",
            )
        return cls(flat(plain), sha256_hex(strictjson.dumps(plain)))

    @property
    def recorded(self) -> Mapping[str, Any]:
        """The settings, where they are few enough for an event."""
        return self.settings if len(strictjson.dumps(dict(self.settings))) <= MAX_RECORDED else {}


def flat(value: Any, path: str = "") -> dict[str, Any]:
    """The leaves of nested mappings, by dotted path. A list is a leaf, and so is an empty mapping."""
    if not isinstance(value, dict) or (not value and path):
        return {path: value}
    found: dict[str, Any] = {}
    for key, item in value.items():
        found.update(flat(item, f"{path}.{key}" if path else str(key)))
    return found


def drift(before: Config, after: Config) -> dict[str, Any]:
    """What differs, as an event has it. Values are JSON as text, so that absent and null are not the same."""
    paths = sorted(before.settings.keys() | after.settings.keys())
    changes = [
        {"path": path or ".", "before": _shown(before, path), "after": _shown(after, path)}
        for path in paths
        if _shown(before, path) != _shown(after, path)
    ]
    return {
        "before_digest": before.digest,
        "after_digest": after.digest,
        "changes": changes[:MAX_CHANGES],
        "changes_left_out": max(0, len(changes) - MAX_CHANGES),
    }


def _shown(config: Config, path: str) -> str | None:
    if path not in config.settings:
        return None
    return strictjson.dumps(config.settings[path]).decode()[:_MAX_VALUE]
