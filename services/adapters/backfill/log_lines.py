"""Single lines of a training log: what stands before their text, and the kinds of text that mean something.

A marker counts only where a program writes it, at the beginning of a line's text: a transcript that quotes a log is no
log. A marker anywhere else is told as malformed, since it may also be a prefix that nobody knew.
"""

from __future__ import annotations

import json
import re
from typing import Final, NamedTuple

from services.adapters.backfill import metrics
from services.adapters.backfill.log_items import EngineLine, GroupsLine, Malformed, ResumeLine, Row, RowKind

MIRROR: Final = "WANDB_MIRROR"
_ANSI: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_RAY: Final = re.compile(r"\(([\w.:<>-]{1,100}) pid=(\d{1,10})(?:, ip=[0-9A-Fa-f.:]{2,45})?\) ?")
_LOGURU: Final = re.compile(
    r"(\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}(?:[.,]\d{1,6})?) ?\| ?[A-Z]{3,10} *\| ?[^\s|]{1,300} - ", re.ASCII
)
_REPEATED: Final = re.compile(r"\s*\[repeated \d+x across cluster\][^\[]*$")
_MIRRORED: Final = re.compile(
    r"WANDB_MIRROR kind=(train|eval) step=(\d{1,15}) metrics=(\{.*\})\s*", re.DOTALL | re.ASCII
)
_MARKED_STEP: Final = re.compile(r"WANDB_MIRROR kind=(?:train|eval) step=\d")
_ENGINE: Final = re.compile(
    r"(?:INFO|WARNING) (\d{2})-(\d{2}) (\d{2}):(\d{2}):(\d{2}) \[[^\]]{1,200}\] Engine (\d{1,6}): (Avg prompt .+)",
    re.ASCII,
)
_GAUGES: Final = {
    "Avg prompt throughput": "vllm/prompt_throughput",
    "Avg generation throughput": "vllm/generation_throughput",
    "Running": "vllm/running_reqs",
    "Waiting": "vllm/waiting_reqs",
    "GPU KV cache usage": "vllm/gpu_cache_usage_perc",
    "Prefix cache hit rate": "vllm/prefix_cache_hit_rate",
}
_GAUGE: Final = re.compile(r"([A-Za-z ]+): (-?[\d.]+|nan)(?: tokens/s| reqs|%)?", re.ASCII)
_GROUPS: Final = re.compile(
    r"RLOO-N: (\d{1,12})/(\d{1,12}) samples excluded from baseline, (\d{1,12}) groups had all samples excluded, "
    r"(\d{1,12}) groups below min_group_size=(\d{1,12})"
    r"(?:, (\d{1,12})/(\d{1,12}) groups filtered \(zero reward variance, (\d{1,12}) samples\))?\s*",
    re.ASCII,
)
_RESUMED: Final = re.compile(
    r"(?:(?:successfully )?loaded\b.{0,60}\bcheckpoint\b|resum(?:ed|ing)\b).{0,300}?global_step[_ :=]{1,3}(\d{1,15})\b",
    re.IGNORECASE | re.ASCII,
)


class Line(NamedTuple):
    """A line's text, and what stood before it."""

    text: str
    clock: str | None
    process: str | None


def bare(raw: bytes) -> Line:
    """A line without colours, and without what Ray and the logger write before its text."""
    text = raw.decode("utf-8", "replace").rstrip("\r\n")
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    process = clock = None
    if found := _RAY.match(text):
        process, text = found[2], text[found.end() :]
    if found := _LOGURU.match(text):
        clock, text = found[1], text[found.end() :]
    return Line(text, clock, process)


def mirrored(line: Line, number: int) -> Row | Malformed | None:
    """Metrics that the trainer writes beside what it sends to its tracker."""
    if not line.text.startswith(MIRROR):
        return Malformed(number, "metrics within other text") if _MARKED_STEP.search(line.text) else None
    found = _MIRRORED.fullmatch(_REPEATED.sub("", line.text))
    if found is None:
        return Malformed(number, "the line is cut off, or of another form")
    return _row(line, number, found)


def _row(line: Line, number: int, found: re.Match[str]) -> Row | Malformed:
    try:
        values = metrics.loads(found[3])
    except ValueError as error:
        return Malformed(number, f"its metrics are no JSON: {_why(error)}")
    if "_serialize_error" in values:
        return Malformed(number, "the trainer could not write the metrics of this step")
    read = metrics.numbers(values)
    if not read.metrics:
        return Malformed(number, "it has no metric that is a number")
    kind: RowKind = "train" if found[1] == "train" else "eval"
    return Row(number, kind, int(found[2]), read.metrics, tuple(read.left_out), line.clock)


def engine(line: Line, number: int) -> EngineLine | Malformed | None:
    """The line that a rollout engine writes every few seconds."""
    found = _ENGINE.match(line.text)
    if found is None:
        return None
    values: metrics.Metrics = {}
    for name, text in _GAUGE.findall(found[7]):
        value = metrics.from_text(text)
        if (key := _GAUGES.get(name.strip())) is not None and value is not None:
            values[key] = value
    if not values:
        return Malformed(number, "an engine's line with no number in it")
    month, day, hour, minute, second = (int(found[i]) for i in range(1, 6))
    name = f"engine {found[6]}" if line.process is None else f"engine {found[6]}, process {line.process}"
    return EngineLine(number, name, (month, day, hour, minute, second), values)


def groups(line: Line, number: int) -> GroupsLine | Malformed | None:
    """How many samples and groups an estimator left out."""
    if not line.text.startswith("RLOO-N: "):
        return None
    found = _GROUPS.fullmatch(_REPEATED.sub("", line.text))
    if found is None:
        return Malformed(number, "it counts groups in another form")
    counts = [None if part is None else int(part) for part in found.groups()]
    excluded, samples, all_excluded, too_small, minimum, tied, all_groups, tied_samples = counts
    assert None not in (excluded, samples, all_excluded, too_small, minimum)
    return GroupsLine(
        number,
        excluded or 0,
        samples or 0,
        all_excluded or 0,
        too_small or 0,
        minimum or 0,
        tied,
        all_groups,
        tied_samples,
    )


def resumed(line: Line, number: int) -> ResumeLine | None:
    """The trainer says from which checkpoint it goes on."""
    found = _RESUMED.match(line.text)
    return None if found is None else ResumeLine(number, int(found[1]))


def _why(error: ValueError) -> str:
    return error.msg if isinstance(error, json.JSONDecodeError) else "a value that cannot be read"
