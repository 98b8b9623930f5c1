"""What a command prints. stdout is data, stderr is talk.

- With `--json`, stdout holds one JSON array for a list and one object for a single thing; an error is one JSON object
  on stderr and stdout stays empty. JSON is written in ASCII, so that no recorded text can steer a terminal.
- Otherwise tables: fitted to a terminal; plain, wide and uncut when piped. Whatever was recorded passes `harmless` on
  its way to people, and is never read as markup.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ledger.core.errors import LedgerError
from ledger.core.text import harmless
from services.cli import tables

Cell = Text | str | int | None
UNKNOWN: Final = "unknown"
_WIDE: Final = 100_000


class Output:
    """Where the answer and the talk of one command go."""

    def __init__(self, *, as_json: bool = False, quiet: bool = False, verbose: int = 0, no_color: bool = False) -> None:
        self.as_json = as_json
        self.quiet = quiet
        self.verbose = verbose
        self._no_color = no_color

    @property
    def to_terminal(self) -> bool:
        return sys.stdout.isatty()

    @property
    def talks_to_terminal(self) -> bool:
        """Whether progress is of use to anyone."""
        return sys.stderr.isatty() and not self.quiet

    def json(self, value: Any) -> None:
        """One object, indented for a reader; a list as one array, an element a line."""
        if isinstance(value, list):
            lines = ",\n".join(json.dumps(item) for item in value)
            print(f"[\n{lines}\n]" if value else "[]")  # noqa: T201
        else:
            print(json.dumps(value, indent=2))  # noqa: T201

    def json_line(self, value: Any) -> None:
        """One element of a stream that has no end."""
        print(json.dumps(value), flush=True)  # noqa: T201

    def table(
        self,
        columns: Sequence[str],
        rows: Iterable[Sequence[Cell]],
        *,
        whole: Sequence[str] = ("id",),
        spare: Sequence[str] = (),
    ) -> None:
        """A table with a heading; nothing at all when there are no rows.

        On a terminal the columns `whole` are never broken, and `spare` ones are left out where room is short.
        """
        made = [[_cell(c) for c in row] for row in rows]
        if not made:
            return
        if not self.to_terminal:
            self._print(_plain(columns, made))
            return
        console = self._console(sys.stdout)
        made.insert(0, [Text(column, style="bold") for column in columns])
        layout = tables.fit(made, console.width, whole=_places(columns, whole), spare=_places(columns, spare))
        console.width = max(console.width, layout.width)
        for line in chain.from_iterable(map(layout.lines, made)):
            console.print(line, soft_wrap=isinstance(line, Text))

    def pairs(self, pairs: Iterable[tuple[str, Cell]]) -> None:
        """Names and values of one thing, a line each."""
        table = tables.grid(show_header=False)
        table.add_column(style="bold", no_wrap=True)
        table.add_column(overflow="fold", no_wrap=not self.to_terminal)
        for name, value in pairs:
            table.add_row(name, _cell(value))
        self._print(table)

    def line(self, text: Cell = "", *, whole: bool = False) -> None:
        """One line of data; a whole one is never broken."""
        self._print(_cell(text), whole=whole)

    def say(self, text: str) -> None:
        """Talk, for a person who waits."""
        if not self.quiet:
            print(harmless(text, lines=True), file=sys.stderr, flush=True)  # noqa: T201

    def detail(self, text: str) -> None:
        """Talk that was asked for with -v."""
        if self.verbose:
            self.say(text)

    def error(self, error: LedgerError) -> None:
        """Why it did not work and what to do; also when quiet."""
        if self.as_json:
            print(json.dumps({"error": error.to_dict()}), file=sys.stderr)  # noqa: T201
            return
        lines = [f"Error: {harmless(error.message)} [{error.reason}]"]
        lines += [f"  {harmless(p.place or 'the whole')}: {harmless(p.message)}" for p in error.problems]
        if error.remedy:
            lines.append(f"What to do: {harmless(error.remedy)}")
        if self.verbose:
            lines += [f"  {harmless(k)}: {harmless(v)}" for k, v in error.details.items()]
        print("\n".join(lines), file=sys.stderr)  # noqa: T201

    def _print(self, renderable: Table | Text, *, whole: bool = False) -> None:
        if self.to_terminal:
            self._console(sys.stdout).print(renderable, soft_wrap=whole)
            return
        # A pipe has no width: lay it out as wide as it is, and leave no blanks at the ends of lines.
        buffer = io.StringIO()
        self._console(buffer, width=_WIDE).print(renderable)
        sys.stdout.write("".join(f"{line.rstrip(' ')}\n" for line in buffer.getvalue().splitlines()))

    def _console(self, file: Any, width: int | None = None) -> Console:
        return Console(
            file=file, width=width, no_color=self._no_color or None, highlight=False, markup=False, emoji=False
        )


def _plain(columns: Sequence[str], rows: Iterable[Sequence[Text]]) -> Table:
    table = tables.grid(show_header=True)
    for column in columns:
        table.add_column(column, no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table


def _places(columns: Sequence[str], names: Iterable[str]) -> list[int]:
    return [columns.index(name) for name in names if name in columns]


def _cell(value: Cell) -> Text:
    if isinstance(value, Text):
        return value
    return Text(UNKNOWN if value is None else harmless(str(value)))
