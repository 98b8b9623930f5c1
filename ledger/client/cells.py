"""Cells of tables that a spreadsheet may open: recorded text that cannot run as a formula."""

from __future__ import annotations

import unicodedata
from typing import Any, Final

_FORMULA: Final = frozenset("=+-@\uff1d\uff0b\uff0d\uff20")
"""What begins a formula, also as wide characters."""
_LEADING: Final = frozenset("\t\r\n")
_PASSED_OVER: Final = frozenset("\"'`\u2018\u2019\u201c\u201d")


def safe(value: Any) -> Any:
    """A cell that no spreadsheet takes for a formula: text that could be one begins with an apostrophe.

    Numbers are left as they are.
    """
    if not isinstance(value, str) or not value:
        return value
    first = next((c for c in value if not _is_passed_over(c)), "")
    return f"'{value}" if value[0] in _LEADING or first in _FORMULA else value


def _is_passed_over(char: str) -> bool:
    """Blanks, quotes and what is not seen: a spreadsheet may drop them."""
    return char.isspace() or char in _PASSED_OVER or unicodedata.category(char) in {"Cc", "Cf"}
