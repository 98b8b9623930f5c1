"""Contradictions that are seen as they come in, one after another: counted by kind and attempt, the first one in words.

A log that is read twice may contradict itself at every step. One flag that says how often is of more use than many.
"""

from __future__ import annotations

from typing import Final

from ledger.rules.training_1.model import Odd

MOST_POSITIONS: Final = 16
"""Positions that one flag names; the count goes on."""


def noted(odd: tuple[Odd, ...], code: str, attempt: int, message: str, *positions: int) -> tuple[Odd, ...]:
    """The contradictions with one more."""
    for place, known in enumerate(odd):
        if known.code == code and known.attempt == attempt:
            where = (*known.positions, *positions)[:MOST_POSITIONS]
            again = Odd(code, attempt, known.message, known.count + 1, where)
            return (*odd[:place], again, *odd[place + 1 :])
    return (*odd, Odd(code, attempt, message, 1, positions))
