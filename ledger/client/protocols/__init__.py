"""Difficulty protocols as this release ships them: each a file that holds a `protocol.defined` payload, whole.

A shipped protocol means nothing to a log until an event defines it there, and another one adopts it.

    writer.append([draft("protocol.defined", "policy/protocols", definition(name), by=me)])
"""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable

from ledger.core.errors import NotFound
from ledger.events.policy import ProtocolDefined

__all__ = ["definition", "known"]


def known() -> list[str]:
    """The names of the shipped protocols, in order."""
    return sorted(name.removesuffix(".json") for name in _shipped())


def definition(name: str) -> ProtocolDefined:
    """A shipped protocol.

    Raises:
        NotFound: if none is shipped under this name.
    """
    file = _shipped().get(f"{name}.json")
    if file is None:
        raise NotFound(
            f"no protocol {name!r} is shipped", remedy=f"Name one of: {', '.join(known())}.", details={"name": name}
        )
    return ProtocolDefined.model_validate_json(file.read_bytes())


def _shipped() -> dict[str, Traversable]:
    """The files by name: only these are opened, whatever a name looks like."""
    return {entry.name: entry for entry in files(__name__).iterdir() if entry.name.endswith(".json")}
