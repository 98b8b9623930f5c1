"""A training log into items: lines that say nothing are passed over quickly, the rest is read by kind.

`trainer_log.jsonl`, where a launcher wrote one, holds the same lines within JSON, or the metrics themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from services.adapters.backfill import log_lines, metrics
from services.adapters.backfill.log_items import Item, Malformed, Row, RowKind
from services.adapters.backfill.printed_configs import Configs
from services.adapters.backfill.printed_rows import STEP, Blocks

_TOPS: Final = (b"data:", b"trainer:", b"generator:")
"""Lines that a printed configuration begins with."""
_TEXT_KEYS: Final = ("message", "msg", "text", "log", "line")
_TIME_KEYS: Final = ("timestamp", "time", "ts", "logged_at")


class LogReader:
    """Reads the lines of one log, in order."""

    def __init__(self) -> None:
        self._blocks = Blocks()
        self._configs = Configs()

    def items(self, lines: Iterable[bytes], before: int = 0) -> Iterator[Item]:
        """Everything that the lines say; `before` lines of other files are counted too."""
        number = before
        blocks, configs = self._blocks, self._configs
        for number, raw in enumerate(lines, before + 1):  # the last number is asked for after the loop
            if blocks.is_open or configs.is_open or _speaks(raw):
                yield from self._read(raw, number)
        yield from self._end(number)

    def _read(self, raw: bytes, number: int) -> Iterator[Item]:
        if raw.startswith(b'{"'):
            yield from self._json(raw, number)
            return
        yield from self._text(log_lines.bare(raw), number)

    def _text(self, line: log_lines.Line, number: int) -> Iterator[Item]:
        single = (
            log_lines.mirrored(line, number)
            or log_lines.engine(line, number)
            or log_lines.groups(line, number)
            or log_lines.resumed(line, number)
        )
        if single is not None:
            if (config := self._configs.close()) is not None:
                yield config
            yield single
            return
        if (config := self._configs.read(line, number)) is not None:
            yield config
        if (row := self._blocks.read(line, number)) is not None:
            yield row

    def _end(self, number: int) -> Iterator[Item]:
        if self._configs.is_open and self._configs.close() is not None:
            yield Malformed(number, "the log ends within a configuration")
        if (fault := self._blocks.abandon()) is not None:
            yield fault

    def _json(self, raw: bytes, number: int) -> Iterator[Item]:
        try:
            value = metrics.loads(raw.decode("utf-8", "replace"))
        except ValueError:
            if b'"trainer/global_step"' in raw or b"WANDB_MIRROR" in raw:
                yield Malformed(number, "a line of JSON that is cut off or damaged")
            return
        if not isinstance(value, dict):
            return
        if (text := next((value[k] for k in _TEXT_KEYS if isinstance(value.get(k), str)), None)) is not None:
            clock = next((value[k] for k in _TIME_KEYS if isinstance(value.get(k), str)), None)
            for part in text.splitlines():
                line = log_lines.bare(part.encode("utf-8", "replace"))
                yield from self._text(line._replace(clock=line.clock or clock), number)
        elif (row := _object_row(value, number)) is not None:
            yield row


def _speaks(raw: bytes) -> bool:
    """Whether a line may say something. Most lines do not, and ten million of them are read: no pattern is as quick."""
    return (
        b"WANDB_MIRROR" in raw
        or b"Avg prompt " in raw
        or b"global_step_" in raw
        or b"{'" in raw
        or b"RLOO-N: " in raw
        or raw.startswith(b'{"')
        or raw.rstrip().endswith(_TOPS)
    )


def _object_row(value: dict[str, Any], number: int) -> Row | Malformed | None:
    """A line that holds the metrics themselves: flat, or under `metrics` beside its step."""
    inner = value.get("metrics")
    values: dict[str, Any] = inner if isinstance(inner, dict) else value
    if STEP not in values and not (isinstance(inner, dict) and "step" in value):
        return None
    step = metrics.step_number(values[STEP] if STEP in values else value["step"])
    if step is None:
        return Malformed(number, "a line of metrics whose step is no number")
    clock = next((value[k] for k in _TIME_KEYS if isinstance(value.get(k), str)), None)
    read = metrics.numbers({k: v for k, v in values.items() if k not in _TIME_KEYS and k != "kind"})
    kind: RowKind = "eval" if value.get("kind") == "eval" else "train"
    return Row(number, kind, step, read.metrics, tuple(read.left_out), clock)
