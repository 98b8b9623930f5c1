"""How answers are graded by rules of our own: on their text alone, the same text always alike.

`first-digit`    the first of the ten digits in the answer is the right one
`last-number`    the last number in the answer equals the right one, as numbers: 7, 7.0 and 7,000 / 7000 alike
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

_DIGIT: Final = re.compile("[0-9]")
_NUMBER: Final = re.compile(r"(?<![0-9A-Za-z_)])-?[0-9][0-9,]*(?:\.[0-9]+)?|[0-9][0-9,]*(?:\.[0-9]+)?")
"""A minus is a sign unless something stands before it that is taken from: 5-3 ends with 3."""
MAX_DIGITS: Final = 1000
"""Of a number that is compared; a longer one equals nothing."""


def first_digit(answer: str, text: str) -> float:
    """1 if the text's first digit is the answer, else 0."""
    found = _DIGIT.search(text)
    return float(found is not None and found.group() == answer)


def last_number(answer: str, text: str) -> float:
    """1 if the text's last number equals the answer, else 0."""
    right, said = number_of(answer), number_of(text)
    return float(right is not None and right == said)


def number_of(text: str) -> Decimal | None:
    """The last number in a text."""
    found = _NUMBER.findall(text)
    if not found or len(found[-1]) > MAX_DIGITS:
        return None
    return Decimal(found[-1].replace(",", ""))


def is_number(answer: str) -> bool:
    """A right answer is a number, and nothing else."""
    return len(answer) <= MAX_DIGITS and _NUMBER.fullmatch(answer.strip()) is not None
