"""Metrics that an older trainer printed for people: a Python dict over many lines, numbers as text of four decimals.

    {'async/staleness_mean': '0.5000',
     'reward/avg_raw_reward': '0.8418',
     'trainer/global_step': 15}

A block is read pair by pair and never evaluated. Lines of other programs may stand between its lines; a block that
never ends, or names no step, is no row.
"""

from __future__ import annotations

import re
from typing import Final

from services.adapters.backfill import metrics
from services.adapters.backfill.log_items import Malformed, Row
from services.adapters.backfill.log_lines import Line

STEP: Final = "trainer/global_step"
MAX_PAIRS: Final = 2_000
MAX_FOREIGN: Final = 50
"""Lines in a row that belong to somebody else."""

_TEXT: Final = r"'(?:[^'\\]|\\.){0,600}'"
_VALUE: Final = rf"{_TEXT}|[-+.\w]{{1,40}}"
_PAIR: Final = re.compile(rf"({_TEXT}): ({_VALUE})(?:, ?|(?=\}})|$)")
_LINE: Final = re.compile(rf"(?:{_TEXT}: (?:{_VALUE})(?:, ?|(?=\}})|$)){{1,{MAX_PAIRS}}}(\}}?)\s*")
_OPENING: Final = re.compile(r"(?:Step (\d{1,15}): ?)?\{(?=')", re.ASCII)
_FAMILIES: Final = ("reward/", "policy/", "loss/", "trainer/", "generate/", "timing/", "async/", "critic/", "tis/")


class Blocks:
    """Reads one log's blocks; a line belongs to at most one of them."""

    def __init__(self) -> None:
        self._pairs: dict[str, str] | None = None
        self._begins = 0
        self._foreign = 0
        self._named: str | None = None
        self._clock: str | None = None
        self._process: str | None = None

    @property
    def is_open(self) -> bool:
        return self._pairs is not None

    def read(self, line: Line, number: int) -> Row | Malformed | None:
        """The row or the fault that this line makes known; None while there is none."""
        fault = None
        if opening := _OPENING.match(line.text):
            fault = self.abandon()
            self._open(line, number, opening[1])
            return self._take(line.text[opening.end() :]) or fault
        if self._pairs is None:
            return None
        if line.process != self._process:
            return self._pass_by()
        return self._take(line.text.strip())

    def abandon(self) -> Malformed | None:
        """Gives up the block that is open: a fault if there were metrics in it."""
        pairs, self._pairs = self._pairs, None
        if pairs and any(key.startswith(_FAMILIES) for key in pairs):
            return Malformed(self._begins, "a printed block of metrics that has no end")
        return None

    def _open(self, line: Line, number: int, named: str | None) -> None:
        self._pairs, self._begins, self._foreign = {}, number, 0
        self._named, self._clock, self._process = named, line.clock, line.process

    def _pass_by(self) -> Malformed | None:
        self._foreign += 1
        return self.abandon() if self._foreign > MAX_FOREIGN else None

    def _take(self, text: str) -> Row | Malformed | None:
        assert self._pairs is not None
        found = _LINE.fullmatch(text)
        if found is None or len(self._pairs) > MAX_PAIRS:
            return self._pass_by()
        self._foreign = 0
        self._pairs.update((_unquoted(k), v) for k, v in _PAIR.findall(text))
        return self._closed() if found[1] else None

    def _closed(self) -> Row | Malformed | None:
        pairs = self._pairs or {}
        self._pairs = None
        if not any(key.startswith(_FAMILIES) for key in pairs):
            return None  # a dict of something else
        step = metrics.step_number(_plain(pairs.get(STEP) or self._named or ""))
        if step is None:
            return Malformed(self._begins, "a printed block of metrics that names no step")
        read = metrics.numbers({key: _plain(value) for key, value in pairs.items()})
        return Row(self._begins, "train", step, read.metrics, tuple(read.left_out), self._clock, printed=True)


def _plain(value: str) -> str | None:
    return None if value == "None" else _unquoted(value)


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1]) if text.startswith("'") else text
