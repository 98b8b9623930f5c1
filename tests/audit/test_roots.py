"""The log's root at any size, held against the leaves hashed pair by pair."""

from __future__ import annotations

import random

import pytest

from ledger.audit import roots as roots_module
from ledger.audit.roots import KEPT, Roots
from ledger.core.merkle import EMPTY_ROOT, node_hash
from tests.audit.running import asked, declared, told


def naive(leaves: list[bytes]) -> bytes:
    """RFC 6962, 2.1, as it stands there."""
    if not leaves:
        return EMPTY_ROOT
    if len(leaves) == 1:
        return leaves[0]
    split = 1 << ((len(leaves) - 1).bit_length() - 1)
    return node_hash(naive(leaves[:split]), naive(leaves[split:]))


def test_every_size_has_the_root_of_its_leaves_in_whatever_order_it_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roots_module, "LEAVES", 5)
    with asked() as bench:
        bench.append(*told(*(declared(f"r{n}") for n in range(KEPT + 30))))
        size = bench.log.head().size
        leaves = [event.leaf for event in bench.log.store.read(0, size)]
        roots = Roots(bench.log)
        sizes = [*range(size + 1), *range(size, -1, -1)]
        random.Random(7).shuffle(sizes)
        for n in sizes:
            assert roots.at(n) == naive(leaves[:n]), n


def test_the_root_of_a_size_stays_as_the_log_grows() -> None:
    with asked() as bench:
        roots = Roots(bench.log)
        size = bench.log.head().size
        before = roots.at(size)
        bench.append(*told(declared("a")))
        assert roots.at(size) == Roots(bench.log).at(size) == before != roots.at(size + 1)
