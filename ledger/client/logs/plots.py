"""reward_plot.png and entropy_plot.png: a run's curves with its checkpoints, the choice and the onset of trouble.

matplotlib is loaded here only, draws without a display, and takes nothing from a user's own settings. No recorded text
is read as a formula.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from ledger.client.logs.summary import Point, Summary
from ledger.core.errors import LedgerError
from ledger.wire import runs_pb2

WIDTH, HEIGHT, DPI = 10.0, 5.0, 120
EXTRA: Final = "plots"
LARGEST_DRAWN: Final = 1e100
"""The axes cannot be laid out for much larger values: one absurd metric must not cost a run its logs."""


@dataclass(frozen=True)
class Marks:
    """Steps that are marked on a curve."""

    saved: tuple[int, ...]
    selected: tuple[int, ...]
    onsets: tuple[int, ...]

    @staticmethod
    def of(run: runs_pb2.Run) -> Marks:
        return Marks(
            saved=tuple(sorted({c.step for c in run.checkpoints if c.status == "committed"})),
            selected=tuple(sorted({chosen.step for chosen in run.selections})),
            onsets=tuple(sorted({a.onset_step for a in run.anomalies if a.HasField("onset_step")})),
        )


@dataclass(frozen=True)
class Curve:
    """A value over steps; what a later attempt made again is not joined to what went on."""

    label: str
    colour: str
    points: Sequence[tuple[int, int, bool, float | None]]
    """Attempt, step, abandoned, value."""


def require() -> None:
    """Says that nothing can be drawn here, before anything is read.

    Raises:
        LedgerError: reason EXTRA_MISSING, if matplotlib is not there.
    """
    try:
        import matplotlib.figure  # noqa: F401, PLC0415  # of an extra
    except ModuleNotFoundError as error:
        raise LedgerError(
            f"plots are drawn by the package {error.name}, which is not installed",
            reason="EXTRA_MISSING",
            remedy="Run `pip install 'atlas-ledger[plots]'`, or leave the plots out with --no-plots.",
            details={"extra": EXTRA, "package": error.name or ""},
        ) from None


def plot_reward(path: Path, run_id: str, summary: Summary, marks: Marks) -> bool:
    """Reward and its trailing EMA; False if neither was ever logged."""
    reward = Curve(summary.keys.reward, "tab:blue", _series(summary.points, [p.reward for p in summary.points]))
    ema = Curve("trailing EMA", "tab:orange", _series(summary.points, [p.ema for p in summary.points]))
    return _plot(path, f"Reward of {run_id}", [reward, ema], marks)


def plot_entropy(path: Path, run_id: str, summary: Summary, marks: Marks) -> bool:
    """Policy entropy; False if it was never logged."""
    entropy = Curve(summary.keys.entropy, "tab:green", _series(summary.points, [p.entropy for p in summary.points]))
    return _plot(path, f"Policy entropy of {run_id}", [entropy], marks)


def _series(points: Iterable[Point], values: Iterable[float | None]) -> list[tuple[int, int, bool, float | None]]:
    return [(p.attempt, p.step, p.abandoned, value) for p, value in zip(points, values, strict=True)]


def _plot(path: Path, title: str, curves: Sequence[Curve], marks: Marks) -> bool:
    drawn = [curve for curve in curves if any(value is not None for *_, value in curve.points)]
    if not drawn:
        return False
    require()
    from matplotlib import style  # noqa: PLC0415  # of an extra
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415  # of an extra
    from matplotlib.figure import Figure  # noqa: PLC0415  # of an extra

    with style.context("default"):
        figure = Figure(figsize=(WIDTH, HEIGHT), dpi=DPI, layout="constrained")
        canvas: Any = FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        for curve in drawn:
            _draw(axes, curve)
        _mark(axes, marks)
        axes.set_xlabel("step")
        axes.set_title(title, parse_math=False)
        axes.grid(visible=True, alpha=0.3)
        for text in axes.legend(loc="best", fontsize="small").get_texts():
            text.set_parse_math(False)
        # Without the drawing program's version, equal curves give equal bytes.
        canvas.print_png(path, metadata={"Software": None})
    return True


def _draw(axes: Any, curve: Curve) -> None:
    """What was kept as one line, each abandoned stretch faintly beside it; what cannot be drawn leaves a gap."""
    kept = [(step, value) for _, step, abandoned, value in curve.points if not abandoned]
    kept.sort(key=lambda point: point[0])
    lost = [value for _, value in kept if value is not None and math.isnan(_drawable(value))]
    large = sum(map(math.isfinite, lost))
    notes = [f"{count:,} {what}" for count, what in ((len(lost) - large, "not finite"), (large, "too large")) if count]
    label = f"{curve.label} ({', '.join(notes)})" if notes else curve.label
    axes.plot(*_line(kept), color=curve.colour, linewidth=1.5, marker=".", markersize=3, label=label)
    faint: str | None = f"{curve.label}, abandoned"
    for (_, abandoned), stretch in groupby(curve.points, key=lambda point: (point[0], point[2])):
        line = [(step, value) for _, step, _, value in stretch]
        if abandoned and any(value is not None for _, value in line):
            look = {"alpha": 0.35, "linewidth": 1, "linestyle": ":", "marker": "."}
            axes.plot(*_line(line), color=curve.colour, label=faint, **look)
            faint = None


def _line(points: Iterable[tuple[int, float | None]]) -> tuple[list[int], list[float]]:
    points = list(points)
    return [step for step, _ in points], [_drawable(value) for _, value in points]


def _drawable(value: float | None) -> float:
    return value if value is not None and abs(value) <= LARGEST_DRAWN else math.nan


def _mark(axes: Any, marks: Marks) -> None:
    for steps, label, look in (
        (marks.saved, "checkpoint", {"color": "0.6", "linestyle": ":", "linewidth": 0.8}),
        (marks.selected, "selected", {"color": "tab:purple", "linestyle": "-", "linewidth": 1.4}),
        (marks.onsets, "onset of an anomaly", {"color": "tab:red", "linestyle": "--", "linewidth": 1.2}),
    ):
        for i, step in enumerate(steps):
            axes.axvline(step, label=None if i else label, **look)
