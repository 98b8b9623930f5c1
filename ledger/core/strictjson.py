"""Strict JSON: one reading of the bytes, or none.

What is accepted means the same to every reader, for ever. Refused, each with its JSON pointer: duplicate keys, lone
surrogates, U+0000, NaN and Infinity, numbers that overflow, integers beyond ±(2^53-1), nesting beyond 64, bytes that
are not UTF-8, anything after the document. Bytes are judged, never re-written.

    value = parse(b'{"a": 1}')          # raises InvalidInput

`parse` is the slow and certain way; it makes the errors, the first `MAX_PROBLEMS` of them. `is_canonical_free_form` is
the quick one: it accepts what orjson re-writes to the same bytes, and says nothing of the rest.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final, NoReturn

import orjson

from ledger.core.errors import InvalidInput, Problem

MAX_DEPTH: Final = 64
MAX_INT: Final = 2**53 - 1
MAX_PROBLEMS: Final = 100
"""Faults named in one error: enough to mend a document by, and no more than a reader can be sent."""
MAX_PLACE_PART: Final = 200
"""Characters of one key in the place of a fault. A key may be as long as the document, and there may be many faults."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_MARK = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[\]{}:,]', re.DOTALL)
"""Brackets, separators and strings, one that never ends too: all that tells where a place is."""

_Place = tuple[object, ...]


class _Pairs(list[tuple[str, Any]]):
    """An object as its members in the order written, duplicates kept."""


class _Overflow(str):
    """A number that is out of range, as written."""

    __slots__ = ()


class _Constant(str):
    """NaN, Infinity or -Infinity, as written."""

    __slots__ = ()


class _Problems(list[Problem]):
    """The first faults, with their places."""

    def note(self, at: _Place, message: str) -> None:
        if len(self) < MAX_PROBLEMS:
            self.append(Problem(place(*at), message))


def pointer(*parts: object) -> str:
    """The RFC 6901 pointer to a place."""
    return "".join("/" + str(p).replace("~", "~0").replace("/", "~1") for p in parts)


def place(*parts: object) -> str:
    """The pointer as an error shows it: long keys are cut."""
    return pointer(*(_short(part) for part in parts))


def parse(data: bytes) -> Any:
    """Reads strict JSON.

    Raises:
        InvalidInput: reason INVALID_PAYLOAD, with the faults and their JSON pointers.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        _refuse([Problem("", f"not UTF-8 at byte {error.start}")])
    if text.startswith("\ufeff"):
        _refuse([Problem("", "begins with a byte order mark")])
    if (too_deep := _too_deep(text)) is not None:
        _refuse([Problem(place(*too_deep), f"nested deeper than {MAX_DEPTH}")])
    try:
        raw = json.loads(
            text, object_pairs_hook=_Pairs, parse_float=_number, parse_constant=_Constant, parse_int=_integer
        )
    except json.JSONDecodeError as error:
        _refuse([Problem("", f"not JSON: {error.msg} at line {error.lineno}, column {error.colno}")])
    problems = _Problems()
    value = _build(raw, (), problems)
    if problems:
        _refuse(problems)
    return value


def is_canonical_free_form(data: bytes, *, max_depth: int = MAX_DEPTH) -> bool:
    """True: certainly strict, whatever is in it. False: not proven, ask `parse`.

    Args:
        data: The document, or a part of one.
        max_depth: How deep it may nest: less for a part, which stands within other objects.
    """
    if may_hold_nul(data):
        return False
    try:
        value = orjson.loads(data)
        if orjson.dumps(value, option=orjson.OPT_STRICT_INTEGER) != data:
            return False
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return False
    return data.count(b"[") + data.count(b"{") <= max_depth or _nests_within(value, max_depth)


def may_hold_nul(data: bytes) -> bool:
    """Whether U+0000 may be written in it as an escape, the only way that JSON has."""
    # Looking for one byte is many times quicker than for six, and most payloads escape nothing.
    return b"\\" in data and b"\\u0000" in data


def dumps(value: object) -> bytes:
    """Compact JSON with sorted keys: the form in which this project writes JSON that it hashes."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS | orjson.OPT_STRICT_INTEGER)


def _refuse(problems: list[Problem]) -> NoReturn:
    first = problems[0]
    where = f" at {first.place}" if first.place else ""
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    raise InvalidInput(
        f"the payload is not strict JSON{where}: {first.message}{more}",
        reason="INVALID_PAYLOAD",
        remedy="Write UTF-8 JSON with unique keys; integers within ±(2^53-1); a value that is not finite as the string "
        '"NaN", "Infinity" or "-Infinity".',
        problems=problems,
    )


def _too_deep(text: str) -> _Place | None:
    """The place of the first bracket beyond the limit. Found before parsing, since a parser recurses."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return None
    path: list[object] = []
    key = ""
    for found in _MARK.finditer(text):
        mark = found[0]
        if mark in {"[", "{"}:
            if len(path) == MAX_DEPTH:
                return tuple(_key(part) if isinstance(part, str) else part for part in path)
            path.append(0 if mark == "[" else "")
        elif mark in {"]", "}"}:
            del path[-1:]
        elif mark == "," and path and isinstance(path[-1], int):
            path[-1] += 1
        elif mark == ":" and path and isinstance(path[-1], str):
            path[-1] = key
        elif mark[0] == '"':
            key = mark
    return None


def _key(mark: str) -> str:
    """A key as written, read; the text is not known to be JSON yet."""
    try:
        return _encodable(json.loads(mark))
    except json.JSONDecodeError:
        return mark.strip('"')


def _encodable(text: str) -> str:
    """An error goes out as UTF-8, which has no lone surrogates."""
    return text.encode("utf-8", "replace").decode()


def _nests_within(value: Any, max_depth: int) -> bool:
    level = [value]
    for _ in range(max_depth):
        level = [child for item in level for child in _children(item)]
    return not any(isinstance(item, (dict, list)) for item in level)


def _children(item: Any) -> Any:
    match item:
        case dict():
            return item.values()
        case list():
            return item
    return ()


def _short(part: object) -> object:
    return f"{part[:MAX_PLACE_PART]}…" if isinstance(part, str) and len(part) > MAX_PLACE_PART else part


def _number(text: str) -> float | _Overflow:
    value = float(text)
    return value if math.isfinite(value) else _Overflow(text)


def _integer(text: str) -> int | _Overflow:
    # Longer than any integer in range: not converted, since converting is quadratic.
    return _Overflow(text) if len(text) > 17 else int(text)


def _build(raw: Any, at: _Place, problems: _Problems) -> Any:
    match raw:
        case _Constant():
            problems.note(at, f"{raw} is no JSON number")
        case _Overflow():
            problems.note(at, "the number is out of range")
        case _Pairs():
            return _build_object(raw, at, problems)
        case list():
            return [_build(item, (*at, i), problems) for i, item in enumerate(raw)]
        case bool():
            return raw
        case int() if abs(raw) > MAX_INT:
            problems.note(at, "the integer is beyond ±(2^53-1)")
        case str():
            _check_text(raw, at, problems)
    return raw


def _build_object(raw: _Pairs, at: _Place, problems: _Problems) -> dict[str, Any]:
    built: dict[str, Any] = {}
    for key, item in raw:
        here = (*at, _encodable(key))
        _check_text(key, here, problems)
        if key in built:
            problems.note(here, "the key is there twice")
        built[key] = _build(item, here, problems)
    return built


def _check_text(text: str, at: _Place, problems: _Problems) -> None:
    if "\x00" in text:
        problems.note(at, "holds U+0000")
    if not text.isascii() and _SURROGATE.search(text):
        problems.note(at, "holds a lone surrogate")
