"""How a table fits a terminal: a row is a line where it fits, and an id or a time is never broken.

When all columns do not fit, those that say least are left out, prose folds, and a cell that must stay whole but is
wider than its column stands on a line of its own, and a mark below it or before it says to which row it belongs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rich.table import Table
from rich.text import Text

GAP: Final = 2
BELONGS: Final = "└"
"""Stands before what belongs to the line above."""
PROSE: Final = 14
"""Width of a column that may fold, where room is short."""
LEAST: Final = 8


@dataclass(frozen=True)
class Layout:
    """Which columns are shown, by number, and how wide each is."""

    columns: tuple[int, ...]
    widths: tuple[int, ...]
    whole: frozenset[int]

    @property
    def width(self) -> int:
        return _total(self.widths)

    def lines(self, row: Sequence[Text]) -> Iterator[Table | Text]:
        """A row: its line, and what is too wide for it; the first column stands before the line, others after."""
        shown = [row[number] for number in self.columns]
        wide = [
            place
            for place, (number, width) in enumerate(zip(self.columns, self.widths, strict=True))
            if number in self.whole and shown[place].cell_len > width
        ]
        if 0 in wide:
            yield shown[0]
        rest = [Text() if place in wide else cell for place, cell in enumerate(shown)]
        if any(rest):
            yield self._line([Text(BELONGS), *rest[1:]] if 0 in wide else rest)
        indent = f"{' ' * self.widths[0]}{BELONGS:<{GAP}}"
        yield from (Text(indent).append_text(shown[place]) for place in wide if place)

    def _line(self, cells: Iterable[Text]) -> Table:
        line = grid(show_header=False)
        for width in self.widths:
            line.add_column(width=width, overflow="fold")
        line.add_row(*cells)
        return line


def grid(*, show_header: bool) -> Table:
    """A table without lines, its columns two blanks apart."""
    return Table(
        box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold", show_header=show_header, expand=False
    )


def fit(rows: Sequence[Sequence[Text]], width: int, *, whole: Iterable[int], spare: Iterable[int]) -> Layout:
    """The layout of rows, headings among them, in so many characters.

    Args:
        whole: Columns whose cells are never broken.
        spare: Columns that are left out where room is short, the first one first.
    """
    unbroken = frozenset(whole)
    natural = [max(row[number].cell_len for row in rows) for number in range(len(rows[0]))]
    columns = list(range(len(natural)))
    for number in spare:
        if _total([natural[n] for n in columns]) > width:
            columns.remove(number)
    widths = _shrunk({n: natural[n] for n in columns}, width, unbroken)
    return Layout(tuple(columns), tuple(widths[n] for n in columns), unbroken)


def _shrunk(natural: dict[int, int], width: int, whole: frozenset[int]) -> dict[int, int]:
    """Prose gives way first, then what must stay whole, the widest first; what is won goes back to the prose."""
    if _total(natural.values()) <= width:
        return natural
    widths = {n: w if n in whole else min(w, PROSE) for n, w in natural.items()}
    for number in sorted(whole & widths.keys(), key=lambda n: -widths[n]):
        over = _total(widths.values()) - width
        if over > 0:
            widths[number] = min(widths[number], max(LEAST, widths[number] - over))
    for number in widths.keys() - whole:
        widths[number] += max(0, min(natural[number] - widths[number], width - _total(widths.values())))
    return widths


def _total(widths: Iterable[int]) -> int:
    listed = list(widths)
    return sum(listed) + GAP * (len(listed) - 1)
