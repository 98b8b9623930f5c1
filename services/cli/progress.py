"""How far a rebuild is, for a person who waits: a bar on a terminal, nothing elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from ledger.core.text import harmless
from ledger.wire import projections_pb2
from services.cli.state import State

Report = Callable[[projections_pb2.RebuildResponse], None]


@contextmanager
def rebuild_bar(state: State) -> Iterator[Report]:
    """A bar for each phase, told by the messages of a rebuild."""
    if not state.output.talks_to_terminal:
        yield lambda _message: None
        return
    console = Console(stderr=True, no_color=state.no_color or None, highlight=False, markup=False, emoji=False)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        yield _Phases(bar).report


class _Phases:
    """One bar a phase; a phase that is over is full."""

    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._tasks: dict[str, int] = {}

    def report(self, message: projections_pb2.RebuildResponse) -> None:
        if not message.phase:
            return
        if message.phase not in self._tasks:
            self._tasks[message.phase] = self._bar.add_task(harmless(message.phase), total=None)
        task = self._bar.tasks[self._tasks[message.phase]]
        self._bar.update(task.id, completed=message.done, total=message.total or None)
