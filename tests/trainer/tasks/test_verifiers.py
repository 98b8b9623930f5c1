"""What an answer is worth, by the rules of our own."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.trainer.tasks.verifiers import MAX_DIGITS, first_digit, is_number, last_number, number_of


@pytest.mark.parametrize(
    ("text", "reward"),
    [("7", 1), ("7\n", 1), ("say 7 or 3", 1), ("37", 0), ("3 7", 0), ("", 0), ("seven", 0), ("\u0667", 0)],
)
def test_the_first_digit_counts(text: str, reward: float) -> None:
    assert first_digit("7", text) == reward


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("12", "12"),
        ("3 + 4 = 7.", "7"),
        ("The answer is 1,234.", "1234"),
        ("-5", "-5"),
        ("it is -5 degrees", "-5"),
        ("8-3", "3"),
        ("x-3", "3"),
        ("(2)-3", "3"),
        ("8 - 3", "3"),
        ("2.50", "2.5"),
        ("<answer>9</answer>", "9"),
        ("3, 4, 5,", "5"),
    ],
)
def test_the_last_number_of_a_text(text: str, number: str) -> None:
    assert number_of(text) == Decimal(number)


@pytest.mark.parametrize("text", ["", "none", "-", ".", ",", "\u0667", "9" * (MAX_DIGITS + 1)])
def test_a_text_without_a_number_has_none(text: str) -> None:
    assert number_of(text) is None
    assert last_number("0", text) == 0


def test_numbers_are_compared_as_numbers() -> None:
    assert last_number("7", "It is 7.0") == 1
    assert last_number("7000", "7,000") == 1
    assert last_number("7", "7 or 8") == 0


def test_no_number_is_no_answer_to_no_number() -> None:
    assert last_number("none", "none") == 0


@given(st.text(max_size=200))
def test_no_text_breaks_a_rule(text: str) -> None:
    assert first_digit("1", text) in (0, 1)
    assert last_number("1", text) in (0, 1)


@given(st.integers(-(10**12), 10**12), st.sampled_from(["", "It is ", "3 + 4 is ", "\n", "<answer>"]))
def test_a_number_at_the_end_is_the_last(number: int, before: str) -> None:
    assert last_number(str(number), f"{before}{number}") == 1
    assert last_number(str(number + 1), f"{before}{number}") == 0


@pytest.mark.parametrize(
    ("text", "answer"), [("7", True), ("-7.5", True), ("1,000", True), ("7 days", False), ("", False)]
)
def test_an_answer_is_a_number_or_not(text: str, answer: bool) -> None:
    assert is_number(text) is answer
