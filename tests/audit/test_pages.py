"""Page tokens pin where the first page stood, which question it was and by which filter."""

from __future__ import annotations

import base64

import orjson
import pytest

from ledger.audit.briefs import SourceFilter
from ledger.audit.coordinates import At, Moment
from ledger.audit.opinions import JudgmentFilter
from ledger.audit.pages import MAX_PAGE, Room, decode_token, encode_token, page_size
from ledger.audit.queue import QueueFilter
from ledger.audit.timeline import Order
from ledger.core.errors import InvalidInput

MOMENT = Moment(40, 1, False, "ledger-1", "d", 3, 44, None)
LATER = Moment(50, 2, True, "", "", 3, 50, None)


def test_a_token_gives_back_the_coordinates_policy_included_and_where_to_go_on() -> None:
    token = encode_token("sources", SourceFilter(), [MOMENT], 7)
    stands = [At(size=40, rules="ledger-1", policy_size=44, final=False)]
    assert decode_token(token, "sources", SourceFilter()) == (stands, 7)


def test_a_token_of_a_difference_pins_both_sides() -> None:
    token = encode_token("diff", SourceFilter(), [MOMENT, LATER], 2)
    (before, after), start = decode_token(token, "diff", SourceFilter(), moments=2)
    assert (before.size, after.size, after.final, start) == (40, 50, True, 2)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (SourceFilter(), SourceFilter(search="a")),
        (SourceFilter(origins=frozenset("a")), SourceFilter(families=frozenset("a"))),
        (JudgmentFilter(), JudgmentFilter(superseded=False)),
        (JudgmentFilter(superseded=True), JudgmentFilter(superseded=False)),
        (QueueFilter(), QueueFilter(sources=SourceFilter(include_retired=True))),
        (Order("a"), Order("b")),
        (Order("a"), Order("a", newest_first=True)),
    ],
)
def test_a_token_with_another_filter_is_refused(one: object, other: object) -> None:
    token = encode_token("q", one, [MOMENT], 1)
    assert decode_token(token, "q", one)[1] == 1
    with pytest.raises(InvalidInput, match="another filter"):
        decode_token(token, "q", other)


def test_the_order_in_which_a_filter_names_its_values_does_not_matter() -> None:
    names = [f"origin-{n}" for n in range(50)]
    token = encode_token("q", SourceFilter(origins=frozenset(names)), [MOMENT], 1)
    assert decode_token(token, "q", SourceFilter(origins=frozenset(reversed(names))))[1] == 1


def test_a_token_of_another_question_or_of_other_sides_is_refused() -> None:
    token = encode_token("queue", SourceFilter(), [MOMENT], 1)
    for question, moments in (("sources", 1), ("queue", 2)):
        with pytest.raises(InvalidInput, match="another question"):
            decode_token(token, question, SourceFilter(), moments=moments)


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{}", b'["q","f",[],1]', b'["q","f",[[1,true,"",-1]],1]', b'["q","f",[[1,true,"",1]],-1]',
     b'["q","f",[[1,true,"",1],[1,true,"",1],[1,true,"",1]],1]', b"\xff", orjson.dumps([1 << 60])],
)  # fmt: skip
def test_whatever_is_no_token_is_refused_with_what_to_do(content: bytes) -> None:
    with pytest.raises(InvalidInput) as raised:
        decode_token(base64.urlsafe_b64encode(content).decode(), "q", SourceFilter())
    assert "next_page_token" in raised.value.remedy


@pytest.mark.parametrize(("asked", "given"), [(0, MAX_PAGE), (1, 1), (MAX_PAGE, MAX_PAGE), (MAX_PAGE + 1, MAX_PAGE)])
def test_a_page_holds_what_is_asked_and_never_more_than_the_most(asked: int, given: int) -> None:
    assert page_size(asked) == given


def test_a_page_is_full_by_number_or_by_bytes_and_what_follows_goes_on_the_next() -> None:
    by_number = Room(2)
    assert [by_number.takes(1) for _ in range(4)] == [True, True, False, False]
    by_bytes = Room(0, limit=10)
    assert [by_bytes.takes(weight) for weight in (6, 4, 1, 0)] == [True, True, False, False]
    assert [by_bytes.takes(0)] == [False]


def test_what_is_longer_than_a_page_has_a_page_of_its_own() -> None:
    room = Room(0, limit=10)
    assert [room.takes(weight) for weight in (5_000, 1)] == [True, False]
