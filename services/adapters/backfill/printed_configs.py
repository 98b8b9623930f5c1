"""The configuration that a trainer prints whole, as YAML, when it starts.

Only what such a printer writes is read: nested mappings and lists in block form, plain and quoted scalars. A line that
is none of it ends the block. What is left is a configuration if it has a trainer and enough settings to be one.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from ledger.core import strictjson
from ledger.core.secrets import redact
from services.adapters.backfill import metrics
from services.adapters.backfill.log_items import ConfigBlock
from services.adapters.backfill.log_lines import Line

ENOUGH: Final = 5
"""Settings below which a block is no configuration."""
MAX_LINES: Final = 5_000
MAX_DEPTH: Final = 30
MAX_SETTINGS_BYTES: Final = 300_000

_TOP: Final = re.compile(r"(?:data|trainer|generator|environment|deepspeed_config|terminal_bench_config):\s*")
_KEY: Final = re.compile(r"( *)((?:- )*)([A-Za-z0-9_][\w./+@-]{0,200}|'[^']{1,200}'):(?: (.*))?", re.ASCII)
_ITEM: Final = re.compile(r"( *)- (.*)")
_CONSTANTS: Final[dict[str, Any]] = {
    "null": None,
    "~": None,
    "": None,
    "true": True,
    "false": False,
    "[]": [],
    "{}": {},
}
_INTEGER: Final = re.compile(r"[+-]?\d{1,15}", re.ASCII)
_FLOAT: Final = re.compile(r"[+-]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_NOT_FINITE: Final = {".nan": "NaN", ".inf": "Infinity", "+.inf": "Infinity", "-.inf": "-Infinity"}


class Configs:
    """Reads one log's printed configurations."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._begins = 0
        self._process: str | None = None

    @property
    def is_open(self) -> bool:
        return bool(self._lines)

    def read(self, line: Line, number: int) -> ConfigBlock | None:
        """The configuration that this line ends, if it ends one."""
        if self._lines and line.process == self._process and line.clock is None and self._goes_on(line.text):
            self._lines.append(line.text)
            return None
        done = self.close()
        if _TOP.fullmatch(line.text):
            self._lines, self._begins, self._process = [line.text], number, line.process
        return done

    def close(self) -> ConfigBlock | None:
        """What was read up to here, if it is a configuration."""
        lines, self._lines = self._lines, []
        if not any(text.startswith("trainer:") for text in lines):
            return None
        try:
            settings = tree(lines)
        except ValueError:
            return None
        return ConfigBlock(self._begins, settings) if sum(1 for _ in paths(settings)) >= ENOUGH else None

    def _goes_on(self, text: str) -> bool:
        if len(self._lines) > MAX_LINES:
            return False
        return bool(_KEY.fullmatch(text) or _ITEM.fullmatch(text))


def tree(lines: list[str]) -> dict[str, Any]:
    """Nested settings from lines in block form.

    Raises:
        ValueError: if the lines do not nest.
    """
    root: dict[str, Any] = {}
    _fill(root, _Reader(lines), -1, 0)
    return root


class _Reader:
    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.at = 0

    @property
    def next(self) -> str | None:
        return self.lines[self.at] if self.at < len(self.lines) else None


def _fill(into: dict[str, Any], reader: _Reader, outer: int, depth: int) -> None:
    """Reads the mapping whose keys stand deeper than `outer`, all at one depth."""
    if depth > MAX_DEPTH:
        raise ValueError("nested too deep")
    inner: int | None = None
    while (text := reader.next) is not None and (found := _KEY.fullmatch(text)) and not found[2]:
        indent = len(found[1])
        inner = indent if inner is None else inner
        if indent <= outer or indent < inner:
            return
        if indent > inner:
            raise ValueError("a key that belongs to nothing")
        reader.at += 1
        name = found[3].strip("'")
        into[name] = _value(found[4] or "", reader, indent, depth)


def _value(text: str, reader: _Reader, indent: int, depth: int) -> Any:
    if text:
        return scalar(text)
    following = reader.next
    if following is None:
        return None
    if (item := _ITEM.fullmatch(following)) and len(item[1]) >= indent:
        return list(_items(reader, len(item[1])))
    if (key := _KEY.fullmatch(following)) and len(key[1]) > indent:
        below: dict[str, Any] = {}
        _fill(below, reader, indent, depth + 1)
        return below
    return None


def _items(reader: _Reader, indent: int) -> Iterator[Any]:
    """The items of one list. An item that is itself a mapping or a list is kept as the text it was printed as."""
    while (text := reader.next) is not None and (item := _ITEM.fullmatch(text)) and len(item[1]) == indent:
        reader.at += 1
        said = [item[2]]
        while (more := reader.next) is not None and len(more) - len(more.lstrip(" ")) > indent:
            reader.at += 1
            said.append(more.strip())
        yield scalar(said[0]) if len(said) == 1 and not _KEY.fullmatch(said[0]) else "\n".join(said)


def scalar(text: str) -> Any:
    """A scalar as YAML means it; what has another form stays text."""
    text = text.strip()
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text.startswith("'") and text.endswith("'") and len(text) > 1:
        return text[1:-1].replace("''", "'")
    if text.startswith('"'):
        try:
            return json.loads(text)
        except ValueError:
            return text
    if text.lower() in _NOT_FINITE:
        return _NOT_FINITE[text.lower()]
    if _INTEGER.fullmatch(text):
        return int(text)
    return metrics.from_text(text) if _FLOAT.fullmatch(text) else text


def cleaned(settings: Any, found: Counter[str], name: str = "") -> Any:
    """The settings with secrets replaced, counted by shape."""
    if isinstance(settings, dict):
        return {key: cleaned(value, found, key) for key, value in settings.items()}
    if isinstance(settings, list):
        return [cleaned(value, found, name) for value in settings]
    if not isinstance(settings, str):
        return settings
    text, shapes = redact(settings, name=name)
    found.update(shapes)
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")


def digest(settings: dict[str, Any]) -> str:
    """SHA-256 over the settings as JSON with sorted keys."""
    return hashlib.sha256(strictjson.dumps(settings)).hexdigest()


def paths(settings: dict[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Each setting by its dotted path."""
    for key, value in settings.items():
        if isinstance(value, dict) and value:
            yield from paths(value, f"{above}{key}.")
        else:
            yield above + key, value


def by_path(settings: dict[str, Any]) -> dict[str, Any]:
    """All settings by path while they are few enough for an event; none otherwise."""
    flat = dict(paths(settings))
    return flat if len(strictjson.dumps(flat)) <= MAX_SETTINGS_BYTES else {}
