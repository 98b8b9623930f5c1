"""Recorded text is hostile: nothing of it may act on a terminal."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.core.text import harmless, is_header_text

ANY_TEXT = st.text(st.characters(), max_size=60)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "�[31mred�[0m"),
        ("\x1b]0;title\x07", "�]0;title�"),
        ("\x9b31mred", "�31mred"),
        ("a\x85b", "a�b"),
        ("gpj.\u202egnp", "gpj.�gnp"),
        ("\u2066hidden\u2069", "�hidden�"),
        ("zero\u200bwidth", "zero�width"),
        ("a\u2028b\u2029c", "a�b�c"),
        ("over\rwritten\b", "over�written�"),
        ("lone \ud800", "lone �"),
        ("private \ue000", "private �"),
        ("soft\u00adhyphen", "soft�hyphen"),
        ("delete\x7f", "delete�"),
        ("null\0", "null�"),
    ],
)
def test_what_a_terminal_would_act_on_is_shown_as_a_mark(text: str, shown: str) -> None:
    assert harmless(text) == shown


@pytest.mark.parametrize("text", ["", "plain", "ÄÖ · 算数 · עברית", "🧮", "e\u0301"])
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert harmless(text) == text


def test_line_feeds_and_tabs_are_kept_where_lines_are_wanted_and_are_spaces_elsewhere() -> None:
    assert harmless("a\n\tb") == "a  b"
    assert harmless("a\n\tb", lines=True) == "a\n\tb"


@given(ANY_TEXT, st.booleans())
def test_nothing_that_acts_is_ever_left(text: str, lines: bool) -> None:
    shown = harmless(text, lines=lines)

    assert len(shown) == len(text)
    left = [c for c in shown if not (lines and c in "\n\t")]
    assert not {unicodedata.category(c) for c in left} & {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}


@given(ANY_TEXT)
def test_harmless_text_stays_as_it_is(text: str) -> None:
    assert harmless(harmless(text)) == harmless(text)


@pytest.mark.parametrize("text", ["a", "source/Task Trove:x", " ~", "x" * 10])
def test_printable_ascii_within_the_limit_may_stand_in_a_header(text: str) -> None:
    assert is_header_text(text, max(len(text), 10))


@pytest.mark.parametrize("text", ["", "x" * 11, "é", "a\n", "a\x7f", "a\0", "\u200b"])
def test_anything_else_may_not(text: str) -> None:
    assert not is_header_text(text, 10)
