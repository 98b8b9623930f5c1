"""Ids are made on the producer's side, so that sending again is safe."""

from __future__ import annotations

import hashlib
import time
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.core.ids import digest_id, ids_digest, new_id, sha256_hex

PARTS = st.lists(st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text("aé/:\n"))
IDS = st.lists(st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=1), unique=True)


def test_a_new_id_is_a_uuid_of_version_7_with_the_time_in_front() -> None:
    before = time.time_ns() // 1_000_000
    made = uuid.UUID(new_id())
    after = time.time_ns() // 1_000_000

    assert (made.version, made.variant) == (7, uuid.RFC_4122)
    assert before <= made.int >> 80 <= after


def test_new_ids_are_unique_and_sort_in_the_order_in_which_they_were_made() -> None:
    made = [new_id() for _ in range(5000)]

    assert made == sorted(set(made))


def test_a_digest_id_is_what_it_was_for_ever() -> None:
    # Worked out by hand: SHA-256 of ["import","source/Example:word-problems",1,null].
    assert digest_id("import", "source/Example:word-problems", 1, None) == "e6056d1b-668e-8481-8503-936019e2b9ff"


@given(PARTS)
def test_a_digest_id_is_a_uuid_of_version_8(parts: list[object]) -> None:
    made = uuid.UUID(digest_id(*parts))

    assert (made.version, made.variant) == (8, uuid.RFC_4122)


@given(PARTS, PARTS)
def test_digest_ids_are_equal_only_for_equal_parts(one: list[object], other: list[object]) -> None:
    # By type too: 1 and True are equal in Python and are not the same part.
    same = [(type(p), p) for p in one] == [(type(p), p) for p in other]

    assert (digest_id(*one) == digest_id(*other)) == same


def test_parts_that_join_to_the_same_text_are_told_apart() -> None:
    assert len({digest_id("ab", "c"), digest_id("a", "bc"), digest_id("abc"), digest_id(["ab", "c"])}) == 4


@given(IDS, st.randoms(use_true_random=False))
def test_the_digest_of_a_set_of_ids_does_not_depend_on_their_order(ids: list[str], random: object) -> None:
    shuffled = list(ids)
    random.shuffle(shuffled)  # type: ignore[attr-defined]

    assert ids_digest(ids) == ids_digest(shuffled)


@given(IDS, IDS)
def test_the_digests_of_different_sets_differ(one: list[str], other: list[str]) -> None:
    assert (ids_digest(one) == ids_digest(other)) == (set(one) == set(other))


def test_the_digest_of_ids_is_over_each_with_a_line_feed() -> None:
    assert ids_digest(["b", "a"]) == hashlib.sha256(b"a\nb\n").hexdigest()
    assert ids_digest([]) == hashlib.sha256(b"").hexdigest()


def test_an_id_outside_ascii_has_no_place_in_a_set() -> None:
    with pytest.raises(UnicodeEncodeError):
        ids_digest(["é"])


def test_bytes_are_named_in_lower_case_hex() -> None:
    assert sha256_hex(b"abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
