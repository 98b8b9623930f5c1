"""What is wrong with a value, in words that say what is allowed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

_MISMATCH: Final = "string_pattern_mismatch"
_RUN: Final = re.compile(r"\^(?P<start>https\?://)?\[(?P<kind>.+?)\]\{(?P<count>[\d,]+)\}\$")
"""The patterns of the vocabulary are nearly all a run of one kind of character."""
_KINDS: Final[Mapping[str, str]] = {
    "0-9a-f": "lower-case hexadecimal digits",
    " -~": "characters of printable ASCII",
    "!-~": "characters of printable ASCII without spaces",
}
_OTHERS: Final[Mapping[str, str]] = {
    r"^[a-z][a-z0-9_-]{0,99}$": "1 to 100 lower-case letters, digits, '_' and '-', a letter first",
    r"^(/([^/~]|~[01])*)*$": "a JSON pointer: empty, or parts that each begin with '/'",
}


def words(fault: Mapping[str, Any]) -> str:
    """One fault of pydantic's as a sentence; a pattern is told as what it allows."""
    if fault["type"] != _MISMATCH:
        return str(fault["msg"]).removeprefix("Value error, ")
    pattern = fault["ctx"]["pattern"]
    return f"must be {_OTHERS.get(pattern) or _allowed(pattern)}"


def _allowed(pattern: str) -> str:
    run = _RUN.fullmatch(pattern)
    if run is None or run["kind"] not in _KINDS:
        return "of another form: `ledger schema show TYPE` has it"
    said = f"{run['count'].replace(',', ' to ')} {_KINDS[run['kind']]}"
    return f"an http or https link of {said}" if run["start"] else said
