"""report.md: what the tables say, in sections that a reader of training logs knows.

Values are told as they were recorded or derived; nothing is judged here. Recorded text is inert.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from ledger.client.cards.text import code, counted, inert, known, number
from ledger.client.logs.reading import RunReading
from ledger.client.logs.statistics import ByKey, Statistics
from ledger.client.logs.summary import STEP_TIME, TOLD, Point, Summary
from ledger.core.text import harmless
from ledger.wire import runs_pb2

MAX_ROWS: Final = 60
"""Steps that the progression tells; of more, evenly chosen ones with the first and the last."""


def report(run: RunReading, summary: Summary) -> str:
    """The report, whole."""
    sections: Sequence[tuple[str, Iterable[str]]] = (
        ("Overview", _overview(run, summary)),
        ("Metrics", _metrics(summary.steps)),
        ("Training Progression", _progression(summary)),
        ("Best Checkpoint", _checkpoints(run.dossier.run)),
        ("Timing Analysis", _timing(summary)),
        ("Attempts", _attempts(run.dossier.run)),
        ("vLLM Analysis", _engines(summary)),
        ("Trial-Level Analysis", _trials(summary)),
    )
    lines = ["# Training Metrics Analysis", ""]
    for title, content in sections:
        lines += [f"## {title}", "", *content, ""]
    return "\n".join(lines)


def _overview(run: RunReading, summary: Summary) -> Iterator[str]:
    where, found = run.dossier.coordinates, run.dossier.run.summary
    yield f"- Run: {code(found.id)}, status {_cell(found.status)}"
    if known(found, "reason") is not None:
        yield f"- Reason of its end: {_cell(found.reason)}"
    yield f"- As of size {where.size:,} of the ledger, rules {code(where.run_rules)}"
    if not summary.points:
        yield "- No metric of any step was ever recorded: there is no table of metrics and no plot."
        return
    steps = [point.step for point in summary.points]
    yield f"- Rows: {len(steps):,}, steps {min(steps):,} to {max(steps):,}, attempts {found.attempts:,}"
    yield (
        f"- {counted(summary.abandoned, 'row')} of steps that a later attempt made again: they are in metrics.csv, and "
        "left out of the statistics below"
    )
    yield f"- Completeness of the record: {_cell(found.completeness)}"


def _metrics(found: ByKey) -> Iterator[str]:
    if not found.keys:
        yield "None recorded."
    for category, keys in found.categories().items():
        yield f"### {_cell(category)}"
        yield ""
        yield from _statistics((key, found.keys[key]) for key in keys)
        yield ""


def _statistics(rows: Iterable[tuple[str, Statistics]]) -> Iterator[str]:
    columns = ("Metric", "Mean", "Std", "Min", "Max", "Count", "Not finite")
    return _table(columns, ([name, *_numbers(found), found.count, found.not_finite] for name, found in rows))


def _numbers(found: Statistics) -> list[float | None]:
    """Mean, spread and extremes; of no finite value there are none."""
    return [found.mean, found.spread, found.lowest, found.highest] if found.count else [None] * 4


def _progression(summary: Summary) -> Iterable[str]:
    if not summary.points:
        return ["None recorded."]
    judged = ("Reward", "EMA", "Pass", "Entropy", "GradNorm")
    columns = ("Attempt", "Step", "Abandoned", *judged, *(title for title, _ in TOLD))
    return _table(columns, map(_told, _some(summary.points)))


def _told(point: Point) -> list[str | float | None]:
    abandoned = "yes" if point.abandoned else "no"
    judged = (point.reward, point.ema, point.passed, point.entropy, point.grad_norm)
    return [point.attempt, point.step, abandoned, *judged, *point.told]


def _some(points: Sequence[Point]) -> list[Point]:
    if len(points) <= MAX_ROWS:
        return list(points)
    return [points[i * (len(points) - 1) // (MAX_ROWS - 1)] for i in range(MAX_ROWS)]


def _checkpoints(run: runs_pb2.Run) -> Iterator[str]:
    for chosen in run.selections:
        yield (
            f"- Step {chosen.step:,} was selected for {_cell(chosen.purpose)} by the rule {code(chosen.rule.id)}, "
            f"event at position {chosen.pos:,} ({_cell(chosen.basis)}); computed again: {_cell(chosen.recomputed)}"
        )
    if not run.selections:
        yield "- No selection is recorded; none is made here."
    yield ""
    columns = ("Step", "Attempt", "Status", "Reward", "EMA", "Eligible", "Selected")
    yield from _table(columns, map(_checkpoint, run.checkpoints))


def _checkpoint(found: runs_pb2.Checkpoint) -> list[str | float | None]:
    values = [known(found, name) for name in ("reward", "ema")]
    return [found.step, known(found, "attempt"), found.status, *values, _yes(found.eligible), _yes(found.selected)]


def _timing(summary: Summary) -> Iterator[str]:
    phases = [(key, found) for key, found in sorted(summary.steps.keys.items()) if key.startswith("timing/")]
    if not phases:
        yield "None recorded."
        return
    whole = summary.steps.keys[STEP_TIME].total if STEP_TIME in summary.steps.keys else 0.0
    yield "Phases lie within one another, so that shares do not add up."
    yield ""
    rows = ([key, f.mean if f.count else None, f.total, _share(f.total, whole)] for key, f in phases)
    yield from _table(("Phase", "Mean (s)", "Total (s)", "Share of steps"), rows)


def _share(part: float, whole: float) -> str | None:
    return f"{part / whole:.1%}" if whole > 0 else None


def _attempts(run: runs_pb2.Run) -> Iterable[str]:
    columns = ("Attempt", "Ended", "Resumed from step", "First step", "Last step", "Steps", "Abandoned")
    names = ("resumed_from_step", "first_step", "last_step")
    rows = ([a.attempt, a.status, *(known(a, n) for n in names), a.steps, a.abandoned_steps] for a in run.attempts)
    return list(_table(columns, rows)) or ["None recorded."]


def _engines(summary: Summary) -> Iterator[str]:
    if not summary.engine_samples:
        yield "None recorded."
        return
    total = summary.engine_samples.total()
    yield f"{counted(total, 'sample')} of {counted(len(summary.engine_samples), 'engine')}."
    if summary.unscraped:
        yield (
            f"{counted(summary.unscraped, 'sample')} were read from log lines, which show fewer engines than there "
            "are: totals over engines would be too low, and none are given."
        )
    yield ""
    yield from _table(("Engine", "Samples"), sorted(summary.engine_samples.items()))
    yield ""
    yield from _statistics(sorted(summary.engines.keys.items()))


def _trials(summary: Summary) -> Iterator[str]:
    if not summary.trial_count:
        yield "None recorded."
        return
    raised = summary.exceptions.total()
    yield f"{counted(summary.trial_count, 'trial')}, {raised:,} of them ended with an exception."
    yield ""
    yield from _statistics(summary.trials.keys.items())
    if raised:
        yield ""
        ordered = sorted(summary.exceptions.items(), key=lambda item: (-item[1], item[0]))
        yield from _table(("Exception", "Trials"), ordered)


def _table(columns: Sequence[str], rows: Iterable[Sequence[str | float | None]]) -> Iterator[str]:
    """A Markdown table; nothing at all when there are no rows."""
    made = ["| " + " | ".join(map(_cell, row)) + " |" for row in rows]
    if made:
        yield "| " + " | ".join(columns) + " |"
        yield "|" + " --- |" * len(columns)
        yield from made


def _cell(value: str | float | None) -> str:
    if value is None:
        return "-"
    return " ".join(inert(harmless(value)).split()) if isinstance(value, str) else number(value)


def _yes(value: bool) -> str:  # noqa: FBT001  # a value to be told
    return "yes" if value else "no"
