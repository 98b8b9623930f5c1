"""Tables on a terminal of 80 columns: one line a row where it fits, and no id is ever broken."""

from __future__ import annotations

import io
from contextlib import redirect_stdout

import pytest

from services.cli.output import Output

LONG = "Task Trove:" + "x" * 60


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(monkeypatch: pytest.MonkeyPatch, rows: list[list[str]], **how: list[str]) -> list[str]:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "dumb")
    out = Terminal()
    with redirect_stdout(out):
        Output(no_color=True).table(["id", "family", "quality"], rows, **how)
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_a_row_that_fits_is_one_line_with_every_column(monkeypatch):
    assert shown(monkeypatch, [["O:one", "math", "Good"]], spare=["family"])[1] == "O:one  math    Good"


def test_a_column_of_low_value_is_left_out_where_room_is_short(monkeypatch):
    assert shown(monkeypatch, [["O:one", "f" * 70, "Good"]], spare=["family"]) == ["id     quality", "O:one  Good"]


def test_an_id_that_does_not_fit_stands_whole_on_a_line_of_its_own(monkeypatch):
    lines = shown(monkeypatch, [[LONG, "math", "Some issues"], ["O:one", "math", "Good"]])

    assert LONG in lines
    assert sum("O:one" in line and "Good" in line for line in lines) == 1


def test_an_id_that_is_wider_than_the_terminal_is_not_cut(monkeypatch):
    assert LONG * 3 in shown(monkeypatch, [[LONG * 3, "math", "Good"]])


def test_prose_folds_and_no_line_is_wider_than_the_terminal(monkeypatch):
    lines = shown(monkeypatch, [["O:one", "math", "word " * 40]])

    assert len(lines) > 2
    assert max(map(len, lines)) <= 80


def test_what_stands_on_a_line_of_its_own_is_marked_as_part_of_its_row(monkeypatch):
    first = shown(monkeypatch, [[LONG, "math", "Some issues"]])
    last = shown(monkeypatch, [["O:one", "math", LONG]], whole=["quality"])

    at = first.index(LONG)
    assert first[at + 1].split() == ["└", "math", "Some", "issues"]
    assert last[-2:] == ["O:one  math", f"     └ {LONG}"]
