"""Time is microseconds in numbers and RFC 3339 with microseconds and Z in text."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ledger.core import clock

MOMENTS = st.integers(clock.MIN_US, clock.MAX_US)


@given(MOMENTS)
@example(clock.MIN_US)
@example(clock.MAX_US)
@example(-1)
@example(0)
def test_every_moment_is_read_back_from_its_text(us: int) -> None:
    assert clock.from_text(clock.to_text(us)) == us


@given(MOMENTS)
def test_the_text_always_has_six_digits_and_z(us: int) -> None:
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", clock.to_text(us))


@given(MOMENTS, MOMENTS)
def test_texts_sort_like_the_moments(one: int, other: int) -> None:
    assert (clock.to_text(one) < clock.to_text(other)) == (one < other)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("2026-10-01", "2026-10-01T00:00:00.000000Z"),
        ("2026-10-01T12:30Z", "2026-10-01T12:30:00.000000Z"),
        ("2026-10-01T12:30:15Z", "2026-10-01T12:30:15.000000Z"),
        ("2026-10-01t12:30:15z", "2026-10-01T12:30:15.000000Z"),
        ("2026-10-01 12:30:15Z", "2026-10-01T12:30:15.000000Z"),
        ("2026-10-01T12:30:15.5Z", "2026-10-01T12:30:15.500000Z"),
        ("2026-10-01T12:30:15.123456999Z", "2026-10-01T12:30:15.123456Z"),
        ("2026-10-01T12:30:15+02:00", "2026-10-01T10:30:15.000000Z"),
        ("2026-10-01T00:30:15-23:59", "2026-10-02T00:29:15.000000Z"),
        ("2026-10-01T12:30:15-00:00", "2026-10-01T12:30:15.000000Z"),
        ("2024-02-29", "2024-02-29T00:00:00.000000Z"),
    ],
)
def test_one_moment_may_be_written_in_several_ways(text: str, same: str) -> None:
    assert clock.to_text(clock.from_text(text)) == same


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "2026",
        "2026-10",
        "20261001",
        "2026-10-01T12:30:15",
        "2026-10-01T12:30:15.Z",
        "2026-10-01T12:30:15,5Z",
        "2026-10-01T12:30:15.1234567890Z",
        "2026-10-01T12:30:15+0200",
        "2026-10-01T12:30:15 +02:00",
        "2026-10-01T24:00:00Z",
        "2026-10-01T12:60:00Z",
        "2026-10-01T23:59:60Z",
        "2026-10-01T00:00:00+24:00",
        "2026-10-01T00:00:00+01:60",
        "2026-02-29",
        "2026-13-01",
        "2026-00-10",
        "0000-01-01",
        "10000-01-01",
        "0001-01-01T00:00:00+00:01",
        "9999-12-31T23:59:59-00:01",
        " 2026-10-01",
        "2026-10-01\n",
        "٢٠٢٦-10-01",
    ],
)
def test_what_is_no_time_with_an_offset_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no (RFC 3339 )?time|is not within the years 1 to 9999"):
        clock.from_text(text)


def test_a_refusal_shows_the_beginning_only() -> None:
    with pytest.raises(ValueError, match="is no RFC 3339 time") as caught:
        clock.from_text("x" * 1_000_000)

    assert len(str(caught.value)) < 200


@given(st.text())
def test_any_other_text_is_refused_with_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match="is no"):
        clock.from_text(text)


def test_the_system_clock_counts_microseconds() -> None:
    before = time.time_ns() // 1000

    assert before <= clock.system_clock() <= time.time_ns() // 1000
