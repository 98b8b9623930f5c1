"""The RFC 6962 / RFC 9162 Merkle tree as pure functions over a compact range.

The peaks of a tree of n leaves are the roots of its largest perfect subtrees, left to right: one for each bit that is
set in n. They are all that is needed to append and to compute the root, so the head row holds just them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

HASH_SIZE: Final = 32
EMPTY_ROOT: Final = hashlib.sha256(b"").digest()

_sha256 = hashlib.sha256


def leaf_hash(data: bytes) -> bytes:
    """SHA-256(0x00 ‖ data)."""
    return _sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """SHA-256(0x01 ‖ left ‖ right)."""
    return _sha256(b"\x01" + left + right).digest()


def extend(size: int, peaks: Sequence[bytes], leaves: Sequence[bytes]) -> list[bytes]:
    """The peaks after appending `leaves` to a tree of `size` leaves with these peaks.

    Raises:
        ValueError: if there are not as many peaks as bits set in `size`.
    """
    if len(peaks) != size.bit_count():
        raise ValueError(f"a tree of {size} leaves has {size.bit_count()} peaks, not {len(peaks)}")
    grown = list(peaks)
    for leaf in leaves:
        node, rest = leaf, size
        while rest & 1:
            node = _sha256(b"\x01" + grown.pop() + node).digest()
            rest >>= 1
        grown.append(node)
        size += 1
    return grown


def root(peaks: Sequence[bytes]) -> bytes:
    """The root hash: the peaks bagged from the right."""
    if not peaks:
        return EMPTY_ROOT
    node = peaks[-1]
    for peak in reversed(peaks[:-1]):
        node = node_hash(peak, node)
    return node
