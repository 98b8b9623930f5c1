"""The tree is RFC 6962's: checked against published roots and against another implementation."""

from __future__ import annotations

import hashlib

import pymerkle  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.core import merkle

# The leaves and roots of the Certificate Transparency reference tests.
LEAVES = [
    bytes.fromhex(leaf)
    for leaf in ("", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f")
]
ROOTS = [
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]

ENTRIES = st.lists(st.binary(max_size=40), max_size=70)


def grown(entries: list[bytes]) -> list[bytes]:
    return merkle.extend(0, [], [merkle.leaf_hash(e) for e in entries])


def rfc_root(leaves: list[bytes]) -> bytes:
    """The definition of RFC 6962, section 2.1, word for word."""
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return leaves[0]
    split = 1 << ((len(leaves) - 1).bit_length() - 1)
    return hashlib.sha256(b"\x01" + rfc_root(leaves[:split]) + rfc_root(leaves[split:])).digest()


@pytest.mark.parametrize("size", range(9))
def test_the_published_roots_are_reached(size: int) -> None:
    assert merkle.root(grown(LEAVES[:size])).hex() == ROOTS[size]


@given(ENTRIES)
def test_the_root_is_that_of_the_definition(entries: list[bytes]) -> None:
    assert merkle.root(grown(entries)) == rfc_root([merkle.leaf_hash(e) for e in entries])


@given(ENTRIES.filter(bool))
def test_the_root_is_that_of_another_implementation(entries: list[bytes]) -> None:
    other = pymerkle.InmemoryTree.init_from_entries(entries, algorithm="sha256")

    assert merkle.root(grown(entries)) == other.get_root()


@given(ENTRIES, st.lists(st.integers(0, 70), max_size=5))
def test_however_the_leaves_come_the_peaks_are_the_same(entries: list[bytes], cuts: list[int]) -> None:
    leaves = [merkle.leaf_hash(e) for e in entries]
    size = 0
    peaks: list[bytes] = []
    for cut in [*sorted(cuts), len(leaves)]:
        batch = leaves[size:cut]
        peaks = merkle.extend(size, peaks, batch)
        size += len(batch)

    assert peaks == grown(entries)


@given(ENTRIES)
def test_there_is_one_peak_for_each_bit_of_the_size(entries: list[bytes]) -> None:
    peaks = grown(entries)

    assert len(peaks) == len(entries).bit_count()
    assert all(len(peak) == merkle.HASH_SIZE for peak in peaks)


def test_extending_leaves_the_peaks_that_were_given_as_they_are() -> None:
    peaks = grown(LEAVES[:3])
    before = list(peaks)

    merkle.extend(3, peaks, [merkle.leaf_hash(b"x")])

    assert peaks == before


@pytest.mark.parametrize(("size", "count"), [(0, 1), (1, 0), (3, 1), (4, 2)])
def test_peaks_that_cannot_belong_to_the_size_are_refused(size: int, count: int) -> None:
    with pytest.raises(ValueError, match=f"a tree of {size} leaves has {size.bit_count()} peaks, not {count}"):
        merkle.extend(size, [bytes(32)] * count, [])


def test_a_leaf_never_hashes_like_a_node() -> None:
    left, right = merkle.leaf_hash(b"l"), merkle.leaf_hash(b"r")

    assert merkle.leaf_hash(left + right) != merkle.node_hash(left, right)
