"""What a reader would notice between two states of a source: the fields that a move is told in.

Reasons are left out: two rule sets say the same thing in other words. What is compared is what is shown of Quality,
Difficulty, the review, the defects and the catalogue. Values are text, None where a field is not shown or unknown. A
field that one of two rule sets does not keep at all is not compared between them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ledger.core import strictjson
from ledger.core.ids import sha256_hex
from ledger.rules import State

Outcome = dict[str, str | None]


@dataclass(frozen=True, slots=True)
class Change:
    """One field, before and after."""

    field: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Move:
    """One source that is shown otherwise, and the reasons on either side for the fields that differ."""

    key: str
    changes: tuple[Change, ...]
    before: tuple[dict[str, Any], ...] = field(default=())
    after: tuple[dict[str, Any], ...] = field(default=())


def outcome(state: State | None) -> Outcome:
    """What is compared of a state, by field; nothing is shown of a source that is not listed."""
    if state is None:
        return dict.fromkeys(_FIELDS)
    return {name: read(state) for name, read in _FIELDS.items()}


def changes(before: State | None, after: State | None) -> tuple[Change, ...]:
    """The fields that differ, in a fixed order."""
    old, new = outcome(before), outcome(after)
    kept = [name for name in _FIELDS if _keeps(before, name) and _keeps(after, name)]
    return tuple(Change(name, old[name], new[name]) for name in kept if old[name] != new[name])


def move(key: str, before: State | None, after: State | None) -> Move | None:
    """How a source moves between two states; None if it does not."""
    found = changes(before, after)
    if not found:
        return None
    reasons = {_REASONS.get(change.field, change.field) for change in found}
    return Move(key, found, _reasons(before, reasons), _reasons(after, reasons))


def digest(moves: Iterable[Move]) -> str:
    """SHA-256 over the JSON array of [key, [[field, before, after], …]], by key."""
    rows = [[m.key, [[c.field, c.before, c.after] for c in m.changes]] for m in sorted(moves, key=lambda m: m.key)]
    return sha256_hex(strictjson.dumps(rows))


def counts(moves: Iterable[Move]) -> dict[str, int]:
    """How many sources change so, by "field: before -> after"."""
    found: dict[str, int] = {}
    for change in (c for m in moves for c in m.changes):
        name = f"{change.field}: {change.before or 'none'} -> {change.after or 'none'}"
        found[name] = found.get(name, 0) + 1
    return dict(sorted(found.items()))


def _keeps(state: State | None, name: str) -> bool:
    return state is None or name not in _OPTIONAL or name in state


def _reasons(state: State | None, fields: set[str]) -> tuple[dict[str, Any], ...]:
    return tuple(r for r in state["reasons"] if r["field"] in fields) if state else ()


def _ids(name: str) -> Callable[[State], str | None]:
    return lambda state: ", ".join(d["id"] for d in state[name]) or None


_FIELDS: Final[Mapping[str, Callable[[State], str | None]]] = {
    "listed": lambda _state: "yes",
    "retired": lambda s: "yes" if s["retired"] else "no",
    "dataset_revision": lambda s: s["dataset_revision"],
    "verifier_revision": lambda s: s["verifier_revision"],
    "quality": lambda s: s["quality"],
    "underlying_quality": lambda s: s.get("underlying_quality"),
    "applicability": lambda s: s["applicability"],
    "review": lambda s: s["review"] and s["review"]["id"],
    "difficulty": lambda s: s["difficulty"]["status"],
    "protocol": lambda s: s["difficulty"]["protocol"],
    "open_defects": _ids("open_defects"),
    "suspected_defects": _ids("suspected_defects"),
    "resolved_defects": _ids("resolved_defects"),
}

_OPTIONAL: Final = frozenset({"underlying_quality"})
"""Fields that are a state's own, and that not every rule set keeps."""

_REASONS: Final[Mapping[str, str]] = {
    "listed": "catalogue",
    "retired": "catalogue",
    "dataset_revision": "applicability",
    "verifier_revision": "applicability",
    "underlying_quality": "quality",
    "protocol": "difficulty",
    "open_defects": "quality",
    "suspected_defects": "quality",
    "resolved_defects": "quality",
}
"""Where the reasons of a field stand under another field's name."""
