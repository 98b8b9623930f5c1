"""A contradiction between facts, as it is shown. Both facts stay."""

from __future__ import annotations

from typing import Any

from ledger.rules.training_1.model import Odd
from ledger.rules.training_1.values import Value, plural


class Flag(Value, frozen=True):
    code: str
    message: str
    positions: tuple[int, ...]


def of_odd(odd: Odd) -> Flag:
    """What was seen again and again, as one flag."""
    more = f"; and {plural(odd.count - 1, 'more like it', 'more like it')}" if odd.count > 1 else ""
    return Flag(odd.code, odd.message + more, odd.positions)


def written_flag(flag: Flag) -> dict[str, Any]:
    return {"code": flag.code, "message": flag.message, "positions": list(flag.positions)}
